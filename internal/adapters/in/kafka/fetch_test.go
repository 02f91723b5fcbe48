package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// line is what two readers of one log must agree on.
func line(offset int64, key, value []byte, headers int, at time.Time) string {
	return fmt.Sprintf("%d %q %x nil=%t,%t h=%d %d", offset, key, value, key == nil, value == nil, headers, at.UnixMilli())
}

// readAll reads from the start until the last stable offset.
func readAll(t *testing.T, l *Log) (lines []string, next int64) {
	t.Helper()
	answer, err := l.client.ListOffsets(t.Context(), &kafka.ListOffsetsRequest{
		IsolationLevel: kafka.ReadCommitted,
		Topics:         map[string][]kafka.OffsetRequest{l.topic: {kafka.LastOffsetOf(int(l.partition))}},
	})
	if err != nil {
		t.Fatalf("list offsets: %v", err)
	}
	for stable := answer.Topics[l.topic][0].LastOffset; next < stable; {
		fetched, err := l.Fetch(t.Context(), next)
		if err != nil {
			t.Fatalf("fetch at %d of %d: %v", next, stable, err)
		}
		for _, d := range fetched.Deliveries {
			m := d.Message
			lines = append(lines, line(m.Offset, m.Key, m.Value, len(m.Headers), m.Time))
		}
		if fetched.Next < next {
			t.Fatalf("position went back from %d to %d", next, fetched.Next)
		}
		next = fetched.Next
	}
	return lines, next
}

// readReference reads the same log with another client, which is known to filter correctly.
func readReference(t *testing.T, brokers []string, topic string, n int) []string {
	t.Helper()
	client := newProducer(t, brokers, kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var lines []string
	for len(lines) < n {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("reference read %d of %d records: %v", len(lines), n, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			lines = append(lines, line(r.Offset, r.Key, r.Value, len(r.Headers), r.Timestamp))
		})
	}
	return lines
}

func compressions() []kgo.CompressionCodec {
	return []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
}

// writer is one of several producers that write into the same partition in turns.
type writer struct {
	client *kgo.Client
	inTx   []*kgo.Record // nil when no transaction is open
	open   bool
	txn    bool
}

// writeRandomLog writes plain, committed, aborted and, at the end, open transactions, interleaved, and
// returns the records that are committed.
func writeRandomLog(t *testing.T, brokers []string, topic string, rng *rand.Rand, steps int) []*kgo.Record {
	t.Helper()
	codecs := compressions()
	writers := make([]*writer, 0, len(codecs)+1)
	for i, codec := range codecs {
		id := fmt.Sprintf("%s-%d", topic, i)
		writers = append(writers, &writer{txn: true, client: newProducer(t, brokers, kgo.TransactionalID(id),
			kgo.ProducerBatchCompression(codec), kgo.TransactionTimeout(time.Minute))})
	}
	writers = append(writers, &writer{client: newProducer(t, brokers)})
	committed := make([]*kgo.Record, 0, steps)
	for range steps {
		committed = append(committed, writers[rng.IntN(len(writers))].step(t, topic, rng)...)
	}
	return committed
}

// step does one thing and returns the records that it made visible.
func (w *writer) step(t *testing.T, topic string, rng *rand.Rand) []*kgo.Record {
	t.Helper()
	if w.txn && w.open && rng.IntN(3) == 0 {
		commit := rng.IntN(2) == 0
		if err := w.client.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)); err != nil {
			t.Fatalf("end transaction: %v", err)
		}
		records := w.inTx
		w.open, w.inTx = false, nil
		if !commit {
			return nil
		}
		return records
	}
	if w.txn && !w.open {
		if err := w.client.BeginTransaction(); err != nil {
			t.Fatalf("begin transaction: %v", err)
		}
		w.open = true
	}
	records := make([]*kgo.Record, 1+rng.IntN(5))
	for i := range records {
		records[i] = randomRecord(topic, rng)
	}
	produce(t, w.client, records...)
	if w.txn {
		w.inTx = append(w.inTx, records...)
		return nil
	}
	return records
}

func randomRecord(topic string, rng *rand.Rand) *kgo.Record {
	r := &kgo.Record{Topic: topic, Partition: 0}
	if rng.IntN(5) > 0 {
		r.Key = []byte(fmt.Sprint("key-", rng.IntN(10)))
	}
	if rng.IntN(8) > 0 {
		r.Value = []byte(strings.Repeat(strconv.Itoa(rng.IntN(1000)), rng.IntN(60)))
	}
	for range rng.IntN(3) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "h", Value: []byte("v")})
	}
	return r
}

// checkAgainstReference compares both readers with each other and with what the writers know.
func checkAgainstReference(t *testing.T, brokers []string, topic string, seed uint64, steps int) {
	t.Helper()
	committed := writeRandomLog(t, brokers, topic, rand.New(rand.NewPCG(seed, 1)), steps)
	for _, maxBytes := range []int32{1 << 20, 300} {
		l := newTestLog(t, brokers, topic, maxBytes)
		got, next := readAll(t, l)
		visible := 0
		for _, r := range committed {
			if r.Offset < next {
				visible++
			}
		}
		want := readReference(t, brokers, topic, visible)
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("seed %d, fetches of %d bytes: %d records, the reference has %d", seed, maxBytes, len(got), len(want))
		}
	}
}

func TestFetchEqualsAReadCommittedReferenceReader(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, kfake.SeedTopics(1, "orders"))
			checkAgainstReference(t, c.ListenAddrs(), "orders", seed, 120)
		})
	}
}

func TestFetchStaysBelowAnOpenTransactionAndPassesMarkersWhenItEnds(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.SeedTopics(1, "orders"))
	client := newProducer(t, c.ListenAddrs(), kgo.TransactionalID("tx"))
	l := newTestLog(t, c.ListenAddrs(), "orders", defaultMaxBytes)
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, client, &kgo.Record{Topic: "orders", Value: []byte("never charged")})

	fetched, err := l.Fetch(t.Context(), 0)
	if err != nil || len(fetched.Deliveries) != 0 || fetched.Next != 0 {
		t.Fatalf("inside a transaction: %+v, %v", fetched, err)
	}
	seen := l.observer.(*observed)
	if held := seen.held["orders/0"]; held != 1 {
		t.Errorf("%d offsets are held back by the open transaction, want 1", held)
	}
	if err := client.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the position passes an aborted record and its marker", func() bool {
		fetched, err = l.Fetch(t.Context(), 0)
		return err == nil && fetched.Next == 2
	})
	if len(fetched.Deliveries) != 0 {
		t.Fatalf("delivered %+v", fetched.Deliveries)
	}
	if held := seen.held["orders/0"]; held != 0 {
		t.Errorf("%d offsets are held back behind the transaction's end", held)
	}
	if seen.aborted != 1 {
		t.Fatalf("counted %d aborted records, want 1", seen.aborted)
	}
}

func TestChunksAreBoundedAndTheRestIsBuffered(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		records, size int
		want          []int
	}{
		"by number": {records: 1200, size: 10, want: []int{500, 500, 200}},
		"by bytes":  {records: 5, size: 400 << 10, want: []int{2, 2, 1}},
		"one alone": {records: 2, size: 700 << 10, want: []int{1, 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, kfake.SeedTopics(1, "orders"))
			records := make([]*kgo.Record, tt.records)
			for i := range records {
				records[i] = &kgo.Record{Topic: "orders", Value: make([]byte, tt.size)}
			}
			produce(t, newProducer(t, c.ListenAddrs(), kgo.ProducerBatchCompression(kgo.ZstdCompression())), records...)
			l := newTestLog(t, c.ListenAddrs(), "orders", defaultMaxBytes)
			var next int64
			for _, want := range tt.want {
				fetched, err := l.Fetch(t.Context(), next)
				if err != nil || len(fetched.Deliveries) != want {
					t.Fatalf("at %d: %d messages, want %d: %v", next, len(fetched.Deliveries), want, err)
				}
				if first := fetched.Deliveries[0].Message.Offset; first != next {
					t.Fatalf("chunk starts at %d, want %d", first, next)
				}
				next = fetched.Next
			}
		})
	}
}

func TestAnotherOffsetThanTheBufferedOneIsFetchedAnew(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.SeedTopics(1, "orders"))
	produce(t, newProducer(t, c.ListenAddrs()), numbered("orders", 1, 1200)...)
	l := newTestLog(t, c.ListenAddrs(), "orders", defaultMaxBytes)
	for _, offset := range []int64{0, 7, 507, 0, 1100} {
		fetched, err := l.Fetch(t.Context(), offset)
		if err != nil || len(fetched.Deliveries) == 0 || fetched.Deliveries[0].Message.Offset != offset {
			t.Fatalf("at %d: %d messages, %v", offset, len(fetched.Deliveries), err)
		}
	}
}

func TestTheNextChunkIsFetchedWhileTheFirstIsAtWork(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.SeedTopics(1, "orders"))
	client := newProducer(t, c.ListenAddrs())
	produce(t, client, &kgo.Record{Topic: "orders", Value: []byte("first")})
	l := newTestLog(t, c.ListenAddrs(), "orders", defaultMaxBytes)
	l.maxWait = 5 * time.Second
	if _, err := l.Fetch(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	produce(t, client, &kgo.Record{Topic: "orders", Value: []byte("second")})
	eventually(t, 4*time.Second, "the next chunk waits in the background", func() bool { return len(l.ahead) == 1 })
	fetched, err := l.Fetch(t.Context(), 1)
	if err != nil || len(fetched.Deliveries) != 1 || string(fetched.Deliveries[0].Message.Value) != "second" {
		t.Fatalf("%+v, %v", fetched, err)
	}
}

func TestAnOffsetOutsideTheLogIsToldApart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.SeedTopics(1, "orders"))
	produce(t, newProducer(t, c.ListenAddrs()), &kgo.Record{Topic: "orders"}, &kgo.Record{Topic: "orders"}, &kgo.Record{Topic: "orders"})
	if err := c.DeleteRecords("orders", 0, 2); err != nil {
		t.Fatal(err)
	}
	l := newTestLog(t, c.ListenAddrs(), "orders", defaultMaxBytes)
	for _, offset := range []int64{1, 4} {
		if _, err := l.Fetch(t.Context(), offset); !errors.Is(err, usecase.ErrOffsetOutOfRange) {
			t.Errorf("at %d: %v", offset, err)
		}
	}
	bounds, err := l.Bounds(t.Context())
	if want := (usecase.Bounds{Start: 2, End: 3}); err != nil || bounds != want {
		t.Fatalf("bounds %+v, want %+v: %v", bounds, want, err)
	}
}

func TestFetchFollowsALeaderThatMoved(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(1, "orders"))
	client := newProducer(t, c.ListenAddrs())
	l := newTestLog(t, c.ListenAddrs(), "orders", defaultMaxBytes)
	for i := range int64(6) {
		produce(t, client, &kgo.Record{Topic: "orders", Value: []byte{byte(i)}})
		eventually(t, 10*time.Second, "the record is read from its new leader", func() bool {
			fetched, err := l.Fetch(t.Context(), i) // an empty answer is none
			if err != nil || len(fetched.Deliveries) > 1 {
				t.Fatalf("after %d moves: %+v, %v", i, fetched, err)
			}
			return len(fetched.Deliveries) == 1
		})
		if err := c.MoveTopicPartition("orders", 0, (c.LeaderFor("orders", 0)+1)%3); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Bounds(t.Context()); err != nil {
			t.Fatalf("bounds after %d moves: %v", i, err)
		}
	}
}

func TestASwallowedAnswerIsAnOutageAndReadingGoesOn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.SeedTopics(1, "orders"))
	produce(t, newProducer(t, c.ListenAddrs()), &kgo.Record{Topic: "orders", Value: []byte("v")})
	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, nil, true })
	l := newTestLog(t, c.ListenAddrs(), "orders", defaultMaxBytes)
	if _, err := l.Fetch(t.Context(), 0); !errors.Is(err, domain.ErrOutage) {
		t.Fatalf("swallowed: %v", err)
	}
	if fetched, err := l.Fetch(t.Context(), 0); err != nil || len(fetched.Deliveries) != 1 {
		t.Fatalf("afterwards: %+v, %v", fetched, err)
	}
}

func TestABrokenConnectionIsRepeated(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.SeedTopics(1, "orders"))
	produce(t, newProducer(t, c.ListenAddrs()), &kgo.Record{Topic: "orders", Value: []byte("v")})
	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, errors.New("cut"), true })
	l := newTestLog(t, c.ListenAddrs(), "orders", defaultMaxBytes)
	if fetched, err := l.Fetch(t.Context(), 0); err != nil || len(fetched.Deliveries) != 1 {
		t.Fatalf("%+v, %v", fetched, err)
	}
}

func TestACancelledFetchSaysSo(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.SeedTopics(1, "orders"))
	l := newTestLog(t, c.ListenAddrs(), "orders", defaultMaxBytes)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Fetch(ctx, 0); !errors.Is(err, context.Canceled) || errors.Is(err, domain.ErrOutage) {
		t.Fatalf("%v", err)
	}
}
