package usecase_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// batchAt is what one transaction wrote, some seconds after the first.
type batchAt struct {
	after             time.Duration
	messages, letters int
}

func TestTheBrakeLooksAtTheShareOfAMinute(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		share  float64
		before []batchAt
		next   batchAt
		trips  bool
	}{
		"a topic of garbage":                   {0.5, nil, batchAt{0, 500, 500}, true},
		"one in a hundred":                     {0.5, []batchAt{{0, 5000, 50}}, batchAt{1, 500, 5}, false},
		"exactly the share":                    {0.5, nil, batchAt{0, 200, 100}, false},
		"one more than the share":              {0.5, nil, batchAt{0, 200, 101}, true},
		"too few to tell":                      {0.5, nil, batchAt{0, 99, 99}, false},
		"just enough to tell":                  {0.5, nil, batchAt{0, 100, 100}, true},
		"few at a time":                        {0.5, []batchAt{{0, 40, 40}, {20 * time.Second, 40, 40}}, batchAt{40 * time.Second, 40, 40}, true},
		"the same, spread over minutes":        {0.5, []batchAt{{0, 40, 40}, {50 * time.Second, 40, 40}}, batchAt{100 * time.Second, 40, 40}, false},
		"good messages behind a bad minute":    {0.1, []batchAt{{0, 100, 10}}, batchAt{time.Second, 100, 0}, false},
		"a minute of good ones before garbage": {0.5, []batchAt{{0, 30_000, 0}}, batchAt{time.Second, 500, 500}, false},
		"switched off":                         {0, nil, batchAt{0, 500, 500}, false},
		"never, at a share of one":             {1, nil, batchAt{0, 500, 500}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, begin := usecase.Brake{Share: tc.share}, newClock().Now()
			for _, batch := range tc.before {
				b.Count(begin.Add(batch.after), batch.messages, batch.letters)
			}
			for range 2 { // to ask changes nothing
				if got := b.Trips(begin.Add(tc.next.after), tc.next.messages, tc.next.letters); got != tc.trips {
					t.Errorf("trips: %v, want %v", got, tc.trips)
				}
			}
		})
	}
}

// garbage is n messages from offset on that no decoder takes.
func garbage(offset, n int) []usecase.Delivery {
	list := make([]usecase.Delivery, 0, n)
	for i := range n {
		at := int64(offset + i)
		list = append(list, usecase.Delivery{
			Message: usecase.Message{Offset: at}, Origin: usecase.Origin{Topic: "t", Offset: at},
			Kind: usecase.KindRefused, Refusal: domain.Refuse(domain.ReasonInvalidJSON, "no JSON"),
		})
	}
	return list
}

func braking(p *usecase.Partition) { p.BrakeShare, p.Build = 0.5, "v1" }

func TestAFloodOfRefusalsHaltsThePartitionAndWritesNothing(t *testing.T) {
	t.Parallel()
	b, log := newInbox(), newLog(append(garbage(0, 150), confirmed(150, 1))...)
	_, troubles, err := run(t, b, log, func(p *usecase.Partition) {
		braking(p)
		p.Trouble = func(_ context.Context, _ usecase.Source, err error) {
			if !strings.Contains(err.Error(), "dead-letter brake") {
				t.Errorf("trouble %v", err)
			}
			log.done()
		}
	})
	if err != nil || len(troubles) != 0 || len(b.letters) != 0 || len(b.charged) != 0 {
		t.Errorf("%d dead letters, %d charged, %v", len(b.letters), len(b.charged), err)
	}
	if b.position.Next != 0 || b.position.Halted == "" || b.position.HaltedBy != "v1" {
		t.Errorf("position %+v, want halted at 0 by v1", b.position)
	}
}

// What the operator released passes, though it is more than one chunk; garbage that comes later does not.
func TestAReleasedFloodPassesOnceAndALaterOneHaltsAgain(t *testing.T) {
	t.Parallel()
	b, log := newInbox(), newLog(garbage(0, 700)...)
	full := log.deliveries
	chunked := func(p *usecase.Partition) {
		braking(p)
		halts := 0
		p.Trouble = func(context.Context, usecase.Source, error) {
			if halts++; halts > 1 {
				log.done()
				return
			}
			b.position.Halted, b.position.HaltedBy, b.position.PassBelow = "", "", usecase.PassAll
		}
		p.Report = func(usecase.Source, usecase.Counts) {
			if len(b.letters) == 700 && log.bounds.End == 700 {
				log.deliveries, log.bounds.End = slices.Concat(full, garbage(700, 120)), 820
			}
		}
	}
	if _, _, err := run(t, b, log, chunked); err != nil {
		t.Fatal(err)
	}
	if len(b.letters) != 700 || b.position.Next != 700 || b.position.Halted == "" {
		t.Errorf("%d dead letters, position %+v; want 700 and halted at 700", len(b.letters), b.position)
	}
}

func TestAnotherVersionTriesWhatTheBrakeHalted(t *testing.T) {
	t.Parallel()
	b, log := newInbox(), newLog(confirmed(0, 1))
	b.position = &usecase.Position{Halted: "dead-letter brake", HaltedBy: "v0"}
	if _, troubles, err := run(t, b, log, braking); err != nil || len(troubles) != 0 || len(b.charged) != 1 || b.position.Halted != "" {
		t.Errorf("%d charged, troubles %v, position %+v, %v", len(b.charged), troubles, b.position, err)
	}
	b.position = &usecase.Position{Halted: "dead-letter brake", HaltedBy: "v1"}
	_, _, err := run(t, b, newLog(confirmed(0, 2)), func(p *usecase.Partition) {
		braking(p)
		p.Trouble = func(context.Context, usecase.Source, error) { b.position.Halted = ""; b.position.HaltedBy = "" }
	})
	if err != nil || b.position.Next != 1 {
		t.Errorf("position %+v, %v", b.position, err)
	}
}

// What was released was said of one log. Of another one it means nothing.
func TestAGapEndsARelease(t *testing.T) {
	t.Parallel()
	stored := &usecase.Position{Next: 50, PassBelow: 1000}
	if p := usecase.ChooseStart(stored, usecase.NoOffset, usecase.Bounds{End: 10}); p.PassBelow != 0 {
		t.Errorf("passes below %d in a topic that was made anew", p.PassBelow)
	}
	stored.GapAccepted = true
	if p := usecase.ChooseStart(stored, 50, usecase.Bounds{Start: 60, End: 70}); p.PassBelow != 0 {
		t.Errorf("passes below %d behind an accepted gap", p.PassBelow)
	}
	if p := usecase.ChooseStart(&usecase.Position{Next: 50, PassBelow: 60}, 50, usecase.Bounds{End: 70}); p.PassBelow != 60 {
		t.Errorf("passes below %d, want 60 as stored", p.PassBelow)
	}
}
