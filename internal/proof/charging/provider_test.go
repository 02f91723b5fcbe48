package charging_test

import (
	"context"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"
	"pgregory.net/rapid"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// deal is what the provider has under a key.
type deal struct {
	at      time.Time
	outcome domain.Outcome // succeeded, declined, or pending until final
	final   time.Time
}

// request is one that arrived and is executed later, although its client has left.
type request struct {
	key     uuid.UUID
	at      time.Time
	outcome domain.Outcome
}

// provider remembers keys for a window and does what it is told to draw. It is the judge of the invariants:
// it sees every request at the moment when it is sent.
type provider struct {
	t       *rapid.T
	w       *world
	window  time.Duration
	look    bool // it answers look-ups
	healthy bool

	bound   map[uuid.UUID]deal // keys that are remembered
	found   map[uuid.UUID]deal // what look-up shows: the first deal of a key
	taken   map[uuid.UUID]int  // effects that took money
	first   map[uuid.UUID]time.Time
	late    []request
	reached map[uuid.UUID]int // requests on the wire
}

// Capabilities implements usecase.Provider.
func (p *provider) Capabilities() usecase.Capabilities {
	return usecase.Capabilities{Name: account, Lookup: p.look, KeyWindow: p.window}
}

// The ways in which a request may end.
const (
	answered   = "answered"
	lost       = "executed, answer lost"
	notArrived = "lost on the way"
	delayed    = "executed later"
	noConn     = "no connection"
	refused    = "token refused"
	rejected   = "rejected"
	throttled  = "throttled"
	inProgress = "in progress"
)

// Charge implements usecase.Provider.
func (p *provider) Charge(_ context.Context, key uuid.UUID, body []byte, _ domain.Order, _ string) domain.Answer {
	p.judge(key, body)
	way := answered
	if !p.healthy {
		way = rapid.SampledFrom([]string{answered, answered, answered, lost, lost, notArrived, delayed, noConn, noConn, refused, rejected, throttled, inProgress}).Draw(p.t, "way")
	}
	switch way {
	case noConn:
		return domain.Answer{Outcome: domain.NotSent, Cause: domain.CauseNoConnection}
	case refused:
		return domain.Answer{Outcome: domain.NotSent, Cause: domain.CauseUnauthorized, HTTPStatus: 401}
	}
	p.reached[key]++
	if _, known := p.first[key]; !known {
		p.first[key] = p.w.now
	}
	switch way {
	case rejected:
		return domain.Answer{Outcome: domain.Rejected, Cause: domain.CauseInvalidRequest, HTTPStatus: 400}
	case throttled:
		return domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseThrottled, HTTPStatus: 429, RetryAfter: time.Minute}
	case inProgress:
		return domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseInProgress, HTTPStatus: 409}
	case notArrived:
		return domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseTimeout}
	}
	outcome := domain.Succeeded
	if !p.healthy {
		outcome = rapid.SampledFrom([]domain.Outcome{domain.Succeeded, domain.Succeeded, domain.Succeeded, domain.Declined, domain.Pending}).Draw(p.t, "outcome")
	}
	if way == delayed {
		p.late = append(p.late, request{key: key, at: p.w.now.Add(time.Duration(rapid.IntRange(0, 3600).Draw(p.t, "delay")) * time.Second), outcome: outcome})
		return domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseTimeout}
	}
	d := p.execute(key, outcome, p.w.now)
	if way == lost {
		return domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseBroken}
	}
	return domain.Answer{Outcome: d.outcome, HTTPStatus: 200}
}

// judge checks what must hold whenever a request starts.
func (p *provider) judge(key uuid.UUID, body []byte) {
	if string(body) != string(requestOf(key)) {
		p.t.Fatalf("charge %s is sent with other bytes", key)
	}
	if r := p.w.model.rows[key]; r != nil && r.status.Terminal() && !p.w.restored {
		// A stalled owner may send once more under its lease; its key is still remembered then.
		if p.window > 0 && p.w.now.Sub(p.first[key]) > p.window/2 {
			p.t.Fatalf("charge %s is %s and sent again after its window", key, r.status)
		}
	}
	first, known := p.first[key]
	switch {
	case !known:
	case p.window == 0:
		p.t.Fatalf("charge %s is sent twice to a provider that remembers no key", key)
	case p.w.now.Sub(first) >= p.window/2:
		p.t.Fatalf("charge %s is sent %s after its first request", key, p.w.now.Sub(first))
	}
}

// execute takes the money, unless the key is remembered.
func (p *provider) execute(key uuid.UUID, outcome domain.Outcome, at time.Time) deal {
	if d, known := p.bound[key]; known && at.Sub(d.at) < p.window {
		return p.ripe(d)
	}
	d := deal{at: at, outcome: outcome, final: at.Add(time.Hour)}
	p.bound[key] = d
	if _, known := p.found[key]; !known {
		p.found[key] = d
	}
	if outcome != domain.Declined { // a pending one takes the money in the end
		p.taken[key]++
		if p.taken[key] > 1 {
			p.t.Fatalf("money was taken twice for %s", key)
		}
	}
	return d
}

// ripe turns a pending deal into a final one when its time has come.
func (p *provider) ripe(d deal) deal {
	if d.outcome == domain.Pending && !p.w.now.Before(d.final) {
		d.outcome = domain.Succeeded
	}
	return d
}

// arrive executes what arrived and is due.
func (p *provider) arrive() {
	slices.SortStableFunc(p.late, func(a, b request) int { return a.at.Compare(b.at) })
	for len(p.late) > 0 && !p.late[0].at.After(p.w.now) {
		p.execute(p.late[0].key, p.late[0].outcome, p.late[0].at)
		p.late = p.late[1:]
	}
}

// flush executes all that is on its way: nobody restores a database, or opens a window for a provider without
// memory, while requests are in flight.
func (p *provider) flush() {
	for i := range p.late {
		p.late[i].at = p.w.now
	}
	p.arrive()
}

// Lookup implements usecase.Provider.
func (p *provider) Lookup(_ context.Context, key uuid.UUID, _ domain.Order, _ string) domain.Answer {
	if !p.look {
		p.t.Fatal("a provider that cannot be asked was asked")
	}
	if !p.healthy && rapid.IntRange(0, 3).Draw(p.t, "look-up fails") == 0 {
		return domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseTimeout}
	}
	d, known := p.found[key]
	if !known {
		return domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseNotFound, HTTPStatus: 404}
	}
	return domain.Answer{Outcome: p.ripe(d).outcome, HTTPStatus: 200}
}
