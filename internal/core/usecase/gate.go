package usecase

import (
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
)

// rejectionsInARow is how many distinct charges may be rejected one after the other before it must be
// our own mistake, and nothing more is parked for it (contract §3).
const rejectionsInARow = 5

// GateState says why the gate is closed.
type GateState string

// The states of the gate.
const (
	GateOpen         GateState = "open"
	GateUnauthorized GateState = "unauthorized" // 401, 403: the token is refused
	GateRejecting    GateState = "rejected"     // too many distinct charges rejected in a row
	GateFailing      GateState = "breaker"      // too many distinct charges without an answer in a row
	GateThrottled    GateState = "retry_after"  // the provider said when to come back
)

// GateStates lists every state, for metrics that must exist from the start.
func GateStates() []GateState {
	return []GateState{GateOpen, GateUnauthorized, GateRejecting, GateFailing, GateThrottled}
}

// Limiter gives out the right to start requests at a rate.
type Limiter interface {
	// Take returns how many of n requests may start now, and when to ask for more.
	Take(n int) (granted int, wait time.Duration)
}

// Gate answers one question in one place: how many charges may be claimed now, and when to ask again.
// While it is closed no row is touched, but for a probe now and then.
type Gate struct {
	Clock   Clock
	Random  Random
	Backoff domain.Backoff // between probes
	Limiter Limiter        // nil: no limit

	mu       sync.Mutex
	closed   GateState // unauthorized, rejecting or failing; empty when open
	closedAt time.Time
	probing  bool
	failures int // probes that did not pass
	probeAt  time.Time
	until    time.Time // the provider's hint
	hintedAt time.Time // when it came
	rejected map[uuid.UUID]struct{}
	silent   map[uuid.UUID]struct{}
}

// silentInARow is how many distinct charges may bring no answer one after the other before the gate
// closes. Then it lets a few through every now and then: unlike a refused token or a wrong URL an outage
// ends by itself, and some charges may need several tries each.
const (
	silentInARow   = 20
	silentProbes   = 4
	silentMostWait = 2 * time.Second
)

// Allow returns how many of n charges may be claimed now; when none, how long to wait before asking again.
func (g *Gate) Allow(n int) (granted int, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.Clock.Now()
	if wait := g.until.Sub(now); wait > 0 {
		return 0, wait
	}
	if g.closed != "" {
		if g.probing {
			return 0, g.Backoff.Min
		}
		if wait := g.probeAt.Sub(now); wait > 0 {
			return 0, wait
		}
		n = min(n, g.probes())
	}
	if g.Limiter != nil {
		if n, wait = g.Limiter.Take(n); n == 0 {
			return 0, wait
		}
	}
	g.probing = g.closed != "" && n > 0
	return n, 0
}

// probes is how many charges may try a closed gate at once.
func (g *Gate) probes() int {
	if g.closed == GateFailing {
		return silentProbes
	}
	return 1
}

// Pass reports whether a charge that was claimed at an instant may still be sent. What was claimed for an
// open gate and is not on the wire yet has to wait when the gate has closed since.
func (g *Gate) Pass(claimedAt time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != "" && g.closedAt.After(claimedAt) {
		return false
	}
	return !g.hintedAt.After(claimedAt) || !g.until.After(g.Clock.Now())
}

// Unused gives back the permission to probe when there was no charge to probe with, or the provider was
// not asked about the one that there was.
func (g *Gate) Unused() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.probing = false
}

// State returns why the gate is closed, or open.
func (g *Gate) State() GateState {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed != "":
		return g.closed
	case g.until.After(g.Clock.Now()):
		return GateThrottled
	}
	return GateOpen
}

// Report tells the gate what a request brought. It returns whether a rejected charge is to be parked:
// not when the gate is closed, because then the fault is not the charge's.
func (g *Gate) Report(id uuid.UUID, a domain.Answer) (park bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.Clock.Now()
	g.hint(a, now)
	wasClosed := g.closed != ""
	switch a.Outcome {
	case domain.Succeeded, domain.Declined, domain.Pending:
		g.open()
		clear(g.rejected)
		return true
	case domain.Rejected:
		g.rejected = note(g.rejected, id)
		if len(g.rejected) >= rejectionsInARow {
			g.shut(GateRejecting, now)
		}
	case domain.NotSent:
		if a.Cause == domain.CauseUnauthorized {
			g.shut(GateUnauthorized, now)
		} else {
			g.noteSilent(id, now)
		}
	case domain.Unknown:
		switch a.Cause { //nolint:exhaustive // the others say nothing about the provider as a whole
		case domain.CauseUnauthorized: // said by an answer that was cut short
			g.shut(GateUnauthorized, now)
		case domain.CauseServerError, domain.CauseTimeout, domain.CauseBroken, domain.CauseThrottled:
			g.noteSilent(id, now)
		}
	}
	if wasClosed {
		g.shut(g.closed, now) // the probe, or one that was in flight, did not pass
	}
	return !wasClosed
}

// ReportLookup tells the gate what a look-up brought: a charge that was found shows that the provider can
// be reached and takes our word again. It says nothing of a provider that rejects requests, so it neither
// interrupts a row of rejections nor opens a gate that they closed; then another charge may probe.
func (g *Gate) ReportLookup(a domain.Answer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.Clock.Now()
	g.hint(a, now)
	found := a.Outcome == domain.Succeeded || a.Outcome == domain.Declined || a.Outcome == domain.Pending
	switch {
	case found && g.closed == GateRejecting:
		g.probing = false
	case found:
		g.open()
	case a.Cause == domain.CauseUnauthorized:
		g.shut(GateUnauthorized, now)
	case g.closed != "":
		g.shut(g.closed, now)
	}
}

// hint keeps the provider's word when to come back, which holds for every charge.
func (g *Gate) hint(a domain.Answer, now time.Time) {
	if until := now.Add(a.RetryAfter); a.RetryAfter > 0 && until.After(g.until) {
		g.until, g.hintedAt = until, now
	}
}

func (g *Gate) noteSilent(id uuid.UUID, now time.Time) {
	g.silent = note(g.silent, id)
	if len(g.silent) >= silentInARow && g.closed == "" {
		g.shut(GateFailing, now)
	}
}

func (g *Gate) open() {
	g.closed, g.probing, g.failures = "", false, 0
	clear(g.silent)
}

// shut closes the gate until a probe passes; each probe that does not doubles the wait for the next.
// Requests that were in flight when it closed change nothing.
func (g *Gate) shut(why GateState, now time.Time) {
	if g.closed != "" && !g.probing {
		return
	}
	if g.closed == "" {
		g.closedAt = now
	}
	g.closed, g.probing = why, false
	g.failures++
	wait := g.Backoff.Delay(g.failures, g.Random())
	if why == GateFailing {
		wait = min(wait, silentMostWait)
	}
	g.probeAt = now.Add(wait)
}

// note remembers an id, and no more of them than any decision needs.
func note(set map[uuid.UUID]struct{}, id uuid.UUID) map[uuid.UUID]struct{} {
	if set == nil {
		set = map[uuid.UUID]struct{}{}
	}
	if len(set) < max(rejectionsInARow, silentInARow) {
		set[id] = struct{}{}
	}
	return set
}
