package kafka

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"billing/internal/core/usecase"
)

func TestTopicIsReadWholeAndOnlyWhatIsCommitted(t *testing.T) {
	t.Parallel()
	const topic, each = "results", 700
	cluster := newCluster(t, kfake.SeedTopics(3, topic, "other"))
	producer := newProducer(t, cluster.ListenAddrs())
	for p := range int32(2) { // the third stays empty
		for i := range each {
			produce(t, producer, &kgo.Record{Topic: topic, Partition: p, Value: fmt.Appendf(nil, "%d-%d", p, i)})
		}
	}
	aborted := newProducer(t, cluster.ListenAddrs(), kgo.TransactionalID("tx"))
	if err := aborted.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, aborted, &kgo.Record{Topic: topic, Partition: 0, Value: []byte("aborted")})
	if err := aborted.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	produce(t, producer, &kgo.Record{Topic: topic, Partition: 0, Value: []byte("last")})
	reader := Topic{Brokers: cluster.ListenAddrs(), Name: topic, Transport: newTransport(t), Clock: clock{}, Log: slog.New(slog.DiscardHandler)}
	seen := map[string]int{}
	read := func() time.Time {
		t.Helper()
		clear(seen)
		since, err := reader.Read(t.Context(), func(_ int32, messages []usecase.Message) error {
			if len(messages) > maxChunkMessages {
				t.Errorf("%d messages at once", len(messages))
			}
			for _, m := range messages {
				seen[string(m.Value)]++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return since
	}
	if since := read(); !since.IsZero() || len(seen) != 2*each+1 || seen["aborted"] != 0 || seen["last"] != 1 || seen["1-699"] != 1 {
		t.Errorf("%d values since %s", len(seen), since)
	}
	// When records were removed, what is left says since when nothing is missing.
	deleted := kmsg.NewDeleteRecordsRequest()
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Partition, part.Offset = 1, 650
	deleted.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{part}}}
	if _, err := deleted.RequestWith(t.Context(), producer); err != nil {
		t.Fatal(err)
	}
	if since := read(); since.IsZero() || time.Since(since) > time.Minute || len(seen) != each+1+50 {
		t.Errorf("%d values since %s", len(seen), since)
	}
	reader.Name = "nowhere"
	if _, err := reader.Read(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Error(err)
	}
}
