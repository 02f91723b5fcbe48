package usecase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"billing/internal/core/domain"
)

// Relay publishes the Kafka channel of the outbox: claim, write one call for each topic, acknowledge
// what the broker acknowledged, release the rest.
type Relay struct {
	Queue     MessageQueue
	Publisher Publisher
	Backoff   domain.Backoff
	Random    Random
	Limit     int           // messages of one claim
	Lease     time.Duration // of one claim
	// Timeout bounds one batch: claim, write, acknowledge. It must end before the lease.
	Timeout time.Duration
}

// RelayReport counts what one step did, for the metrics at the edge.
type RelayReport struct {
	Published int
	Written   map[string]int // by topic
	Failed    map[string]int // by topic
	Reclaimed int            // leases of other owners that had run out
	Fenced    int
	Err       error // the first failure of a publication
}

// Step publishes one batch and reports whether there was any work. A shutdown does not cut it: the
// transaction and Kafka share one context with its own deadline.
func (r Relay) Step(ctx context.Context) (RelayReport, bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Timeout)
	defer cancel()
	messages, err := r.Queue.ClaimMessages(ctx, r.Limit, r.Lease)
	if err != nil {
		return RelayReport{}, false, fmt.Errorf("relay: %w", err)
	}
	report := RelayReport{Written: map[string]int{}, Failed: map[string]int{}}
	var acked sync.WaitGroup
	var failure error
	for part := range slices.Chunk(messages, max(r.Limit/2, 1)) {
		written, failed := r.publish(ctx, part, &report)
		acked.Wait() // for the part before: while it is acknowledged the next one is published
		acked.Go(func() { failure = errors.Join(failure, r.conclude(ctx, written, failed, &report)) })
	}
	acked.Wait()
	return report, len(messages) > 0, failure
}

// publish writes messages and says which the broker acknowledged.
func (r Relay) publish(ctx context.Context, messages []OutboxMessage, report *RelayReport) (written, failed []MessageRef) {
	for _, group := range byTopic(messages) {
		topic := group[0].Topic
		for i, err := range r.Publisher.Publish(ctx, topic, group) {
			m := group[i]
			if m.Reclaimed {
				report.Reclaimed++
			}
			if err == nil {
				report.Written[topic]++
				written = append(written, MessageRef{ID: m.ID, Attempt: m.Attempt})
				continue
			}
			report.Failed[topic]++
			if report.Err == nil {
				report.Err = fmt.Errorf("publish to %s: %w", topic, err)
			}
			failed = append(failed, MessageRef{ID: m.ID, Attempt: m.Attempt, Delay: r.Backoff.Delay(int(m.Attempt), r.Random())})
		}
	}
	report.Published += len(written)
	return written, failed
}

// conclude tells the queue. It alone writes report.Fenced.
func (r Relay) conclude(ctx context.Context, written, failed []MessageRef, report *RelayReport) error {
	if len(written) > 0 {
		fenced, err := r.Queue.AckMessages(ctx, written)
		if err != nil {
			return fmt.Errorf("relay: %w", err) // published again after the lease, with the same ids
		}
		report.Fenced += fenced
	}
	if len(failed) > 0 {
		if err := r.Queue.ReleaseMessages(ctx, failed); err != nil {
			return fmt.Errorf("relay: %w", err)
		}
	}
	return nil
}

// byTopic splits messages, keeping their order: an unknown topic among others would fail them all.
func byTopic(messages []OutboxMessage) [][]OutboxMessage {
	var groups [][]OutboxMessage
	at := map[string]int{}
	for _, m := range messages {
		i, ok := at[m.Topic]
		if !ok {
			i = len(groups)
			at[m.Topic] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], m)
	}
	return groups
}
