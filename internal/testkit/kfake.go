package testkit

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Kfake is a Kafka inside this process, up in a millisecond. It injects faults (Cluster.Fault, Cluster.ControlKey), but does
// not replicate, throttle or delay the first rebalance.
type Kfake struct {
	Cluster *kfake.Cluster
}

// NewKfake starts one with the topics and their partition counts; it is closed at the end of the test.
func NewKfake(tb testing.TB, topics map[string]int32, options ...kfake.Opt) *Kfake {
	tb.Helper()
	kafka, err := StartKfake(topics, options...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(kafka.Close)
	return kafka
}

// StartKfake is NewKfake outside a test. One node, and sessions from 500 ms, unless the options say otherwise.
func StartKfake(topics map[string]int32, options ...kfake.Opt) (*Kfake, error) {
	all := make([]kfake.Opt, 0, 2+len(topics)+len(options))
	all = append(all, kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(500*time.Millisecond))
	for topic, partitions := range topics {
		all = append(all, kfake.SeedTopics(partitions, topic))
	}
	cluster, err := kfake.NewCluster(append(all, options...)...)
	if err != nil {
		return nil, fmt.Errorf("start kfake: %w", err)
	}
	return &Kfake{Cluster: cluster}, nil
}

// Brokers are the addresses to connect to.
func (k *Kfake) Brokers() []string { return k.Cluster.ListenAddrs() }

// Close stops it; what it held is gone.
func (k *Kfake) Close() { k.Cluster.Close() }
