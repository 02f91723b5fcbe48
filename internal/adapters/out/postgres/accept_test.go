package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

func TestNewEventBecomesAChargeWithItsRequest(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	d := event("o-1")
	d.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	want(t, r.take(t, d, event("o-2")), 2, 0)
	e.count(t, 1, `SELECT count(*) FROM charge WHERE event_id = $1 AND order_id = 'o-1' AND customer_id = 'c-o-1' AND amount_minor = 150000
		AND currency = 'RUB' AND status = 'requested' AND source = 'kafka' AND first_sent_at IS NULL AND last_outcome IS NULL AND holds_order`, d.Event.EventID)
	request, _ := codec{}.Request(d.Event.Order)
	e.count(t, 1, `SELECT count(*) FROM outbox WHERE channel = 'provider' AND status = 'PENDING' AND event_type = 'ChargeRequested' AND event_id = $1
		AND payload = $2 AND headers = ARRAY['traceparent'::bytea, $3]`, d.Event.EventID, request, []byte(d.Traceparent))
	e.count(t, 2, `SELECT count(*) FROM processed_event WHERE consumer_group = $1 AND duplicate_of IS NULL`, group)
	e.count(t, 2, `SELECT next_offset FROM consumer_position`)
}

func TestRedeliveredEventChargesOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	d, other := event("o-1"), event("o-2")
	want(t, r.take(t, d), 1, 0)
	want(t, r.take(t, d, other, d), 1, 2)
	want(t, r.take(t, d, d, other), 0, 3)
	e.count(t, 2, "SELECT count(*) FROM charge")
	e.count(t, 2, "SELECT count(*) FROM outbox")
	e.count(t, 0, "SELECT count(*) FROM dead_letter")
}

func TestTwinsInOneChunkChargeOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	d := event("o-1")
	counts, taken, err := r.chunk(t.Context(), d, d, d)
	if err != nil || taken != 3 {
		t.Fatalf("took %d: %v", taken, err)
	}
	want(t, counts, 1, 2)
	e.count(t, 1, "SELECT count(*) FROM outbox")
}

func TestSameEventIDWithOtherContentIsAConflict(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	d := event("o-1")
	other := d
	other.Event.Order.Amount.Minor = 1
	otherOrder := eventOf(d.Event.EventID, orderOf("o-9"))
	want(t, r.take(t, d), 1, 0)
	before := e.text(t, "SELECT p FROM processed_event p")
	want(t, r.take(t, other, event("o-2"), otherOrder), 1, 0, domain.ReasonEventIDConflict, domain.ReasonEventIDConflict)
	if after := e.text(t, "SELECT p FROM processed_event p WHERE event_id = $1", d.Event.EventID); after != before {
		t.Fatalf("the winner's inbox row changed from %s to %s", before, after)
	}
	e.count(t, 2, "SELECT count(*) FROM charge")
	e.count(t, 2, "SELECT count(*) FROM outbox WHERE event_type = 'DeadLetter' AND event_id = $1", d.Event.EventID)
	// Also when only the charge is left to compare with.
	e.db.Exec(t, "DELETE FROM processed_event")
	want(t, r.take(t, other), 0, 0, domain.ReasonEventIDConflict)
	e.count(t, 0, "SELECT count(*) FROM processed_event")
}

func TestConflictInsideOneChunkIsJudgedInOrder(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	d, conflict := event("o-1"), event("o-2")
	conflict.Event.EventID = d.Event.EventID
	sameOrder := event("o-1")
	otherContent := event("o-1")
	otherContent.Event.Order.CustomerID = "someone else"
	want(t, r.take(t, d, conflict, sameOrder, otherContent, d), 1, 2, domain.ReasonEventIDConflict, domain.ReasonOrderAlreadyCharged)
	e.count(t, 1, "SELECT count(*) FROM charge WHERE event_id = $1 AND order_id = 'o-1'", d.Event.EventID)
}

func TestSecondEventIDOfAChargedOrderIsADuplicateOfIt(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	first, second := event("o-1"), event("o-1")
	want(t, r.take(t, first), 1, 0)
	want(t, r.take(t, second, event("o-2")), 1, 1)
	e.count(t, 1, "SELECT count(*) FROM processed_event WHERE event_id = $1 AND duplicate_of = $2", second.Event.EventID, first.Event.EventID)
	e.count(t, 1, "SELECT count(*) FROM charge WHERE order_id = 'o-1'")
	want(t, r.take(t, second), 0, 1)
}

func TestSecondEventIDWithOtherContentIsRefusedAndForgotten(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	first, second := event("o-1"), event("o-1")
	second.Event.Order.Amount.Minor++
	want(t, r.take(t, first), 1, 0)
	want(t, r.take(t, second), 0, 0, domain.ReasonOrderAlreadyCharged)
	e.count(t, 0, "SELECT count(*) FROM processed_event WHERE event_id = $1", second.Event.EventID)
	e.count(t, 1, "SELECT count(*) FROM dead_letter WHERE event_id = $1 AND reason = 'order_already_charged' AND status = 'open' AND detail <> ''", second.Event.EventID)
}

func TestDeclinedOrderMayBeChargedAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	first, counted, fresh := event("o-1"), event("o-1"), event("o-1")
	want(t, r.take(t, first, counted), 1, 1)
	e.decline(t, first.Event.EventID)
	want(t, r.take(t, counted, first), 0, 2) // once counted as duplicate, always a duplicate
	want(t, e.reader(t, "renamed", 0).take(t, counted), 0, 1)
	want(t, r.take(t, fresh), 1, 0)
	e.count(t, 2, "SELECT count(*) FROM charge WHERE order_id = 'o-1'")
	e.count(t, 1, "SELECT count(*) FROM charge WHERE order_id = 'o-1' AND holds_order AND event_id = $1", fresh.Event.EventID)
}

// decline settles a charge as the provider's no would.
func (e env) decline(t *testing.T, id uuid.UUID) {
	t.Helper()
	e.db.Exec(t, "DELETE FROM outbox WHERE event_id = $1", id)
	e.db.Exec(t, "UPDATE charge SET status = 'declined', holds_order = false WHERE event_id = $1", id)
}

func TestAgeIsJudgedOnlyOfUnknownEvents(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	now := time.Now()
	old := eventOf(idAt(now.Add(-limits.Retention-time.Minute)), orderOf("old"))
	ahead := eventOf(idAt(now.Add(limits.Skew+time.Minute)), orderOf("ahead"))
	justOld := eventOf(idAt(now.Add(-limits.Retention+time.Minute)), orderOf("just old"))
	justAhead := eventOf(idAt(now.Add(limits.Skew-time.Minute)), orderOf("just ahead"))
	yesterday := eventOf(idAt(now.Add(-24*time.Hour)), orderOf("yesterday"))
	want(t, r.take(t, old, ahead, justOld, justAhead, yesterday), 3, 0, domain.ReasonEventTooOld, domain.ReasonEventFromFuture)
	e.count(t, 3, "SELECT count(*) FROM processed_event")
	// Known ones are duplicates, however old: by the charge, and by the inbox alone.
	e.insertCharge(t, old.Event)
	want(t, r.take(t, old), 0, 1)
	counted := eventOf(idAt(now.Add(-limits.Retention-time.Minute)), orderOf("just old"))
	f := counted.Event.Order.Fingerprint()
	e.db.Exec(t, "INSERT INTO processed_event (event_id, consumer_group, fingerprint) VALUES ($1, 'former', $2)", counted.Event.EventID, f[:])
	want(t, r.take(t, counted), 0, 1)
}

func (e env) insertCharge(t *testing.T, ev domain.OrderConfirmed) {
	t.Helper()
	e.db.Exec(t, "INSERT INTO charge (event_id, order_id, customer_id, amount_minor, currency, source) VALUES ($1, $2, $3, $4, $5, 'kafka')",
		ev.EventID, ev.Order.OrderID, ev.Order.CustomerID, ev.Order.Amount.Minor, ev.Order.Amount.Currency)
}

func TestRenamedGroupFindsOnlyDuplicates(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	all := []usecase.Delivery{event("o-1"), event("o-2"), event("o-2"), eventOf(idAt(time.Now().Add(-6*24*time.Hour)), orderOf("o-3"))}
	want(t, e.reader(t, group, 0).take(t, all...), 3, 1)
	want(t, e.reader(t, "renamed", 0).take(t, all...), 0, 4)
	e.count(t, 0, "SELECT count(*) FROM dead_letter")
	e.count(t, 3, "SELECT count(*) FROM charge")
	// With the inbox lost the charges still know.
	e.db.Exec(t, "DELETE FROM processed_event")
	want(t, e.reader(t, "renamed again", 0).take(t, all...), 0, 4)
}

// What was lost may have charged the second event, when the first was declined. Nobody knows before the first is settled again.
func TestSecondEventReadAgainWaitsForWhatBecomesOfTheFirst(t *testing.T) {
	t.Parallel()
	for _, status := range []domain.Status{domain.StatusDeclined, domain.StatusSucceeded, domain.StatusParked} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			b := newBooks(t)
			b.request(t, "o-1")
			again := event("o-1")
			b.orders.below = 100
			for range 2 {
				if _, _, err := b.orders.chunk(t.Context(), again); !errors.Is(err, domain.ErrRetry) {
					t.Fatalf("judged before its time: %v", err)
				}
			}
			b.conclude(t, b.claim(t), status, domain.Declined)
			accepted := 0
			if status == domain.StatusDeclined {
				accepted = 1
			}
			want(t, b.orders.take(t, again), accepted, 1-accepted)
			b.count(t, accepted, "SELECT count(*) FROM charge WHERE event_id = $1", again.Event.EventID)
			if accepted == 1 {
				if c := b.claim(t); c.Step != usecase.StepLookup {
					t.Errorf("claimed for %s, want a look-up and nothing else", c.Step)
				}
			}
		})
	}
}

// Of two second events the lost history had refused one and charged the other. Both are looked up; the one that is unknown waits
// for a person without holding the order, and can never be sent beside the other.
func TestEachSecondEventReadAgainIsLookedUp(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	b.charge(t, "o-1", domain.StatusDeclined, domain.Declined)
	b.orders.below = 100
	refusedOne, charged := event("o-1"), event("o-1")
	want(t, b.orders.take(t, refusedOne), 1, 0)
	if stats, err := b.store.Stats(t.Context(), keyWindow); err != nil || !stats.NearestDeadline.IsZero() {
		t.Errorf("a key that is never used has a deadline: %s, %v", stats.NearestDeadline, err)
	}
	unknown := b.claim(t)
	if !unknown.Doubtful || unknown.Step != usecase.StepLookup {
		t.Fatalf("claimed %+v, want a look-up", unknown)
	}
	report, err := b.settle.Do(t.Context(), []usecase.Settlement{{
		EventID: unknown.EventID, Attempt: unknown.Attempt, LastOutcome: domain.Unknown, Status: domain.StatusParked, FreesOrder: true,
		Reason: string(domain.ParkHistoryLost), Order: unknown.Order, Traceparent: trace,
		Announcement: &domain.Announcement{ID: newID(), Type: domain.StatusParked.Announcement(), Charge: unknown.EventID, Order: unknown.Order, Version: 1},
	}})
	if err != nil || report.Fenced != 0 {
		t.Fatalf("park: %+v, %v", report, err)
	}
	want(t, b.orders.take(t, charged), 1, 0)
	if c := b.claim(t); !c.Doubtful || !b.conclude(t, c, domain.StatusSucceeded, domain.Succeeded) {
		t.Fatalf("claimed %+v, want a look-up", c)
	}
	refusedWith(t, b.operate(notFound()).Retry(t.Context(), unknown.EventID, somebody), "another charge")
	b.orders.below = 0
	want(t, b.orders.take(t, event("o-1")), 0, 1)
	b.sound(t)
}

func TestRereadEventStartsAsSentAtItsTime(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	r.below = 2
	past := eventOf(idAt(time.Now().Add(-time.Hour)), orderOf("past"))
	ahead := eventOf(idAt(time.Now().Add(time.Hour)), orderOf("ahead"))
	fresh := event("fresh")
	want(t, r.take(t, past, ahead, fresh), 3, 0)
	e.count(t, 1, "SELECT count(*) FROM charge WHERE order_id = 'past' AND first_sent_at = $1", domain.IDTime(past.Event.EventID))
	e.count(t, 1, "SELECT count(*) FROM charge WHERE order_id = 'ahead' AND first_sent_at <= clock_timestamp()")
	e.count(t, 1, "SELECT count(*) FROM charge WHERE order_id = 'fresh' AND first_sent_at IS NULL")
}
