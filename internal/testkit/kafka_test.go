package testkit_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"billing/internal/testkit"
)

// eachKafka runs the test against both, so that the helpers mean the same on both.
func eachKafka(t *testing.T, test func(t *testing.T, brokers []string)) {
	t.Helper()
	t.Run("kfake", func(t *testing.T) {
		t.Parallel()
		test(t, testkit.NewKfake(t, nil).Brokers())
	})
	t.Run("apache", func(t *testing.T) {
		t.Parallel()
		test(t, testkit.SharedApacheKafka(t).Brokers())
	})
}

func record(topic, value string) *kgo.Record {
	return &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte(value)}
}

func values(records []*kgo.Record) []string {
	values := make([]string, 0, len(records))
	for _, r := range records {
		values = append(values, string(r.Value))
	}
	slices.Sort(values)
	return values
}

func TestReadTopicHonoursTransactions(t *testing.T) {
	t.Parallel()
	eachKafka(t, func(t *testing.T, brokers []string) {
		t.Helper()
		topic := testkit.UniqueName("orders")
		testkit.CreateTopic(t, brokers, topic, 3, map[string]string{"retention.ms": "3600000"})
		if got := testkit.ReadTopic(t, brokers, topic, kgo.ReadCommitted()); len(got) != 0 {
			t.Fatalf("new topic holds %v", values(got))
		}
		testkit.Produce(t, brokers, record(topic, "a"), record(topic, "b"))
		testkit.ProduceTransaction(t, brokers, kgo.TryCommit, record(topic, "c"), record(topic, "d"))
		testkit.ProduceTransaction(t, brokers, kgo.TryAbort, record(topic, "e"))

		if got := values(testkit.ReadTopic(t, brokers, topic, kgo.ReadCommitted())); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
			t.Errorf("committed: %v", got)
		}
		if got := values(testkit.ReadTopic(t, brokers, topic, kgo.ReadUncommitted())); !slices.Equal(got, []string{"a", "b", "c", "d", "e"}) {
			t.Errorf("all: %v", got)
		}
	})
}

func TestOffsetsOfAGroupCanBeSetAndDeleted(t *testing.T) {
	t.Parallel()
	eachKafka(t, func(t *testing.T, brokers []string) {
		t.Helper()
		topic, group := testkit.UniqueName("orders"), testkit.UniqueName("group")
		testkit.CreateTopic(t, brokers, topic, 2, nil)
		testkit.Produce(t, brokers, record(topic, "a"))
		if got := testkit.CommittedOffset(t, brokers, group, topic, 1); got != -1 {
			t.Errorf("nothing committed: %d", got)
		}
		testkit.SetOffset(t, brokers, group, topic, 0, 5)
		testkit.SetOffset(t, brokers, group, topic, 1, 7)
		testkit.DeleteOffsets(t, brokers, group, topic, 0)
		if got := testkit.CommittedOffset(t, brokers, group, topic, 0); got != -1 {
			t.Errorf("after deleting: %d", got)
		}
		if got := testkit.CommittedOffset(t, brokers, group, topic, 1); got != 7 {
			t.Errorf("the other partition: %d", got)
		}
	})
}

func TestApacheKafkaKeepsItsDataOverACrash(t *testing.T) {
	t.Parallel()
	kafka := testkit.NewApacheKafka(t, testkit.ApacheKafkaOptions{})
	if err := kafka.CreateTopic(t.Context(), "orders", 1, nil); err != nil {
		t.Fatal(err)
	}
	testkit.Produce(t, kafka.Brokers(), record("orders", "a"))
	testkit.SetOffset(t, kafka.Brokers(), "group", "orders", 0, 1)
	if err := kafka.Kill9(); err != nil {
		t.Fatal(err)
	}
	if err := kafka.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Produce(t, kafka.Brokers(), record("orders", "b"))
	if got := values(testkit.ReadTopic(t, kafka.Brokers(), "orders", kgo.ReadCommitted())); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("after the crash: %v", got)
	}
	if got := testkit.CommittedOffset(t, kafka.Brokers(), "group", "orders", 0); got != 1 {
		t.Errorf("committed offset after the crash: %d", got)
	}
}

func TestFailedStartOfApacheKafkaNamesTheCause(t *testing.T) {
	t.Parallel()
	_, err := testkit.StartApacheKafka(t.Context(), testkit.ApacheKafkaOptions{
		LogFile: filepath.Join(t.TempDir(), "kafka.log"), Properties: map[string]string{"offsets.topic.segment.bytes": "-1"},
	})
	if err == nil || !strings.Contains(err.Error(), "offsets.topic.segment.bytes") {
		t.Errorf("error does not name the cause: %v", err)
	}
}
