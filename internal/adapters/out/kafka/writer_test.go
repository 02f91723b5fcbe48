package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"billing/internal/core/usecase"
	"billing/internal/testkit"
)

func newTestWriter(t *testing.T, brokers []string) *Writer {
	t.Helper()
	transport := &kafka.Transport{ClientID: "billing-test", MetadataTTL: 300 * time.Millisecond}
	w := NewWriter(brokers, transport)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		if err := w.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		transport.CloseIdleConnections()
	})
	return w
}

func numbered(n int) []usecase.OutboxMessage {
	messages := make([]usecase.OutboxMessage, n)
	for i := range messages {
		messages[i] = usecase.OutboxMessage{Key: []byte("key-" + strconv.Itoa(i)), Value: []byte(strconv.Itoa(i))}
	}
	return messages
}

func failures(results []error) (n int) {
	for _, err := range results {
		if err != nil {
			n++
		}
	}
	return n
}

// onEachKafka runs a test on the broker in this process and on Apache Kafka, with a topic of its own.
func onEachKafka(t *testing.T, partitions int32, config map[string]string, test func(t *testing.T, brokers []string, topic string)) {
	t.Helper()
	run := func(t *testing.T, brokers []string) {
		t.Helper()
		topic := testkit.UniqueName("results")
		testkit.CreateTopic(t, brokers, topic, partitions, config)
		test(t, brokers, topic)
	}
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		run(t, testkit.NewKfake(t, nil, kfake.NumBrokers(1)).Brokers())
	})
	t.Run("apache", func(t *testing.T) {
		t.Parallel()
		run(t, testkit.SharedApacheKafka(t).Brokers())
	})
}

func TestPublishedMessagesArriveByteForByteWhereJavaPutsThem(t *testing.T) {
	t.Parallel()
	onEachKafka(t, 7, nil, func(t *testing.T, brokers []string, topic string) {
		t.Helper()
		messages := numbered(200)
		messages[0].Headers = []usecase.Header{{Key: "event-id", Value: []byte("1")}, {Key: "null", Value: nil}}
		messages = append(messages, usecase.OutboxMessage{Key: nil, Value: []byte("no key")}, usecase.OutboxMessage{Key: []byte("empty"), Value: []byte{}})
		if n := failures(newTestWriter(t, brokers).Publish(t.Context(), topic, messages)); n != 0 {
			t.Fatalf("%d of %d failed", n, len(messages))
		}
		java := kgo.StickyKeyPartitioner(nil).ForTopic(topic)
		records := map[string]*kgo.Record{}
		for _, r := range testkit.ReadTopic(t, brokers, topic, kgo.ReadUncommitted()) {
			records[string(r.Key)] = r
		}
		if len(records) != len(messages) {
			t.Fatalf("%d records, want %d", len(records), len(messages))
		}
		for _, m := range messages {
			r := records[string(m.Key)]
			if !bytes.Equal(r.Value, m.Value) || (r.Value == nil) != (m.Value == nil) || (r.Key == nil) != (m.Key == nil) || len(r.Headers) != len(m.Headers) {
				t.Errorf("message %q became %+v", m.Key, r)
			}
			if want := int32(java.Partition(&kgo.Record{Key: m.Key}, 7)); m.Key != nil && r.Partition != want {
				t.Errorf("key %q is in partition %d, want %d", m.Key, r.Partition, want)
			}
		}
		if headers := records["key-0"].Headers; headers[0].Key != "event-id" || string(headers[0].Value) != "1" || headers[1].Value != nil {
			t.Errorf("headers %v", headers)
		}
	})
}

func TestAMissingTopicFailsOnlyItsOwnCall(t *testing.T) {
	t.Parallel()
	onEachKafka(t, 1, nil, func(t *testing.T, brokers []string, topic string) {
		t.Helper()
		w := newTestWriter(t, brokers)
		missing := testkit.UniqueName("missing")
		results := w.Publish(t.Context(), missing, numbered(2))
		if failures(results) != 2 || !errors.Is(results[0], kafka.UnknownTopicOrPartition) {
			t.Fatalf("missing topic: %v", results)
		}
		if results := w.Publish(t.Context(), topic, numbered(2)); failures(results) != 0 {
			t.Fatalf("other topic: %v", results)
		}
		testkit.CreateTopic(t, brokers, missing, 1, nil)
		deadline := time.Now().Add(5 * time.Second)
		for failures(w.Publish(t.Context(), missing, numbered(1))) != 0 {
			if time.Now().After(deadline) {
				t.Fatal("the topic was made and is not found")
			}
		}
	})
}

func TestATooLargeMessageFailsAloneBeforeItIsSent(t *testing.T) {
	t.Parallel()
	onEachKafka(t, 1, nil, func(t *testing.T, brokers []string, topic string) {
		t.Helper()
		messages := numbered(4)
		messages[1].Value = make([]byte, 1_050_000)
		messages[3].Value = make([]byte, 2_000_000)
		checkOnly(t, newTestWriter(t, brokers).Publish(t.Context(), topic, messages), 1, 3)
		if n := testkit.EndOffset(t, brokers, topic, 0); n != 2 {
			t.Errorf("%d records written, want 2", n)
		}
	})
}

func TestAMessageThatOnlyTheBrokerFindsTooLargeFailsAlone(t *testing.T) {
	t.Parallel()
	onEachKafka(t, 1, map[string]string{"max.message.bytes": "2000"}, func(t *testing.T, brokers []string, topic string) {
		t.Helper()
		messages := numbered(4)
		messages[2].Value = make([]byte, 3000)
		checkOnly(t, newTestWriter(t, brokers).Publish(t.Context(), topic, messages), 2)
	})
}

// checkOnly wants errors at the given indexes, for size, and nowhere else.
func checkOnly(t *testing.T, results []error, failed ...int) {
	t.Helper()
	want := map[int]bool{}
	for _, i := range failed {
		want[i] = true
	}
	for i, err := range results {
		if errors.Is(err, kafka.MessageSizeTooLarge) != want[i] || (err != nil) != want[i] {
			t.Errorf("message %d: %v", i, err)
		}
	}
}

func TestTheLargestBatchesPassTheBrokersDefaultLimit(t *testing.T) {
	t.Parallel()
	onEachKafka(t, 1, nil, func(t *testing.T, brokers []string, topic string) {
		t.Helper()
		for _, parts := range []int{1, 2, 3, 7} {
			messages := make([]usecase.OutboxMessage, parts)
			for i := range messages {
				messages[i].Value = make([]byte, maxBatch/parts-30)
			}
			if results := newTestWriter(t, brokers).Publish(t.Context(), topic, messages); failures(results) != 0 {
				t.Errorf("%d messages of %d bytes: %v", parts, len(messages[0].Value), results)
			}
		}
	})
}

func TestEachMessageHasItsOwnResult(t *testing.T) {
	t.Parallel()
	k := testkit.NewKfake(t, map[string]int32{"results": 2}, kfake.NumBrokers(1))
	k.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Partitions: []int32{1}, Err: kerr.InvalidRecord, Count: -1})
	messages := numbered(50)
	results := newTestWriter(t, k.Brokers()).Publish(t.Context(), "results", messages)
	written := map[string]bool{}
	for _, r := range testkit.ReadTopic(t, k.Brokers(), "results", kgo.ReadUncommitted()) {
		written[string(r.Key)] = true
	}
	for i, m := range messages {
		if written[string(m.Key)] != (results[i] == nil) {
			t.Errorf("%s: written %t, result %v", m.Key, written[string(m.Key)], results[i])
		}
	}
	if n := failures(results); n == 0 || n == len(messages) {
		t.Fatalf("%d of %d failed: the test needs both", n, len(messages))
	}
}

func TestAWriteThatIsNotOnAllReplicasIsNoSuccess(t *testing.T) {
	t.Parallel()
	k := testkit.NewKfake(t, map[string]int32{"results": 1}, kfake.NumBrokers(1))
	acks := make(chan int16, 100)
	fault := k.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1, When: func(r kmsg.Request) bool {
		acks <- r.(*kmsg.ProduceRequest).Acks
		return true
	}})
	w := newTestWriter(t, k.Brokers())
	results := w.Publish(t.Context(), "results", numbered(3))
	if failures(results) != 3 || !errors.Is(results[0], kafka.NotEnoughReplicas) {
		t.Fatalf("results %v", results)
	}
	if got := <-acks; got != -1 {
		t.Fatalf("asked for %d acknowledgements, want all", got)
	}
	fault.Remove()
	if results := w.Publish(t.Context(), "results", numbered(3)); failures(results) != 0 {
		t.Fatalf("afterwards: %v", results)
	}
}

func TestPublishFollowsALeaderThatMoved(t *testing.T) {
	t.Parallel()
	k := testkit.NewKfake(t, map[string]int32{"results": 3}, kfake.NumBrokers(3))
	w := newTestWriter(t, k.Brokers())
	for round := range 4 {
		if results := w.Publish(t.Context(), "results", numbered(30)); failures(results) != 0 {
			t.Fatalf("after %d moves: %v", round, results)
		}
		for p := range int32(3) {
			if err := k.Cluster.MoveTopicPartition("results", p, (k.Cluster.LeaderFor("results", p)+1)%3); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(testkit.ReadTopic(t, k.Brokers(), "results", kgo.ReadUncommitted())); n != 120 {
		t.Fatalf("%d records, want 120", n)
	}
}

func TestASingleMessageIsNotHeldBack(t *testing.T) {
	t.Parallel()
	k := testkit.NewKfake(t, map[string]int32{"results": 1})
	w := newTestWriter(t, k.Brokers())
	w.Publish(t.Context(), "results", numbered(1)) // connects
	best := time.Hour
	for range 5 {
		start := time.Now()
		w.Publish(t.Context(), "results", numbered(1))
		best = min(best, time.Since(start))
	}
	if best > 200*time.Millisecond {
		t.Fatalf("took %s at best", best)
	}
}

func TestAWriteThatHangsIsUnknownAndDoesNotPileUp(t *testing.T) {
	t.Parallel()
	k := testkit.NewKfake(t, map[string]int32{"results": 1, "others": 1})
	w := newTestWriter(t, k.Brokers())
	w.writer.WriteTimeout = time.Second
	w.Publish(t.Context(), "others", numbered(1))
	k.Cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, nil, true })

	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if results := w.Publish(short, "results", numbered(2)); failures(results) != 2 || !errors.Is(results[0], context.DeadlineExceeded) {
		t.Fatalf("hanging write: %v", results)
	}
	if results := w.Publish(t.Context(), "results", numbered(2)); failures(results) != 2 || !errors.Is(results[1], errBusy) {
		t.Fatalf("second write: %v", results)
	}
	if results := w.Publish(t.Context(), "others", numbered(2)); failures(results) != 0 {
		t.Fatalf("other topic: %v", results)
	}
	if err := w.Close(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("close under a deadline: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		t.Fatalf("close when the write has ended: %v", err)
	}
	if n := testkit.EndOffset(t, k.Brokers(), "results", 0); n != 2 {
		t.Errorf("%d records, want the 2 of the first call", n)
	}
	if results := w.Publish(t.Context(), "results", numbered(1)); failures(results) != 1 {
		t.Error("a closed writer wrote")
	}
}

func TestTheTopicIsFreeAgainWhenTheHangingWriteHasEnded(t *testing.T) {
	t.Parallel()
	k := testkit.NewKfake(t, map[string]int32{"results": 1})
	w := newTestWriter(t, k.Brokers())
	w.writer.WriteTimeout = 500 * time.Millisecond
	k.Cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, nil, true })
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	w.Publish(short, "results", numbered(1))
	deadline := time.After(10 * time.Second)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		if failures(w.Publish(t.Context(), "results", numbered(1))) == 0 {
			tick.Stop()
			return
		}
		select {
		case <-deadline:
			t.Fatal("the topic stays blocked")
		case <-tick.C:
		}
	}
}

func TestManyCallersShareAWriter(t *testing.T) {
	t.Parallel()
	k := testkit.NewKfake(t, map[string]int32{"results": 3})
	w := newTestWriter(t, k.Brokers())
	done := make(chan error)
	for range 8 {
		go func() {
			for range 10 {
				if n := failures(w.Publish(t.Context(), "results", numbered(5))); n != 0 {
					done <- fmt.Errorf("%d failed", n)
					return
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := len(testkit.ReadTopic(t, k.Brokers(), "results", kgo.ReadUncommitted())); n != 400 {
		t.Errorf("%d records, want 400", n)
	}
}

func TestCloseDuringTheFirstWriteDoesNotHang(t *testing.T) {
	t.Parallel()
	k := testkit.NewKfake(t, map[string]int32{"results": 3})
	for range 30 {
		transport := &kafka.Transport{}
		w := NewWriter(k.Brokers(), transport)
		started, done := make(chan struct{}), make(chan struct{})
		go func() {
			close(started)
			w.Publish(context.WithoutCancel(t.Context()), "results", numbered(10))
			close(done)
		}()
		<-started
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if err := w.Close(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		<-done
		transport.CloseIdleConnections()
	}
}
