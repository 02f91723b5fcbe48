package postgres

import (
	"context"
	"time"
)

// CreatePartition makes the first missing day of the inbox and reports whether it made one; none when no day is missing or another
// session is at it.
func (s *Store) CreatePartition(ctx context.Context, retention, skew time.Duration) (bool, error) {
	var made int
	err := s.pool.QueryRow(ctx, "SELECT billing_create_partitions(make_interval(secs => $1), make_interval(secs => $2))",
		retention.Seconds(), skew.Seconds()).Scan(&made)
	return made > 0, wrap("create a partition of the inbox", err)
}

// DropPartition drops the oldest day of the inbox that is past its retention and returns its name, empty when there is none. It
// takes the day out of the inbox in a transaction of its own, for which alone inserts have to pause; one that an interrupted
// call left outside is dropped first.
func (s *Store) DropPartition(ctx context.Context, retention time.Duration) (string, error) {
	var name *string
	if err := s.pool.QueryRow(ctx, "SELECT billing_detach_partition(make_interval(secs => $1))", retention.Seconds()).Scan(&name); err != nil {
		return "", wrap("take a partition out of the inbox", err)
	}
	err := s.pool.QueryRow(ctx, "SELECT billing_drop_partition(make_interval(secs => $1))", retention.Seconds()).Scan(&name)
	if err != nil || name == nil {
		return "", wrap("drop a partition of the inbox", err)
	}
	return *name, nil
}
