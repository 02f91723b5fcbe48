package main

import (
	"context"
	"slices"
	"testing"
	"time"
)

// wall is a clock that only moves when somebody sleeps or works.
type wall struct {
	now   time.Time
	slept []time.Duration
}

func (w *wall) Now() time.Time { return w.now }

func (w *wall) Sleep(_ context.Context, d time.Duration) bool {
	w.slept = append(w.slept, d)
	w.now = w.now.Add(d)
	return true
}

func TestBackgroundWorkRestsForEachStretchOfIt(t *testing.T) {
	t.Parallel()
	w := &wall{now: time.Now()}
	p := newPace(w, 9, 30*time.Second)
	for _, worked := range []time.Duration{time.Second, 0, 2 * time.Second, time.Minute} {
		w.now = w.now.Add(worked)
		p.rest(t.Context())
	}
	if want := []time.Duration{9 * time.Second, 0, 18 * time.Second, 30 * time.Second}; !slices.Equal(w.slept, want) {
		t.Errorf("rested %v, want %v", w.slept, want)
	}
}
