package kafka

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"
)

// pollLag reports the lag of the assigned partitions from the broker's own numbers, so that a partition
// whose handler hangs shows too. It stays until the generation ends.
func (g *Group) pollLag(ctx context.Context, assigned map[string][]int) {
	trouble := &reason{log: g.Log}
	for {
		if err := g.readLag(ctx, assigned); err != nil && ctx.Err() == nil {
			trouble.warn("lag cannot be read", err.Error())
		} else {
			trouble.over("lag can be read again")
		}
		if !g.Clock.Sleep(ctx, g.LagEvery) {
			return
		}
	}
}

func (g *Group) readLag(ctx context.Context, assigned map[string][]int) error {
	wanted := map[string][]kafka.OffsetRequest{}
	for topic, partitions := range assigned {
		for _, p := range partitions {
			wanted[topic] = append(wanted[topic], kafka.FirstOffsetOf(p), kafka.LastOffsetOf(p))
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	committed, err := g.committed(ctx, assigned)
	if err != nil {
		return err
	}
	ends, err := g.client().ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: wanted, IsolationLevel: kafka.ReadCommitted})
	if err != nil {
		return fmt.Errorf("list offsets: %w", err)
	}
	for topic, partitions := range ends.Topics {
		for _, p := range partitions {
			if p.Error != nil || ctx.Err() != nil {
				continue // the leader is moving, or the partition is not ours any more
			}
			next := max(committed[topic][p.Partition], p.FirstOffset)
			g.Observer.Lag(topic, int32(p.Partition), max(0, p.LastOffset-next)) //nolint:gosec // from an int32
		}
	}
	return nil
}

// committed returns the group's offsets, -1 where there is none.
func (g *Group) committed(ctx context.Context, assigned map[string][]int) (map[string]map[int]int64, error) {
	answer, err := g.client().OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: g.ID, Topics: assigned})
	if err == nil {
		err = answer.Error
	}
	if err != nil {
		return nil, fmt.Errorf("fetch committed offsets: %w", err)
	}
	offsets := map[string]map[int]int64{}
	for topic, partitions := range answer.Topics {
		offsets[topic] = map[int]int64{}
		for _, p := range partitions {
			offsets[topic][p.Partition] = p.CommittedOffset
		}
	}
	return offsets, nil
}
