// Package worker runs use cases again and again. Together with the Kafka and HTTP adapters it holds the
// only goroutines of the service.
package worker

import (
	"context"
	"log/slog"
	"time"

	"billing/internal/core/usecase"
)

// Loop repeats a step: at once while there is work, after Idle when there is none, slower while it fails.
type Loop struct {
	Name  string
	Step  func(ctx context.Context) (busy bool, err error)
	Idle  time.Duration // pause when there was nothing to do
	Max   time.Duration // longest pause while failing
	Wake  <-chan struct{}
	Clock usecase.Clock
	Log   *slog.Logger
	// Turn is called at every turn, failing ones included.
	Turn func()
}

// Run repeats the step until ctx is done. The step decides itself how far a cancelled context reaches.
func (l Loop) Run(ctx context.Context) error {
	failures := 0
	reason := ""
	for ctx.Err() == nil {
		l.Turn()
		busy, err := l.Step(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			failures++
			if text := err.Error(); text != reason { // one line each time the reason changes
				reason = text
				l.Log.ErrorContext(ctx, "worker step failed", "worker", l.Name, "error", err)
			}
			l.Clock.Sleep(ctx, min(l.Idle<<min(failures, 10), l.Max))
			continue
		case err == nil && failures > 0:
			l.Log.InfoContext(ctx, "worker step works again", "worker", l.Name, "failures", failures)
			failures, reason = 0, ""
		}
		if !busy {
			l.rest(ctx)
		}
	}
	return nil
}

// rest waits for Idle, or until there is something to do.
func (l Loop) rest(ctx context.Context) {
	timer := time.NewTimer(l.Idle)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-l.Wake:
	}
}

// Signal wakes one sleeping loop of this process. It never blocks; a signal that nobody waits for is kept once.
type Signal chan struct{}

// NewSignal returns a Signal.
func NewSignal() Signal { return make(Signal, 1) }

// Set gives the signal.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}
