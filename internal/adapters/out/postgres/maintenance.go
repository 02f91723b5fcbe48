package postgres

import (
	"context"
	"time"
)

// CreatePartitions makes the missing days of the inbox and returns how many it made; none when another
// session is at it.
func (s *Store) CreatePartitions(ctx context.Context, retention, skew time.Duration) (int, error) {
	var made int
	err := s.pool.QueryRow(ctx, "SELECT billing_create_partitions(make_interval(secs => $1), make_interval(secs => $2))",
		retention.Seconds(), skew.Seconds()).Scan(&made)
	if err != nil {
		return 0, wrap("create partitions of the inbox", err)
	}
	return max(made, 0), nil
}

// DropPartition drops the oldest day of the inbox that is past its retention and returns its name,
// empty when there is none.
func (s *Store) DropPartition(ctx context.Context, retention time.Duration) (string, error) {
	var name *string
	err := s.pool.QueryRow(ctx, "SELECT billing_drop_partition(make_interval(secs => $1))", retention.Seconds()).Scan(&name)
	if err != nil || name == nil {
		return "", wrap("drop a partition of the inbox", err)
	}
	return *name, nil
}
