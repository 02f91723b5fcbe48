package usecase

import (
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
)

// LetterFilter selects dead letters. A field that is not set selects all.
type LetterFilter struct {
	IDs    []int64
	Reason domain.Reason
	Topic  string
	Since  time.Time // created at or after
	Status LetterStatus
	Limit  int
}

// LetterRecord is a dead letter as a person sees it, without what came from the producer.
type LetterRecord struct {
	ID             int64         `json:"id"`
	Group          string        `json:"consumer_group"`
	Topic          string        `json:"topic"`
	Partition      int32         `json:"partition"`
	Offset         int64         `json:"offset"`
	MessageTime    time.Time     `json:"message_time"`
	Reason         domain.Reason `json:"reason"`
	Detail         string        `json:"detail"`
	EventID        uuid.NullUUID `json:"event_id"`
	Masked         bool          `json:"masked"`
	Status         LetterStatus  `json:"status"`
	ResolvedAt     *time.Time    `json:"resolved_at,omitempty"`
	ResolvedBy     string        `json:"resolved_by,omitempty"`
	ResolvedReason string        `json:"resolved_reason,omitempty"`
	PublishedAt    *time.Time    `json:"published_at,omitempty"`
	CreatedAt      time.Time     `json:"created_at"`
}

// LetterGroup counts dead letters of one reason, topic and hour.
type LetterGroup struct {
	Reason domain.Reason `json:"reason"`
	Topic  string        `json:"topic"`
	Hour   time.Time     `json:"hour"`
	N      int64         `json:"count"`
	First  int64         `json:"first_id"`
	Last   int64         `json:"last_id"`
}

// LetterPayload is what came from the producer.
type LetterPayload struct {
	Key     []byte
	Value   []byte
	Headers []Header
}

// Masked returns the payload with card numbers replaced, for a person's eyes.
func (p LetterPayload) Masked() LetterPayload {
	masked, _ := maskPayload(p)
	return masked
}

// maskPayload replaces what looks like a card number in everything that came from the producer. ids are not taken for one.
func maskPayload(p LetterPayload, ids ...string) (LetterPayload, bool) {
	var found, more bool
	p.Key, found = domain.MaskCards(p.Key, ids...)
	p.Value, more = domain.MaskCards(p.Value, ids...)
	found = found || more
	headers := make([]Header, len(p.Headers))
	for i, h := range p.Headers {
		key, inKey := domain.MaskCards([]byte(h.Key), ids...)
		value, inValue := domain.MaskCards(h.Value, ids...)
		headers[i] = Header{Key: string(key), Value: value}
		found = found || inKey || inValue
	}
	if found {
		p.Headers = headers
	}
	return p, found
}

// mask keeps card numbers out of the database and out of the dead-letter topic. The order's own ids are none, even when
// they look like one: they are in the table of charges, too.
func (d *DeadLetter) mask(order domain.Order) {
	p, found := maskPayload(LetterPayload{Key: d.Key, Value: d.Value, Headers: d.Headers}, order.OrderID, order.CustomerID)
	d.Key, d.Value, d.Headers, d.Masked = p.Key, p.Value, p.Headers, found
}
