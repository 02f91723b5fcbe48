package usecase_test

import (
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

func newSend(p *provider, c *clock) usecase.Send {
	backoff := domain.Backoff{Min: time.Second, Max: time.Minute}
	return usecase.Send{
		Provider: p, Codec: plainCodec{}, Clock: c, Random: half, IDs: ids, Backoff: backoff,
		Gate:  &usecase.Gate{Clock: c, Random: half, Backoff: backoff},
		Lease: 30 * time.Second, Timeout: 10 * time.Second, PendingMax: 72 * time.Hour,
	}
}

func newClaim(c *clock, step usecase.Step) usecase.Claim {
	posts := step == usecase.StepPost || step == usecase.StepLookupPost
	return usecase.Claim{
		EventID: uuid.UUID{1}, Request: []byte("bytes"), Attempt: 3, Step: step, Tries: 1, Version: 0,
		Journaled: posts, Stamped: posts, PostFor: 12 * time.Hour, Now: c.Now(), ClaimedAt: c.Now(),
		Order: domain.Order{OrderID: "o-1", CustomerID: "c-1", Amount: domain.Money{Minor: 100, Currency: "RUB"}},
	}
}

var withLookup = usecase.Capabilities{Lookup: true, KeyWindow: 24 * time.Hour}

func TestEveryAnswerHasItsMeaning(t *testing.T) {
	t.Parallel()
	ref := "ch_1"
	type want struct {
		status   domain.Status
		reason   string
		outcome  domain.Outcome // of the attempt
		last     domain.Outcome
		charges  int
		lookups  int
		clear    bool
		pending  bool
		minDelay time.Duration
	}
	for name, tc := range map[string]struct {
		step   usecase.Step
		caps   usecase.Capabilities
		charge domain.Answer
		lookup domain.Answer
		claim  func(*usecase.Claim)
		want   want
	}{
		"yes":        {usecase.StepPost, withLookup, domain.Answer{Outcome: domain.Succeeded, ProviderRef: &ref}, domain.Answer{}, nil, want{status: domain.StatusSucceeded, outcome: domain.Succeeded, last: domain.Succeeded, charges: 1}},
		"no":         {usecase.StepPost, withLookup, domain.Answer{Outcome: domain.Declined, Code: "card_declined"}, domain.Answer{}, nil, want{status: domain.StatusDeclined, reason: "card_declined", outcome: domain.Declined, last: domain.Declined, charges: 1}},
		"no answer":  {usecase.StepPost, withLookup, domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseTimeout}, domain.Answer{}, nil, want{status: domain.StatusRequested, outcome: domain.Unknown, last: domain.Unknown, charges: 1, minDelay: time.Millisecond}},
		"come later": {usecase.StepPost, withLookup, domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseThrottled, RetryAfter: 90 * time.Second}, domain.Answer{}, nil, want{status: domain.StatusRequested, outcome: domain.Unknown, last: domain.Unknown, charges: 1, minDelay: 90 * time.Second}},
		"no connection": {
			usecase.StepPost, withLookup,
			domain.Answer{Outcome: domain.NotSent, Cause: domain.CauseNoConnection},
			domain.Answer{},
			nil,
			want{status: domain.StatusRequested, outcome: domain.NotSent, last: domain.NotSent, charges: 1, clear: true, minDelay: time.Millisecond},
		},
		"no connection later on": {
			usecase.StepPost, withLookup,
			domain.Answer{Outcome: domain.NotSent, Cause: domain.CauseNoConnection},
			domain.Answer{},
			func(c *usecase.Claim) { c.Stamped = false },
			want{status: domain.StatusRequested, outcome: domain.NotSent, last: domain.NotSent, charges: 1, minDelay: time.Millisecond},
		},
		"our fault":                {usecase.StepPost, withLookup, domain.Answer{Outcome: domain.Rejected, Cause: domain.CauseKeyReused}, domain.Answer{}, nil, want{status: domain.StatusParked, reason: "key_reused", outcome: domain.Rejected, last: domain.Rejected, charges: 1}},
		"not final":                {usecase.StepPost, withLookup, domain.Answer{Outcome: domain.Pending}, domain.Answer{}, nil, want{status: domain.StatusRequested, outcome: domain.Pending, last: domain.Pending, charges: 1, pending: true, minDelay: 10 * time.Second}},
		"not final, nobody to ask": {usecase.StepPost, usecase.Capabilities{KeyWindow: 24 * time.Hour}, domain.Answer{Outcome: domain.Pending}, domain.Answer{}, nil, want{status: domain.StatusParked, reason: "outcome_unknown", outcome: domain.Pending, last: domain.Pending, charges: 1}},
		"processed, found":         {usecase.StepPost, withLookup, domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseAlreadyProcessed, HTTPStatus: 409}, domain.Answer{Outcome: domain.Succeeded}, nil, want{status: domain.StatusSucceeded, outcome: domain.Succeeded, last: domain.Succeeded, charges: 1, lookups: 1}},
		"processed, not found":     {usecase.StepPost, withLookup, domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseAlreadyProcessed}, domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseNotFound}, nil, want{status: domain.StatusRequested, outcome: domain.Unknown, last: domain.Unknown, charges: 1, lookups: 1, minDelay: time.Millisecond}},
		"processed, nobody to ask": {usecase.StepPost, usecase.Capabilities{KeyWindow: 24 * time.Hour}, domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseAlreadyProcessed}, domain.Answer{}, nil, want{status: domain.StatusSucceeded, outcome: domain.Succeeded, last: domain.Succeeded, charges: 1}},
		"another account":          {usecase.StepPark, withLookup, domain.Answer{}, domain.Answer{}, func(c *usecase.Claim) { c.LastOutcome = domain.Unknown }, want{status: domain.StatusParked, reason: "provider_changed", outcome: domain.Unknown, last: domain.Unknown}},
		"window over, found":       {usecase.StepLookup, withLookup, domain.Answer{}, domain.Answer{Outcome: domain.Succeeded}, nil, want{status: domain.StatusSucceeded, outcome: domain.Succeeded, last: domain.Succeeded, lookups: 1}},
		"window over, declined":    {usecase.StepLookup, withLookup, domain.Answer{}, domain.Answer{Outcome: domain.Declined}, nil, want{status: domain.StatusDeclined, outcome: domain.Declined, last: domain.Declined, lookups: 1}},
		"window over, not found":   {usecase.StepLookup, withLookup, domain.Answer{}, domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseNotFound}, nil, want{status: domain.StatusParked, reason: "outcome_unknown", outcome: domain.Unknown, last: domain.Unknown, lookups: 1}},
		"window over, no answer":   {usecase.StepLookup, withLookup, domain.Answer{}, domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseTimeout}, nil, want{status: domain.StatusRequested, outcome: domain.Unknown, last: domain.Unknown, lookups: 1, minDelay: time.Millisecond}},
		"window over, no answer for ever": {
			usecase.StepLookup, withLookup,
			domain.Answer{},
			domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseTimeout},
			func(c *usecase.Claim) { c.Age = 85 * time.Hour },
			want{status: domain.StatusParked, reason: "outcome_unknown", outcome: domain.Unknown, last: domain.Unknown, lookups: 1},
		},
		"window over, nobody to ask": {usecase.StepLookup, usecase.Capabilities{KeyWindow: 24 * time.Hour}, domain.Answer{}, domain.Answer{}, nil, want{status: domain.StatusParked, reason: "outcome_unknown"}},
		"still pending": {
			usecase.StepLookup, withLookup,
			domain.Answer{},
			domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseNotFound},
			func(c *usecase.Claim) { c.PendingFor = 40 * time.Second },
			want{status: domain.StatusRequested, outcome: domain.Pending, last: domain.Pending, lookups: 1, pending: true, minDelay: 40 * time.Second},
		},
		"pending for too long": {
			usecase.StepLookup, withLookup,
			domain.Answer{},
			domain.Answer{Outcome: domain.Pending},
			func(c *usecase.Claim) { c.PendingFor = 73 * time.Hour },
			want{status: domain.StatusParked, reason: "pending_too_long", outcome: domain.Pending, last: domain.Pending, lookups: 1},
		},
		"old and never sent, not found": {usecase.StepLookupPost, withLookup, domain.Answer{Outcome: domain.Succeeded}, domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseNotFound}, nil, want{status: domain.StatusSucceeded, outcome: domain.Succeeded, last: domain.Succeeded, charges: 1, lookups: 1}},
		"old and never sent, found":     {usecase.StepLookupPost, withLookup, domain.Answer{}, domain.Answer{Outcome: domain.Succeeded}, nil, want{status: domain.StatusSucceeded, outcome: domain.NotSent, last: domain.Succeeded, lookups: 1}},
		"old and never sent, no answer": {usecase.StepLookupPost, withLookup, domain.Answer{}, domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseTimeout}, nil, want{status: domain.StatusRequested, outcome: domain.NotSent, last: domain.NotSent, lookups: 1, clear: true, minDelay: time.Millisecond}},
		"old, nobody to ask":            {usecase.StepLookupPost, usecase.Capabilities{KeyWindow: 24 * time.Hour}, domain.Answer{Outcome: domain.Succeeded}, domain.Answer{}, nil, want{status: domain.StatusSucceeded, outcome: domain.Succeeded, last: domain.Succeeded, charges: 1}},
		"restored, nobody to ask": {
			usecase.StepLookupPost,
			usecase.Capabilities{KeyWindow: 24 * time.Hour},
			domain.Answer{},
			domain.Answer{},
			func(c *usecase.Claim) { c.HistoryLost = true },
			want{status: domain.StatusParked, reason: "history_lost", outcome: domain.NotSent, last: domain.NotSent},
		},
		"key window almost over": {
			usecase.StepPost, withLookup,
			domain.Answer{},
			domain.Answer{},
			func(c *usecase.Claim) { c.PostFor = 0 },
			want{status: domain.StatusRequested, outcome: domain.NotSent, last: domain.NotSent, clear: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			p := &provider{caps: tc.caps, charge: tc.charge, lookup: tc.lookup}
			claim := newClaim(c, tc.step)
			if tc.claim != nil {
				tc.claim(&claim)
			}
			got := newSend(p, c).Do(t.Context(), claim)
			w := tc.want
			if got.Status != w.status || got.Reason != w.reason || got.LastOutcome != w.last || got.Outcome != w.outcome {
				t.Errorf("got %s %q, outcome %s, last %s; want %s %q, %s, %s", got.Status, got.Reason, got.Outcome, got.LastOutcome, w.status, w.reason, w.outcome, w.last)
			}
			if p.charges != w.charges || p.lookups != w.lookups {
				t.Errorf("%d requests and %d look-ups, want %d and %d", p.charges, p.lookups, w.charges, w.lookups)
			}
			if got.ClearStamp != w.clear || got.Pending != w.pending || got.Delay < w.minDelay {
				t.Errorf("clear %v, pending %v, delay %s; want %v, %v, at least %s", got.ClearStamp, got.Pending, got.Delay, w.clear, w.pending, w.minDelay)
			}
			if announced := got.Announcement != nil; announced != (w.status != domain.StatusRequested) {
				t.Errorf("announced: %v", announced)
			}
			if p.charges > 0 && (p.keys[0] != claim.EventID || p.bodies[0] != "bytes") {
				t.Errorf("sent %s under key %s, want the stored bytes under the event id", p.bodies[0], p.keys[0])
			}
		})
	}
}

func TestLookUpsOfASilentProviderSlowDown(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := newSend(&provider{caps: withLookup, lookup: domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseTimeout}}, c)
	claim := newClaim(c, usecase.StepLookup)
	first := s.Do(t.Context(), claim).Delay
	claim.Attempt = 9
	if later := s.Do(t.Context(), claim).Delay; later <= first {
		t.Errorf("pause %s after many look-ups, %s after the first", later, first)
	}
}

// What the lost history refused or charged, nobody knows: only the provider's word ends it, and its "no" leaves the order to others.
func TestADoubtfulChargeIsOnlyLookedUp(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer domain.Answer
		status domain.Status
		frees  bool
	}{
		"found":       {domain.Answer{Outcome: domain.Succeeded}, domain.StatusSucceeded, false},
		"not found":   {domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseNotFound}, domain.StatusParked, true},
		"no answer":   {domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseTimeout}, domain.StatusRequested, false},
		"it declined": {domain.Answer{Outcome: domain.Declined}, domain.StatusDeclined, false},
	} {
		c := newClock()
		p := &provider{caps: withLookup, lookup: tc.answer}
		s := newSend(p, c)
		claim := newClaim(c, usecase.StepLookup)
		claim.Doubtful, claim.Age = true, 50*365*24*time.Hour
		got := s.Do(t.Context(), claim)
		if got.Status != tc.status || got.FreesOrder != tc.frees || p.charges != 0 {
			t.Errorf("%s: %s, frees its order %t, %d requests", name, got.Status, got.FreesOrder, p.charges)
		}
	}
}

func TestNothingIsSentWhenTheLeaseIsTooShort(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]func(*usecase.Claim){
		"monotonic clock": func(c *usecase.Claim) { c.ClaimedAt = c.ClaimedAt.Add(-21 * time.Second) },
		"wall clock":      func(c *usecase.Claim) { c.ClaimedAt = c.ClaimedAt.Round(0).Add(-21 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			p := &provider{caps: withLookup, charge: domain.Answer{Outcome: domain.Succeeded}}
			claim := newClaim(c, usecase.StepPost)
			late(&claim)
			got := newSend(p, c).Do(t.Context(), claim)
			if p.charges != 0 || got.Outcome != domain.NotSent || got.Status != domain.StatusRequested || !got.ClearStamp {
				t.Errorf("sent %d times, %s, %s", p.charges, got.Outcome, got.Status)
			}
		})
	}
}

func TestFiveRejectionsInARowParkNoSixthCharge(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := &provider{caps: withLookup, charge: domain.Answer{Outcome: domain.Rejected, Cause: domain.CauseInvalidRequest}}
	s := newSend(p, c)
	parked := 0
	for i := range 20 {
		claim := newClaim(c, usecase.StepPost)
		claim.EventID = uuid.UUID{byte(i)}
		if got := s.Do(t.Context(), claim); got.Status == domain.StatusParked {
			parked++
		} else if got.LastOutcome != domain.Rejected {
			t.Errorf("charge %d: last outcome %s", i, got.LastOutcome)
		}
	}
	if parked != 5 || s.Gate.State() != usecase.GateRejecting {
		t.Errorf("%d parked, gate %s; want 5, rejected", parked, s.Gate.State())
	}
	if n, wait := s.Gate.Allow(10); n != 0 || wait <= 0 {
		t.Errorf("a closed gate allowed %d", n)
	}
	c.advance(2 * time.Minute)
	if n, _ := s.Gate.Allow(10); n != 1 {
		t.Errorf("%d probes, want 1", n)
	}
	if n, _ := s.Gate.Allow(10); n != 0 {
		t.Errorf("%d claims beside the probe, want 0", n)
	}
	p.charge = domain.Answer{Outcome: domain.Declined}
	s.Do(t.Context(), newClaim(c, usecase.StepPost))
	if n, _ := s.Gate.Allow(10); n != 10 {
		t.Errorf("%d after the probe passed, want 10", n)
	}
}

func TestARefusedTokenClosesTheGateAtOnce(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]domain.Outcome{"a whole answer": domain.NotSent, "an answer cut short": domain.Unknown} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			p := &provider{caps: withLookup, charge: domain.Answer{Outcome: outcome, Cause: domain.CauseUnauthorized}}
			s := newSend(p, c)
			got := s.Do(t.Context(), newClaim(c, usecase.StepPost))
			if got.Status != domain.StatusRequested || got.ClearStamp != (outcome == domain.NotSent) {
				t.Errorf("%s, clear %v: a refused token is no word on the charge", got.Status, got.ClearStamp)
			}
			if n, _ := s.Gate.Allow(10); n != 0 || s.Gate.State() != usecase.GateUnauthorized {
				t.Errorf("%d allowed, gate %s", n, s.Gate.State())
			}
		})
	}
}

func TestRetryAfterHoldsEverythingBack(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := &provider{caps: withLookup, charge: domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseThrottled, RetryAfter: time.Minute}}
	s := newSend(p, c)
	s.Do(t.Context(), newClaim(c, usecase.StepPost))
	if n, wait := s.Gate.Allow(10); n != 0 || wait != time.Minute || s.Gate.State() != usecase.GateThrottled {
		t.Errorf("%d allowed, wait %s, gate %s", n, wait, s.Gate.State())
	}
	c.advance(time.Minute)
	if n, _ := s.Gate.Allow(10); n != 10 {
		t.Errorf("%d allowed after the minute", n)
	}
}

func TestSilenceOfManyChargesLetsOnlyAFewThrough(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := &provider{caps: withLookup, charge: domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseTimeout}}
	s := newSend(p, c)
	for range 100 { // one poison charge alone never closes the gate
		s.Do(t.Context(), newClaim(c, usecase.StepPost))
	}
	if s.Gate.State() != usecase.GateOpen {
		t.Fatalf("gate %s after one charge without an answer", s.Gate.State())
	}
	for i := range 25 {
		claim := newClaim(c, usecase.StepPost)
		claim.EventID = uuid.UUID{0, byte(i)}
		s.Do(t.Context(), claim)
	}
	if s.Gate.State() != usecase.GateFailing {
		t.Errorf("gate %s after 25 charges without an answer", s.Gate.State())
	}
	c.advance(2 * time.Second)
	if n, _ := s.Gate.Allow(64); n != 4 {
		t.Errorf("%d probes after an outage, want 4", n)
	}
	if n, _ := s.Gate.Allow(64); n != 0 {
		t.Errorf("%d claims beside the probes", n)
	}
	p.charge = domain.Answer{Outcome: domain.Succeeded}
	s.Do(t.Context(), newClaim(c, usecase.StepPost))
	if n, _ := s.Gate.Allow(64); n != 64 {
		t.Errorf("%d after the outage, want 64", n)
	}
}
