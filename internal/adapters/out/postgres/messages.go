package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"billing/internal/core/usecase"
)

var (
	claimMessagesSQL   = statement("claim_messages")
	ackMessagesSQL     = statement("ack_messages")
	releaseMessagesSQL = statement("release_messages")
)

// maxClaimBytes bounds the payloads that a publisher has in memory: a thousand dead letters can be a gigabyte.
const maxClaimBytes = 16 << 20

// ClaimMessages implements usecase.MessageQueue.
func (s *Store) ClaimMessages(ctx context.Context, n int, lease time.Duration) ([]usecase.OutboxMessage, error) {
	rows, err := s.pool.Query(ctx, claimMessagesSQL, n, lease.Seconds(), maxClaimBytes)
	if err != nil {
		return nil, wrap("claim messages", err)
	}
	messages, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (usecase.OutboxMessage, error) {
		var m usecase.OutboxMessage
		var flat [][]byte
		err := row.Scan(&m.ID, &m.Attempt, &m.EventType, &m.Topic, &m.Key, &m.Value, &flat, &m.Reclaimed)
		m.Headers = headers(flat)
		return m, err //nolint:wrapcheck // wrapped below
	})
	return messages, wrap("claim messages", err)
}

// AckMessages implements usecase.MessageQueue.
func (s *Store) AckMessages(ctx context.Context, refs []usecase.MessageRef) (int, error) {
	ids, attempts, _ := refColumns(refs)
	var gone int
	err := s.pool.QueryRow(ctx, ackMessagesSQL, ids, attempts).Scan(&gone)
	if err != nil {
		return 0, wrap("acknowledge messages", err)
	}
	return len(refs) - gone, nil
}

// ReleaseMessages implements usecase.MessageQueue.
func (s *Store) ReleaseMessages(ctx context.Context, refs []usecase.MessageRef) error {
	ids, attempts, delays := refColumns(refs)
	_, err := s.pool.Exec(ctx, releaseMessagesSQL, ids, attempts, delays)
	return wrap("release messages", err)
}

func refColumns(refs []usecase.MessageRef) (ids []int64, attempts []int32, delays []float64) {
	for _, r := range refs {
		ids = append(ids, r.ID)
		attempts = append(attempts, r.Attempt)
		delays = append(delays, r.Delay.Seconds())
	}
	return ids, attempts, delays
}
