package main

import (
	"fmt"

	"billing/internal/paysim"
)

// currency of every order: the default of the service.
const currency = "RUB"

// announcement is what the results topic says of a charge.
type announcement struct {
	ID       string  `json:"event_id"`
	Type     string  `json:"event_type"`
	Order    string  `json:"order_id"`
	Customer string  `json:"customer_id"`
	Source   string  `json:"source_event_id"`
	Amount   int64   `json:"amount"`
	Currency string  `json:"currency"`
	Ref      *string `json:"provider_ref"`
	Version  int     `json:"version"`
}

// place is where a message is in the topic of orders.
type place struct {
	partition int32
	offset    int64
}

// facts are what others than the service know: nothing in them comes from its tables.
type facts struct {
	sent          []*message
	journal       paysim.Journal
	announcements []announcement
	letters       map[place]string // the reason of each message refused
}

// verdict is what the facts say together.
type verdict struct {
	confirmed, charged, declined int
	redelivered, seconds         int
	malformed                    int
	letters                      map[string]int // by reason
	answersLost                  int
	busy                         int      // answers 503
	doubles                      []string // orders whose money was taken more than once
	lost                         []string // what was sent and came to no end
	wrong                        []string // anything else that does not agree
}

func (v *verdict) clean() bool { return len(v.doubles)+len(v.lost)+len(v.wrong) == 0 }

func (v *verdict) lose(format string, args ...any) {
	v.lost = append(v.lost, fmt.Sprintf(format, args...))
}

func (v *verdict) blame(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

// judge compares the journals of both ends with what was announced between them.
func judge(f facts) verdict {
	v := verdict{letters: map[string]int{}}
	audit := f.journal.Audit()
	v.doubles = audit.DoubleCharged()
	for _, key := range audit.ReusedKeys() {
		v.blame("key %s came to the provider with different bytes", key)
	}
	v.countRequests(f.journal.Requests)
	v.judgeMessages(f, audit)
	v.judgeEffects(f, audit)
	v.judgeAnnouncements(f.announcements, audit)
	v.judgeLetters(f)
	return v
}

func (v *verdict) countRequests(requests []paysim.Request) {
	for _, r := range requests {
		switch r.Script {
		case answerLost.String():
			v.answersLost++
		case providerBusy.String():
			v.busy++
		}
	}
}

// judgeMessages asks of every message that was acknowledged to the producer how it ended.
func (v *verdict) judgeMessages(f facts, audit paysim.Audit) {
	for _, m := range f.sent {
		reason, refused := f.letters[place{m.partition, m.offset}]
		switch m.kind {
		case confirmation:
			v.confirmed++
			v.judgeOrder(m.order.id, audit)
		case redelivery:
			v.redelivered++
		case secondID:
			v.seconds++
		case otherSum:
			v.seconds++
			if !refused && len(audit.EffectsByKey[m.event]) == 0 {
				v.lose("order %s: its second event with another amount was neither refused nor charged", m.order.id)
			}
		case malformed:
			v.malformed++
			if !refused {
				v.lose("message %d/%d: %s, and no dead letter tells of it", m.partition, m.offset, m.reason)
			} else if reason != m.reason {
				v.blame("message %d/%d: refused as %s, is %s", m.partition, m.offset, reason, m.reason)
			}
		}
	}
}

func (v *verdict) judgeOrder(id string, audit paysim.Audit) {
	effects := audit.EffectsByOrder[id]
	taken := 0
	for _, e := range effects {
		if e.Status == paysim.Succeeded {
			taken++
		}
	}
	switch {
	case len(effects) == 0:
		v.lose("order %s: the provider never heard of it", id)
	case taken == 0:
		v.declined++
	case taken == 1:
		v.charged++
	}
}

// judgeEffects asks of everything that the provider did whether somebody ordered exactly that.
func (v *verdict) judgeEffects(f facts, audit paysim.Audit) {
	ordered := map[string]order{}
	for _, m := range f.sent {
		if m.kind != malformed {
			ordered[m.event] = m.order
		}
	}
	for key, effects := range audit.EffectsByKey {
		o, ok := ordered[key]
		if !ok {
			v.blame("the provider charged order %s under %s, which nobody sent", effects[0].OrderID, key)
			continue
		}
		for _, e := range effects {
			if e.OrderID != o.id || e.CustomerID != o.customer || e.Amount != o.amount || e.Currency != currency {
				v.blame("order %s: sent with %d %s of %s, charged as %s with %d %s of %s",
					o.id, o.amount, currency, o.customer, e.OrderID, e.Amount, e.Currency, e.CustomerID)
			}
		}
	}
}

// judgeAnnouncements asks whether the world was told exactly what the provider did. The same announcement
// may come twice; two of one version may not.
func (v *verdict) judgeAnnouncements(all []announcement, audit paysim.Audit) {
	latest := map[string]announcement{}
	for _, a := range all {
		before, again := latest[a.Source]
		if again && before.Version == a.Version && before.ID != a.ID {
			v.blame("order %s: version %d was announced as %s and as %s", a.Order, a.Version, before.ID, a.ID)
		}
		if !again || a.Version >= before.Version {
			latest[a.Source] = a
		}
	}
	for key, effects := range audit.EffectsByKey {
		told, ok := latest[key]
		if !ok {
			v.lose("order %s: %s at the provider and never announced", effects[0].OrderID, effects[0].Status)
		} else if !told.agrees(effects[0]) {
			v.blame("order %s: %s at the provider, announced as %s of %d %s", effects[0].OrderID, effects[0].Status, told.Type, told.Amount, told.Currency)
		}
	}
	for source, told := range latest {
		if len(audit.EffectsByKey[source]) == 0 {
			v.blame("order %s: announced as %s, and the provider knows nothing of it", told.Order, told.Type)
		}
	}
}

// agrees tells whether the announcement says what the provider did.
func (a announcement) agrees(e paysim.Effect) bool {
	types := map[paysim.Status]string{paysim.Succeeded: "ChargeSucceeded", paysim.Declined: "ChargeDeclined"}
	return a.Type == types[e.Status] && a.Order == e.OrderID && a.Customer == e.CustomerID && a.Amount == e.Amount && a.Currency == e.Currency &&
		(e.Status == paysim.Declined || (a.Ref != nil && *a.Ref == e.ChargeID))
}

// judgeLetters asks whether only what had to be refused was refused.
func (v *verdict) judgeLetters(f facts) {
	sent := make(map[place]*message, len(f.sent))
	for _, m := range f.sent {
		sent[place{m.partition, m.offset}] = m
	}
	for at, reason := range f.letters {
		v.letters[reason]++
		m := sent[at]
		switch {
		case m == nil:
			v.blame("message %d/%d: a dead letter (%s) of what nobody sent", at.partition, at.offset, reason)
		case m.kind == malformed: // judged with the message
		case m.kind != otherSum || reason != "order_already_charged":
			v.blame("order %s: a good message (%s) was refused as %s", m.order.id, m.kind, reason)
		}
	}
}
