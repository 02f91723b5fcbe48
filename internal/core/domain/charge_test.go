package domain_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"billing/internal/core/domain"
)

// allowed is the state machine as issue and design write it down, apart from the code.
var allowed = map[domain.Status][]domain.Status{
	domain.StatusRequested: {domain.StatusSucceeded, domain.StatusDeclined, domain.StatusParked, domain.StatusCancelled},
	domain.StatusParked:    {domain.StatusSucceeded, domain.StatusDeclined, domain.StatusRequested, domain.StatusCancelled},
}

func TestOnlyTheWrittenMovesAreAllowed(t *testing.T) {
	t.Parallel()
	for _, from := range append(domain.Statuses(), "", "other") {
		for _, to := range append(domain.Statuses(), "", "other") {
			for _, sent := range []bool{false, true} {
				want := slices.Contains(allowed[from], to) && (to != domain.StatusCancelled || !sent)
				if got := domain.CanMove(from, to, sent); got != want {
					t.Errorf("from %q to %q, sent %v: %v, want %v", from, to, sent, got, want)
				}
			}
		}
	}
}

// Whatever is tried in whatever order: a terminal status is the last one, a sent charge is never cancelled,
// and every status that is left behind was announced or is one a person brought it back from.
func TestAWalkEndsInATerminalStatus(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		status, sent, steps := domain.StatusRequested, false, 0
		for range rapid.IntRange(1, 60).Draw(t, "tries") {
			sent = sent || rapid.Bool().Draw(t, "sends")
			to := rapid.SampledFrom(domain.Statuses()).Draw(t, "to")
			if !domain.CanMove(status, to, sent) {
				continue
			}
			if status.Terminal() {
				t.Fatalf("left %s for %s", status, to)
			}
			if to == domain.StatusCancelled && sent {
				t.Fatal("a sent charge was cancelled")
			}
			if to != domain.StatusRequested && to.Announcement() == "" {
				t.Fatalf("%s is announced to nobody", to)
			}
			status, steps = to, steps+1
		}
		if status.Terminal() == (len(allowed[status]) > 0) {
			t.Fatalf("%s after %d moves: terminal %v", status, steps, status.Terminal())
		}
	})
}

func TestEveryStatusHasItsAnnouncement(t *testing.T) {
	t.Parallel()
	want := map[domain.Status]string{
		domain.StatusSucceeded: "ChargeSucceeded", domain.StatusDeclined: "ChargeDeclined", domain.StatusParked: "ChargeParked",
		domain.StatusCancelled: "ChargeCancelled", domain.StatusRequested: "", "other": "",
	}
	for status, name := range want {
		if got := status.Announcement(); got != name {
			t.Errorf("%s is announced as %q, want %q", status, got, name)
		}
	}
}

func TestBackoffStaysBetweenHalfTheLeastAndTheMost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		least := time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "min"))
		b := domain.Backoff{Min: least, Max: least + time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "more"))}
		n := rapid.IntRange(-1, 1_000_000).Draw(t, "n")
		random := rapid.Float64Range(0, 0.999999).Draw(t, "random")
		if d := b.Delay(n, random); d < b.Min/2 || d > b.Max {
			t.Fatalf("delay %s for failure %d between %s and %s", d, n, b.Min, b.Max)
		}
	})
}
