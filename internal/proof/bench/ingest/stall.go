package main

import (
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
)

// maintainer is a role without DDL, as the service's is.
const maintainer = "bench_maintainer"

// stalls measures how long inserts into the inbox wait while eight virtual days are made ahead and dropped behind by a role
// without DDL, beside the same inserts left alone.
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
	_, err = owner.Exec(ctx, "CREATE ROLE "+maintainer+" LOGIN; GRANT EXECUTE ON FUNCTION billing_create_partitions, billing_drop_partition TO "+maintainer)
	if err != nil {
		return fmt.Errorf("make the role: %w", err)
	}
	quiet, err := b.inserts(ctx, database, func(ctx context.Context) error { pause(ctx, stretch); return nil })
	if err != nil {
		return err
	}
	kept, err := b.inserts(ctx, database, func(ctx context.Context) error { return b.eightDays(ctx, database) })
	if err != nil {
		return err
	}
	slices.Sort(quiet)
	slices.Sort(kept)
	p99 := quiet[len(quiet)*99/100]
	fmt.Fprintf(out, "\ninserts of 100 by 4 connections: left alone p99 %s, max %s; while 8 days are made and dropped p99 %s, max %s (%.1f x the usual p99, goal 2)\n",
		p99.Round(time.Millisecond), quiet[len(quiet)-1].Round(time.Millisecond), kept[len(kept)*99/100].Round(time.Millisecond),
		kept[len(kept)-1].Round(time.Millisecond), float64(kept[len(kept)-1])/float64(p99))
	return nil
}

// eightDays moves the window of the inbox by a day eight times: the end by a third of one, which is as far as it goes.
func (b *stand) eightDays(ctx context.Context, database string) error {
	conn, err := pgx.Connect(ctx, strings.Replace(b.postgres.URL(database), "postgres@", maintainer+"@", 1))
	if err != nil {
		return fmt.Errorf("connect as the role: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	made, dropped := 0, 0
	for day := 1; day <= 8; day++ {
		retention, skew := time.Duration(10-day)*24*time.Hour, time.Duration(day)*9*time.Hour
		for done := false; !done && ctx.Err() == nil; pause(ctx, 200*time.Millisecond) {
			var n int
			var name *string
			if conn.QueryRow(ctx, "SELECT billing_create_partitions(make_interval(secs => $1), make_interval(secs => $2))", retention.Seconds(), skew.Seconds()).Scan(&n) != nil {
				continue // an insert holds the lock: again, as the service does
			}
			made += max(n, 0)
			if conn.QueryRow(ctx, "SELECT billing_drop_partition(make_interval(secs => $1))", retention.Seconds()).Scan(&name) != nil {
				continue
			}
			if done = name == nil; !done {
				dropped++
			}
		}
	}
	if made < 3 || dropped < 6 {
		return fmt.Errorf("%d days made, %d dropped", made, dropped)
	}
	return ctx.Err()
}

// inserts runs while does and returns how long each transaction took.
func (b *stand) inserts(ctx context.Context, database string, while func(context.Context) error) ([]time.Duration, error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	var all []time.Duration
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
				took := now().Sub(begun)
				mu.Lock()
				all = append(all, took)
				mu.Unlock()
			}
			return nil
		})
	}
	err := while(running)
	stop()
	return all, errors.Join(err, inserters.Wait())
}
