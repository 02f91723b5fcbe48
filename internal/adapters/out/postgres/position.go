package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"billing/internal/core/usecase"
)

var (
	positionSQL        = statement("position")
	putPositionSQL     = statement("put_position")
	markHistoryLostSQL = statement("mark_history_lost")
)

// Position implements usecase.Inbox.
func (s *Store) Position(ctx context.Context, src usecase.Source) (usecase.Position, bool, error) {
	var p usecase.Position
	err := s.pool.QueryRow(ctx, positionSQL, src.ClusterID, src.Group, src.Topic, src.Partition).
		Scan(&p.Next, &p.RereadBelow, &p.Gap, &p.GapAccepted, &p.Halted)
	if errors.Is(err, pgx.ErrNoRows) {
		return usecase.Position{}, false, nil
	}
	return p, err == nil, wrap("read the position", err)
}

// PutPosition implements usecase.Inbox.
func (s *Store) PutPosition(ctx context.Context, src usecase.Source, p usecase.Position) error {
	_, err := s.pool.Exec(ctx, putPositionSQL, src.ClusterID, src.Group, src.Topic, src.Partition,
		p.Next, p.RereadBelow, p.Gap, p.GapAccepted, p.Halted)
	return wrap("write the position", err)
}

// MarkHistoryLost implements usecase.Inbox.
func (s *Store) MarkHistoryLost(ctx context.Context, reason string) error {
	_, err := s.pool.Exec(ctx, markHistoryLostSQL, reason)
	return wrap("mark history as lost", err)
}
