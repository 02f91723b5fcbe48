package postgres

import (
	"context"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"

	"billing/internal/core/usecase"
)

var (
	processSeenSQL   = statement("process_seen")
	processGoneSQL   = statement("process_gone")
	processForgetSQL = statement("process_forget")
	processListSQL   = statement("process_list")
)

// ProcessSeen records that a process runs, with its gate: empty when it does not charge.
func (s *Store) ProcessSeen(ctx context.Context, p usecase.ProcessState) error {
	var gate *string
	if p.Gate != "" {
		gate = &p.Gate
	}
	_, err := s.pool.Exec(ctx, processSeenSQL, p.ID, p.Host, p.Version, p.Roles, gate)
	return wrap("record the process", err)
}

// ProcessGone forgets a process that stops.
func (s *Store) ProcessGone(ctx context.Context, id uuid.UUID) error {
	_, err := s.pool.Exec(ctx, processGoneSQL, id)
	return wrap("forget the process", err)
}

// ForgetProcesses forgets processes that were not seen for a day, and returns how many.
func (s *Store) ForgetProcesses(ctx context.Context) (int64, error) {
	tag, err := s.pool.Exec(ctx, processForgetSQL)
	return tag.RowsAffected(), wrap("forget dead processes", err)
}

func scanProcess(row pgx.CollectableRow) (p usecase.ProcessState, err error) {
	err = row.Scan(&p.ID, &p.Host, &p.Version, &p.Roles, &p.Gate, &p.GateSince, &p.StartedAt, &p.SeenAt)
	return p, err //nolint:wrapcheck // the batch's caller wraps it
}
