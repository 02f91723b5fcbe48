package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"billing/internal/core/usecase"
)

// topicMargin is how much later than its record an announcement may be stamped as published.
const topicMargin = 10 * time.Minute

// OpenResults implements usecase.AuditStore with a temporary table of one connection.
func (s *Store) OpenResults(ctx context.Context) (usecase.ResultStore, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, wrap("take a connection for the results", err)
	}
	r := &results{conn: conn}
	if _, err = conn.Exec(ctx, openResultsSQL); err == nil {
		err = conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&r.with.listed)
	}
	if err != nil {
		_ = r.Close(ctx) // what went wrong first is told
		return nil, wrap("make a place for the results", err)
	}
	return r, nil
}

// results is the type behind usecase.ResultStore.
type results struct {
	conn *pgxpool.Conn
	with compared
}

func (r *results) PutResults(ctx context.Context, list []usecase.Result) error {
	n := len(list)
	partitions, offsets, versions, amounts := make([]int32, n), make([]int64, n), make([]int32, n), make([]int64, n)
	ids, types, sources, faults := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	orders, customers, currencies := make([]string, n), make([]string, n), make([]string, n)
	for i := range list {
		l := &list[i]
		partitions[i], offsets[i], versions[i], amounts[i] = l.Partition, l.Offset, l.Version, l.Amount
		ids[i], types[i], sources[i], faults[i] = l.EventID, l.Type, l.Source, l.Fault
		orders[i], customers[i], currencies[i] = l.OrderID, l.CustomerID, l.Currency
	}
	_, err := r.conn.Exec(ctx, putResultsSQL, partitions, offsets, ids, types, sources, orders, customers, amounts, currencies, versions, faults)
	return wrap("write results", err)
}

func (r *results) Whole(since time.Time) {
	if r.with.since = since; !since.IsZero() {
		r.with.since = since.Add(topicMargin)
	}
}

func (r *results) AuditPage(ctx context.Context, walk usecase.Walk, after string, n int, limits usecase.AuditLimits) (usecase.AuditPage, error) {
	return auditPage(ctx, r.conn, walk, after, n, limits, r.with)
}

// Close ends the session, and with it the table.
func (r *results) Close(ctx context.Context) error {
	return wrap("end the session of the audit", r.conn.Hijack().Close(ctx))
}
