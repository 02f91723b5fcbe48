package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"billing/internal/testkit"
)

const (
	topic       = "order-service.order.confirmed"
	partitions  = 6
	messageSize = 305
)

// stand is what all variants share: a durable PostgreSQL, Apache Kafka with the events, the binary.
type stand struct {
	postgres *testkit.PostgresServer
	kafka    *testkit.ApacheKafka
	binary   string
	events   int
	groups   int
}

func newStand(ctx context.Context, events int) (b *stand, err error) {
	b = &stand{events: events}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.binary, err = testkit.Build(ctx, "./cmd/billing"); err != nil {
		return nil, err
	}
	b.postgres, err = testkit.StartPostgres(ctx, testkit.PostgresOptions{Durable: true, Settings: map[string]string{
		"shared_buffers": "512MB", "max_wal_size": "4GB", "checkpoint_timeout": "15min",
	}})
	if err != nil {
		return nil, err
	}
	if b.kafka, err = testkit.StartApacheKafka(ctx, testkit.ApacheKafkaOptions{}); err != nil {
		return nil, err
	}
	if err := b.kafka.CreateTopic(ctx, topic, partitions, nil); err != nil {
		return nil, err
	}
	return b, b.produce(ctx)
}

func (b *stand) close() error {
	var errs []error
	if b.kafka != nil {
		errs = append(errs, b.kafka.Kill9(), b.kafka.Close())
	}
	if b.postgres != nil {
		errs = append(errs, b.postgres.Close())
	}
	return errors.Join(append(errs, testkit.Close())...)
}

// group is a name that no round before has used.
func (b *stand) group() string {
	b.groups++
	return fmt.Sprintf("bench-%d", b.groups)
}

// event is what the topic holds.
type event struct {
	id       uuid.UUID
	order    string
	customer string
	amount   int64
}

func newEvent(n int) event {
	return event{
		id: uuid.Must(uuid.NewV7()), order: fmt.Sprintf("order-%012d", n), customer: fmt.Sprintf("customer-%08d", n%1_000_000), amount: int64(100 + n%100_000),
	}
}

// value is the event as its producer writes it, filled up with a member that nobody here reads.
func (e event) value() []byte {
	value := fmt.Appendf(nil, `{"event_id":%q,"event_type":"OrderConfirmed","occurred_at":"2026-01-02T03:04:05Z","order_id":%q,"customer_id":%q,"total_amount":%d,"note":"`,
		e.id, e.order, e.customer, e.amount)
	return append(append(value, bytes.Repeat([]byte{'x'}, max(0, messageSize-len(value)-2))...), `"}`...)
}

// produce fills the topic. Every tenth message is an earlier one again: by turns one of the same chunk and one long committed.
func (b *stand) produce(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.Brokers()...), kgo.ProducerBatchMaxBytes(900_000), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return fmt.Errorf("make the producer: %w", err)
	}
	defer client.Close()
	var failed error
	var recent [10_000]*kgo.Record
	for n := range b.events {
		var record *kgo.Record
		back := []int{45, len(recent) - 5}[n/10%2]
		if n%10 == 9 && n >= back {
			old := recent[(n-back)%len(recent)]
			record = &kgo.Record{Topic: topic, Key: old.Key, Value: old.Value}
		} else {
			e := newEvent(n)
			record = &kgo.Record{Topic: topic, Key: []byte(e.order), Value: e.value()}
			recent[n%len(recent)] = record
		}
		client.Produce(ctx, record, func(_ *kgo.Record, err error) { failed = errors.Join(failed, err) })
	}
	if err := client.Flush(ctx); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	return failed
}

func (b *stand) drop(ctx context.Context, database string) error {
	conn, err := pgx.Connect(ctx, b.postgres.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, "DROP DATABASE "+database+" WITH (FORCE)")
	return err
}

// ticks are the kernel's units of CPU time in /proc, a hundred a second.
const tick = 10 * time.Millisecond

// cpu is the CPU time of a process, with that of its ended children.
func cpu(pid string) (used, children time.Duration, parent string) {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return 0, 0, "" // it has ended
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(rest) // from field 3, the state, on
	sum := func(at ...int) (d time.Duration) {
		for _, i := range at {
			n, _ := strconv.ParseInt(f[i-3], 10, 64)
			d += time.Duration(n) * tick
		}
		return d
	}
	return sum(14, 15), sum(16, 17), f[4-3]
}

// serverCPU is the CPU time of PostgreSQL, all its processes.
func (b *stand) serverCPU() time.Duration {
	text, err := os.ReadFile(filepath.Join(b.postgres.DataDir(), "postmaster.pid"))
	if err != nil {
		return 0
	}
	postmaster, _, _ := strings.Cut(string(text), "\n")
	used, ended, _ := cpu(postmaster)
	total := used + ended
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		if used, _, parent := cpu(filepath.Base(dir)); parent == postmaster {
			total += used
		}
	}
	return total
}

// ownCPU is the CPU time of this process.
func ownCPU() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// rss is the resident memory of a process in MiB.
func rss(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	return kib / 1024
}

// meter measures a stretch of work.
type meter struct {
	b              *stand
	client         func() time.Duration
	at             time.Time
	ofClient, ofPG time.Duration
}

func (b *stand) begin(client func() time.Duration) meter {
	return meter{b: b, client: client, at: now(), ofClient: client(), ofPG: b.serverCPU()}
}

func (m meter) end(messages int) result {
	n := float64(max(messages, 1))
	return result{
		rate: n / now().Sub(m.at).Seconds(), client: float64((m.client() - m.ofClient).Microseconds()) / n,
		server: float64((m.b.serverCPU() - m.ofPG).Microseconds()) / n,
	}
}

func now() time.Time { return time.Now() }
