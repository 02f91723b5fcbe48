package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/segmentio/kafka-go"

	"billing/internal/core/usecase"
)

// Topic reads all of one topic, outside any consumer group.
type Topic struct {
	Brokers   []string
	Name      string
	Transport *kafka.Transport
	Clock     usecase.Clock
	Log       *slog.Logger
}

// Read hands over every committed record from the start of each partition to its end at the time of the call, at most
// 500 or 1 MiB at once. It returns since when the topic is whole: the time of the oldest record of a partition of which
// older ones were removed, the zero time when nothing was. The topic must exist and must not be compacted, since then nobody
// can tell what is missing. An error of each ends the reading.
func (t Topic) Read(ctx context.Context, each func(partition int32, messages []usecase.Message) error) (since time.Time, err error) {
	group := &Group{Brokers: t.Brokers, Topics: []string{t.Name}, Transport: t.Transport, Log: t.Log}
	found, err := group.find(ctx)
	switch {
	case err != nil:
		return since, fmt.Errorf("ask for topic %s: %w", t.Name, err)
	case len(found.compacted) > 0:
		return since, fmt.Errorf("topic %s is compacted", t.Name)
	case found.partitions[t.Name] == 0:
		return since, fmt.Errorf("topic %s does not exist, or may not be described", t.Name)
	}
	for p := range found.partitions[t.Name] {
		oldest, err := t.partition(ctx, group, int32(p), found.retention[t.Name], each)
		if err != nil {
			return since, fmt.Errorf("read %s/%d: %w", t.Name, p, err)
		}
		if oldest.After(since) {
			since = oldest
		}
	}
	return since, nil
}

// partition reads one partition and returns since when it is whole.
func (t Topic) partition(ctx context.Context, group *Group, p int32, retention time.Duration, each func(partition int32, messages []usecase.Message) error) (time.Time, error) {
	log := &Log{
		topic: t.Name, partition: p, client: group.client(), transport: t.Transport, maxBytes: defaultMaxBytes, maxWait: defaultMaxWait,
		decode:   func(_ string, _ int32, m usecase.Message) usecase.Delivery { return usecase.Delivery{Message: m} },
		observer: silent{}, clock: t.Clock, log: t.Log,
	}
	defer log.drop()
	now := t.Clock.Now()
	bounds, err := t.bounds(ctx, log)
	if err != nil {
		return time.Time{}, err
	}
	var oldest time.Time
	for next := bounds.Start; next < bounds.End; {
		fetched, err := log.read(ctx, next)
		if err != nil {
			return oldest, err
		}
		messages := make([]usecase.Message, 0, len(fetched.Deliveries))
		for _, d := range fetched.Deliveries {
			if d.Message.Offset < bounds.End {
				messages = append(messages, d.Message)
			}
		}
		if oldest.IsZero() && len(messages) > 0 {
			oldest = messages[0].Time
		}
		if err := each(p, messages); err != nil {
			return oldest, err
		}
		next = fetched.Next
	}
	switch {
	case bounds.Start == 0:
		return time.Time{}, nil
	case oldest.IsZero() && retention > 0:
		return now.Add(-retention), nil // all of it was removed
	case oldest.IsZero():
		return now, nil
	}
	return oldest, nil
}

// bounds are those of committed records: what an open transaction holds back is not there yet.
func (t Topic) bounds(ctx context.Context, log *Log) (usecase.Bounds, error) {
	bounds, err := log.Bounds(ctx)
	if err != nil {
		return bounds, err
	}
	partition := int(log.partition)
	answer, err := log.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
		IsolationLevel: kafka.ReadCommitted, Topics: map[string][]kafka.OffsetRequest{t.Name: {kafka.LastOffsetOf(partition)}},
	})
	if err != nil {
		return bounds, fmt.Errorf("ask for the last stable offset: %w", err)
	}
	for _, p := range answer.Topics[t.Name] {
		if p.Partition == partition && p.Error == nil {
			bounds.End = min(bounds.End, p.LastOffset)
		}
	}
	return bounds, nil
}

// silent is an Observer of a reading that no metric is about.
type silent struct{}

func (silent) Assigned(string, int32)            {}
func (silent) Revoked(string, int32)             {}
func (silent) Lag(string, int32, int64)          {}
func (silent) HeldBack(string, int32, int64)     {}
func (silent) AbortedRecords(string, int32, int) {}
func (silent) Rebalanced()                       {}
func (silent) Drained(time.Duration)             {}
func (silent) CommitFailed(int)                  {}
