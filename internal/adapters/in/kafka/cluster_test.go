package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"billing/internal/core/usecase"
)

// newCluster starts a broker in this process.
func newCluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Second)}, opts...)...)
	if err != nil {
		t.Fatalf("start the broker: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// newTransport makes a transport that learns of changes quickly.
func newTransport(t *testing.T) *kafka.Transport {
	t.Helper()
	transport := &kafka.Transport{ClientID: "billing-test", MetadataTTL: 200 * time.Millisecond}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

func newProducer(t *testing.T, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.MetadataMinAge(50 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	t.Cleanup(client.Close)
	return client
}

func produce(t *testing.T, client *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
}

// clock is the real one.
type clock struct{}

func (clock) Now() time.Time { return time.Now() }

func (clock) Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// observed remembers what an Observer was told.
type observed struct {
	mu       sync.Mutex
	lag      map[string]int64
	held     map[string]int64
	owned    map[string]int
	aborted  int
	joins    int
	drains   []time.Duration
	failures []int
}

func newObserved() *observed {
	return &observed{lag: map[string]int64{}, held: map[string]int64{}, owned: map[string]int{}}
}

func (o *observed) do(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
}

func (o *observed) Assigned(topic string, p int32) { o.do(func() { o.owned[name(topic, p)]++ }) }
func (o *observed) Revoked(topic string, p int32)  { o.do(func() { o.owned[name(topic, p)]-- }) }
func (o *observed) Rebalanced()                    { o.do(func() { o.joins++ }) }
func (o *observed) Drained(d time.Duration)        { o.do(func() { o.drains = append(o.drains, d) }) }

func (o *observed) Lag(topic string, p int32, n int64) {
	o.do(func() { o.lag[name(topic, p)] = n })
}

func (o *observed) HeldBack(topic string, p int32, n int64) {
	o.do(func() { o.held[name(topic, p)] = n })
}

func (o *observed) AbortedRecords(_ string, _ int32, n int) {
	o.do(func() { o.aborted += n })
}

func (o *observed) CommitFailed(code int) {
	o.do(func() { o.failures = append(o.failures, code) })
}

func name(topic string, partition int32) string { return fmt.Sprintf("%s/%d", topic, partition) }

// undecoded is a decoder that reads nothing.
func undecoded(topic string, partition int32, m usecase.Message) usecase.Delivery {
	return usecase.Delivery{Message: m, Origin: usecase.Origin{Topic: topic, Partition: partition, Offset: m.Offset, Time: m.Time}}
}

// newTestLog reads partition 0 outside any group.
func newTestLog(t *testing.T, brokers []string, topic string, maxBytes int32) *Log {
	t.Helper()
	transport := newTransport(t)
	life, stop := context.WithCancel(t.Context())
	l := &Log{
		topic: topic, transport: transport,
		client:   &kafka.Client{Addr: kafka.TCP(brokers...), Transport: transport, Timeout: requestTimeout},
		maxBytes: maxBytes, maxWait: 100 * time.Millisecond,
		decode: undecoded, observer: newObserved(), clock: clock{}, log: slog.New(slog.DiscardHandler),
		commit: func(map[string]map[int]int64) error { return nil },
		life:   life, stop: stop, ahead: make(chan ahead, 1),
	}
	t.Cleanup(l.close)
	return l
}

// eventually waits until ok, or fails after limit.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within %s: %s", limit, what)
		case <-tick.C:
		}
	}
}
