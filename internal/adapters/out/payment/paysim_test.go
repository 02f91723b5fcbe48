package payment

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"billing/internal/core/domain"
	"billing/internal/paysim"
)

// stage is the adapter in front of the stateful simulator.
type stage struct {
	*Generic
	sim *paysim.Server
}

func newStage(t *testing.T, timeout time.Duration, rules ...paysim.Rule) stage {
	t.Helper()
	sim, err := paysim.New(paysim.Options{Token: canaryToken, Script: paysim.Script{Rules: rules}})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := sim.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := stage{newGeneric(t, target{url: listener.URL, timeout: timeout}), sim}
	t.Cleanup(func() {
		s.Close()
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		if err := sim.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s stage) charge(t *testing.T) domain.Answer {
	t.Helper()
	body, err := s.Request(testOrder)
	if err != nil {
		t.Fatal(err)
	}
	a := s.Charge(t.Context(), testKey, body, testOrder, "")
	checkNoSecret(t, a.Detail+a.Code)
	return a
}

func (s stage) lookup(t *testing.T) domain.Answer {
	t.Helper()
	return s.Lookup(t.Context(), testKey, testOrder, "")
}

// checkWire compares what the simulator received and did.
func (s stage) checkWire(t *testing.T, posts, effects int) {
	t.Helper()
	got := 0
	for _, r := range s.sim.Requests() {
		if r.Call == paysim.Charges {
			got++
		}
	}
	if got != posts || len(s.sim.Effects()) != effects {
		t.Errorf("%d POSTs and %d effects, want %d and %d", got, len(s.sim.Effects()), posts, effects)
	}
}

// TestFaultOfTheProviderIsClassifiedAndHealed is the fault matrix on a provider that keeps state: what the
// first attempt comes to, and what the same key comes to after it.
func TestFaultOfTheProviderIsClassifiedAndHealed(t *testing.T) {
	t.Parallel()
	answer := func(status int) paysim.Fault { return paysim.Fault{Kind: paysim.Answer, Status: status} }
	for name, tc := range map[string]struct {
		fault         paysim.Fault
		first, second meaning
		short         bool
	}{
		"H2 dropped before":       {fault: paysim.Fault{Kind: paysim.Drop}, first: unreadable, second: succeeded},
		"H2 dropped after":        {fault: paysim.Fault{Kind: paysim.Drop, Phase: paysim.After}, first: unreadable, second: succeeded},
		"H2 late effect":          {fault: paysim.Fault{Kind: paysim.Hang, Phase: paysim.After}, first: meaning{domain.Unknown, domain.CauseTimeout}, second: succeeded, short: true},
		"H3 truncated":            {fault: paysim.Fault{Kind: paysim.Truncate}, first: unreadable, second: succeeded},
		"H4 oversized":            {fault: paysim.Fault{Kind: paysim.Oversize}, first: unreadable, second: succeeded},
		"H4 gzip bomb":            {fault: paysim.Fault{Kind: paysim.GzipBomb}, first: unreadable, second: succeeded},
		"H4 drip":                 {fault: paysim.Fault{Kind: paysim.Drip}, first: meaning{domain.Unknown, domain.CauseTimeout}, second: succeeded, short: true},
		"H4 dripping header":      {fault: paysim.Fault{Kind: paysim.DripHeader}, first: meaning{domain.Unknown, domain.CauseTimeout}, second: succeeded, short: true},
		"H4 informational":        {fault: paysim.Fault{Kind: paysim.Informational}, first: meaning{domain.Unknown, domain.CauseTimeout}, second: succeeded, short: true},
		"H5 in progress":          {fault: paysim.Conflict("in_progress"), first: inProgress, second: succeeded},
		"H6 key reused":           {fault: paysim.Conflict("key_reused"), first: keyReused, second: succeeded},
		"H7 throttled":            {fault: answer(http.StatusTooManyRequests), first: throttled, second: succeeded},
		"H7 unavailable":          {fault: answer(http.StatusServiceUnavailable), first: throttled, second: succeeded},
		"H8 stored 500":           {fault: paysim.Fault{Kind: paysim.Answer, Status: 500, Store: true, Phase: paysim.After}, first: failed, second: failed},
		"H9 decline not stored":   {fault: paysim.Fault{Outcome: paysim.Declined, NotStored: true}, first: declined, second: succeeded},
		"H10 refused":             {fault: answer(http.StatusForbidden), first: refused, second: succeeded},
		"H11 declined":            {fault: paysim.Fault{Outcome: paysim.Declined}, first: declined, second: declined},
		"H12 redirect":            {fault: paysim.Redirect("/elsewhere"), first: unexpected, second: succeeded},
		"409 without code":        {fault: paysim.Conflict(""), first: processed, second: succeeded},
		"pending":                 {fault: paysim.Fault{Outcome: paysim.Pending}, first: pending, second: pending},
		"bad gateway after":       {fault: paysim.Fault{Kind: paysim.Answer, Status: 502, Phase: paysim.After, Body: "<html>"}, first: failed, second: succeeded},
		"another order's success": {fault: paysim.Fault{Kind: paysim.Answer, Status: 200, Body: bodies["other order"]}, first: mismatch, second: succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := 30 * time.Second
			if tc.short {
				timeout = shortTimeout
			}
			s := newStage(t, timeout, paysim.Rule{Match: paysim.Match{Attempt: 1}, Fault: tc.fault})
			for i, want := range []meaning{tc.first, tc.second} {
				a := s.charge(t)
				if got := (meaning{a.Outcome, a.Cause}); got != want {
					t.Errorf("attempt %d: got %v (%s), want %v", i+1, got, a.Detail, want)
				}
			}
			posts := 0
			for _, r := range s.sim.Requests() {
				if r.Call == paysim.Charges {
					posts++
				}
			}
			if posts != 2 {
				t.Errorf("%d POSTs on the wire for 2 attempts", posts)
			}
		})
	}
}

// TestResetUnderAReusedConnectionIsOneExecution is H15 on the simulator.
func TestResetUnderAReusedConnectionIsOneExecution(t *testing.T) {
	t.Parallel()
	s := newStage(t, 30*time.Second, paysim.Rule{Match: paysim.Match{Attempt: 1}, Fault: paysim.Fault{Kind: paysim.ResetOnReuse}})
	for i, want := range []domain.Outcome{domain.Succeeded, domain.Unknown, domain.Succeeded} {
		if a := s.charge(t); a.Outcome != want {
			t.Errorf("attempt %d: got %s (%s), want %s", i+1, a.Outcome, a.Detail, want)
		}
	}
	s.checkWire(t, 2, 1) // the simulator does not take the request that it resets
}

// TestPendingChargeIsSettledByLookup also is H14: not found is no answer to "was it charged".
func TestPendingChargeIsSettledByLookup(t *testing.T) {
	t.Parallel()
	s := newStage(t, 30*time.Second, paysim.Rule{
		Fault: paysim.Fault{Outcome: paysim.Pending, Hold: paysim.Hold{Final: paysim.Declined, Lookups: 2}},
	})
	checkAnswer(t, s.lookup(t), domain.Unknown, domain.CauseNotFound, 404)
	checkAnswer(t, s.charge(t), domain.Pending, domain.CauseNone, 202)
	checkAnswer(t, s.lookup(t), domain.Pending, domain.CauseNone, 200)
	a := s.lookup(t)
	checkAnswer(t, a, domain.Declined, domain.CauseNone, 200)
	if a.Code != "card_declined" || a.ProviderRef == nil || *a.ProviderRef == "" {
		t.Errorf("got code %q and ref %v", a.Code, a.ProviderRef)
	}
	s.checkWire(t, 1, 1)
}

// TestForgottenKeyIsFoundByLookup is H13: after the window only look-up is safe, and it still works.
func TestForgottenKeyIsFoundByLookup(t *testing.T) {
	t.Parallel()
	s := newStage(t, 30*time.Second)
	checkAnswer(t, s.charge(t), domain.Succeeded, domain.CauseNone, 201)
	if err := s.sim.ForgetKeys(); err != nil {
		t.Fatal(err)
	}
	checkAnswer(t, s.lookup(t), domain.Succeeded, domain.CauseNone, 200)
	s.checkWire(t, 1, 1)
}

// TestWrongURLIsNoWordOnACharge: the 404 of a server that knows nothing of charges.
func TestWrongURLIsNoWordOnACharge(t *testing.T) {
	t.Parallel()
	s := newStage(t, 30*time.Second, paysim.WrongURL())
	checkAnswer(t, s.lookup(t), domain.Unknown, domain.CauseUnexpected, 404)
	checkAnswer(t, s.charge(t), domain.Rejected, domain.CauseInvalidRequest, 404)
}

func TestWrongTokenIsNotSent(t *testing.T) {
	t.Parallel()
	s := newStage(t, 30*time.Second)
	s.client.token = func() string { return "another" }
	checkAnswer(t, s.charge(t), domain.NotSent, domain.CauseUnauthorized, 401)
	checkAnswer(t, s.lookup(t), domain.Unknown, domain.CauseUnauthorized, 401)
	s.checkWire(t, 1, 0)
}

// TestListMeetsEveryChargeOnce pages through charges of every final status.
func TestListMeetsEveryChargeOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, 30*time.Second, paysim.Rule{Match: paysim.Match{OrderID: "o-3"}, Fault: paysim.Fault{Outcome: paysim.Declined}})
	want := map[string]ProviderCharge{}
	for _, id := range []string{"o-1", "o-2", "o-3", "o-4", "o-5"} {
		order := domain.Order{OrderID: id, CustomerID: "c-1", Amount: domain.Money{Minor: 100, Currency: "RUB"}}
		body, err := s.Request(order)
		if err != nil {
			t.Fatal(err)
		}
		key := testKey
		key[15] = id[2]
		a := s.Charge(t.Context(), key, body, order, "")
		if a.ProviderRef == nil {
			t.Fatalf("%s: %s without a ref", id, a.Outcome)
		}
		want[key.String()] = ProviderCharge{Key: key.String(), ID: *a.ProviderRef, Status: string(a.Outcome), OrderID: id, Amount: order.Amount}
	}
	got := map[string]ProviderCharge{}
	for cursor, pages := "", 1; ; pages++ {
		charges, next, err := s.List(t.Context(), cursor, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range charges {
			got[c.Key] = c
		}
		if cursor = next; next == "" {
			if pages != 3 {
				t.Errorf("%d pages, want 3", pages)
			}
			break
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
