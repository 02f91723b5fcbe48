package testkit

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const kafkaTimeout = 30 * time.Second

// UniqueName is a name for a topic or group that no other test and no other process uses.
func UniqueName(prefix string) string {
	return prefix + "." + strings.ToLower(rand.Text()[:10])
}

func newClient(brokers []string, options ...kgo.Opt) (*kgo.Client, error) {
	// The next versions of these two name topics by id only; the helpers know names.
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.OffsetCommit), 9)
	versions.SetMaxKeyVersion(int16(kmsg.OffsetFetch), 9)
	all := []kgo.Opt{
		kgo.SeedBrokers(brokers...),
		kgo.MaxVersions(versions),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(20 * time.Millisecond),
	}
	client, err := kgo.NewClient(append(all, options...)...)
	if err != nil {
		return nil, fmt.Errorf("make kafka client: %w", err)
	}
	return client, nil
}

// withClient runs do with a client that is closed afterwards, and fails the test when it does.
func withClient(tb testing.TB, what string, brokers []string, options []kgo.Opt, do func(context.Context, *kgo.Client) error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), kafkaTimeout)
	defer cancel()
	client, err := newClient(brokers, options...)
	if err != nil {
		tb.Fatalf("%s: %v", what, err)
	}
	defer client.Close()
	if err := do(ctx, client); err != nil {
		tb.Fatalf("%s: %v", what, err)
	}
}

// CreateTopic makes a topic on any Kafka and returns when its partitions have leaders. Configs may be nil.
func CreateTopic(tb testing.TB, brokers []string, name string, partitions int32, configs map[string]string) {
	tb.Helper()
	withClient(tb, "create topic "+name, brokers, nil, func(ctx context.Context, client *kgo.Client) error {
		return createTopic(ctx, client, name, partitions, configs)
	})
}

// CreateTopic makes a topic and returns when its partitions have leaders. Configs may be nil.
func (k *ApacheKafka) CreateTopic(ctx context.Context, name string, partitions int32, configs map[string]string) error {
	client, err := newClient(k.brokers)
	if err != nil {
		return err
	}
	defer client.Close()
	return createTopic(ctx, client, name, partitions, configs)
}

func createTopic(ctx context.Context, client *kgo.Client, name string, partitions int32, configs map[string]string) error {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	for key, value := range configs {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = key, new(value)
		topic.Configs = append(topic.Configs, config)
	}
	request := kmsg.NewCreateTopicsRequest()
	request.TimeoutMillis = int32(kafkaTimeout.Milliseconds())
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	for _, made := range response.Topics {
		if err := kerr.ErrorForCode(made.ErrorCode); err != nil {
			return fmt.Errorf("create topic %s: %w", name, err)
		}
	}
	for p := range partitions {
		if err := awaitLeader(ctx, client, name, p); err != nil {
			return err
		}
	}
	return nil
}

// awaitLeader returns when the broker answers for the partition: it says that a topic is made before it leads it.
func awaitLeader(ctx context.Context, client *kgo.Client, topic string, partition int32) error {
	return poll(ctx, func() (bool, error) {
		_, err := listOffset(ctx, client, topic, partition, latestOffset, kgo.ReadUncommitted())
		if kerr.IsRetriable(err) {
			return false, nil
		}
		return true, err
	})
}

// Produce writes the records in order, each acknowledged by all replicas.
func Produce(tb testing.TB, brokers []string, records ...*kgo.Record) {
	tb.Helper()
	withClient(tb, "produce", brokers, nil, func(ctx context.Context, client *kgo.Client) error {
		return client.ProduceSync(ctx, records...).FirstErr()
	})
}

// ProduceTransaction writes the records in one transaction, commits or aborts it, and returns when readers see that.
func ProduceTransaction(tb testing.TB, brokers []string, end kgo.TransactionEndTry, records ...*kgo.Record) {
	tb.Helper()
	options := []kgo.Opt{kgo.TransactionalID(UniqueName("testkit")), kgo.TransactionTimeout(kafkaTimeout)}
	withClient(tb, "produce in a transaction", brokers, options, func(ctx context.Context, client *kgo.Client) error {
		if err := client.BeginTransaction(); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		// Flushed before the end, so that aborted records are in the log, too.
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return err
		}
		if err := client.EndTransaction(ctx, end); err != nil {
			return fmt.Errorf("end: %w", err)
		}
		return awaitStable(ctx, client, records)
	})
}

// awaitStable returns when no transaction is open below the records: the coordinator answers before it has marked the end of
// one in every partition.
func awaitStable(ctx context.Context, client *kgo.Client, records []*kgo.Record) error {
	for _, r := range records {
		err := poll(ctx, func() (bool, error) {
			stable, err := listOffset(ctx, client, r.Topic, r.Partition, latestOffset, kgo.ReadCommitted())
			return stable > r.Offset, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// poll asks until the answer is yes or an error.
func poll(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// ReadTopic reads everything from the start of each partition to its end at the time of the call, partition by partition.
func ReadTopic(tb testing.TB, brokers []string, topic string, isolation kgo.IsolationLevel) []*kgo.Record {
	tb.Helper()
	var all []*kgo.Record
	withClient(tb, "read "+topic, brokers, nil, func(ctx context.Context, client *kgo.Client) error {
		partitions, err := partitionsOf(ctx, client, topic)
		if err != nil {
			return err
		}
		for _, p := range partitions {
			records, err := readPartition(ctx, client, brokers, topic, p, isolation)
			if err != nil {
				return err
			}
			all = append(all, records...)
		}
		return nil
	})
	return all
}

func readPartition(ctx context.Context, client *kgo.Client, brokers []string, topic string, partition int32, isolation kgo.IsolationLevel) ([]*kgo.Record, error) {
	start, err := listOffset(ctx, client, topic, partition, earliestOffset, isolation)
	if err != nil {
		return nil, err
	}
	end, err := listOffset(ctx, client, topic, partition, latestOffset, isolation)
	if err != nil {
		return nil, err
	}
	if start >= end {
		return nil, nil
	}
	// Control records are kept to see the end: the last offset may be the marker of a transaction.
	reader, err := newClient(brokers, kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(start)}}))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	var records []*kgo.Record
	for {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("fetch partition %d: %w", partition, err)
		}
		for _, record := range fetches.Records() {
			if record.Offset < end && !record.Attrs.IsControl() {
				records = append(records, record)
			}
			if record.Offset >= end-1 {
				return records, nil
			}
		}
	}
}

func partitionsOf(ctx context.Context, client *kgo.Client, topic string) ([]int32, error) {
	request := kmsg.NewMetadataRequest()
	name := kmsg.NewMetadataRequestTopic()
	name.Topic = new(topic)
	request.Topics = append(request.Topics, name)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("ask for partitions: %w", err)
	}
	var partitions []int32
	for _, t := range response.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return nil, fmt.Errorf("ask for partitions: %w", err)
		}
		for i := range t.Partitions {
			partitions = append(partitions, int32(i))
		}
	}
	return partitions, nil
}

const (
	latestOffset   = -1
	earliestOffset = -2
)

// EndOffset is the next offset that the partition will give.
func EndOffset(tb testing.TB, brokers []string, topic string, partition int32) int64 {
	tb.Helper()
	var end int64
	withClient(tb, "ask for end offset", brokers, nil, func(ctx context.Context, client *kgo.Client) (err error) {
		end, err = listOffset(ctx, client, topic, partition, latestOffset, kgo.ReadUncommitted())
		return err
	})
	return end
}

func listOffset(ctx context.Context, client *kgo.Client, topic string, partition int32, at int64, isolation kgo.IsolationLevel) (int64, error) {
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Partition, part.Timestamp = partition, at
	request := kmsg.NewListOffsetsRequest()
	if isolation == kgo.ReadCommitted() {
		request.IsolationLevel = 1
	}
	request.Topics = append(request.Topics, kmsg.ListOffsetsRequestTopic{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{part}})
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return 0, fmt.Errorf("list offsets of %s/%d: %w", topic, partition, err)
	}
	if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("list offsets of %s/%d: answer has no such partition", topic, partition)
	}
	answer := response.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return 0, fmt.Errorf("list offsets of %s/%d: %w", topic, partition, err)
	}
	return answer.Offset, nil
}
