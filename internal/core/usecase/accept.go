package usecase

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
)

// Counts tells what became of messages, for the metrics at the edge.
type Counts struct {
	Accepted    int
	Duplicates  int
	Tombstones  int
	Ignored     int
	Retries     int
	DeadLetters map[domain.Reason]int
	Ahead       int           // accepted events more than aheadAlarm ahead of the database's clock
	Now         time.Time     // the database's clock, zero when it was not asked
	Took        time.Duration // of the transaction
}

// aheadAlarm is how far ahead of the database's clock an accepted id may be without anybody asking why.
const aheadAlarm = 10 * time.Minute

// Messages returns how many messages the counts are about.
func (c *Counts) Messages() int {
	return c.Accepted + c.Duplicates + c.Tombstones + c.Ignored + c.Retries + c.Letters()
}

// Letters returns how many of them became dead letters.
func (c *Counts) Letters() int {
	n := 0
	for _, letters := range c.DeadLetters {
		n += letters
	}
	return n
}

func (c *Counts) deadLetter(r domain.Reason) {
	if c.DeadLetters == nil {
		c.DeadLetters = map[domain.Reason]int{}
	}
	c.DeadLetters[r]++
}

// Accept is the one door by which events become charges.
type Accept struct {
	Inbox  Inbox
	Codec  Codec
	Limits Limits
	// Permit is asked before a chunk that begins at from is written, with how many of its messages would become dead
	// letters. Its error rolls the chunk back. nil permits everything.
	Permit func(from int64, messages, letters int) error
}

// errRaced says that an event lost to a charge which was declined a moment later: neither its own
// charge nor a live one of its order is there. The whole chunk is done again.
var errRaced = fmt.Errorf("a winner went away while it was looked for: %w", domain.ErrRetry)

// errAsked says that an event which is read again after a loss cannot be judged yet: when the order's first charge turns out
// to be declined, the lost history may have charged this one.
var errAsked = fmt.Errorf("after the restored database: the order's first charge is not settled yet: %w", domain.ErrRetry)

// entrant is an event of a chunk with the exact copies of it that follow in the same chunk.
type entrant struct {
	acceptance Acceptance
	deliveries []Delivery
}

// batch is a chunk before it is known what its events become.
type batch struct {
	src        Source
	from, next int64
	entrants   []entrant  // sorted by EventID, distinct ids, distinct orders
	refused    []Delivery // whose refusal no look at the tables can change
	taken      int        // messages in it
	counts     Counts
}

// Chunk writes deliveries, which end at next, in one transaction, and moves the partition from from to
// the end of what it took. It takes a prefix: it stops before a message that shares its EventID or its
// order with an earlier one of the chunk without being its copy, so that no two messages of a chunk
// depend on each other's fate. It returns the new position.
func (a Accept) Chunk(ctx context.Context, src Source, from, next, rereadBelow int64, deliveries []Delivery) (int64, Counts, error) {
	b, err := a.prepare(src, from, next, rereadBelow, deliveries)
	if err != nil {
		return from, Counts{}, err
	}
	err = a.plain(ctx, &b)
	if errors.Is(err, domain.ErrMixed) {
		err = a.judge(ctx, &b)
	}
	if err != nil {
		return from, Counts{}, err
	}
	return b.next, b.counts, nil
}

func (a Accept) prepare(src Source, from, next, rereadBelow int64, deliveries []Delivery) (batch, error) {
	b := batch{src: src, from: from, next: next}
	byID := make(map[uuid.UUID]int, len(deliveries))
	orders := make(map[string]struct{}, len(deliveries))
	for _, d := range deliveries {
		b.taken++
		switch d.Kind {
		case KindTombstone:
			b.counts.Tombstones++
			continue
		case KindIgnored:
			b.counts.Ignored++
			continue
		case KindRefused:
			b.refused = append(b.refused, d)
			continue
		case KindEvent:
		}
		at, again := byID[d.Event.EventID]
		_, held := orders[d.Event.Order.OrderID]
		if again && b.entrants[at].acceptance.Event == d.Event {
			b.entrants[at].deliveries = append(b.entrants[at].deliveries, d)
			continue
		}
		if again || held {
			b.next = d.Message.Offset
			b.taken--
			break
		}
		request, err := a.Codec.Request(d.Event.Order)
		if err != nil {
			return batch{}, fmt.Errorf("encode the provider request of %s: %w", d.Event.EventID, err)
		}
		byID[d.Event.EventID] = len(b.entrants)
		orders[d.Event.Order.OrderID] = struct{}{}
		b.entrants = append(b.entrants, entrant{
			acceptance: Acceptance{
				Event: d.Event, Request: request, Traceparent: TraceOf(d), Reread: d.Message.Offset < rereadBelow,
			},
			deliveries: []Delivery{d},
		})
	}
	// One order of locks for every transaction: random order deadlocks under concurrent redelivery.
	slices.SortFunc(b.entrants, func(x, y entrant) int {
		return bytes.Compare(x.acceptance.Event.EventID[:], y.acceptance.Event.EventID[:])
	})
	return b, nil
}

func (b *batch) acceptances() []Acceptance {
	events := make([]Acceptance, len(b.entrants))
	for i := range b.entrants {
		events[i] = b.entrants[i].acceptance
	}
	return events
}

// plain is the common case in one round trip: new events, and duplicates of known ones.
func (a Accept) plain(ctx context.Context, b *batch) error {
	letters, counts, err := a.refusals(b)
	if err != nil {
		return err
	}
	if err := a.permit(b, len(letters)); err != nil {
		return err
	}
	accepted, err := a.Inbox.AcceptChunk(ctx, Chunk{
		Source: b.src, From: b.from, Next: b.next, Events: b.acceptances(), DeadLetters: letters,
	}, a.Limits)
	if err != nil {
		return fmt.Errorf("accept %d events: %w", len(b.entrants), err)
	}
	alarm := domain.IDBound(accepted.Now.Add(aheadAlarm))
	for i := range b.entrants {
		copies := len(b.entrants[i].deliveries)
		if accepted.Charged[i] {
			counts.Accepted++
			copies--
			if id := b.entrants[i].acceptance.Event.EventID; bytes.Compare(id[:], alarm[:]) > 0 {
				counts.Ahead++
			}
		}
		counts.Duplicates += copies
	}
	counts.Now = accepted.Now
	b.counts = counts
	return nil
}

func (a Accept) permit(b *batch, letters int) error {
	if a.Permit == nil {
		return nil
	}
	return a.Permit(b.from, b.taken, letters)
}

// refusals builds the dead letters of messages that their decoder refused.
func (a Accept) refusals(b *batch) ([]DeadLetter, Counts, error) {
	counts := b.counts
	counts.DeadLetters = nil
	letters := make([]DeadLetter, 0, len(b.refused))
	for _, d := range b.refused {
		letter, err := a.letter(b.src.Group, d, d.Refusal)
		if err != nil {
			return nil, counts, err
		}
		letters = append(letters, letter)
		counts.deadLetter(letter.Reason)
	}
	return letters, counts, nil
}

func (a Accept) letter(group string, d Delivery, refusal *domain.Refusal) (DeadLetter, error) {
	letter := DeadLetter{
		Group: group, Origin: d.Origin, Key: d.Message.Key, Value: d.Message.Value, Headers: d.Message.Headers,
		Reason: refusal.Reason, Detail: refusal.Detail, EventID: d.EventID,
	}
	letter.mask(d.Event.Order)
	var err error
	letter.Copy, err = a.Codec.DeadLetter(letter)
	if err != nil {
		return DeadLetter{}, fmt.Errorf("encode the copy of a dead letter: %w", err)
	}
	return letter, nil
}

// judge gives each event of a chunk its own verdict, in one transaction.
func (a Accept) judge(ctx context.Context, b *batch) error {
	return a.Inbox.InTx(ctx, func(ctx context.Context, tx AcceptTx) error { //nolint:wrapcheck // says so itself
		letters, counts, err := a.refusals(b)
		if err != nil {
			return err
		}
		if err := tx.MovePosition(ctx, b.src, b.from, b.next); err != nil {
			return fmt.Errorf("judge a chunk: %w", err)
		}
		losers, err := a.enter(ctx, tx, b, &counts)
		if err != nil {
			return err
		}
		verdicts, err := a.verdicts(ctx, tx, b.src.Group, losers)
		if err != nil {
			return err
		}
		more, err := a.apply(ctx, tx, b.src.Group, losers, verdicts, &counts)
		if err != nil {
			return err
		}
		letters = append(letters, more...)
		if err := a.permit(b, len(letters)); err != nil {
			return err
		}
		if len(letters) > 0 {
			if err := tx.PutDeadLetters(ctx, letters); err != nil {
				return fmt.Errorf("judge a chunk: %w", err)
			}
		}
		b.counts = counts
		return nil
	})
}

// enter lets every event try to become a charge and returns those that did not.
func (a Accept) enter(ctx context.Context, tx AcceptTx, b *batch, counts *Counts) ([]entrant, error) {
	if len(b.entrants) == 0 {
		return nil, nil
	}
	charged, err := tx.Accept(ctx, b.src.Group, b.acceptances(), a.Limits)
	if err != nil {
		return nil, fmt.Errorf("judge a chunk: %w", err)
	}
	var losers []entrant
	for i, won := range charged {
		if !won {
			losers = append(losers, b.entrants[i])
			continue
		}
		counts.Accepted++
		counts.Duplicates += len(b.entrants[i].deliveries) - 1
	}
	return losers, nil
}

// verdict is what an event that did not become a charge is instead.
type verdict struct {
	refusal *domain.Refusal // nil: a duplicate
	of      uuid.NullUUID   // of this charge of its order, when its own id was not known
	forget  bool            // take back the inbox row
}

func (a Accept) verdicts(ctx context.Context, tx AcceptTx, group string, losers []entrant) ([]verdict, error) {
	if len(losers) == 0 {
		return nil, nil
	}
	events := make([]domain.OrderConfirmed, len(losers))
	for i := range losers {
		events[i] = losers[i].acceptance.Event
	}
	known, err := tx.Know(ctx, group, events, a.Limits)
	if err != nil {
		return nil, fmt.Errorf("judge a chunk: %w", err)
	}
	verdicts := make([]verdict, len(losers))
	for i, k := range known {
		if losers[i].acceptance.Reread && !k.Seen && k.Live.Valid && k.LiveAsked {
			return nil, errAsked
		}
		v, ok := judgeOne(k)
		if !ok {
			return nil, errRaced
		}
		verdicts[i] = v
	}
	return verdicts, nil
}

// judgeOne decides in the order of contract §2: known id, age, order. It returns false when the tables
// explain nothing.
func judgeOne(k Knowledge) (verdict, bool) {
	switch {
	case k.Seen && k.SeenSame:
		return verdict{}, true
	case k.Seen:
		return verdict{refusal: domain.Refuse(domain.ReasonEventIDConflict, "the event id is known with other content"), forget: k.InboxMine}, true
	case k.TooOld:
		return verdict{refusal: domain.Refuse(domain.ReasonEventTooOld, "the event id is older than the inbox remembers"), forget: k.InboxMine}, true
	case k.Ahead:
		return verdict{refusal: domain.Refuse(domain.ReasonEventFromFuture, "the event id is further ahead of the database's clock than allowed"), forget: k.InboxMine}, true
	case k.Live.Valid && k.LiveSame:
		return verdict{of: k.Live}, true
	case k.Live.Valid:
		return verdict{
			refusal: domain.Refuse(domain.ReasonOrderAlreadyCharged, "the order has charge "+k.Live.UUID.String()+" with other content"),
			forget:  k.InboxMine,
		}, true
	}
	return verdict{}, false
}

// apply writes verdicts but for the dead letters, which it returns.
func (a Accept) apply(ctx context.Context, tx AcceptTx, group string, losers []entrant, verdicts []verdict, counts *Counts) ([]DeadLetter, error) {
	var (
		letters    []DeadLetter
		forget, of []uuid.UUID
		duplicates []domain.OrderConfirmed
	)
	for i, v := range verdicts {
		if v.forget {
			forget = append(forget, losers[i].acceptance.Event.EventID)
		}
		if v.refusal == nil {
			counts.Duplicates += len(losers[i].deliveries)
			if v.of.Valid {
				duplicates = append(duplicates, losers[i].acceptance.Event)
				of = append(of, v.of.UUID)
			}
			continue
		}
		for _, d := range losers[i].deliveries { // each refused message has its own dead letter
			letter, err := a.letter(group, d, v.refusal)
			if err != nil {
				return nil, err
			}
			letters = append(letters, letter)
			counts.deadLetter(letter.Reason)
		}
	}
	if len(forget) > 0 {
		if err := tx.Forget(ctx, group, forget); err != nil {
			return nil, fmt.Errorf("judge a chunk: %w", err)
		}
	}
	if len(duplicates) > 0 {
		if err := tx.MarkDuplicates(ctx, group, duplicates, of); err != nil {
			return nil, fmt.Errorf("judge a chunk: %w", err)
		}
	}
	return letters, nil
}
