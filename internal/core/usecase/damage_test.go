package usecase_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"billing/internal/core/usecase"
)

// damaged is a log of ten messages whose offsets 3 to 5 cannot be read.
func damaged() *memoryLog {
	deliveries := make([]usecase.Delivery, 0, 10)
	for i := range 10 {
		deliveries = append(deliveries, confirmed(int64(i), byte(i+1)))
	}
	log := newLog(deliveries...)
	log.known, log.corrupt = 0, []usecase.Span{{From: 3, To: 6}}
	return log
}

func TestCorruptRecordsHaltThePartitionUntilTheyAreSkipped(t *testing.T) {
	t.Parallel()
	b, log := newInbox(), damaged()
	var skipped []usecase.Span
	turns, asked := 0, 0
	_, _, err := run(t, b, log, func(p *usecase.Partition) {
		p.Skipped = func(_ context.Context, _ usecase.Source, s usecase.Span) { skipped = append(skipped, s) }
		p.Trouble = func(context.Context, usecase.Source, error) {
			if b.position.Halted == "" {
				return
			}
			if turns++; turns == 1 {
				asked = log.refused
			}
			if turns < 20 { // nobody acts for a while
				return
			}
			if log.refused != asked || b.position.Next != 3 || len(b.charged) != 3 || !slices.Equal(log.commits, []int64{3, 3}) {
				t.Errorf("halted: asked %d times more, at %d, %d charged, commits %v", log.refused-asked, b.position.Next, len(b.charged), log.commits)
			}
			if !strings.Contains(b.position.Halted, "the batch at offset 3") {
				t.Errorf("halted because: %s", b.position.Halted)
			}
			b.position.Halted, b.position.Skips = "", []usecase.Span{{From: 3, To: 6}} // what an operator does
		}
	})
	if err != nil || len(b.charged) != 7 || b.position.Next != 10 {
		t.Errorf("%d charged, at %d, %v", len(b.charged), b.position.Next, err)
	}
	if asked != 3 { // Tries of the partition
		t.Errorf("asked %d times before the halt, want 3", asked)
	}
	if !slices.Equal(skipped, []usecase.Span{{From: 3, To: 6}}) {
		t.Errorf("told of %v", skipped)
	}
}

// An owner that begins anew, even from an earlier offset, meets the damage again and passes over it without asking.
func TestASkipHoldsForLaterOwners(t *testing.T) {
	t.Parallel()
	b, log := newInbox(), damaged()
	b.position = &usecase.Position{Next: 10, Skips: []usecase.Span{{From: 3, To: 6}}}
	if _, _, err := run(t, b, log, nil); err != nil || len(b.charged) != 7 || log.refused != 0 {
		t.Errorf("%d charged, %d fetches met the damage, %v", len(b.charged), log.refused, err)
	}
	if len(b.position.Skips) != 1 {
		t.Error("the mark is gone")
	}
}

// Without a group offset it may be another log: what is passed over there would be lost without anybody having looked.
func TestASkipEndsWithItsLog(t *testing.T) {
	t.Parallel()
	skips := []usecase.Span{{From: 3, To: 6}}
	for name, tc := range map[string]struct {
		stored    usecase.Position
		committed int64
		kept      bool
	}{
		"the same log":          {usecase.Position{Next: 10}, 10, true},
		"the database is ahead": {usecase.Position{Next: 10}, 2, true},
		"no group offset":       {usecase.Position{Next: 10}, usecase.NoOffset, false},
		"beyond the log":        {usecase.Position{Next: 70}, 70, false},
		"an accepted gap":       {usecase.Position{Next: 10, GapAccepted: true}, 10, false},
	} {
		tc.stored.Skips = skips
		got := usecase.ChooseStart(&tc.stored, tc.committed, usecase.Bounds{End: 50})
		if (len(got.Skips) == 1) != tc.kept {
			t.Errorf("%s: skips %v", name, got.Skips)
		}
	}
}

func TestDamageThatPassesHaltsNothing(t *testing.T) {
	t.Parallel()
	b, log := newInbox(), damaged()
	_, _, err := run(t, b, log, func(p *usecase.Partition) {
		p.Trouble = func(_ context.Context, _ usecase.Source, err error) {
			if !errors.Is(err, usecase.ErrCorrupt) {
				t.Errorf("halted at once: %v", err)
			}
			if log.refused == 2 {
				log.corrupt = nil // it was only the way here
			}
		}
	})
	if err != nil || len(b.charged) != 10 || b.position.Halted != "" {
		t.Errorf("%d charged, halted %q, %v", len(b.charged), b.position.Halted, err)
	}
}
