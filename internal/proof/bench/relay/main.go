// Command relay measures the way out to Kafka: announcements that wait in the outbox until they are acknowledged by the broker,
// stamped in the history and gone from the queue, beside a bare Writer of the client library that sends the same messages in the
// same batches from memory. Rounds are interleaved; it prints medians and their ratio.
//
//	MESSAGES=50000 ROUNDS=5 go run ./internal/proof/bench/relay
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	kafkaout "billing/internal/adapters/out/kafka"
	"billing/internal/adapters/out/postgres"
	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/proof/bench"
	"billing/internal/testkit"
)

const (
	topic = "billing.charge-results"
	batch = 1000 // what the service claims at once
)

// relays is how many loops publish; the service has two.
var relays = bench.Number("RELAYS", 2)

func main() {
	os.Exit(bench.Main("relay", func(ctx context.Context) error {
		return measure(ctx, bench.Number("MESSAGES", 50_000), bench.Number("ROUNDS", 5))
	}))
}

// stand is what one run measures on: Apache Kafka, PostgreSQL that syncs, and a writer of each kind.
type stand struct {
	server *testkit.PostgresServer
	broker *testkit.ApacheKafka
	pool   *pgxpool.Pool
	relay  usecase.Relay
	writer *kafkaout.Writer
	bare   *kafka.Writer
	n      int
}

func measure(ctx context.Context, messages, rounds int) (err error) {
	s, err := newStand(ctx, messages)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	var bare, relayed []float64
	for round := range rounds {
		b, err := s.bareRate(ctx)
		if err != nil {
			return err
		}
		r, err := s.relayRate(ctx)
		if err != nil {
			return err
		}
		bare, relayed = append(bare, b), append(relayed, r)
		fmt.Printf("round %d  bare writer %9.0f/s  relay %9.0f/s\n", round+1, b, r)
	}
	b, r := bench.Median(bare), bench.Median(relayed)
	fmt.Printf("median   bare writer %9.0f/s  relay %9.0f/s  relay / bare %.2f (goal 0.35)\n", b, r, r/b)
	return nil
}

func newStand(ctx context.Context, n int) (*stand, error) {
	s := &stand{n: n}
	var err error
	if s.server, err = testkit.StartPostgres(ctx, testkit.PostgresOptions{Durable: true}); err != nil {
		return nil, err
	}
	if s.broker, err = testkit.StartApacheKafka(ctx, testkit.ApacheKafkaOptions{}); err != nil {
		return nil, errors.Join(err, s.server.Close())
	}
	if err := s.fill(ctx); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

// fill makes database, topic and both writers.
func (s *stand) fill(ctx context.Context) error {
	if err := s.server.CreateDatabase(ctx, "relay"); err != nil {
		return err
	}
	var err error
	if s.pool, err = postgres.NewPool(ctx, s.server.URL("relay"), postgres.PoolOptions{MaxConns: 4, ApplicationName: "bench"}); err != nil {
		return err
	}
	if err := s.broker.CreateTopic(ctx, topic, 6, nil); err != nil {
		return err
	}
	transport := &kafka.Transport{MetadataTTL: 2 * time.Second}
	s.writer = kafkaout.NewWriter(s.broker.Brokers(), transport)
	s.bare = &kafka.Writer{
		Addr: kafka.TCP(s.broker.Brokers()...), Topic: topic, Balancer: kafka.Murmur2Balancer{}, RequiredAcks: kafka.RequireAll,
		BatchSize: 1000, BatchTimeout: time.Millisecond, Transport: transport,
	}
	s.relay = usecase.Relay{
		Queue: postgres.NewStore(s.pool), Publisher: s.writer, Backoff: domain.Backoff{Min: time.Second, Max: time.Minute},
		Random: func() float64 { return 0.5 }, Limit: batch, Lease: 30 * time.Second, Timeout: 18 * time.Second,
	}
	return nil
}

func (s *stand) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var errs []error
	if s.writer != nil {
		errs = append(errs, s.writer.Close(ctx), s.bare.Close())
	}
	if s.pool != nil {
		s.pool.Close()
	}
	return errors.Join(append(errs, s.broker.Close(), s.server.Close())...)
}

// value is a result of the usual size.
func value(i int) []byte {
	return fmt.Appendf(nil, `{"event_id":"01a22e6d-4634-71a5-baa7-%012d","event_type":"ChargeSucceeded","occurred_at":"2026-01-02T03:04:05.000Z",`+
		`"order_id":"order-%d","customer_id":"customer-%d","source_event_id":"01a22e6d-4634-71a5-baa7-%012d","amount":150000,"currency":"RUB",`+
		`"provider_ref":"ch_%d","reason":null,"version":1}`, i, i, i, i, i)
}

func (s *stand) bareRate(ctx context.Context) (float64, error) {
	messages := make([]kafka.Message, s.n)
	for i := range messages {
		messages[i] = kafka.Message{Key: fmt.Appendf(nil, "order-%d", i), Value: value(i), Headers: []kafka.Header{
			{Key: "event-id", Value: []byte("01a22e6d-4634-71a5-baa7-000000000000")},
			{Key: "event-type", Value: []byte("ChargeSucceeded")},
			{Key: "traceparent", Value: []byte("00-01a22e6d463471a5baa7000000000000-baa7000000000000-00")},
		}}
	}
	start := time.Now()
	for chunk := range slices.Chunk(messages, batch/2) { // as the relay publishes them
		if err := s.bare.WriteMessages(ctx, chunk...); err != nil {
			return 0, fmt.Errorf("bare writer: %w", err)
		}
	}
	return float64(s.n) / time.Since(start).Seconds(), nil
}

const waiting = `
WITH told AS (
    INSERT INTO charge_event (event_id, version, announcement_id, type, from_status, to_status)
    SELECT gen_random_uuid(), 1, gen_random_uuid(), 'ChargeSucceeded', 'requested', 'succeeded' FROM generate_series(1, $1::int)
    RETURNING event_id, announcement_id, id
)
INSERT INTO outbox (channel, event_type, topic, msg_key, payload, headers, event_id, version)
SELECT 'kafka', 'ChargeSucceeded', $2::text, convert_to('order-' || id, 'UTF8'), $3::bytea,
       ARRAY['event-id'::bytea, convert_to(announcement_id::text, 'UTF8'), 'event-type'::bytea, 'ChargeSucceeded'::bytea,
             'traceparent'::bytea, '00-01a22e6d463471a5baa7000000000000-baa7000000000000-00'::bytea], event_id, 1
  FROM told`

func (s *stand) relayRate(ctx context.Context) (float64, error) {
	if _, err := s.pool.Exec(ctx, "SET statement_timeout = 0; TRUNCATE outbox, charge_event"); err != nil {
		return 0, fmt.Errorf("empty the queue: %w", err)
	}
	for range s.n / 10_000 {
		if _, err := s.pool.Exec(ctx, waiting, 10_000, topic, value(1)); err != nil {
			return 0, fmt.Errorf("fill the queue: %w", err)
		}
	}
	if _, err := s.pool.Exec(ctx, "ANALYZE outbox, charge_event"); err != nil {
		return 0, fmt.Errorf("analyze: %w", err)
	}
	start := time.Now()
	var published atomic.Int64
	var loops errgroup.Group
	for range relays {
		loops.Go(func() error {
			for {
				report, busy, err := s.relay.Step(ctx)
				if err = errors.Join(err, report.Err); err != nil || !busy {
					return err
				}
				published.Add(int64(report.Published))
			}
		})
	}
	err := loops.Wait()
	return float64(published.Load()) / time.Since(start).Seconds(), err
}
