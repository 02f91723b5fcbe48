package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"billing/internal/proof/bench"
	"billing/internal/testkit"
	"billing/internal/worker"
)

// stretch is how long the variants run that are not measured by the whole topic.
const stretch = 6 * time.Second

// service runs the binary and measures it from the first tenth of the topic to its end.
func service(ctx context.Context, b *stand, database string) (_ result, err error) {
	pool, err := pgxpool.New(ctx, b.postgres.URL(database))
	if err != nil {
		return result{}, fmt.Errorf("connect: %w", err)
	}
	defer pool.Close()
	p, err := testkit.StartProcess(testkit.ProcessOptions{Path: b.binary, Args: []string{"serve"}, Env: []string{
		"BILLING_ROLES=consumer", "BILLING_DATABASE_URL=" + b.postgres.URL(database), "BILLING_KAFKA_BROKERS=" + strings.Join(b.kafka.Brokers(), ","),
		"BILLING_KAFKA_TOPICS=" + topic, "BILLING_KAFKA_GROUP=" + b.group(), "BILLING_OPS_ADDR=127.0.0.1:0",
	}})
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, p.Signal(syscall.SIGTERM), p.Kill()) }()
	client := func() time.Duration {
		used, _, _ := cpu(strconv.Itoa(p.Pid()))
		return used
	}
	from, _, err := await(ctx, pool, p.Pid(), b.events/10)
	if err != nil {
		return result{}, err
	}
	m := b.begin(client)
	_, early, err := await(ctx, pool, p.Pid(), b.events*2/10)
	if err == nil {
		_, _, err = await(ctx, pool, p.Pid(), b.events*9/10)
	}
	if err != nil {
		return result{}, err
	}
	to, late, err := await(ctx, pool, p.Pid(), b.events)
	if err != nil {
		return result{}, err
	}
	r := m.end(to - from)
	r.rssEarly, r.rss = early, late
	return r, check(ctx, pool, b.events)
}

// await polls until the positions cover n messages. It returns how many they do, and the median of the process's resident
// memory meanwhile in MiB: between two collections of garbage it goes up and down.
func await(ctx context.Context, pool *pgxpool.Pool, pid, n int) (at int, mib float64, err error) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	var samples []float64
	for {
		samples = append(samples, rss(pid))
		if err := pool.QueryRow(ctx, "SELECT coalesce(sum(next_offset), 0) FROM consumer_position").Scan(&at); err != nil {
			return 0, 0, fmt.Errorf("read positions: %w", err)
		}
		if at >= n {
			return at, bench.Median(samples), nil
		}
		select {
		case <-ctx.Done():
			return at, 0, fmt.Errorf("%d of %d messages: %w", at, n, ctx.Err())
		case <-ticker.C:
		}
	}
}

// check fails when what was measured was not the work.
func check(ctx context.Context, pool *pgxpool.Pool, messages int) error {
	var inbox, charges, outbox int
	err := pool.QueryRow(ctx, "SELECT (SELECT count(*) FROM processed_event), (SELECT count(*) FROM charge), (SELECT count(*) FROM outbox)").
		Scan(&inbox, &charges, &outbox)
	if err != nil {
		return fmt.Errorf("count rows: %w", err)
	}
	if inbox != charges || outbox != charges || charges < messages*89/100 || charges > messages*96/100 {
		return fmt.Errorf("%d inbox rows, %d charges, %d outbox rows of %d messages", inbox, charges, outbox, messages)
	}
	return nil
}

// documents is the loop of the requirement documents: fetch a message, one transaction for it, commit its offset.
func documents(readers int) func(context.Context, *stand, string) (result, error) {
	return func(ctx context.Context, b *stand, database string) (result, error) {
		pool, err := pgxpool.New(ctx, b.postgres.URL(database))
		if err != nil {
			return result{}, fmt.Errorf("connect: %w", err)
		}
		defer pool.Close()
		group := b.group()
		var done atomic.Int64
		running, stop := context.WithCancel(ctx)
		defer stop()
		var all errgroup.Group
		for range readers {
			all.Go(func() error { return documentsLoop(running, b.kafka.Brokers(), group, pool, &done) })
		}
		for done.Load() < 20 && (worker.Clock{}).Sleep(running, 10*time.Millisecond) { // until all have joined and the first messages are through
			continue
		}
		from, m := done.Load(), b.begin(ownCPU)
		worker.Clock{}.Sleep(running, stretch)
		r := m.end(int(done.Load() - from))
		stop()
		return r, all.Wait()
	}
}

func documentsLoop(ctx context.Context, brokers []string, group string, pool *pgxpool.Pool, done *atomic.Int64) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: brokers, GroupID: group, Topic: topic, MinBytes: 1, MaxBytes: 1 << 20, MaxWait: 250 * time.Millisecond,
		JoinGroupBackoff: 500 * time.Millisecond, StartOffset: kafka.FirstOffset,
	})
	for ctx.Err() == nil {
		message, err := reader.FetchMessage(ctx)
		if err == nil {
			err = documentsHandle(ctx, pool, message.Value)
		}
		if err == nil {
			err = reader.CommitMessages(ctx, message)
		}
		if err != nil && ctx.Err() == nil {
			return errors.Join(err, reader.Close())
		}
		done.Add(1)
	}
	return reader.Close()
}

func documentsHandle(ctx context.Context, pool *pgxpool.Pool, value []byte) error {
	var e struct {
		EventID  uuid.UUID `json:"event_id"`
		Order    string    `json:"order_id"`
		Customer string    `json:"customer_id"`
		Amount   int64     `json:"total_amount"`
	}
	if err := json.Unmarshal(value, &e); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "INSERT INTO processed_event (event_id, consumer_group, fingerprint) VALUES ($1, 'documents', $2) ON CONFLICT DO NOTHING", e.EventID, e.EventID[:])
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO charge (event_id, order_id, customer_id, amount_minor, currency, source) VALUES ($1, $2, $3, $4, 'RUB', 'kafka')",
			e.EventID, e.Order, e.Customer, e.Amount); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO outbox (channel, event_type, event_id, payload) VALUES ('provider', 'ChargeRequested', $1, $2)", e.EventID, request(e.Order, e.Customer, e.Amount))
		return err
	})
}

func request(order, customer string, amount int64) []byte {
	return fmt.Appendf(nil, `{"order_id":%q,"customer_id":%q,"amount":%d,"currency":"RUB"}`, order, customer, amount)
}

// copies is the yardstick: COPY of 1000 rows into each of the three tables, in one transaction.
func copies(connections int) func(context.Context, *stand, string) (result, error) {
	return func(ctx context.Context, b *stand, database string) (result, error) {
		pool, err := pgxpool.New(ctx, b.postgres.URL(database)+"&pool_max_conns="+strconv.Itoa(connections))
		if err != nil {
			return result{}, fmt.Errorf("connect: %w", err)
		}
		defer pool.Close()
		var done atomic.Int64
		var n atomic.Int64
		m := b.begin(ownCPU)
		var all errgroup.Group
		for range connections {
			all.Go(func() error {
				for int(n.Load()) < b.events {
					if err := copyRows(ctx, pool, int(n.Add(1000))); err != nil {
						return err
					}
					done.Add(1000)
				}
				return nil
			})
		}
		err = all.Wait()
		return m.end(int(done.Load())), err
	}
}

func copyRows(ctx context.Context, pool *pgxpool.Pool, from int) error {
	events := make([]event, 1000)
	for i := range events {
		events[i] = newEvent(from + i)
	}
	rows := func(row func(event) []any) pgx.CopyFromSource {
		return pgx.CopyFromSlice(len(events), func(i int) ([]any, error) { return row(events[i]), nil })
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for _, part := range []struct {
			table   string
			columns []string
			row     func(event) []any
		}{
			{"processed_event", []string{"event_id", "consumer_group", "fingerprint"}, func(e event) []any { return []any{[16]byte(e.id), "bench", e.id[:]} }},
			{"charge", []string{"event_id", "order_id", "customer_id", "amount_minor", "currency", "source"}, func(e event) []any {
				return []any{[16]byte(e.id), e.order, e.customer, e.amount, "RUB", "kafka"}
			}},
			{"outbox", []string{"channel", "event_type", "event_id", "payload", "headers"}, func(e event) []any {
				return []any{"provider", "ChargeRequested", [16]byte(e.id), request(e.order, e.customer, e.amount), [][]byte{[]byte("traceparent"), []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}}
			}},
		} {
			if _, err := tx.CopyFrom(ctx, pgx.Identifier{part.table}, part.columns, rows(part.row)); err != nil {
				return fmt.Errorf("copy into %s: %w", part.table, err)
			}
		}
		return nil
	})
}
