package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

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
	var skips spans
	err := s.pool.QueryRow(ctx, positionSQL, src.ClusterID, src.Group, src.Topic, src.Partition).
		Scan(&p.Next, &p.RereadBelow, &p.Gap, &p.GapAccepted, &p.Halted, &p.HaltedBy, &p.PassBelow, &kept, &skips)
	if errors.Is(err, pgx.ErrNoRows) {
		return usecase.Position{}, false, nil
	}
	p.TopicRetention, p.Skips = time.Duration(kept)*time.Millisecond, spanList(skips)
	return p, err == nil, wrap("read the position", err)
}

// PutPosition implements usecase.Inbox.
func (s *Store) PutPosition(ctx context.Context, src usecase.Source, p usecase.Position) error {
	_, err := s.pool.Exec(ctx, putPositionSQL, src.ClusterID, src.Group, src.Topic, src.Partition,
		p.Next, p.RereadBelow, p.Gap, p.GapAccepted, p.Halted, p.HaltedBy, p.PassBelow, p.TopicRetention.Milliseconds(), spansOf(p.Skips))
	return wrap("write the position", err)
}

// spans are offset ranges as the database keeps them: in order, and those that touch made one.
type spans = pgtype.Multirange[pgtype.Range[int64]]

func spansOf(list []usecase.Span) spans {
	ranges := make(spans, 0, len(list))
	for _, s := range list {
		ranges = append(ranges, pgtype.Range[int64]{Lower: s.From, Upper: s.To, LowerType: pgtype.Inclusive, UpperType: pgtype.Exclusive, Valid: true})
	}
	return ranges
}

func spanList(ranges spans) []usecase.Span {
	list := slices.Grow([]usecase.Span(nil), len(ranges)) // nil when there are none
	for _, r := range ranges {
		list = append(list, usecase.Span{From: r.Lower, To: r.Upper})
	}
	return list
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
