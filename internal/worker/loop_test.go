package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"billing/internal/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestABusyLoopDoesNotWaitAndAnIdleOneDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		var at []time.Duration
		loop := worker.Loop{
			Name: "test", Idle: time.Second, Max: time.Minute, Clock: worker.Clock{}, Log: slog.New(slog.DiscardHandler), Turn: func() {},
			Step: func(context.Context) (bool, error) {
				at = append(at, time.Since(start))
				if len(at) == 5 {
					cancel()
				}
				return len(at) < 3, nil
			},
		}
		if err := loop.Run(ctx); err != nil {
			t.Error(err)
		}
		want := []time.Duration{0, 0, 0, time.Second, 2 * time.Second}
		for i := range want {
			if at[i] != want[i] {
				t.Errorf("step %d at %s, want %s", i, at[i], want[i])
			}
		}
	})
}

func TestASignalWakesAnIdleLoopAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		signal := worker.NewSignal()
		steps := 0
		loop := worker.Loop{
			Name: "test", Idle: time.Hour, Max: time.Hour, Wake: signal, Clock: worker.Clock{}, Log: slog.New(slog.DiscardHandler), Turn: func() {},
			Step: func(context.Context) (bool, error) {
				if steps++; steps == 2 {
					cancel()
				}
				return false, nil
			},
		}
		go func() {
			worker.Clock{}.Sleep(ctx, time.Second)
			signal.Set()
			signal.Set() // is kept once and blocks nobody
		}()
		if err := loop.Run(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("woken after %s, want 1s", took)
		}
	})
}

func TestAFailingLoopSlowsDownSpeaksOnceAndKeepsTurning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var out bytes.Buffer
		steps, turns := 0, 0
		loop := worker.Loop{
			Name: "test", Idle: time.Second, Max: 30 * time.Second, Clock: worker.Clock{}, Log: slog.New(slog.NewTextHandler(&out, nil)),
			Turn: func() { turns++ },
			Step: func(context.Context) (bool, error) {
				steps++
				return false, errors.New("the database is away")
			},
		}
		if err := loop.Run(ctx); err != nil {
			t.Error(err)
		}
		if steps < 20 || steps > 30 || turns < steps {
			t.Errorf("%d steps and %d turns in ten minutes of failure", steps, turns)
		}
		if n := strings.Count(out.String(), "worker step failed"); n != 1 {
			t.Errorf("%d lines for one reason", n)
		}
	})
}
