package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// partitions of every topic.
const partitions = 6

// seqHeader numbers what is produced, so that each record of the topic is known again.
const seqHeader = "proof-seq"

// kind is why an event was produced.
type kind string

const (
	first       kind = "first"        // confirms an order
	redelivery  kind = "redelivery"   // the same bytes again
	secondSame  kind = "second_same"  // the order again under another EventID
	secondOther kind = "second_other" // so, with another amount
	conflict    kind = "conflict"     // a known EventID with another amount
	malformed   kind = "malformed"    // has to be refused as it is
)

// silentPrefix begins the ids of orders that the provider never answers: each ends parked.
const silentPrefix = "silent-"

// entry is one line of the producer's journal.
type entry struct {
	Kind   kind
	Event  string
	Order  string
	Amount int64
	Reason string // why it has to be refused
	value  []byte
	acked  atomic.Bool
}

// journal is what was produced, by number.
type journal struct {
	mu      sync.Mutex
	entries []*entry
	firsts  []*entry // acknowledged
	acked   atomic.Int64
}

func (j *journal) add(e *entry) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, e)
	return len(j.entries) - 1
}

func (j *journal) ack(e *entry) {
	e.acked.Store(true)
	j.acked.Add(1)
	if e.Kind == first {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.firsts = append(j.firsts, e)
	}
}

func (j *journal) all() []*entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]*entry(nil), j.entries...)
}

// producer confirms orders, and does what producers do: repeats itself, changes its mind, makes mistakes.
type producer struct {
	journal *journal
	client  *kgo.Client
	topic   string
	random  *rand.Rand
	orders  int
}

// run produces at a rate until ctx ends and returns when everything is acknowledged or given up.
func (p *producer) run(ctx context.Context, rate int) error {
	const tick = 20 * time.Millisecond
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	start, sent := time.Now(), 0
	for ctx.Err() == nil {
		for due := int(time.Since(start).Seconds() * float64(rate)); sent < due; sent++ {
			p.send(ctx, p.next())
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return p.flush(ctx)
}

func (p *producer) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := p.client.Flush(ctx); err != nil {
		return fmt.Errorf("flush the producer: %w", err)
	}
	return nil
}

func (p *producer) send(ctx context.Context, e *entry) {
	seq := p.journal.add(e)
	record := &kgo.Record{
		Topic: p.topic, Key: []byte(e.Order), Value: e.value,
		Headers: []kgo.RecordHeader{{Key: seqHeader, Value: []byte(strconv.Itoa(seq))}},
	}
	p.client.Produce(context.WithoutCancel(ctx), record, func(_ *kgo.Record, err error) {
		if err == nil {
			p.journal.ack(e)
		}
	})
}

// next chooses what is produced.
func (p *producer) next() *entry {
	roll := p.random.IntN(1000)
	known := p.known()
	switch {
	case roll < 20:
		return p.malform()
	case known == nil || roll < 880:
		return p.confirm("order-")
	case roll < 945:
		return &entry{Kind: redelivery, Event: known.Event, Order: known.Order, Amount: known.Amount, value: known.value}
	case roll < 970:
		return p.event(secondSame, newID(), known.Order, known.Amount)
	case roll < 985:
		return p.event(secondOther, newID(), known.Order, known.Amount+1)
	default:
		e := p.event(conflict, known.Event, known.Order, known.Amount+1)
		e.Reason = "event_id_conflict"
		return e
	}
}

// known is an acknowledged order: recent ones more often, so that events of one order meet in one chunk.
func (p *producer) known() *entry {
	p.journal.mu.Lock()
	defer p.journal.mu.Unlock()
	n := len(p.journal.firsts)
	if n == 0 {
		return nil
	}
	if p.random.IntN(2) == 0 {
		return p.journal.firsts[max(0, n-1-p.random.IntN(50))]
	}
	return p.journal.firsts[p.random.IntN(n)]
}

func (p *producer) confirm(prefix string) *entry {
	p.orders++
	return p.event(first, newID(), prefix+strconv.Itoa(p.orders), int64(100+p.random.IntN(1_000_000)))
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

func (p *producer) event(k kind, id, order string, amount int64) *entry {
	e := &entry{Kind: k, Event: id, Order: order, Amount: amount}
	e.value = encode(map[string]any{
		"event_id": id, "event_type": "OrderConfirmed", "occurred_at": "2026-01-02T03:04:05Z",
		"order_id": order, "customer_id": "customer-of-" + order, "total_amount": amount,
	})
	return e
}

func encode(fields map[string]any) []byte {
	value, err := json.Marshal(fields)
	if err != nil {
		panic(err) // strings and numbers can be written
	}
	return value
}

// malform makes an event of an order of its own that has to be refused.
func (p *producer) malform() *entry {
	p.orders++
	e := p.event(malformed, newID(), "bad-"+strconv.Itoa(p.orders), 100)
	fields := map[string]any{}
	if err := json.Unmarshal(e.value, &fields); err != nil {
		panic(err) // event wrote it
	}
	switch p.random.IntN(6) {
	case 0:
		e.Reason, e.value = "invalid_json", e.value[:len(e.value)/2]
		return e
	case 1:
		e.Reason, fields["total_amount"] = "invalid_amount", -5
	case 2:
		e.Reason, fields["customer_id"] = "missing_field", nil
	case 3:
		e.Reason, fields["event_type"] = "unsupported_event_type", "OrderShipped"
	case 4:
		e.Event = uuid.Must(uuid.NewV4()).String()
		e.Reason, fields["event_id"] = "invalid_event_id", e.Event
	case 5:
		e.Event = uuid.Must(uuid.NewV7AtTime(time.Now().Add(-30 * 24 * time.Hour))).String()
		e.Reason, fields["event_id"] = "event_too_old", e.Event
	}
	e.value = encode(fields)
	return e
}
