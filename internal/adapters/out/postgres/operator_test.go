package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

var somebody = usecase.By{Actor: "ann", Reason: "ticket 17"}

// asked is a provider that answers look-ups only.
type asked struct {
	answer domain.Answer
	asked  int
}

func (a *asked) Capabilities() usecase.Capabilities { return usecase.Capabilities{Lookup: true} }

func (*asked) Charge(context.Context, uuid.UUID, []byte, domain.Order, string) domain.Answer {
	panic("an operator's command never charges")
}

func (a *asked) Lookup(context.Context, uuid.UUID, domain.Order, string) domain.Answer {
	a.asked++
	return a.answer
}

func notFound() *asked {
	return &asked{answer: domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseNotFound}}
}

func (b *books) operate(provider usecase.Provider) usecase.Operate {
	return usecase.Operate{Desk: b.store, Codec: codec{}, IDs: newID, Provider: provider, Account: account}
}

// refusedWith fails unless err is a refusal that speaks of text.
func refusedWith(t *testing.T, err error, text string) {
	t.Helper()
	refusal, ok := errors.AsType[*usecase.RefusedError](err)
	if !ok || !strings.Contains(refusal.Why, text) {
		t.Fatalf("got %v, want a refusal that says %q", err, text)
	}
}

// sound fails when the audit finds anything.
func (b *books) sound(t *testing.T) {
	t.Helper()
	w := world{books: b}
	audit := usecase.Audit{Store: w.store, PageRows: 100, Timeout: time.Minute, Keep: 10, Limits: usecase.AuditLimits{Retention: limits.Retention}}
	report, err := audit.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if list := found(report); len(list) > 0 {
		t.Fatalf("the audit finds %q", list)
	}
}

func TestRetryOpensANewWindowAndFencesFormerOwners(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	id := b.request(t, "o-1")
	first := b.claim(t)
	b.db.Exec(t, `UPDATE outbox SET run_at = now() - interval '1 hour' WHERE event_id = $1`, id)
	second := b.claim(t)
	b.conclude(t, second, domain.StatusParked, domain.Unknown)
	provider := notFound()
	if err := b.operate(provider).Retry(t.Context(), id, somebody); err != nil {
		t.Fatal(err)
	}
	if provider.asked != 1 {
		t.Errorf("the provider was asked %d times, want 1", provider.asked)
	}
	b.count(t, 1, `SELECT count(*) FROM charge WHERE status = 'requested' AND first_sent_at IS NULL AND pending_since IS NULL AND version = 1`)
	b.count(t, 1, `SELECT count(*) FROM charge_event WHERE type = 'ChargeRetried' AND version IS NULL AND actor = 'ann' AND reason = 'ticket 17'`)
	b.sound(t)
	for _, late := range []usecase.Claim{first, second} {
		if b.conclude(t, late, domain.StatusDeclined, domain.Declined) {
			t.Fatalf("the owner of attempt %d could still decline the charge", late.Attempt)
		}
	}
	again := b.claim(t)
	if again.Attempt <= second.Attempt || string(again.Request) != string(first.Request) {
		t.Fatalf("the retry is attempt %d with request %s", again.Attempt, again.Request)
	}
	if !b.conclude(t, again, domain.StatusSucceeded, domain.Succeeded) {
		t.Fatal("the retry's claim did not hold")
	}
	b.count(t, 2, `SELECT version FROM charge_event WHERE type = 'ChargeSucceeded'`)
	b.sound(t)
}

func TestRetryIsRefusedUnlessTheProviderDoesNotKnowTheCharge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer domain.Answer
		why    string
	}{
		"succeeded": {domain.Answer{Outcome: domain.Succeeded}, "--as succeeded"},
		"declined":  {domain.Answer{Outcome: domain.Declined}, "--as declined"},
		"pending":   {domain.Answer{Outcome: domain.Pending}, "has a charge"},
		"other":     {domain.Answer{Outcome: domain.Rejected, Cause: domain.CauseEchoMismatch}, "has a charge"},
		"silence":   {domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseTimeout}, "does not say"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBooks(t)
			id := b.charge(t, "o-1", domain.StatusParked, domain.Unknown)
			refusedWith(t, b.operate(&asked{answer: test.answer}).Retry(t.Context(), id, somebody), test.why)
			b.count(t, 1, `SELECT count(*) FROM charge WHERE status = 'parked'`)
		})
	}
}

func TestRetryIsRefusedForAnotherProviderAccount(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	id := b.charge(t, "o-1", domain.StatusParked, domain.Unknown)
	o := b.operate(notFound())
	o.Account = "other"
	refusedWith(t, o.Retry(t.Context(), id, somebody), "another")
}

func TestResolveSettlesAndAnnouncesAParkedCharge(t *testing.T) {
	t.Parallel()
	for _, as := range []domain.Status{domain.StatusSucceeded, domain.StatusDeclined} {
		t.Run(string(as), func(t *testing.T) {
			t.Parallel()
			b := newBooks(t)
			id := b.charge(t, "o-1", domain.StatusParked, domain.Unknown)
			ref := "p-1"
			if err := b.operate(nil).Resolve(t.Context(), id, as, &ref, somebody); err != nil {
				t.Fatal(err)
			}
			b.count(t, 1, `SELECT count(*) FROM charge WHERE status = $1 AND provider_ref = 'p-1' AND version = 2`, string(as))
			b.count(t, 1, `SELECT count(*) FROM charge_event WHERE type = $1 AND from_status = 'parked' AND version = 2 AND actor = 'ann'`, as.Announcement())
			b.count(t, 1, `SELECT count(*) FROM outbox WHERE channel = 'kafka' AND event_type = $1 AND version = 2`, as.Announcement())
			b.count(t, 0, `SELECT count(*) FROM outbox WHERE channel = 'provider'`)
			b.sound(t)
			refusedWith(t, b.operate(nil).Resolve(t.Context(), id, as, nil, somebody), "only a parked charge")
		})
	}
}

func TestOnlyAChargeThatWasNeverSentIsCancelled(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	parked := b.charge(t, "o-parked", domain.StatusParked, domain.Unknown)
	refusedWith(t, b.operate(nil).Cancel(t.Context(), parked, somebody), "never sent")
	if err := b.operate(notFound()).Retry(t.Context(), parked, somebody); err != nil {
		t.Fatal(err)
	}
	// The new window forgets the first send; the charge does not.
	refusedWith(t, b.operate(nil).Cancel(t.Context(), parked, somebody), "never sent")
	b.claim(t)
	refusedWith(t, b.operate(nil).Cancel(t.Context(), parked, somebody), "never sent")

	fresh := b.request(t, "o-fresh")
	if err := b.operate(nil).Cancel(t.Context(), fresh, somebody); err != nil {
		t.Fatal(err)
	}
	b.count(t, 1, `SELECT count(*) FROM charge WHERE status = 'cancelled' AND NOT holds_order AND version = 1`)
	b.count(t, 1, `SELECT count(*) FROM outbox WHERE event_type = 'ChargeCancelled' AND channel = 'kafka'`)
	b.sound(t)
	b.request(t, "o-fresh") // the order may be charged anew
}

func TestNobodyMovesAChargeWithoutNameAndReason(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	id := b.request(t, "o-1")
	for _, by := range []usecase.By{{Actor: "ann"}, {Reason: "why"}} {
		if err := b.operate(nil).Cancel(t.Context(), id, by); err == nil {
			t.Errorf("%+v could cancel a charge", by)
		}
		if _, err := b.store.TurnOn(t.Context(), usecase.ChargingPaused, by); err == nil {
			t.Errorf("%+v could pause charging", by)
		}
		if _, _, err := b.store.ActOnPartition(t.Context(), b.orders.src, usecase.ReleasePartition, 0, by); err == nil {
			t.Errorf("%+v could release a partition", by)
		}
	}
	if err := b.operate(nil).Cancel(t.Context(), newID(), somebody); !errors.Is(err, usecase.ErrNoCharge) {
		t.Errorf("an unknown charge: %v", err)
	}
}

// TestCancelRacesClaim lets both go for the same charges: each is either cancelled or sent, never both.
func TestCancelRacesClaim(t *testing.T) {
	t.Parallel()
	const n = 60
	b := newBooks(t)
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = b.request(t, "o-"+string(rune('A'+i)))
	}
	var wg sync.WaitGroup
	var claimed, cancelled sync.Map
	wg.Go(func() {
		for {
			claims, err := b.store.ClaimCharges(t.Context(), 1, rules)
			if err != nil {
				t.Error(err)
				return
			}
			if len(claims) == 0 {
				return
			}
			claimed.Store(claims[0].EventID, true)
		}
	})
	wg.Go(func() {
		for i := range ids {
			err := b.operate(nil).Cancel(t.Context(), ids[n-1-i], somebody)
			if _, refused := errors.AsType[*usecase.RefusedError](err); err != nil && !refused {
				t.Error(err)
			} else if err == nil {
				cancelled.Store(ids[n-1-i], true)
			}
		}
	})
	wg.Wait()
	for _, id := range ids {
		_, sent := claimed.Load(id)
		_, gone := cancelled.Load(id)
		if sent == gone {
			t.Errorf("charge %s: sent %t, cancelled %t", id, sent, gone)
		}
	}
	b.sound(t)
}

func TestSwitchIsRecordedAndStopsClaims(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	b.request(t, "o-1")
	for i, wantTurned := range []bool{true, false} {
		if turned, err := b.store.TurnOn(t.Context(), usecase.ChargingPaused, somebody); err != nil || turned != wantTurned {
			t.Fatalf("turn on, time %d: %t, %v", i+1, turned, err)
		}
	}
	if claims, err := b.store.ClaimCharges(t.Context(), 1, rules); err != nil || len(claims) != 0 {
		t.Fatalf("claimed %d while paused: %v", len(claims), err)
	}
	if turned, err := b.store.TurnOff(t.Context(), usecase.ChargingPaused, somebody); err != nil || !turned {
		t.Fatalf("turn off: %t, %v", turned, err)
	}
	b.claim(t)
	b.count(t, 2, `SELECT count(*) FROM operator_action WHERE target = 'charging_paused' AND actor = 'ann' AND reason = 'ticket 17'`)
}

func TestPartitionActions(t *testing.T) {
	t.Parallel()
	type row struct {
		gap, halted string
		accepted    bool
		next        int64
		skipped     string
	}
	for name, test := range map[string]struct {
		before  row
		action  usecase.PartitionAction
		to      int64
		after   row
		refused string
	}{
		"gap of a halted partition is accepted": {row{gap: "g", halted: "g", next: 5}, usecase.AcceptGap, 0, row{gap: "g", halted: "g", accepted: true, next: 5}, ""},
		"gap of a running partition is cleared": {row{gap: "g", next: 5}, usecase.AcceptGap, 0, row{next: 5}, ""},
		"no gap to accept":                      {row{next: 5}, usecase.AcceptGap, 0, row{}, "no gap"},
		"halted partition is released":          {row{halted: "flood", next: 5}, usecase.ReleasePartition, 0, row{next: 5}, ""},
		"running partition is not released":     {row{next: 5}, usecase.ReleasePartition, 0, row{}, "not halted"},
		"gap is not released":                   {row{gap: "g", halted: "g", next: 5}, usecase.ReleasePartition, 0, row{}, "accept-gap"},
		"corrupt records are passed over":       {row{halted: "corrupt records", next: 5}, usecase.SkipRecords, 9, row{next: 5, skipped: "[{5 9}]"}, ""},
		"a running partition skips nothing":     {row{next: 5}, usecase.SkipRecords, 9, row{}, "not halted"},
		"a gap is not skipped":                  {row{gap: "g", halted: "g", next: 5}, usecase.SkipRecords, 9, row{}, "accept-gap"},
		"a flood is not skipped":                {row{halted: "brake", next: 5}, usecase.SkipRecords, 9, row{}, "can be read"},
		"a skip leads forward":                  {row{halted: "corrupt records", next: 5}, usecase.SkipRecords, 5, row{}, "not behind 5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBooks(t)
			before := usecase.Position{Next: test.before.next, Gap: test.before.gap, Halted: test.before.halted}
			if err := b.store.PutPosition(t.Context(), b.orders.src, before); err != nil {
				t.Fatal(err)
			}
			_, is, err := b.store.ActOnPartition(t.Context(), b.orders.src, test.action, test.to, somebody)
			if test.refused != "" {
				refusedWith(t, err, test.refused)
				b.count(t, 0, `SELECT count(*) FROM operator_action`)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			stored, _, err := b.store.Position(t.Context(), b.orders.src)
			if got := (row{stored.Gap, stored.Halted, stored.GapAccepted, stored.Next, skips(stored.Skips)}); err != nil || got != test.after || is.Next != got.next {
				t.Errorf("the row is %+v (%v), want %+v", got, err, test.after)
			}
			b.count(t, 1, `SELECT count(*) FROM operator_action WHERE actor = 'ann' AND action = $1`, "partitions "+string(test.action))
			if test.action == usecase.SkipRecords && stored.PassBelow != 0 {
				t.Errorf("a skip let everything below %d pass the brake", stored.PassBelow)
			}
		})
	}
}

func skips(spans []usecase.Span) string {
	if len(spans) == 0 {
		return ""
	}
	return fmt.Sprint(spans)
}

// What an operator passed over stays so, however often its owner begins anew and another place is skipped.
func TestSkipsAddUp(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	for _, skip := range []usecase.Span{{From: 5, To: 9}, {From: 20, To: 21}, {From: 9, To: 10}} {
		p, _, err := b.store.Position(t.Context(), b.orders.src)
		if err != nil {
			t.Fatal(err)
		}
		p.Next, p.Halted = skip.From, "corrupt records"
		if err := b.store.PutPosition(t.Context(), b.orders.src, p); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.store.ActOnPartition(t.Context(), b.orders.src, usecase.SkipRecords, skip.To, somebody); err != nil {
			t.Fatal(err)
		}
	}
	list, err := b.store.Partitions(t.Context(), b.orders.src)
	if err != nil || len(list) != 1 || skips(list[0].Skips) != "[{5 10} {20 21}]" {
		t.Errorf("the row is %+v, %v", list, err)
	}
}

func TestChargesAreListedAndShown(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	declined := b.charge(t, "o-1", domain.StatusDeclined, domain.Declined)
	succeeded := b.charge(t, "o-1", domain.StatusSucceeded, domain.Succeeded)
	parked := b.charge(t, "o-2", domain.StatusParked, domain.Unknown)
	waiting := b.request(t, "o-3")
	for name, test := range map[string]struct {
		filter usecase.ChargeFilter
		want   []uuid.UUID
	}{
		"all":       {usecase.ChargeFilter{}, []uuid.UUID{waiting, parked, succeeded, declined}},
		"limit":     {usecase.ChargeFilter{Limit: 1}, []uuid.UUID{waiting}},
		"order":     {usecase.ChargeFilter{OrderID: "o-1"}, []uuid.UUID{succeeded, declined}},
		"both":      {usecase.ChargeFilter{OrderID: "o-1", Status: domain.StatusDeclined}, []uuid.UUID{declined}},
		"parked":    {usecase.ChargeFilter{Status: domain.StatusParked}, []uuid.UUID{parked}},
		"requested": {usecase.ChargeFilter{Status: domain.StatusRequested}, []uuid.UUID{waiting}},
		"succeeded": {usecase.ChargeFilter{Status: domain.StatusSucceeded}, []uuid.UUID{succeeded}},
	} {
		if test.filter.Limit == 0 {
			test.filter.Limit = 10
		}
		list, err := b.store.ListCharges(t.Context(), test.filter)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]uuid.UUID, 0, len(list))
		for _, c := range list {
			got = append(got, c.EventID)
		}
		if len(got) != len(test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
			continue
		}
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("%s: %v, want %v", name, got, test.want)
			}
		}
	}
	dossier, err := b.store.Dossier(t.Context(), parked)
	if err != nil || dossier.Charge.OrderID != "o-2" || len(dossier.Attempts) != 1 || len(dossier.History) != 1 {
		t.Errorf("dossier %+v: %v", dossier, err)
	}
	if _, err := b.store.Dossier(t.Context(), newID()); !errors.Is(err, usecase.ErrNoCharge) {
		t.Errorf("an unknown charge: %v", err)
	}
}
