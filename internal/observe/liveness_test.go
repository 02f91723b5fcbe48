package observe_test

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"billing/internal/observe"
)

func TestALoopThatDoesNotTurnIsStalled(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	live := observe.NewLiveness(func() time.Time { return now })
	relay, charger, ended := live.Register("relay"), live.Register("charger"), live.Register("ended")
	ended.Stop()
	ended.Beat() // a last turn after the end brings nothing back

	now = now.Add(observe.StallLimit)
	if got := live.Stalled(); len(got) != 0 {
		t.Errorf("stalled at the limit: %v", got)
	}
	relay.Beat()
	now = now.Add(time.Second)
	if got, want := live.Stalled(), []observe.Stall{{Loop: "charger", Since: 121 * time.Second}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	charger.Beat()
	if got := live.Stalled(); len(got) != 0 {
		t.Errorf("stalled after a turn: %v", got)
	}
}

func TestLastTurnsAreScraped(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	live := observe.NewLiveness(func() time.Time { return now })
	first := live.Register("partition")
	now = time.Unix(2000, 0)
	live.Register("partition")
	reg := prometheus.NewRegistry()
	reg.MustRegister(live)
	if got := read(t, reg, "billing_worker_last_turn_timestamp_seconds", "partition"); got != 1000 {
		t.Errorf("of two loops got %v, want the older turn, 1000", got)
	}
	first.Stop()
	if got := read(t, reg, "billing_worker_last_turn_timestamp_seconds", "partition"); got != 2000 {
		t.Errorf("got %v, want 2000", got)
	}
}
