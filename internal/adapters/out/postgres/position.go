package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"billing/internal/core/usecase"
)

var (
	positionSQL        = statement("position")
	putPositionSQL     = statement("put_position")
	haltPositionSQL    = statement("halt_position")
	markHistoryLostSQL = statement("mark_history_lost")
)

// Position implements usecase.Inbox.
func (s *Store) Position(ctx context.Context, src usecase.Source) (usecase.Position, bool, error) {
	var p usecase.Position
	var kept int64
	err := s.pool.QueryRow(ctx, positionSQL, src.ClusterID, src.Group, src.Topic, src.Partition).
		Scan(&p.Next, &p.RereadBelow, &p.Gap, &p.GapAccepted, &p.Halted, &p.HaltedBy, &p.PassBelow, &kept)
	if errors.Is(err, pgx.ErrNoRows) {
		return usecase.Position{}, false, nil
	}
	p.TopicRetention = time.Duration(kept) * time.Millisecond
	return p, err == nil, wrap("read the position", err)
}

// PutPosition implements usecase.Inbox.
func (s *Store) PutPosition(ctx context.Context, src usecase.Source, p usecase.Position) error {
	_, err := s.pool.Exec(ctx, putPositionSQL, src.ClusterID, src.Group, src.Topic, src.Partition,
		p.Next, p.RereadBelow, p.Gap, p.GapAccepted, p.Halted, p.HaltedBy, p.PassBelow, p.TopicRetention.Milliseconds())
	return wrap("write the position", err)
}

// HaltPartition implements usecase.Inbox.
func (s *Store) HaltPartition(ctx context.Context, src usecase.Source, next int64, reason, build string) error {
	_, err := s.pool.Exec(ctx, haltPositionSQL, src.ClusterID, src.Group, src.Topic, src.Partition, next, reason, build)
	return wrap("halt the partition", err)
}

// MarkHistoryLost implements usecase.Inbox.
func (s *Store) MarkHistoryLost(ctx context.Context, reason string) error {
	_, err := s.pool.Exec(ctx, markHistoryLostSQL, reason)
	return wrap("mark history as lost", err)
}
