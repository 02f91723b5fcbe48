package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"billing/internal/worker"
)

// maintainer is a role without DDL, as the service's is.
const maintainer = "bench_maintainer"

// stretchOf is when something began and ended.
type stretchOf struct{ from, to time.Time }

func (s stretchOf) took() time.Duration { return s.to.Sub(s.from) }

func (s stretchOf) meets(others []stretchOf) bool {
	return slices.ContainsFunc(others, func(o stretchOf) bool { return s.from.Before(o.to) && o.from.Before(s.to) })
}

// stalls measures how long inserts into the inbox wait for maintenance, while eight virtual days are made ahead and dropped
// behind by a role without DDL: those that were in flight during one of its statements, beside the same inserts left alone.
// The longest of many says little by itself: a disk that syncs lets some wait without any maintenance. What is left is the disk,
// too: up to version 16 PostgreSQL syncs the file of a new index at once, and the syncs of the log wait for it.
func (b *stand) stalls(ctx context.Context, out io.Writer) error {
	const database = "stalls"
	if err := b.postgres.CreateDatabase(ctx, database); err != nil {
		return err
	}
	owner, err := pgx.Connect(ctx, b.postgres.URL(database))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = owner.Close(context.WithoutCancel(ctx)) }()
	_, err = owner.Exec(ctx, "CREATE ROLE "+maintainer+" LOGIN; GRANT EXECUTE ON FUNCTION billing_create_partitions, billing_detach_partition, billing_drop_partition TO "+maintainer)
	if err != nil {
		return fmt.Errorf("make the role: %w", err)
	}
	var steps []stretchOf
	alone, err := b.inserts(ctx, database, func(ctx context.Context) error { worker.Clock{}.Sleep(ctx, 2*stretch); return nil })
	if err != nil {
		return err
	}
	kept, err := b.inserts(ctx, database, func(ctx context.Context) (err error) { steps, err = b.eightDays(ctx, database); return err })
	if err != nil {
		return err
	}
	kept = slices.DeleteFunc(kept, func(s stretchOf) bool { return !s.meets(steps) })
	if len(kept) == 0 {
		return errors.New("no insert met the maintenance")
	}
	usual, most := quantiles(alone)
	met, longest := quantiles(kept)
	fmt.Fprintf(out, "\ninserts of 100 by 4 connections: left alone p99 %s, longest %s of %d; in flight while days are made or dropped p99 %s, longest %s of %d: %.1f x the usual p99 (goal 2), alone %.1f x\n",
		usual.Round(tenth), most.Round(tenth), len(alone), met.Round(tenth), longest.Round(tenth), len(kept),
		float64(longest)/float64(usual), float64(most)/float64(usual))
	return nil
}

const tenth = 100 * time.Microsecond

// quantiles returns the 99th percentile and the longest.
func quantiles(all []stretchOf) (p99, longest time.Duration) {
	slices.SortFunc(all, func(a, b stretchOf) int { return cmp.Compare(a.took(), b.took()) })
	return all[len(all)*99/100].took(), all[len(all)-1].took()
}

// eightDays moves the window of the inbox by a day eight times: the end by a third of one, which is as far as it goes. It
// returns when each of its statements ran.
func (b *stand) eightDays(ctx context.Context, database string) (steps []stretchOf, err error) {
	conn, err := pgx.Connect(ctx, strings.Replace(b.postgres.URL(database), "postgres@", maintainer+"@", 1))
	if err != nil {
		return nil, fmt.Errorf("connect as the role: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	step := func(result any, sql string, args ...any) error {
		begun := now()
		err := conn.QueryRow(ctx, sql, args...).Scan(result)
		steps = append(steps, stretchOf{begun, now()})
		return err
	}
	made, dropped := 0, 0
	for day := 1; day <= 8; day++ {
		retention, skew := time.Duration(10-day)*24*time.Hour, time.Duration(day)*9*time.Hour
		for done := false; !done && ctx.Err() == nil; (worker.Clock{}).Sleep(ctx, 200*time.Millisecond) {
			var n int
			var name *string
			if step(&n, "SELECT billing_create_partitions(make_interval(secs => $1), make_interval(secs => $2))", retention.Seconds(), skew.Seconds()) != nil {
				continue // an insert holds the lock: again, as the service does
			}
			made += max(n, 0)
			if step(&name, "SELECT billing_detach_partition(make_interval(secs => $1))", retention.Seconds()) != nil {
				continue
			}
			if step(&name, "SELECT billing_drop_partition(make_interval(secs => $1))", retention.Seconds()) != nil {
				continue
			}
			if name != nil {
				dropped++
			}
			done = n == 0 && name == nil
		}
	}
	if made < 3 || dropped < 6 {
		return nil, fmt.Errorf("%d days made, %d dropped", made, dropped)
	}
	return steps, ctx.Err()
}

// inserts runs while does and returns when each transaction ran.
func (b *stand) inserts(ctx context.Context, database string, while func(context.Context) error) ([]stretchOf, error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	var all []stretchOf
	var inserters errgroup.Group
	for range 4 {
		inserters.Go(func() error {
			conn, err := pgx.Connect(ctx, b.postgres.URL(database))
			if err != nil {
				return fmt.Errorf("connect: %w", err)
			}
			defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
			for running.Err() == nil {
				ids := make([][16]byte, 100)
				for i := range ids {
					ids[i] = uuid.Must(uuid.NewV7())
				}
				begun := now()
				if _, err := conn.Exec(ctx, "INSERT INTO processed_event (event_id, consumer_group, fingerprint) SELECT unnest($1::uuid[]), 'bench', 'x'", ids); err != nil {
					return fmt.Errorf("insert: %w", err)
				}
				ended := now()
				mu.Lock()
				all = append(all, stretchOf{begun, ended})
				mu.Unlock()
			}
			return nil
		})
	}
	err := while(running)
	stop()
	return all, errors.Join(err, inserters.Wait())
}
