package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"
)

// Parts of the orders, in percent, that come with something special.
const (
	redeliveredPercent = 10
	secondIDPercent    = 2 // confirmed again under another EventID
	otherSumPercent    = 1 // so, with another amount
	malformedPercent   = 1
)

// kind is why a message was sent.
type kind string

const (
	confirmation kind = "confirmation" // the first of an order
	redelivery   kind = "redelivery"   // the same bytes again
	secondID     kind = "second_id"    // the same order under another EventID
	otherSum     kind = "other_sum"    // the same order under another EventID, with another amount
	malformed    kind = "malformed"    // what has to be refused
)

// order is what a shop confirmed.
type order struct {
	id       string
	customer string
	amount   int64
	java     bool // its producer speaks the Java contract
}

// message is one line of the producer's journal.
type message struct {
	kind   kind
	event  string // its EventID
	order  order
	reason string // why it has to be refused
	value  []byte
	// partition and offset are where the broker keeps it, since it was acknowledged.
	partition int32
	offset    int64

	turn float64 // its place among the others
}

// planner makes orders and messages; what it does depends on its seed and on the time.
type planner struct {
	random *rand.Rand
	now    time.Time
	made   int // orders so far
}

func newPlanner(seed uint64, now time.Time) *planner {
	return &planner{random: rand.New(rand.NewPCG(seed, 0)), now: now}
}

// plan is everything that the producer sends for n orders, in this order.
func (p *planner) plan(n int) []*message {
	all := make([]*message, 0, n+n/5)
	for range n {
		all = append(all, p.confirm())
	}
	first := slices.Clone(all)
	p.random.Shuffle(n, func(i, j int) { first[i], first[j] = first[j], first[i] })
	take := func(percent int) []*message { // each order gets at most one of these
		count := max(n*percent/100, 1)
		taken := first[:count]
		first = first[count:]
		return taken
	}
	for _, m := range take(redeliveredPercent) {
		all = append(all, p.later(&message{kind: redelivery, event: m.event, order: m.order, value: m.value}, m))
	}
	for _, m := range take(secondIDPercent) {
		all = append(all, p.later(p.event(secondID, p.id(0), m.order), m))
	}
	for _, m := range take(otherSumPercent) {
		changed := m.order
		changed.amount++
		all = append(all, p.later(p.event(otherSum, p.id(0), changed), m))
	}
	for i, m := range take(malformedPercent) {
		all = append(all, p.later(p.malform(i, m), m))
	}
	slices.SortStableFunc(all, func(a, b *message) int { return cmp.Compare(a.turn, b.turn) })
	return all
}

// later gives a message a place behind another one of its order.
func (p *planner) later(m, than *message) *message {
	m.turn = than.turn + float64(p.random.IntN(200)) + 0.5
	return m
}

// confirm makes an order and its event.
func (p *planner) confirm() *message {
	p.made++
	o := order{id: fmt.Sprintf("o-%06d", p.made), customer: fmt.Sprintf("c-%04d", p.random.IntN(5000)), amount: 100 + p.random.Int64N(500_000)}
	if p.made%4 == 0 { // one shop in four is written in Java and numbers its orders
		o.java, o.id, o.customer = true, strconv.Itoa(1_000_000+p.made), strconv.Itoa(1+p.random.IntN(5000))
	}
	m := p.event(confirmation, p.id(0), o)
	m.turn = float64(p.made)
	return m
}

func (p *planner) id(age time.Duration) string {
	return uuid.Must(uuid.NewV7AtTime(p.now.Add(-age))).String()
}

// event writes an order in the contract of its producer.
func (p *planner) event(k kind, id string, o order) *message {
	at := p.now.UTC().Format(time.RFC3339)
	fields := map[string]any{
		"event_id": id, "event_type": "OrderConfirmed", "occurred_at": at,
		"order_id": o.id, "customer_id": o.customer, "total_amount": o.amount,
	}
	if o.java {
		fields = map[string]any{
			"eventId": id, "eventType": "order.confirmed.v1", "occurredAt": at,
			"orderId": json.Number(o.id), "customerId": json.Number(o.customer),
			"totalAmount": map[string]any{"amount": fmt.Sprintf("%d.%02d", o.amount/100, o.amount%100), "currency": "RUB"},
		}
	}
	value, err := json.Marshal(fields)
	if err != nil {
		panic(err) // strings and numbers can be written
	}
	return &message{kind: k, event: id, order: o, value: value}
}

// malform makes a message that has to be refused, each time in another way. It belongs to an order of its
// own, but for the last kind, which claims the EventID of a good one.
func (p *planner) malform(i int, good *message) *message {
	o := order{id: fmt.Sprintf("bad-%04d", i+1), customer: "c-bad", amount: 100 + p.random.Int64N(500_000)}
	type refusal struct {
		reason string
		make   func() *message
	}
	plain := func(id string) *message { return p.event(malformed, id, o) }
	with := func(field string, value any) func() *message {
		return func() *message {
			m := plain(p.id(0))
			m.value = replace(m.value, field, value)
			return m
		}
	}
	refusals := []refusal{
		{"invalid_json", func() *message { m := plain(p.id(0)); m.value = m.value[:len(m.value)/2]; return m }},
		{"invalid_amount", with("total_amount", -5)},
		{"missing_field", with("customer_id", nil)},
		{"event_id_conflict", func() *message {
			changed := good.order
			changed.amount++
			return p.event(malformed, good.event, changed)
		}},
		{"invalid_event_id", func() *message { return plain(uuid.Must(uuid.NewV4()).String()) }},
		{"unsupported_event_type", with("event_type", "OrderShipped")},
		{"event_too_old", func() *message { return plain(p.id(30 * 24 * time.Hour)) }},
		{"event_from_future", func() *message { return plain(p.id(-5 * 24 * time.Hour)) }},
		{"invalid_field", with("order_id", "")},
	}
	r := refusals[i%len(refusals)]
	m := r.make()
	m.reason = r.reason
	return m
}

// replace sets a field of a JSON object.
func replace(object []byte, field string, value any) []byte {
	fields := map[string]any{}
	if err := json.Unmarshal(object, &fields); err != nil {
		panic(err) // event wrote it
	}
	fields[field] = value
	out, err := json.Marshal(fields)
	if err != nil {
		panic(err) // as in event
	}
	return out
}
