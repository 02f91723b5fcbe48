package kafka

import (
	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
)

// contract tells the two families of messages apart, by the member that declares the event type.
type contract uint8

const (
	contractNone contract = iota // none is declared, or both are
	contractGo                   // declared by event_type
	contractJava                 // declared by eventType
)

// The event types that are read here, contract §2.
const (
	typeGo   = "OrderConfirmed"
	typeJava = "order.confirmed.v1"
)

// declared reads which contract a message claims to follow, and its event type there. A null member
// counts as absent. Two declarations are refused as invalid_field even when one of them is unknown here:
// which of the two sets of members is meant would be a guess. So are the case variants of either member.
func (f *fields) declared() (contract, []byte) {
	f.refuseVariants("event_type", "eventType")
	inGo, inJava := f.find("event_type"), f.find("eventType")
	switch {
	case f.refusal != nil:
		return contractNone, nil
	case inGo != nil && inJava != nil:
		f.refuse(domain.ReasonInvalidField, "both event_type and eventType are there")
		return contractNone, nil
	case inGo != nil:
		return contractGo, f.text("event_type")
	case inJava != nil:
		return contractJava, f.text("eventType")
	default:
		f.refuse(domain.ReasonMissingField, "event_type, eventType: neither is there")
		return contractNone, nil
	}
}

// anyEventID returns the id of a message that becomes no event, for its dead letter to name: the one where
// the declared contract puts it or, when none is declared, the only one. It is null when there is no
// well-formed id, and when the two members disagree.
func (f *fields) anyEventID(c contract) uuid.NullUUID {
	read := func(name string) uuid.UUID {
		alone := fields{members: f.members, verdict: new(verdict)}
		return alone.eventID(name)
	}
	var id, other uuid.UUID
	if c != contractJava {
		id = read("event_id")
	}
	if c != contractGo {
		other = read("eventId")
	}
	if id == uuid.Nil {
		id = other
	}
	known := id != uuid.Nil && (other == uuid.Nil || other == id)
	if !known {
		return uuid.NullUUID{}
	}
	return uuid.NullUUID{UUID: id, Valid: true}
}

// readGo reads the Go contract: snake case, ids as strings, the amount in minor units.
func (f *fields) readGo(d Decoder) domain.OrderConfirmed {
	var event domain.OrderConfirmed
	f.refuseVariants("event_id", "occurred_at", "order_id", "customer_id", "total_amount", "currency")
	event.EventID = f.eventID("event_id")
	f.instant("occurred_at")
	event.Order.OrderID = f.stringID("order_id")
	event.Order.CustomerID = f.stringID("customer_id")
	minor := f.minorUnits("total_amount")
	currency := f.currencyOr("currency", d.DefaultCurrency)
	event.Order.Amount = f.money("total_amount", minor, currency, d.MaxAmountMinor)
	return event
}

// readJava reads the Java contract: camel case, numeric ids, the amount in major units beside its currency.
func (f *fields) readJava(d Decoder) domain.OrderConfirmed {
	var event domain.OrderConfirmed
	f.refuseVariants("eventId", "occurredAt", "orderId", "customerId", "totalAmount")
	event.EventID = f.eventID("eventId")
	f.instant("occurredAt")
	event.Order.OrderID = f.numericID("orderId")
	event.Order.CustomerID = f.numericID("customerId")
	var space [4]member
	amount := f.amountObject("totalAmount", space[:0])
	amount.refuseVariants("amount", "currency")
	decimal := amount.decimal("amount")
	currency := amount.currency("currency")
	minor := amount.minorValue("amount", decimal, currency)
	event.Order.Amount = amount.money("amount", minor, currency, d.MaxAmountMinor)
	return event
}
