package kafka

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"billing/internal/core/usecase"
	"billing/internal/testkit"
)

// A process that is told to stop while the broker makes it wait for its place in the group has nothing at
// work: it ends well, although the client cannot take its request back.
func TestStoppingWhileJoiningIsNoFailure(t *testing.T) {
	t.Parallel()
	broker := testkit.NewKfake(t, map[string]int32{"orders": 1})
	joining := make(chan struct{})
	asked := sync.OnceFunc(func() { close(joining) })
	broker.Cluster.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		broker.Cluster.KeepControl()
		asked()
		return nil, nil, true
	})
	m := newMember(t, broker.Brokers(), "billing", func(context.Context, usecase.Source, usecase.PartitionLog, int64) error {
		return errors.New("nothing is assigned")
	}, "orders").start(t)
	<-joining
	if err := m.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}
