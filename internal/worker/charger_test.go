package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/worker"
)

// queue hands out charges once and remembers how they were settled.
type queue struct {
	mu      sync.Mutex
	due     int
	fail    int       // settling statements that fail first
	poison  uuid.UUID // whose outcome is refused
	settled []usecase.Settlement
	batches int
	claims  int
}

func (q *queue) ClaimCharges(_ context.Context, n int, rules usecase.ClaimRules) ([]usecase.Claim, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.claims++
	n = min(n, q.due)
	claims := make([]usecase.Claim, n)
	for i := range claims {
		claims[i] = usecase.Claim{
			EventID: uuid.UUID{byte(q.due >> 8), byte(q.due)}, Attempt: 1, Step: usecase.StepPost, Tries: 1, Journaled: true, Stamped: true,
			PostFor: rules.Lease, Now: time.Now(),
		}
		q.due--
	}
	return claims, nil
}

func (q *queue) SettleCharges(_ context.Context, batch []usecase.Settlement) (usecase.Settled, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fail > 0 {
		q.fail--
		return usecase.Settled{}, fmt.Errorf("the database is away: %w", domain.ErrOutage)
	}
	if slices.ContainsFunc(batch, func(s usecase.Settlement) bool { return s.EventID == q.poison }) {
		return usecase.Settled{}, errors.New("this outcome cannot be written")
	}
	q.batches++
	q.settled = append(q.settled, batch...)
	return usecase.Settled{ByStatus: map[domain.Status]int{domain.StatusSucceeded: len(batch)}}, nil
}

func (q *queue) SettleLate(context.Context, usecase.Settlement, func(int32) (usecase.Settlement, error)) (bool, error) {
	return false, nil
}

// slow is a provider that takes its time and knows how many requests were in flight.
type slow struct {
	mu             sync.Mutex
	takes          time.Duration
	inFlight, most int
	requests       int
}

func (p *slow) Capabilities() usecase.Capabilities { return usecase.Capabilities{Lookup: true} }

func (p *slow) Charge(ctx context.Context, _ uuid.UUID, _ []byte, _ domain.Order, _ string) domain.Answer {
	p.count(1)
	worker.Clock{}.Sleep(ctx, p.takes)
	p.count(-1)
	return domain.Answer{Outcome: domain.Succeeded}
}

func (p *slow) count(delta int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight += delta
	p.most = max(p.most, p.inFlight)
	p.requests += max(delta, 0)
}

func (p *slow) Lookup(context.Context, uuid.UUID, domain.Order, string) domain.Answer {
	return domain.Answer{}
}

type blind struct{}

func (blind) Turn()                                  {}
func (blind) Claimed([]usecase.Claim, time.Duration) {}
func (blind) Started(usecase.Claim) func(usecase.Settlement, time.Duration) {
	return func(usecase.Settlement, time.Duration) {}
}
func (blind) Attempted(usecase.Settlement)                {}
func (blind) Settled(usecase.SettleReport, time.Duration) {}

type noBytes struct{}

func (noBytes) Request(domain.Order) ([]byte, error) { return nil, nil }
func (noBytes) Announcement(domain.Announcement, string) (usecase.OutboxMessage, error) {
	return usecase.OutboxMessage{}, nil
}

func (noBytes) DeadLetter(usecase.DeadLetter) (usecase.OutboxMessage, error) {
	return usecase.OutboxMessage{}, nil
}

func newCharger(q *queue, p usecase.Provider) *worker.Charger {
	gate := &usecase.Gate{Clock: worker.Clock{}, Random: func() float64 { return 0.5 }, Backoff: domain.Backoff{Min: time.Second, Max: time.Minute}}
	newID := func() uuid.UUID { return uuid.Must(uuid.NewV7()) }
	return &worker.Charger{
		Queue: q, Gate: gate,
		Send: usecase.Send{
			Provider: p, Gate: gate, Clock: worker.Clock{}, Random: func() float64 { return 0.5 }, IDs: newID,
			Backoff: domain.Backoff{Min: time.Second, Max: time.Minute}, Lease: 30 * time.Second, Timeout: 10 * time.Second, PendingMax: time.Hour,
		},
		Settle: usecase.Settle{Queue: q, Codec: noBytes{}, IDs: newID},
		Rules:  usecase.ClaimRules{Lease: 30 * time.Second}, Concurrency: 8, Ahead: 16, Poll: 50 * time.Millisecond,
		SettleAfter: 5 * time.Millisecond, SettleMost: 50, DBTimeout: time.Second,
		Backoff: domain.Backoff{Min: 100 * time.Millisecond, Max: time.Second}, Clock: worker.Clock{},
		Settled: func() {}, Observe: blind{}, Log: slog.New(slog.DiscardHandler),
	}
}

func TestTheChargerKeepsItsConcurrencyAndSettlesTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, p := &queue{due: 400}, &slow{takes: 20 * time.Millisecond}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := newCharger(q, p).Run(ctx); err != nil {
			t.Fatal(err)
		}
		if len(q.settled) != 400 || p.requests != 400 {
			t.Errorf("%d settled, %d requests, want 400 of each", len(q.settled), p.requests)
		}
		if p.most != 8 {
			t.Errorf("%d requests in flight at most, want 8", p.most)
		}
		if q.batches > 80 {
			t.Errorf("%d settling statements for 400 outcomes", q.batches)
		}
	})
}

func TestAStopFinishesWhatIsInFlightAndGivesTheRestBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, p := &queue{due: 100}, &slow{takes: 5 * time.Second}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			worker.Clock{}.Sleep(ctx, time.Second)
			cancel()
		}()
		start := time.Now()
		if err := newCharger(q, p).Run(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 6*time.Second {
			t.Errorf("stopped after %s, want no longer than the requests in flight", took)
		}
		succeeded, released := 0, 0
		for _, s := range q.settled {
			switch {
			case s.Status == domain.StatusSucceeded:
				succeeded++
			case s.Status == domain.StatusRequested && s.Outcome == domain.NotSent && s.Delay == 0 && s.ClearStamp:
				released++
			}
		}
		if succeeded != 8 || released != 8 || p.requests != 8 {
			t.Errorf("%d succeeded, %d given back, %d requests; want 8, 8, 8", succeeded, released, p.requests)
		}
	})
}

func TestAnOutcomeSurvivesADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, p := &queue{due: 3, fail: 10}, &slow{takes: time.Millisecond}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			worker.Clock{}.Sleep(ctx, 500*time.Millisecond)
			cancel() // while the database is still away
		}()
		if err := newCharger(q, p).Run(ctx); err != nil {
			t.Fatal(err)
		}
		if len(q.settled) != 3 {
			t.Errorf("%d outcomes settled, want 3", len(q.settled))
		}
	})
}

// An answer that says that money was taken is kept for as long as the database is away.
func TestAnOutcomeOutlivesItsLeaseWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, p := &queue{due: 3, fail: 200}, &slow{takes: time.Millisecond}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		c := newCharger(q, p)
		if err := c.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if len(q.settled) != 3 {
			t.Errorf("%d outcomes settled after an outage of minutes, want 3", len(q.settled))
		}
	})
}

func TestOneOutcomeThatCannotBeWrittenHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, p := &queue{due: 40, poison: uuid.UUID{0, 7}}, &slow{takes: time.Millisecond}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := newCharger(q, p).Run(ctx); err != nil {
			t.Fatal(err)
		}
		if len(q.settled) != 39 {
			t.Errorf("%d outcomes settled, want the 39 that can be", len(q.settled))
		}
	})
}

// A claim that waits for a sender is one that another process cannot send: the slower the provider, the fewer.
func TestASlowProviderLeavesChargesToOtherProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, p := &queue{due: 200}, &slow{takes: 8 * time.Second}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := newCharger(q, p).Run(ctx); err != nil {
			t.Fatal(err)
		}
		released := 0
		for _, s := range q.settled {
			if s.Outcome == domain.NotSent {
				released++
			}
		}
		if p.requests != 24 || p.most != 8 || released > 1 {
			t.Errorf("%d requests, %d at once, %d given back; want 24, 8, at most 1", p.requests, p.most, released)
		}
	})
}
