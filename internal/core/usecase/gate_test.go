package usecase_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

var refusedToken = domain.Answer{Outcome: domain.NotSent, Cause: domain.CauseUnauthorized, HTTPStatus: http.StatusUnauthorized}

// closedGate is a sender whose gate was closed by a refused token and allows its first probe.
func closedGate(t *testing.T, p *provider, c *clock) usecase.Send {
	t.Helper()
	s := newSend(p, c)
	p.charge = refusedToken
	s.Do(t.Context(), newClaim(c, usecase.StepPost))
	c.advance(2 * time.Minute)
	if n, _ := s.Gate.Allow(10); n != 1 {
		t.Fatalf("%d probes, want 1", n)
	}
	return s
}

// A probe that never reaches the provider says nothing: the next charge may probe at once, or the gate
// would wait for its word for ever.
func TestAProbeThatAsksNobodyIsGivenToAnother(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		step   usecase.Step
		change func(*usecase.Claim, *provider)
	}{
		"sent for another account":   {usecase.StepPark, func(*usecase.Claim, *provider) {}},
		"window over, nobody to ask": {usecase.StepLookup, func(_ *usecase.Claim, p *provider) { p.caps.Lookup = false }},
		"restored, nobody to ask":    {usecase.StepLookupPost, func(c *usecase.Claim, p *provider) { c.HistoryLost, p.caps.Lookup = true, false }},
		"key window over on the way": {usecase.StepPost, func(c *usecase.Claim, _ *provider) { c.PostFor = 0 }},
		"old charge in a closed window": {usecase.StepLookupPost, func(c *usecase.Claim, p *provider) {
			c.PostFor, p.lookup = 0, domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseNotFound}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, p := newClock(), &provider{caps: withLookup}
			s := closedGate(t, p, c)
			claim := newClaim(c, tc.step)
			tc.change(&claim, p)
			s.Do(t.Context(), claim)
			if p.charges != 1 {
				t.Fatalf("%d requests, want only the first", p.charges)
			}
			if n, wait := s.Gate.Allow(10); n != 1 {
				t.Errorf("%d probes, wait %s; want 1 at once", n, wait)
			}
		})
	}
}

func TestAFailedLookUpBeforeTheFirstRequestEndsTheProbe(t *testing.T) {
	t.Parallel()
	c, p := newClock(), &provider{caps: withLookup, lookup: domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseUnauthorized}}
	s := closedGate(t, p, c)
	s.Do(t.Context(), newClaim(c, usecase.StepLookupPost))
	if n, wait := s.Gate.Allow(10); n != 0 || wait < time.Second {
		t.Errorf("%d allowed, wait %s: a probe that did not pass is followed by a pause", n, wait)
	}
	c.advance(2 * time.Minute)
	if n, _ := s.Gate.Allow(10); n != 1 {
		t.Errorf("%d probes after the pause, want 1", n)
	}
}

// Claims wait for a sender; those that were made for an open gate are not sent through a closed one.
func TestWhatWasClaimedForAnOpenGateIsGivenBackWhenItCloses(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]domain.Answer{
		"refused token": refusedToken,
		"come later":    {Outcome: domain.Unknown, Cause: domain.CauseThrottled, RetryAfter: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, p := newClock(), &provider{caps: withLookup, charge: answer}
			s := newSend(p, c)
			ahead := []usecase.Claim{newClaim(c, usecase.StepPost), newClaim(c, usecase.StepLookup)}
			c.advance(time.Second)
			s.Do(t.Context(), newClaim(c, usecase.StepPost))
			for _, claim := range ahead {
				got := s.Do(t.Context(), claim)
				if got.Status != domain.StatusRequested || got.Delay != 0 || got.ClearStamp != claim.Stamped {
					t.Errorf("%s: %+v", claim.Step, got)
				}
			}
			if p.charges != 1 || p.lookups != 0 {
				t.Errorf("%d requests and %d look-ups through a closed gate", p.charges-1, p.lookups)
			}
			c.advance(time.Minute)
			p.charge = domain.Answer{Outcome: domain.Succeeded}
			if s.Gate.Allow(1); s.Do(t.Context(), newClaim(c, usecase.StepPost)).Status != domain.StatusSucceeded {
				t.Error("the probe was not sent")
			}
			if s.Do(t.Context(), ahead[0]).Status == domain.StatusSucceeded {
				t.Error("sent although its lease is over")
			}
		})
	}
}

// Look-ups that find something must not hide that every request is rejected, or the whole backlog is parked.
func TestLookUpsDoNotInterruptARowOfRejections(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := &provider{caps: withLookup, charge: domain.Answer{Outcome: domain.Rejected, Cause: domain.CauseInvalidRequest}, lookup: domain.Answer{Outcome: domain.Succeeded}}
	s := newSend(p, c)
	parked := 0
	for i := range 20 {
		claim := newClaim(c, usecase.StepPost)
		claim.EventID = uuid.UUID{2, byte(i)}
		if s.Do(t.Context(), claim).Status == domain.StatusParked {
			parked++
		}
		s.Do(t.Context(), newClaim(c, usecase.StepLookup))
	}
	if parked != 5 || s.Gate.State() != usecase.GateRejecting {
		t.Errorf("%d parked, gate %s; want 5, rejected", parked, s.Gate.State())
	}
	c.advance(2 * time.Minute)
	s.Gate.Allow(10)
	s.Do(t.Context(), newClaim(c, usecase.StepLookup))
	if n, _ := s.Gate.Allow(10); n != 1 || s.Gate.State() != usecase.GateRejecting {
		t.Errorf("%d probes, gate %s; want 1 at once, rejected", n, s.Gate.State())
	}
}

// Whether the database was restored shows only when the partitions are assigned: until then nothing old is sent
// to a provider that cannot be asked.
func TestAnOldChargeWaitsUntilARestoreWouldShow(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := &provider{caps: usecase.Capabilities{KeyWindow: 24 * time.Hour}, charge: domain.Answer{Outcome: domain.Succeeded}}
	s := newSend(p, c)
	s.HoldUntil = c.Now().Add(30 * time.Second)
	got := s.Do(t.Context(), newClaim(c, usecase.StepLookupPost))
	if p.charges != 0 || got.Status != domain.StatusRequested || got.Delay != 30*time.Second || !got.ClearStamp {
		t.Errorf("%d requests, %+v", p.charges, got)
	}
	if s.Do(t.Context(), newClaim(c, usecase.StepPost)).Status != domain.StatusSucceeded {
		t.Error("a young charge had to wait")
	}
	c.advance(30 * time.Second)
	if s.Do(t.Context(), newClaim(c, usecase.StepLookupPost)).Status != domain.StatusSucceeded {
		t.Error("an old charge was not sent in the end")
	}
}

func TestALookUpsHintHoldsEverythingBack(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := &provider{caps: withLookup, lookup: domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseThrottled, RetryAfter: time.Minute}}
	s := newSend(p, c)
	s.Do(t.Context(), newClaim(c, usecase.StepLookup))
	if n, wait := s.Gate.Allow(10); n != 0 || wait != time.Minute {
		t.Errorf("%d allowed, wait %s", n, wait)
	}
}
