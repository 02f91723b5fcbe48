// Package kafka is the way in from Kafka: it joins the consumer group, fetches the committed records of the
// assigned partitions and reads order events strictly.
package kafka

import (
	"slices"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// Decoder reads order events of both contracts. The declared event type decides which contract a message
// is held against, never its shape. A Decoder has no state and may be used by many goroutines.
type Decoder struct {
	// DefaultCurrency is that of the Go contract's events that carry none.
	DefaultCurrency string
	// MaxAmountMinor is the largest accepted amount; with 0 every amount is refused.
	MaxAmountMinor int64
	// IgnoreEventTypes are types that may lie on the topic and mean nothing here. A type that is read here,
	// in whichever member it stands, is never ignored, so that no list can lose an order.
	IgnoreEventTypes []string
}

// Decode reads one message. It never fails: a message that cannot be accepted as it is becomes
// KindRefused with its reason. The delivery shares the message's bytes and nothing else with its caller.
func (d Decoder) Decode(topic string, partition int32, m usecase.Message) usecase.Delivery {
	delivery := usecase.Delivery{
		Message: m,
		Origin:  usecase.Origin{Topic: topic, Partition: partition, Offset: m.Offset, Time: m.Time},
	}
	if len(m.Headers) > 0 {
		delivery.Traceparent = traceparent(m.Headers)
		if origin, retries, ok := retried(topic, m.Headers); ok {
			delivery.Origin, delivery.Retries = origin, retries
		}
	}
	if len(m.Value) == 0 {
		delivery.Kind = usecase.KindTombstone
		return delivery
	}
	d.read(m.Value, &delivery)
	return delivery
}

// read fills in what the payload says.
func (d Decoder) read(value []byte, delivery *usecase.Delivery) {
	delivery.Kind = usecase.KindRefused
	var space [16]member // more than either contract has, so that a usual event needs no memory for it
	members, refusal := parseObject(value, space[:0])
	if refusal != nil {
		delivery.Refusal = refusal
		return
	}
	f := fields{members: members, verdict: new(verdict)}
	var event domain.OrderConfirmed
	c, eventType := f.declared()
	switch {
	case f.refusal != nil:
	case c == contractGo && string(eventType) == typeGo:
		event = f.readGo(d)
	case c == contractJava && string(eventType) == typeJava:
		event = f.readJava(d)
	case d.ignores(string(eventType)):
		delivery.Kind, delivery.EventID = usecase.KindIgnored, f.anyEventID(c)
		return
	default:
		f.refuse(domain.ReasonUnsupportedEventType, "not an event type that is read here")
	}
	if f.refusal != nil {
		delivery.Refusal, delivery.EventID = f.refusal, f.anyEventID(c)
		return
	}
	delivery.Kind, delivery.Event = usecase.KindEvent, event
	delivery.EventID = uuid.NullUUID{UUID: event.EventID, Valid: true}
}

func (d Decoder) ignores(eventType string) bool {
	return eventType != typeGo && eventType != typeJava && slices.Contains(d.IgnoreEventTypes, eventType)
}
