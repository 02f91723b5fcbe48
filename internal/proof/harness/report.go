package harness

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"billing/internal/paysim"
	"billing/internal/proof/point"
)

// leastDeaths is how often each crash point has to be reached by a full run of five minutes or more.
const leastDeaths = 3

// didNothing says which faults were not injected, or moved nothing. A run that proves nothing is red.
func (r *rig) didNothing() (reasons []string) {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	kinds := []string{"sigkill", "sigterm", "sigstop_beyond_lease", "sigstop_beyond_session"}
	for _, f := range r.faults() {
		kinds = append(kinds, f.kind)
	}
	short := r.o.Duration < 5*time.Minute
	for _, k := range kinds {
		switch {
		case r.book.done[k] == 0 && short && r.book.kills > 0: // there was no time for every kind
		case r.book.done[k] == 0:
			reasons = append(reasons, "did nothing: "+k+" never happened")
		case r.book.moved[k] == 0 && (!short || r.book.done[k] > 2):
			reasons = append(reasons, fmt.Sprintf("did nothing: %s happened %d times and moved nothing", k, r.book.done[k]))
		}
	}
	least := leastDeaths
	if short {
		least = 0
	}
	for _, p := range slices.Concat(point.Consumer(), point.Worker()) {
		if r.book.points[p] < least {
			reasons = append(reasons, fmt.Sprintf("did nothing: crash point %s was reached %d times, want %d", p, r.book.points[p], least))
		}
	}
	if r.book.kills == 0 {
		reasons = append(reasons, "did nothing: nobody was killed")
	}
	return reasons
}

// grewTooMuch says what did not stay flat, in a run that is long enough.
func (r *rig) grewTooMuch() []string {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	_, reasons := r.book.growth()
	if r.o.Duration < growthFrom {
		return nil
	}
	return reasons
}

func (r *rig) badStops() (reasons []string) {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	for _, s := range r.book.badStops {
		reasons = append(reasons, "a stop was not clean: "+s)
	}
	for _, took := range r.book.stops {
		if took > 25*time.Second {
			reasons = append(reasons, fmt.Sprintf("a stop took %s", took))
		}
	}
	return reasons
}

// report is what a run did, in figures.
func (r *rig) report(f *facts, found findings) string {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	acked, kinds := 0, map[string]int{}
	for _, e := range f.entries {
		if e.acked.Load() {
			acked++
			kinds[string(e.Kind)]++
		}
	}
	statuses := map[string]int{}
	for _, c := range f.charges {
		statuses[c.status]++
	}
	announcements, again := 0, 0
	for _, all := range f.told {
		announcements += len(all)
		again += len(all) - 1
	}
	wire, replayed := 0, 0
	for _, q := range f.requests {
		if q.Call == paysim.Charges {
			wire++
		}
		if q.Replayed {
			replayed++
		}
	}
	line("events acknowledged      %d (%s)", acked, list(kinds))
	if r.poster != nil {
		line("POSTs answered           %d, repeated %d times, misused keys refused %d", len(r.poster.answered), r.poster.repeats, r.poster.refused)
	}
	line("charges                  %d (%s)", len(f.charges), list(statuses))
	line("requests on the wire     %d, of them answered from the provider's memory %d", wire, replayed)
	line("announcements            %d, of them published again %d; dead letters %d", announcements, again, len(f.letters))
	line("kills                    %d, of them at crash points %d", r.book.kills, sum(r.book.points))
	line("crash points             %s", list(r.book.points))
	line("faults                   %s", list(r.book.done))
	line("faults whose sign moved  %s", list(r.book.moved))
	if len(r.book.stops) > 0 {
		slices.Sort(r.book.stops)
		line("clean stops              %d, median %s, slowest %s", len(r.book.stops), r.book.stops[len(r.book.stops)/2].Round(time.Millisecond), r.book.stops[len(r.book.stops)-1].Round(time.Millisecond))
	}
	line("looks at live invariants %d", r.looks.Load())
	line("leases that ran out      %.0f, fenced writes %.0f, rebalances %.0f, failed commits %.0f (as far as seen before deaths)",
		r.book.sum("billing_leases_expired_total"), r.book.sum("billing_fenced_writes_total"), r.book.sum("billing_kafka_rebalances_total"), r.book.sum("billing_kafka_commit_failures_total"))
	grown, _ := r.book.growth()
	for _, l := range slices.Concat(grown, r.book.series()) {
		line("%s", l)
	}
	line("findings                 %s", found.String())
	return s.String()
}

func (b *book) sum(prefix string) (total float64) {
	for _, values := range b.live {
		for name, v := range values {
			if strings.HasPrefix(name, prefix) {
				total += v
			}
		}
	}
	return total
}

func list(m map[string]int) string {
	parts := make([]string, 0, len(m))
	for _, k := range slices.SortedFunc(maps.Keys(m), cmp.Compare[string]) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}
