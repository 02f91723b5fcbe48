package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

const racers = 50

// race lets every delivery enter at once, each by a partition of its own, and returns the sum.
func (e env) race(t *testing.T, deliveries []usecase.Delivery) usecase.Counts {
	t.Helper()
	readers := make([]*reader, len(deliveries))
	for i := range deliveries {
		readers[i] = e.reader(t, group, int32(i))
	}
	start := make(chan struct{})
	counts := make([]usecase.Counts, len(deliveries))
	errs := make([]error, len(deliveries))
	var wg sync.WaitGroup
	for i := range deliveries {
		wg.Go(func() {
			<-start
			counts[i], errs[i] = readers[i].takeAll(t.Context(), deliveries[i:i+1])
		})
	}
	close(start)
	wg.Wait()
	return sum(t, counts, errs)
}

func sum(t *testing.T, counts []usecase.Counts, errs []error) usecase.Counts {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	all := usecase.Counts{DeadLetters: map[domain.Reason]int{}}
	for _, c := range counts {
		all.Accepted += c.Accepted
		all.Duplicates += c.Duplicates
		for reason, n := range c.DeadLetters {
			all.DeadLetters[reason] += n
		}
	}
	return all
}

func repeat(reason domain.Reason, n int) []domain.Reason {
	list := make([]domain.Reason, n)
	for i := range list {
		list[i] = reason
	}
	return list
}

func TestRacersOfOneEventChargeOnce(t *testing.T) {
	t.Parallel()
	e := newEnvWith(t, racers)
	d := event("o-1")
	deliveries := make([]usecase.Delivery, racers)
	for i := range deliveries {
		deliveries[i] = d
	}
	want(t, e.race(t, deliveries), 1, racers-1)
	e.count(t, 1, "SELECT count(*) FROM charge")
	e.count(t, 1, "SELECT count(*) FROM outbox")
	e.count(t, 1, "SELECT count(*) FROM processed_event")
}

func TestRacersOfOneOrderChargeOnce(t *testing.T) {
	t.Parallel()
	e := newEnvWith(t, racers)
	deliveries := make([]usecase.Delivery, racers)
	for i := range deliveries {
		deliveries[i] = event("o-1")
	}
	want(t, e.race(t, deliveries), 1, racers-1)
	e.count(t, 1, "SELECT count(*) FROM charge")
	e.count(t, racers-1, "SELECT count(*) FROM processed_event p JOIN charge c ON c.event_id = p.duplicate_of")
}

func TestRacersOfOneOrderWithOtherContentAreRefused(t *testing.T) {
	t.Parallel()
	e := newEnvWith(t, racers)
	deliveries := make([]usecase.Delivery, racers)
	for i := range deliveries {
		deliveries[i] = event("o-1")
		deliveries[i].Event.Order.Amount.Minor = int64(i + 1)
	}
	want(t, e.race(t, deliveries), 1, 0, repeat(domain.ReasonOrderAlreadyCharged, racers-1)...)
	e.count(t, 1, "SELECT count(*) FROM processed_event")
	e.count(t, racers-1, "SELECT count(*) FROM outbox WHERE channel = 'kafka'")
}

func TestRacersOfOneIDWithOtherContentConflict(t *testing.T) {
	t.Parallel()
	e := newEnvWith(t, racers)
	deliveries := make([]usecase.Delivery, racers)
	id := newID()
	for i := range deliveries {
		deliveries[i] = eventOf(id, orderOf(fmt.Sprint("o-", i)))
	}
	want(t, e.race(t, deliveries), 1, 0, repeat(domain.ReasonEventIDConflict, racers-1)...)
	e.count(t, 1, "SELECT count(*) FROM charge")
	e.count(t, 1, "SELECT count(*) FROM processed_event")
}

// The losers come while the winner's transaction is open; then it is committed or rolled back.
func TestLosersWaitForTheWinnersFate(t *testing.T) {
	t.Parallel()
	rollback := errors.New("roll back")
	winner := event("o-1")
	sameOrder, otherContent, conflict := event("o-1"), event("o-1"), winner
	otherContent.Event.Order.Amount.Minor++
	conflict.Event.Order.CustomerID = "other"
	tests := map[string]struct {
		loser      usecase.Delivery
		group      string
		fate       error
		accepted   int
		duplicates int
		letters    []domain.Reason
	}{
		"same event, committed":                {winner, group, nil, 0, 1, nil},
		"same event, rolled back":              {winner, group, rollback, 1, 0, nil},
		"same event, other group, committed":   {winner, "other", nil, 0, 1, nil},
		"same event, other group, rolled back": {winner, "other", rollback, 1, 0, nil},
		"conflict, committed":                  {conflict, group, nil, 0, 0, []domain.Reason{domain.ReasonEventIDConflict}},
		"conflict, other group, committed":     {conflict, "other", nil, 0, 0, []domain.Reason{domain.ReasonEventIDConflict}},
		"conflict, rolled back":                {conflict, group, rollback, 1, 0, nil},
		"same order, committed":                {sameOrder, group, nil, 0, 1, nil},
		"same order, rolled back":              {sameOrder, group, rollback, 1, 0, nil},
		"other content, committed":             {otherContent, group, nil, 0, 0, []domain.Reason{domain.ReasonOrderAlreadyCharged}},
		"other content, rolled back":           {otherContent, group, rollback, 1, 0, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			r := e.reader(t, tt.group, 0)
			var wg sync.WaitGroup
			var got usecase.Counts
			var lost error
			err := e.store.InTx(t.Context(), func(ctx context.Context, tx usecase.AcceptTx) error {
				charged, err := tx.Accept(ctx, group, []usecase.Acceptance{{Event: winner.Event, Request: []byte("{}")}}, limits)
				if err != nil || !charged[0] {
					t.Fatalf("the winner was not charged: %v", err)
				}
				wg.Go(func() { got, lost = r.takeAll(t.Context(), []usecase.Delivery{tt.loser}) })
				eventually(t, "the loser waits", func() bool { return e.waiting(t) == 1 })
				return tt.fate
			})
			wg.Wait()
			if !errors.Is(err, tt.fate) || lost != nil {
				t.Fatal(err, lost)
			}
			want(t, got, tt.accepted, tt.duplicates, tt.letters...)
			e.count(t, 1, "SELECT count(*) FROM charge")
			e.count(t, 1, "SELECT count(*) FROM outbox WHERE channel = 'provider'")
			e.count(t, len(tt.letters), "SELECT count(*) FROM dead_letter")
		})
	}
}

// A loser whose winner is declined before it looks is never counted: it is done again and charges.
func TestLoserOfADeclinedChargeIsCharged(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	holder, second := event("o-1"), event("o-1")
	want(t, r.take(t, holder), 1, 0)
	raced := usecase.Accept{Codec: codec{}, Limits: limits, Inbox: declineBeforeKnow{e.store, func() { e.decline(t, holder.Event.EventID) }}}
	second.Message.Offset = 1
	_, _, err := raced.Chunk(t.Context(), r.src, 1, 2, 0, []usecase.Delivery{second})
	if !errors.Is(err, domain.ErrRetry) {
		t.Fatal(err)
	}
	e.count(t, 1, "SELECT count(*) FROM processed_event")
	want(t, r.take(t, second), 1, 0)
}

// declineBeforeKnow is the store in which a charge is declined between the two statements of a verdict.
type declineBeforeKnow struct {
	usecase.Inbox
	decline func()
}

func (d declineBeforeKnow) InTx(ctx context.Context, fn func(context.Context, usecase.AcceptTx) error) error {
	return d.Inbox.InTx(ctx, func(ctx context.Context, tx usecase.AcceptTx) error { return fn(ctx, declinedTx{tx, d.decline}) })
}

type declinedTx struct {
	usecase.AcceptTx
	decline func()
}

func (d declinedTx) Know(ctx context.Context, group string, events []domain.OrderConfirmed, limits usecase.Limits) ([]usecase.Knowledge, error) {
	d.decline()
	return d.AcceptTx.Know(ctx, group, events, limits)
}

// While events of one order keep coming, its charge is declined again and again.
func TestAcceptRacesDecline(t *testing.T) {
	t.Parallel()
	e := newEnvWith(t, 12)
	const consumers, rounds = 6, 30
	stop := make(chan struct{})
	var decliner, wg sync.WaitGroup
	var declineErr error
	decliner.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := e.declineClaimed(t.Context()); err != nil {
				declineErr = err
				return
			}
		}
	})
	counts, errs := make([]usecase.Counts, consumers), make([]error, consumers)
	for i := range consumers {
		r := e.reader(t, group, int32(i))
		wg.Go(func() {
			all := make([]usecase.Delivery, rounds)
			for i := range all {
				all[i] = event("o-1")
			}
			counts[i], errs[i] = r.takeAll(t.Context(), all)
		})
	}
	wg.Wait()
	close(stop)
	decliner.Wait()
	if declineErr != nil {
		t.Fatal(declineErr)
	}
	all := sum(t, counts, errs)
	e.count(t, all.Accepted, "SELECT count(*) FROM charge")
	e.count(t, all.Duplicates, "SELECT count(*) FROM processed_event p JOIN charge c ON c.event_id = p.duplicate_of")
	if all.Accepted+all.Duplicates != consumers*rounds || all.Accepted < 2 || len(all.DeadLetters) > 0 {
		t.Fatalf("%+v", all)
	}
}

// The same stream in two groups at once, as while a group is renamed.
func TestTwoGroupsChargeEachEventOnce(t *testing.T) {
	t.Parallel()
	e := newEnvWith(t, 12)
	all := make([]usecase.Delivery, 400)
	for i := range all {
		all[i] = event(fmt.Sprint("o-", i/2)) // every order twice
	}
	counts, errs := make([]usecase.Counts, 4), make([]error, 4)
	var wg sync.WaitGroup
	for i := range counts {
		r := e.reader(t, fmt.Sprint("group ", i), 0)
		stream := append([]usecase.Delivery(nil), all...)
		wg.Go(func() {
			for chunk := range slices.Chunk(stream, 20) {
				c, err := r.takeAll(t.Context(), chunk)
				counts[i].Accepted += c.Accepted
				counts[i].Duplicates += c.Duplicates
				errs[i] = errors.Join(errs[i], err)
			}
		})
	}
	wg.Wait()
	want(t, sum(t, counts, errs), 200, 4*400-200)
	e.count(t, 200, "SELECT count(*) FROM charge")
	e.count(t, 0, "SELECT count(*) FROM dead_letter")
}

// Eight consumers deliver random halves of the same events with redeliveries, and orders shared by
// several events: nothing deadlocks, and every order ends charged.
func TestRandomHalvesOfManyEvents(t *testing.T) {
	t.Parallel()
	e := newEnvWith(t, 10)
	const events, consumers = 5000, 8
	all := make([]usecase.Delivery, events)
	for i := range all {
		all[i] = event(fmt.Sprint("o-", rand.N(events*9/10)))
		if rand.N(10) == 0 {
			all[i].Event.Order.Amount.Minor = 7
		}
	}
	delivered := map[uuid.UUID]bool{}
	counts, errs := make([]usecase.Counts, consumers), make([]error, consumers)
	var wg sync.WaitGroup
	for i := range consumers {
		r := e.reader(t, group, int32(i))
		var half []usecase.Delivery
		for _, at := range rand.Perm(events)[:events/2] {
			half = append(half, all[at])
			delivered[all[at].Event.EventID] = true
			if rand.N(20) == 0 {
				half = append(half, half[rand.N(len(half))])
			}
		}
		wg.Go(func() {
			for chunk := range slices.Chunk(half, 100) {
				c, err := r.takeAll(t.Context(), chunk)
				counts[i].Retries += c.Retries
				errs[i] = errors.Join(errs[i], err)
			}
		})
	}
	wg.Wait()
	for i := range counts {
		if counts[i].Retries > 0 || errs[i] != nil {
			t.Errorf("consumer %d had to repeat %d chunks: %v", i, counts[i].Retries, errs[i])
		}
	}
	e.count(t, 0, "SELECT deadlocks::int FROM pg_stat_database WHERE datname = current_database()")
	e.count(t, 0, "SELECT count(*) FROM charge c LEFT JOIN outbox o ON o.event_id = c.event_id AND o.channel = 'provider' WHERE o.id IS NULL")
	e.count(t, 0, `SELECT count(*) FROM processed_event p LEFT JOIN charge c ON c.event_id = coalesce(p.duplicate_of, p.event_id) WHERE c.event_id IS NULL`)
	e.count(t, 0, "SELECT count(*) FROM dead_letter JOIN processed_event USING (event_id)")
	e.count(t, len(delivered), "SELECT count(*) FROM (SELECT event_id FROM processed_event UNION SELECT event_id FROM dead_letter) e")
}
