package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

var (
	statsWaitingSQL     = statement("stats_waiting")
	statsFinishedSQL    = statement("stats_finished")
	statsOutboxSQL      = statement("stats_outbox")
	statsNowSQL         = statement("stats_now")
	statsSwitchesSQL    = statement("stats_switches")
	statsDeadLettersSQL = statement("stats_dead_letters")
	statsInboxDaysSQL   = statement("stats_inbox_days")
)

// finishedPage is how many charges one statement counts, so that a large table needs no long snapshot.
const finishedPage = 50_000

// Signs implements usecase.StatsReader.
func (s *Store) Signs(ctx context.Context) (usecase.Signs, error) {
	signs := usecase.Signs{Violations: map[string]int64{}, Switches: map[usecase.Switch]bool{}}
	var gaps, halted int64
	var switches []usecase.SwitchState
	batch := &pgx.Batch{}
	batch.Queue(statsNowSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&signs.Now, &gaps, &halted) })
	collect(batch, statsSwitchesSQL, scanSwitch, &switches)
	if err := s.sendBatch(ctx, batch); err != nil {
		return usecase.Signs{}, wrap("read switches", err)
	}
	signs.Violations[usecase.RulePositionBeyondLog] = gaps
	signs.Violations[usecase.RulePartitionHalted] = halted
	for _, on := range switches {
		signs.Switches[on.Name] = true
	}
	return signs, nil
}

// Stats implements usecase.StatsReader.
func (s *Store) Stats(ctx context.Context, keyWindow time.Duration) (usecase.Stats, error) {
	var stats usecase.Stats
	batch := &pgx.Batch{}
	queueWaiting(batch, &stats, keyWindow)
	collect(batch, statsOutboxSQL, scanOutboxCount, &stats.Outbox)
	if err := s.sendBatch(ctx, batch); err != nil {
		return usecase.Stats{}, wrap("count what is unfinished", err)
	}
	return stats, nil
}

// queueWaiting asks for the charges that are not terminal, and for the nearest deadline among them.
func queueWaiting(batch *pgx.Batch, stats *usecase.Stats, keyWindow time.Duration) {
	batch.Queue(statsWaitingSQL).Query(func(rows pgx.Rows) error {
		var c usecase.ChargeCount
		var sent *time.Time
		_, err := pgx.ForEachRow(rows, []any{&c.Status, &c.LastOutcome, &c.N, &c.Oldest, &sent}, func() error {
			stats.Waiting = append(stats.Waiting, c)
			if sent == nil || keyWindow == 0 {
				return nil
			}
			if deadline := sent.Add(keyWindow / 2); stats.NearestDeadline.IsZero() || deadline.Before(stats.NearestDeadline) {
				stats.NearestDeadline = deadline
			}
			return nil
		})
		return err //nolint:wrapcheck // the batch's caller wraps it
	})
}

// collect queues a statement whose rows are appended to into.
func collect[T any](batch *pgx.Batch, sql string, scan pgx.RowToFunc[T], into *[]T, args ...any) {
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		list, err := pgx.CollectRows(rows, scan)
		*into = list
		return err //nolint:wrapcheck // the batch's caller wraps it
	})
}

func scanOutboxCount(row pgx.CollectableRow) (c usecase.OutboxCount, err error) {
	err = row.Scan(&c.Channel, &c.Status, &c.N, &c.Expired, &c.Oldest, &c.OldestDue)
	return c, err //nolint:wrapcheck // the batch's caller wraps it
}

func scanSwitch(row pgx.CollectableRow) (s usecase.SwitchState, err error) {
	err = row.Scan(&s.Name, &s.Actor, &s.Reason, &s.Since)
	return s, err //nolint:wrapcheck // the batch's caller wraps it
}

func scanReasonCount(row pgx.CollectableRow) (c usecase.ReasonCount, err error) {
	err = row.Scan(&c.Reason, &c.N, &c.Oldest)
	return c, err //nolint:wrapcheck // the batch's caller wraps it
}

// Finished implements usecase.StatsReader.
func (s *Store) Finished(ctx context.Context) ([]usecase.ChargeCount, error) {
	type key struct {
		status  domain.Status
		outcome domain.Outcome
	}
	counts := map[key]int64{}
	for after, rows := begin(usecase.WalkCharges), finishedPage; rows == finishedPage; {
		var to *string
		if err := s.pool.QueryRow(ctx, auditWalkSQL[usecase.WalkCharges], after, finishedPage).Scan(&to, &rows); err != nil {
			return nil, wrap("count finished charges", err)
		}
		if rows == 0 {
			break
		}
		page, err := s.pool.Query(ctx, statsFinishedSQL, after, *to)
		if err != nil {
			return nil, wrap("count finished charges", err)
		}
		var k key
		var n int64
		if _, err := pgx.ForEachRow(page, []any{&k.status, &k.outcome, &n}, func() error { counts[k] += n; return nil }); err != nil {
			return nil, wrap("count finished charges", err)
		}
		after = *to
	}
	list := make([]usecase.ChargeCount, 0, len(counts))
	for _, status := range domain.Statuses() {
		for _, outcome := range append(domain.Outcomes(), "") {
			if n := counts[key{status, outcome}]; n > 0 {
				list = append(list, usecase.ChargeCount{Status: status, LastOutcome: outcome, N: n})
			}
		}
	}
	return list, nil
}

// Overview reads what `billing status` shows, in one round trip. Finished charges are not among it.
func (s *Store) Overview(ctx context.Context, keyWindow time.Duration) (usecase.Overview, error) {
	var o usecase.Overview
	var stats usecase.Stats
	var gaps, halted int64
	var oldest, newest *time.Time
	batch := &pgx.Batch{}
	batch.Queue(statsNowSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&o.Now, &gaps, &halted) })
	queueWaiting(batch, &stats, keyWindow)
	collect(batch, statsOutboxSQL, scanOutboxCount, &o.Outbox)
	collect(batch, statsSwitchesSQL, scanSwitch, &o.Switches)
	collect(batch, processListSQL, scanProcess, &o.Processes)
	collect(batch, statsDeadLettersSQL, scanReasonCount, &o.DeadLetters)
	collect(batch, operatorPartitionsSQL, scanPartition, &o.Partitions, "", "", "", -1)
	batch.Queue(statsInboxDaysSQL).QueryRow(func(row pgx.Row) error {
		return row.Scan(&o.Inbox.N, &oldest, &newest, &o.Inbox.HasToday, &o.Inbox.HasTomorrow)
	})
	if err := s.sendBatch(ctx, batch); err != nil {
		return usecase.Overview{}, wrap("read the state", err)
	}
	o.Charges, o.NearestDeadline = stats.Waiting, stats.NearestDeadline
	if oldest != nil && newest != nil {
		o.Inbox.Oldest, o.Inbox.Newest = *oldest, *newest
	}
	version, err := s.SchemaVersion(ctx)
	if err != nil {
		return usecase.Overview{}, fmt.Errorf("read the state: %w", err)
	}
	o.SchemaVersion = version
	return o, nil
}
