package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"billing/internal/testkit"
)

// The topics and the group are the service's defaults.
const (
	ordersTopic  = "order-service.order.confirmed"
	resultsTopic = "billing.charge-results"
	lettersTopic = "billing.order-confirmed.dlq"
	retryTopic   = ordersTopic + "." + ordersGroup + ".retry"
	partitions   = 6
)

func topics() map[string]int32 {
	return map[string]int32{ordersTopic: partitions, resultsTopic: partitions, lettersTopic: partitions, retryTopic: partitions}
}

// startKafka starts the broker that the options ask for, with all topics.
func (d *demo) startKafka(ctx context.Context) error {
	begun := time.Now()
	if d.options.kafka == kafkaApache {
		return d.startApache(ctx, begun)
	}
	kafka, err := testkit.StartKfake(topics())
	if err != nil {
		return err
	}
	d.atEnd(func() error { kafka.Close(); return nil })
	d.brokers = kafka.Brokers()
	d.out.step("Kafka: kfake inside this process, %d topics of %d partitions", len(topics()), partitions)
	return nil
}

func (d *demo) startApache(ctx context.Context, begun time.Time) error {
	kafka, err := testkit.StartApacheKafka(ctx, testkit.ApacheKafkaOptions{LogFile: d.file("kafka.log")})
	if err != nil {
		return err
	}
	// Its data is thrown away: a clean stop would only cost time.
	d.atEnd(kafka.Close)
	d.atEnd(kafka.Kill9)
	for name, n := range topics() {
		if err := kafka.CreateTopic(ctx, name, n, nil); err != nil {
			return err
		}
	}
	d.brokers = kafka.Brokers()
	d.out.step("Apache Kafka on %s, started in %.1f s", d.brokers[0], time.Since(begun).Seconds())
	return nil
}

// produce sends messages in order and notes where the broker keeps them.
func produce(ctx context.Context, client *kgo.Client, messages []*message) error {
	records := make([]*kgo.Record, len(messages))
	for i, m := range messages {
		records[i] = &kgo.Record{Topic: ordersTopic, Key: []byte(m.order.id), Value: m.value}
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("produce orders: %w", err)
	}
	for i, m := range messages {
		m.partition, m.offset = records[i].Partition, records[i].Offset
	}
	return nil
}

// readAnnouncements reads the whole results topic.
func readAnnouncements(ctx context.Context, brokers []string) ([]announcement, error) {
	records, err := readTopic(ctx, brokers, resultsTopic)
	if err != nil {
		return nil, err
	}
	all := make([]announcement, len(records))
	for i, r := range records {
		if err := json.Unmarshal(r.Value, &all[i]); err != nil {
			return nil, fmt.Errorf("read result %s: %w", r.Value, err)
		}
	}
	return all, nil
}

// readLetters reads the whole topic of dead letters. One that was published twice counts once.
func readLetters(ctx context.Context, brokers []string) (map[place]string, error) {
	records, err := readTopic(ctx, brokers, lettersTopic)
	if err != nil {
		return nil, err
	}
	letters := map[place]string{}
	for _, r := range records {
		headers := map[string]string{}
		for _, h := range r.Headers {
			headers[h.Key] = string(h.Value)
		}
		partition, err := strconv.ParseInt(headers["dlq-partition"], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("read dead letter: partition: %w", err)
		}
		offset, err := strconv.ParseInt(headers["dlq-offset"], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read dead letter: offset: %w", err)
		}
		letters[place{int32(partition), offset}] = headers["dlq-reason"]
	}
	return letters, nil
}

// readTopic reads a topic from its beginning to where it ends now.
func readTopic(ctx context.Context, brokers []string, topic string) ([]*kgo.Record, error) {
	start := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		start[p] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: start}))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", topic, err)
	}
	defer client.Close()
	open, err := ends(ctx, client, topic)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", topic, err)
	}
	var all []*kgo.Record
	for len(open) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", topic, err)
		}
		for _, r := range fetches.Records() {
			all = append(all, r)
			if r.Offset >= open[r.Partition]-1 {
				delete(open, r.Partition)
			}
		}
	}
	return all, nil
}

// ends are the ends of those partitions that hold anything.
func ends(ctx context.Context, client *kgo.Client, topic string) (map[int32]int64, error) {
	asked := kmsg.NewListOffsetsRequestTopic()
	asked.Topic = topic
	for p := range int32(partitions) {
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition, part.Timestamp = p, -1
		asked.Partitions = append(asked.Partitions, part)
	}
	request := kmsg.NewListOffsetsRequest()
	request.Topics = append(request.Topics, asked)
	found := map[int32]int64{}
	for _, shard := range client.RequestSharded(ctx, &request) { // each partition is asked at its leader
		if shard.Err != nil {
			return nil, fmt.Errorf("ask for the end: %w", shard.Err)
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("ask for the end of partition %d: %w", p.Partition, err)
				}
				if p.Offset > 0 {
					found[p.Partition] = p.Offset
				}
			}
		}
	}
	return found, nil
}
