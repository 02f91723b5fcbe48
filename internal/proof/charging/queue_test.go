package charging_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

const (
	lease   = 30 * time.Second
	account = "default"
)

// row is a charge with its queue row and its journal.
type row struct {
	id         uuid.UUID
	idAge      bool // the id was older than any half window when it came
	status     domain.Status
	last       domain.Outcome
	version    int32
	tries      int32
	sentAt     time.Time // zero: never
	pendingAt  time.Time
	account    string
	createdAt  time.Time
	queued     bool
	publishing bool
	runAt      time.Time // zero: never
	attempt    int32
	journal    map[int32]domain.Outcome
	told       []string // announcements, in order of version
}

// queue is the provider channel as the SQL is meant to work, on a clock of its own.
type queue struct {
	now         func() time.Time
	historyLost bool
	rows        map[uuid.UUID]*row
}

func (q *queue) copy() map[uuid.UUID]*row {
	rows := map[uuid.UUID]*row{}
	for id, r := range q.rows {
		c := *r
		c.journal, c.told = maps.Clone(r.journal), slices.Clone(r.told)
		rows[id] = &c
	}
	return rows
}

// sorted gives a stable order to what maps hold.
func (q *queue) sorted(keep func(*row) bool) []*row {
	var list []*row
	for _, r := range q.rows {
		if keep(r) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *row) int { return slices.Compare(a.id[:], b.id[:]) })
	return list
}

// add makes a charge that is due. A charge that a restored database reads again starts as sent.
func (q *queue) add(id uuid.UUID, old bool, sentAt time.Time) {
	q.rows[id] = &row{
		id: id, idAge: old, status: domain.StatusRequested, sentAt: sentAt, createdAt: q.now(), queued: true, runAt: q.now(),
		journal: map[int32]domain.Outcome{},
	}
}

func (q *queue) due() []*row {
	return q.sorted(func(r *row) bool { return r.queued && !r.runAt.IsZero() && !r.runAt.After(q.now()) })
}

// ClaimCharges implements usecase.ChargeQueue.
func (q *queue) ClaimCharges(_ context.Context, n int, rules usecase.ClaimRules) ([]usecase.Claim, error) {
	due := q.due()
	claims := make([]usecase.Claim, 0, n)
	for _, r := range due[:min(n, len(due))] {
		claims = append(claims, q.claim(r, rules))
	}
	return claims, nil
}

func (q *queue) claim(r *row, rules usecase.ClaimRules) usecase.Claim {
	now, half := q.now(), rules.KeyWindow/2
	step := q.step(r, rules)
	posts := step == usecase.StepPost || step == usecase.StepLookupPost
	for attempt, outcome := range r.journal {
		if outcome == "" {
			r.journal[attempt] = domain.Unknown
			if r.pendingAt.IsZero() {
				r.last = domain.Unknown
			}
		}
	}
	c := usecase.Claim{
		EventID: r.id, Order: orderOf(r.id), Request: requestOf(r.id), Step: step, LastOutcome: r.last, Version: r.version,
		Journaled: posts, Stamped: posts && r.sentAt.IsZero(), Reclaimed: r.publishing, HistoryLost: q.historyLost, Now: now,
	}
	r.attempt++
	r.publishing, r.runAt = true, now.Add(lease)
	if posts {
		r.tries++
		r.journal[r.attempt] = ""
		if r.sentAt.IsZero() {
			r.sentAt = now
		}
		r.account = account
	}
	c.Attempt, c.Tries = r.attempt, r.tries
	if !r.sentAt.IsZero() {
		c.PostFor, c.Age = r.sentAt.Add(half).Sub(now), now.Sub(r.sentAt)
	} else {
		c.PostFor = half
	}
	if rules.KeyWindow == 0 {
		c.PostFor = lease
	}
	if !r.pendingAt.IsZero() {
		c.PendingFor = max(now.Sub(r.pendingAt), 1)
	}
	return c
}

func (q *queue) step(r *row, rules usecase.ClaimRules) usecase.Step {
	now, half := q.now(), rules.KeyWindow/2
	first := r.sentAt
	if first.IsZero() {
		first = now
	}
	switch {
	case r.account != "" && r.account != rules.Account:
		return usecase.StepPark
	case !r.pendingAt.IsZero(), !r.sentAt.IsZero() && !r.sentAt.After(now.Add(-half)):
		return usecase.StepLookup
	case r.createdAt.Before(first.Add(-half)), half == 0, r.idAge:
		return usecase.StepLookupPost
	}
	return usecase.StepPost
}

// SettleCharges implements usecase.ChargeQueue.
func (q *queue) SettleCharges(_ context.Context, batch []usecase.Settlement) (usecase.Settled, error) {
	settled := usecase.Settled{ByStatus: map[domain.Status]int{}}
	for _, s := range batch {
		r := q.rows[s.EventID]
		if r == nil { // lost by a restore
			settled.Fenced = append(settled.Fenced, s)
			continue
		}
		q.write(r, s)
		if !r.queued || !r.publishing || r.attempt != s.Attempt {
			settled.Fenced = append(settled.Fenced, s)
			continue
		}
		q.settle(r, s)
		if s.Status != domain.StatusRequested {
			settled.ByStatus[s.Status]++
		}
	}
	return settled, nil
}

// write puts the outcome into the journal, over that of a dead owner too.
func (q *queue) write(r *row, s usecase.Settlement) {
	if was, known := r.journal[s.Attempt]; s.Journaled && known && (was == "" || was == domain.Unknown) {
		r.journal[s.Attempt] = s.Outcome
	}
}

func (q *queue) settle(r *row, s usecase.Settlement) {
	r.publishing, r.last = false, s.LastOutcome
	if s.ClearStamp {
		r.sentAt = time.Time{}
		if !r.mayBeSent(s.Attempt) {
			r.account = ""
		}
	}
	if s.Pending && r.pendingAt.IsZero() {
		r.pendingAt = q.now()
	}
	r.status, r.runAt = s.Status, q.now().Add(s.Delay)
	if s.Status == domain.StatusParked {
		r.runAt = time.Time{}
	}
	if s.Status.Terminal() {
		r.queued = false
	}
	if s.Status != domain.StatusRequested {
		r.tell(s.Announcement)
		for attempt, outcome := range r.journal {
			if outcome == "" {
				r.journal[attempt] = domain.Unknown
			}
		}
	}
}

// mayBeSent reports whether an attempt before a given one may have reached the provider.
func (r *row) mayBeSent(before int32) bool {
	for attempt, outcome := range r.journal {
		if attempt < before && outcome != domain.NotSent {
			return true
		}
	}
	return false
}

func (r *row) tell(a *domain.Announcement) {
	r.version++
	r.told = append(r.told, fmt.Sprintf("%d %s", a.Version, a.Type))
}

// SettleLate implements usecase.ChargeQueue.
func (q *queue) SettleLate(_ context.Context, late usecase.Settlement, build func(int32) (usecase.Settlement, error)) (bool, error) {
	r := q.rows[late.EventID]
	if r == nil || r.status.Terminal() || !r.queued {
		return false, nil
	}
	s, err := build(r.version)
	if err != nil {
		return false, err
	}
	r.status, r.last, r.queued = domain.StatusSucceeded, domain.Succeeded, false
	r.tell(s.Announcement)
	for attempt, outcome := range r.journal {
		if outcome == "" {
			r.journal[attempt] = domain.Unknown
		}
	}
	return true, nil
}

// Charge implements usecase.ChargeDesk.
func (q *queue) Charge(_ context.Context, id uuid.UUID) (usecase.ChargeState, error) {
	r := q.rows[id]
	if r == nil {
		return usecase.ChargeState{}, usecase.ErrNoCharge
	}
	return usecase.ChargeState{
		Charge:  domain.Charge{EventID: id, Order: orderOf(id), Status: r.status, LastOutcome: r.last, Version: r.version, Attempts: r.tries},
		Account: r.account, Sent: !r.sentAt.IsZero() || r.account != "" || r.mayBeSent(r.attempt+1), Now: q.now(),
	}, nil
}

// MoveCharge implements usecase.ChargeDesk.
func (q *queue) MoveCharge(ctx context.Context, id uuid.UUID, decide func(usecase.ChargeState) (usecase.ManualMove, error)) error {
	state, err := q.Charge(ctx, id)
	if err != nil {
		return err
	}
	move, err := decide(state)
	if err != nil {
		return err
	}
	r := q.rows[id]
	for attempt, outcome := range r.journal {
		if outcome == "" {
			r.journal[attempt] = domain.Unknown
		}
	}
	r.status = move.To
	if move.To == domain.StatusRequested {
		r.sentAt, r.pendingAt, r.publishing, r.runAt = time.Time{}, time.Time{}, false, q.now()
		r.attempt++
		return nil
	}
	r.queued = false
	r.tell(move.Announcement)
	return nil
}

func orderOf(id uuid.UUID) domain.Order {
	return domain.Order{OrderID: "o-" + id.String(), CustomerID: "c", Amount: domain.Money{Minor: 100, Currency: "RUB"}}
}

func requestOf(id uuid.UUID) []byte { return []byte("charge " + id.String()) }
