package kafka

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

const (
	timeFormat = "2006-01-02T15:04:05.000Z07:00"
	// maxCopy is how large key, value and headers of a copied message may be together. With the headers
	// that say why it was refused it stays below a million bytes.
	maxCopy   = 900_000
	maxDetail = 1024
)

// Messages encodes what is published on Kafka. Its methods are two of usecase.Codec.
type Messages struct {
	ResultsTopic    string
	DeadLetterTopic string
}

// Announcement encodes the message that tells of a charge's move. The same announcement gives the same
// bytes. Without a traceparent one is made from the announcement's id.
func (m Messages) Announcement(a domain.Announcement, traceparent string) (usecase.OutboxMessage, error) {
	value, err := announcementJSON(a)
	if err != nil {
		return usecase.OutboxMessage{}, fmt.Errorf("encode announcement %s: %w", a.ID, err)
	}
	if traceparent == "" {
		id := hex.EncodeToString(a.ID[:])
		traceparent = "00-" + id + "-" + id[16:] + "-00"
	}
	return usecase.OutboxMessage{
		EventType: a.Type,
		Topic:     m.ResultsTopic,
		Key:       []byte(a.Order.OrderID),
		Value:     value,
		Headers: []usecase.Header{
			{Key: "event-id", Value: []byte(a.ID.String())},
			{Key: "event-type", Value: []byte(a.Type)},
			{Key: "traceparent", Value: []byte(traceparent)},
		},
		EventID: uuid.NullUUID{UUID: a.Charge, Valid: true},
		Version: a.Version,
	}, nil
}

// announcementJSON writes the members in the order of the contract.
func announcementJSON(a domain.Announcement) ([]byte, error) {
	w := object{out: []byte{'{'}}
	w.text("event_id", a.ID.String())
	w.text("event_type", a.Type)
	w.text("occurred_at", a.OccurredAt.UTC().Format(timeFormat))
	w.text("order_id", a.Order.OrderID)
	w.text("customer_id", a.Order.CustomerID)
	w.text("source_event_id", a.Charge.String())
	w.number("amount", a.Order.Amount.Minor)
	w.text("currency", a.Order.Amount.Currency)
	w.optional("provider_ref", a.ProviderRef)
	if a.Reason == "" {
		w.optional("reason", nil)
	} else {
		w.optional("reason", &a.Reason)
	}
	w.number("version", int64(a.Version))
	return append(w.out, '}'), w.err
}

// object writes the members of a JSON object.
type object struct {
	out []byte
	err error
}

func (o *object) name(name string) {
	if len(o.out) > 1 {
		o.out = append(o.out, ',')
	}
	o.out = append(append(append(o.out, '"'), name...), `":`...)
}

func (o *object) number(name string, n int64) {
	o.name(name)
	o.out = strconv.AppendInt(o.out, n, 10)
}

func (o *object) text(name, value string) {
	o.name(name)
	out, err := jsontext.AppendQuote(o.out, value)
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("%s: %w", name, err)
	}
	o.out = out
}

// optional writes null for nil. The provider's words are made valid first: a result must be told even
// when its reference is not clean text.
func (o *object) optional(name string, value *string) {
	if value == nil {
		o.name(name)
		o.out = append(o.out, "null"...)
		return
	}
	o.text(name, strings.ToValidUTF8(*value, "\uFFFD"))
}

// DeadLetter encodes the copy of a refused message: its own key, value and headers, and why it was
// refused. Of a message above 900,000 bytes the value is left out and its size and hash are told; when
// that is not enough the headers and then the key go, too.
func (m Messages) DeadLetter(d usecase.DeadLetter) (usecase.OutboxMessage, error) {
	out := usecase.OutboxMessage{EventType: "DeadLetter", Topic: m.DeadLetterTopic, Key: d.Key, Value: d.Value, Headers: original(d.Headers)}
	var more []usecase.Header
	add := func(key, value string) { more = append(more, usecase.Header{Key: key, Value: []byte(value)}) }
	add("dlq-reason", string(d.Reason))
	add("dlq-detail", detail(d))
	add("dlq-topic", d.Origin.Topic)
	add("dlq-partition", strconv.Itoa(int(d.Origin.Partition)))
	add("dlq-offset", strconv.FormatInt(d.Origin.Offset, 10))
	add("dlq-timestamp", d.Origin.Time.UTC().Format(timeFormat))
	add("dlq-group", d.Group)
	if d.Masked {
		add("dlq-masked", "true")
	}
	if size(out) > maxCopy {
		sum := sha256.Sum256(d.Value)
		out.Value = []byte{} // not null, which would make it a tombstone
		add("dlq-truncated", "true")
		add("dlq-size", strconv.Itoa(len(d.Value)))
		add("dlq-sha256", hex.EncodeToString(sum[:]))
	}
	if size(out) > maxCopy {
		out.Headers = nil
		add("dlq-dropped", "headers")
	}
	if size(out) > maxCopy {
		out.Key = nil
		add("dlq-dropped", "key")
	}
	out.Headers = append(out.Headers, more...)
	return out, nil
}

// original returns a copy of the message's headers without those that a dead letter's copy bears itself,
// which a message has when it comes from a dead-letter topic.
func original(headers []usecase.Header) []usecase.Header {
	kept := make([]usecase.Header, 0, len(headers))
	for _, h := range headers {
		if !strings.HasPrefix(h.Key, "dlq-") {
			kept = append(kept, h)
		}
	}
	return kept
}

func detail(d usecase.DeadLetter) string {
	if d.Detail == "" {
		return string(d.Reason)
	}
	if len(d.Detail) > maxDetail {
		return strings.ToValidUTF8(d.Detail[:maxDetail], "")
	}
	return d.Detail
}

// size counts the bytes of a message with a little for the framing of each header.
func size(m usecase.OutboxMessage) int {
	n := len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		n += len(h.Key) + len(h.Value) + 10
	}
	return n
}
