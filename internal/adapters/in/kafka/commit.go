package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/segmentio/kafka-go"

	"billing/internal/core/domain"
)

// Commit stores the next offset to read with the generation that the partition was assigned in. It
// returns domain.ErrFenced when the generation is over; other errors may pass, the same commit can be
// tried again.
func (l *Log) Commit(ctx context.Context, next int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := l.commit(map[string]map[int]int64{l.topic: {int(l.partition): next}})
	if err == nil {
		l.committed = next
		return nil
	}
	code, answered := errors.AsType[kafka.Error](err)
	l.observer.CommitFailed(int(code))
	if fences(err, code, answered) || l.life.Err() != nil && !answered {
		l.over = true
		return fmt.Errorf("commit %s/%d at %d: %w: %w", l.topic, l.partition, next, domain.ErrFenced, err)
	}
	return fmt.Errorf("commit %s/%d at %d: %w", l.topic, l.partition, next, err)
}

// fences reports whether no commit of this generation can succeed any more: the group went on without
// us, its coordinator moved away from the generation's connection, or that connection is gone for good.
func fences(err error, code kafka.Error, answered bool) bool {
	if answered {
		switch code {
		case kafka.IllegalGeneration, kafka.UnknownMemberId, kafka.RebalanceInProgress,
			kafka.NotCoordinatorForGroup, kafka.FencedInstanceID:
			return true
		default:
			return false
		}
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return false
	}
	return true
}
