package charging_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"pgregory.net/rapid"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// desk is a queue with its operator's moves: the model, or the model in lockstep with PostgreSQL.
type desk interface {
	usecase.ChargeQueue
	usecase.ChargeDesk
}

// world is one system on a clock that only steps move.
type world struct {
	t        *rapid.T
	start    time.Time
	now      time.Time
	model    *queue
	desk     desk
	provider *provider
	pods     []*pod
	ids      []uuid.UUID
	oldIDs   map[uuid.UUID]bool
	made     int
	restored bool
	saved    map[uuid.UUID]*row
	savedAt  int // charges made until then

	known    map[uuid.UUID]bool // successes that were written down without an error
	terminal map[uuid.UUID]domain.Status
}

// pod is one process: claims that were not sent yet, outcomes that were not written yet, and a gate.
type pod struct {
	send     usecase.Send
	claims   []usecase.Claim
	outcomes []usecase.Settlement
}

// Now implements usecase.Clock.
func (w *world) Now() time.Time { return w.now }

// Sleep implements usecase.Clock; no use case of charging sleeps.
func (w *world) Sleep(context.Context, time.Duration) bool { panic("a use case slept") }

func newWorld(t *rapid.T) *world {
	start := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	w := &world{t: t, start: start, now: start, oldIDs: map[uuid.UUID]bool{}, known: map[uuid.UUID]bool{}, terminal: map[uuid.UUID]domain.Status{}}
	w.model = &queue{now: func() time.Time { return w.now }, rows: map[uuid.UUID]*row{}}
	w.desk = w.model
	w.provider = &provider{
		t: t, w: w, window: rapid.SampledFrom([]time.Duration{24 * time.Hour, 24 * time.Hour, 0}).Draw(t, "window"), look: rapid.Bool().Draw(t, "look-up"),
		bound: map[uuid.UUID]deal{}, found: map[uuid.UUID]deal{}, taken: map[uuid.UUID]int{}, first: map[uuid.UUID]time.Time{}, reached: map[uuid.UUID]int{},
	}
	for range 2 {
		w.pods = append(w.pods, w.newPod())
	}
	return w
}

func (w *world) newPod() *pod {
	backoff := domain.Backoff{Min: time.Second, Max: 10 * time.Minute}
	return &pod{send: usecase.Send{
		Provider: w.provider, Clock: w, Random: func() float64 { return 0.5 }, IDs: w.newID, Backoff: backoff,
		Gate:  &usecase.Gate{Clock: w, Random: func() float64 { return 0.5 }, Backoff: domain.Backoff{Min: time.Second, Max: 30 * time.Second}},
		Lease: lease, Timeout: 10 * time.Second, PendingMax: 72 * time.Hour,
	}}
}

func (w *world) newID() uuid.UUID {
	w.made++
	return uuid.NewV5(uuid.UUID{}, fmt.Sprint("announcement", w.made))
}

func (w *world) rules() usecase.ClaimRules {
	return usecase.ClaimRules{Account: account, Lease: lease, KeyWindow: w.provider.window}
}

func (w *world) ctx() context.Context { return context.Background() }

// codec makes bytes that nobody reads.
type codec struct{}

func (codec) Request(domain.Order) ([]byte, error) { return nil, errors.New("not used") }
func (codec) Announcement(a domain.Announcement, trace string) (usecase.OutboxMessage, error) {
	return usecase.OutboxMessage{
		EventType: a.Type, Topic: "results", Key: []byte(a.Order.OrderID), Value: []byte(a.Type),
		Headers: []usecase.Header{{Key: "traceparent", Value: []byte(trace)}},
	}, nil
}

func (codec) DeadLetter(usecase.DeadLetter) (usecase.OutboxMessage, error) {
	return usecase.OutboxMessage{}, errors.New("not used")
}

func (w *world) pod() *pod { return w.pods[rapid.IntRange(0, len(w.pods)-1).Draw(w.t, "pod")] }

// claim claims what the gate allows. most is how many at once.
func (w *world) claim(p *pod, most int) {
	n, _ := p.send.Gate.Allow(most)
	if n == 0 {
		return
	}
	before := w.now
	claims, err := w.desk.ClaimCharges(w.ctx(), n, w.rules())
	if err != nil {
		w.t.Fatal(err)
	}
	if len(claims) == 0 {
		p.send.Gate.Unused()
	}
	for _, c := range claims {
		c.ClaimedAt = before
		p.claims = append(p.claims, c)
	}
}

// sendOne does the next step of a claim, in any order.
func (w *world) sendOne(p *pod) {
	if len(p.claims) == 0 {
		return
	}
	i := rapid.IntRange(0, len(p.claims)-1).Draw(w.t, "claim")
	c := p.claims[i]
	p.claims = slices.Delete(p.claims, i, i+1)
	p.outcomes = append(p.outcomes, p.send.Do(w.ctx(), c))
}

// settle writes what a pod knows. The answer of the commit may be lost: then all is written again.
func (w *world) settle(p *pod, lostAnswer bool) {
	if len(p.outcomes) == 0 {
		return
	}
	settle := usecase.Settle{Queue: w.desk, Codec: codec{}, IDs: w.newID}
	report, err := settle.Do(w.ctx(), slices.Clone(p.outcomes))
	if err != nil {
		w.t.Fatal(err)
	}
	if report.Late > report.Fenced {
		w.t.Fatalf("%+v", report)
	}
	if lostAnswer {
		return
	}
	for _, s := range p.outcomes {
		if s.Status == domain.StatusSucceeded && w.model.rows[s.EventID] != nil {
			w.known[s.EventID] = true
		}
	}
	p.outcomes = nil
}

// eventID makes the same ids for the same steps, so that a failure can be found again.
func (w *world) eventID(at time.Time) uuid.UUID {
	w.made++
	id := domain.IDBound(at)
	id[6], id[8], id[14], id[15] = 0x70, 0x80, byte(w.made>>8), byte(w.made)
	return id
}

// oldAge is more than any half window before anything that a walk can reach: PostgreSQL's clock stands still while the
// model's moves, so that the rows grow old and ids do not.
const oldAge = 90 * 24 * time.Hour

func (w *world) newCharge(old bool) {
	at := w.start
	if old {
		at = at.Add(-oldAge)
	}
	id := w.eventID(at)
	w.oldIDs[id] = old
	w.ids = append(w.ids, id)
	w.model.add(id, old, time.Time{})
}

// advance moves the clock. Young ids grow old with their rows.
func (w *world) advance(d time.Duration) {
	w.now = w.now.Add(d)
	w.provider.arrive()
}

// retry is what an operator does with parked charges.
func (w *world) operate() {
	parked := w.model.sorted(func(r *row) bool { return !r.status.Terminal() })
	if len(parked) == 0 {
		return
	}
	r := rapid.SampledFrom(parked).Draw(w.t, "charge")
	by := usecase.By{Actor: "ann", Reason: "because"}
	if w.provider.window == 0 {
		w.provider.flush()
	}
	o := usecase.Operate{Desk: w.desk, Codec: codec{}, IDs: w.newID, Account: account}
	if w.provider.look {
		o.Provider = w.provider
	}
	_, charged := w.provider.found[r.id]
	var err error
	switch what := rapid.SampledFrom([]string{"retry", "retry", "resolve", "cancel"}).Draw(w.t, "move"); {
	case what == "retry" && !w.provider.look && (charged || w.inFlight(r.id)):
		return // without look-up a person has to make sure
	case what == "retry":
		if err = o.Retry(w.ctx(), r.id, by); err == nil {
			if charged {
				w.t.Fatalf("a new window for %s, which the provider has", r.id)
			}
			delete(w.provider.first, r.id)
		}
	case what == "resolve" && charged && w.provider.ripe(w.provider.found[r.id]).outcome == domain.Succeeded:
		err = o.Resolve(w.ctx(), r.id, domain.StatusSucceeded, nil, by)
	case what == "cancel" && !w.restored:
		if err = o.Cancel(w.ctx(), r.id, by); err == nil && w.provider.reached[r.id] > 0 {
			w.t.Fatalf("%s was sent and is cancelled", r.id)
		}
	}
	if refused := new(usecase.RefusedError); err != nil && !errors.As(err, &refused) {
		w.t.Fatal(err)
	}
}

func (w *world) inFlight(id uuid.UUID) bool {
	return slices.ContainsFunc(w.provider.late, func(q request) bool { return q.key == id })
}

// save and restore put the database back; what was accepted meanwhile is read again from the topic.
func (w *world) save() { w.saved, w.savedAt = w.model.copy(), len(w.ids) }

func (w *world) restore() {
	if w.saved == nil {
		return
	}
	if w.provider.window == 0 {
		w.provider.flush()
	}
	for id := range w.provider.first { // what never arrived may be sent in a new window once look-up finds nothing
		if _, charged := w.provider.found[id]; !charged && !w.inFlight(id) {
			delete(w.provider.first, id)
		}
	}
	w.restored, w.model.historyLost = true, true
	w.model.rows = w.saved
	w.saved = w.model.copy()
	clear(w.known)
	clear(w.terminal)
	for i := range w.pods {
		w.pods[i] = w.newPod()
	}
	for _, id := range w.ids[w.savedAt:] {
		at := w.start
		if w.oldIDs[id] {
			at = at.Add(-oldAge)
		}
		w.model.add(id, w.oldIDs[id], at)
	}
}

// check holds after every step.
func (w *world) check() {
	for _, r := range w.model.sorted(func(*row) bool { return true }) {
		if was, done := w.terminal[r.id]; done && r.status != was {
			w.t.Fatalf("%s was %s and is %s", r.id, was, r.status)
		}
		if r.status.Terminal() {
			w.terminal[r.id] = r.status
		}
		if w.known[r.id] && r.status != domain.StatusSucceeded {
			w.t.Fatalf("%s is %s although the provider's success was written down", r.id, r.status)
		}
		for i, told := range r.told {
			if !strings.HasPrefix(told, fmt.Sprint(i+1, " ")) {
				w.t.Fatalf("%s was announced as %q", r.id, r.told)
			}
		}
		if int(r.version) != len(r.told) || r.queued == r.status.Terminal() {
			w.t.Fatalf("%s: version %d of %q, %s, queued %v", r.id, r.version, r.told, r.status, r.queued)
		}
		taken := w.provider.taken[r.id]
		if r.status == domain.StatusSucceeded && taken != 1 || (r.status == domain.StatusDeclined || r.status == domain.StatusCancelled) && taken != 0 {
			w.t.Fatalf("%s is %s and the provider took money %d times", r.id, r.status, taken)
		}
	}
}

// drain lets everything heal, and checks that every charge comes to an end.
func (w *world) drain() {
	w.provider.healthy = true
	for range 1000 {
		if len(w.model.sorted(func(r *row) bool { return r.status == domain.StatusRequested })) == 0 {
			return
		}
		for _, p := range w.pods {
			w.claim(p, 100)
			for _, c := range p.claims {
				p.outcomes = append(p.outcomes, p.send.Do(w.ctx(), c))
			}
			p.claims = nil
			w.settle(p, false)
		}
		w.advance(3 * time.Second)
		if rapid.Bool().Draw(w.t, "long") {
			w.advance(20 * time.Minute)
		}
		w.check()
	}
	w.t.Fatalf("%d charges never came to an end", len(w.model.sorted(func(r *row) bool { return r.status == domain.StatusRequested })))
}

// steps are the moves of the world; most is how many charges a claim takes at once.
func (w *world) steps(most func() int, add func(old bool)) map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"new charge":          func(t *rapid.T) { add(rapid.Bool().Draw(t, "old")) },
		"claim":               func(*rapid.T) { w.claim(w.pod(), most()) },
		"claim more":          func(*rapid.T) { w.claim(w.pod(), most()) },
		"send":                func(*rapid.T) { w.sendOne(w.pod()) },
		"send more":           func(*rapid.T) { w.sendOne(w.pod()) },
		"settle":              func(*rapid.T) { w.settle(w.pod(), false) },
		"settle more":         func(*rapid.T) { w.settle(w.pod(), false) },
		"settle, answer lost": func(*rapid.T) { w.settle(w.pod(), true) },
		"crash": func(t *rapid.T) {
			w.pods[rapid.IntRange(0, len(w.pods)-1).Draw(t, "pod")] = w.newPod()
		},
		"time": func(t *rapid.T) {
			w.advance(rapid.SampledFrom([]time.Duration{time.Second, 11 * time.Second, 31 * time.Second, 5*time.Minute + 3*time.Second, 11*time.Minute + 7*time.Second, 3*time.Hour + 7*time.Minute, 13 * time.Hour, 25 * time.Hour}).Draw(t, "time"))
		},
		"a little time": func(*rapid.T) { w.advance(31 * time.Second) },
		"operator":      func(*rapid.T) { w.operate() },
	}
}

func TestNothingIsChargedTwiceOrLostWhateverHappens(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		steps := w.steps(func() int { return rapid.IntRange(1, 3).Draw(t, "most") }, w.newCharge)
		steps["save"] = func(*rapid.T) { w.save() }
		steps["restore"] = func(*rapid.T) { w.restore() }
		steps[""] = func(*rapid.T) { w.check() }
		t.Repeat(steps)
		w.drain()
	})
}
