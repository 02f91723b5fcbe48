package testkit

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type topicPartition struct {
	topic     string
	partition int32
}

// CommittedOffset is the group's committed offset of a partition, -1 when there is none.
func CommittedOffset(tb testing.TB, brokers []string, group, topic string, partition int32) int64 {
	tb.Helper()
	offset := int64(-1)
	withClient(tb, "ask for committed offset", brokers, nil, func(ctx context.Context, client *kgo.Client) error {
		offsets, err := fetchOffsets(ctx, client, group)
		if at, ok := offsets[topicPartition{topic, partition}]; ok {
			offset = at
		}
		return err
	})
	return offset
}

// fetchOffsets are all offsets that the group has committed.
func fetchOffsets(ctx context.Context, client *kgo.Client, group string) (map[topicPartition]int64, error) {
	request := kmsg.NewOffsetFetchRequest()
	request.Groups = append(request.Groups, kmsg.OffsetFetchRequestGroup{Group: group, MemberEpoch: -1})
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("fetch offsets of %s: %w", group, err)
	}
	offsets := map[topicPartition]int64{}
	for _, g := range response.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return nil, fmt.Errorf("fetch offsets of %s: %w", group, err)
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("fetch offset of %s: %w", group, err)
				}
				offsets[topicPartition{t.Topic, p.Partition}] = p.Offset
			}
		}
	}
	return offsets, nil
}

// SetOffset commits an offset for a group that has no members now: Kafka refuses it for others.
func SetOffset(tb testing.TB, brokers []string, group, topic string, partition int32, offset int64) {
	tb.Helper()
	part := kmsg.NewOffsetCommitRequestTopicPartition()
	part.Partition, part.Offset = partition, offset
	request := kmsg.NewOffsetCommitRequest()
	request.Group, request.Generation = group, -1
	request.Topics = append(request.Topics, kmsg.OffsetCommitRequestTopic{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{part}})
	withClient(tb, "set offset", brokers, nil, func(ctx context.Context, client *kgo.Client) error {
		response, err := request.RequestWith(ctx, client)
		if err != nil {
			return err
		}
		for _, t := range response.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("partition %d: %w", p.Partition, err)
				}
			}
		}
		return nil
	})
}

// DeleteOffsets lets a group that has no members forget what it has committed for the partitions of a topic.
func DeleteOffsets(tb testing.TB, brokers []string, group, topic string, partitions ...int32) {
	tb.Helper()
	request := kmsg.NewOffsetDeleteRequest()
	request.Group = group
	forget := kmsg.OffsetDeleteRequestTopic{Topic: topic}
	for _, p := range partitions {
		forget.Partitions = append(forget.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p})
	}
	request.Topics = append(request.Topics, forget)
	withClient(tb, "delete offsets", brokers, nil, func(ctx context.Context, client *kgo.Client) error {
		response, err := request.RequestWith(ctx, client)
		if err != nil {
			return err
		}
		if err := kerr.ErrorForCode(response.ErrorCode); err != nil {
			return err
		}
		for _, t := range response.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("partition %d: %w", p.Partition, err)
				}
			}
		}
		return nil
	})
}
