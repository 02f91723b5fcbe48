package observe

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// StallLimit is how long a loop may go without a turn before /livez fails, contract §1.
const StallLimit = 2 * time.Minute

// Liveness knows when each loop turned last. It is also the collector of
// billing_worker_last_turn_timestamp_seconds, so that a series ends when its loop ends.
type Liveness struct {
	now  func() time.Time
	desc *prometheus.Desc

	mu    sync.Mutex
	turns map[*Heartbeat]time.Time
}

// Heartbeat is one loop's place in Liveness.
type Heartbeat struct {
	name string
	live *Liveness
}

// Stall is a loop that has not turned for longer than StallLimit.
type Stall struct {
	Loop  string
	Since time.Duration // since its last turn
}

// NewLiveness returns a Liveness without loops. now is read with its monotonic clock, so that a jump of
// the wall clock stalls nothing.
func NewLiveness(now func() time.Time) *Liveness {
	desc := prometheus.NewDesc(lastTurn.Name, lastTurn.Help, lastTurn.Labels, nil)
	return &Liveness{now: now, desc: desc, turns: make(map[*Heartbeat]time.Time)}
}

// Register adds a loop; adding it counts as its first turn. Several loops may share a name.
func (l *Liveness) Register(loop string) *Heartbeat {
	h := &Heartbeat{name: loop, live: l}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns[h] = now
	return h
}

// Beat marks a turn. A retry during an outage is a turn: it shows that the loop is not stuck.
func (h *Heartbeat) Beat() {
	now := h.live.now()
	h.live.mu.Lock()
	defer h.live.mu.Unlock()
	if _, running := h.live.turns[h]; running {
		h.live.turns[h] = now
	}
}

// Stop takes the loop out: it has ended and owes no more turns.
func (h *Heartbeat) Stop() {
	h.live.mu.Lock()
	defer h.live.mu.Unlock()
	delete(h.live.turns, h)
}

// Stalled returns the loops over the limit, by name.
func (l *Liveness) Stalled() []Stall {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	var stalls []Stall
	for h, last := range l.turns {
		if since := now.Sub(last); since > StallLimit {
			stalls = append(stalls, Stall{Loop: h.name, Since: since})
		}
	}
	slices.SortFunc(stalls, func(a, b Stall) int { return strings.Compare(a.Loop, b.Loop) })
	return stalls
}

// Describe sends the one description.
func (l *Liveness) Describe(ch chan<- *prometheus.Desc) { ch <- l.desc }

// Collect sends the last turn of each loop; of several loops with one name, the oldest.
func (l *Liveness) Collect(ch chan<- prometheus.Metric) {
	oldest := make(map[string]time.Time)
	l.mu.Lock()
	for h, last := range l.turns {
		if known, ok := oldest[h.name]; !ok || last.Before(known) {
			oldest[h.name] = last
		}
	}
	l.mu.Unlock()
	for name, last := range oldest {
		ch <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, unixSeconds(last), name)
	}
}

// unixSeconds is the form of every *_timestamp_seconds gauge; the zero time is 0, for "none".
func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
