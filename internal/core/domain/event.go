package domain

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"
)

// Order is the content of an order event or of a POST: what is to be collected, from whom, for what.
type Order struct {
	OrderID    string // one namespace over all topics, both event contracts and POST
	CustomerID string
	Amount     Money
}

// OrderConfirmed is a well-formed order event. EventID is the identity: the primary key of the
// charge it orders and the Idempotency-Key of every call to the provider.
type OrderConfirmed struct {
	EventID uuid.UUID
	Order   Order
}

// Reason says why a message became a dead letter. The values are part of the contract (§4).
type Reason string

// The reasons of dead letters, contract §2 and §4.
const (
	ReasonInvalidJSON          Reason = "invalid_json"
	ReasonInvalidField         Reason = "invalid_field"
	ReasonMissingField         Reason = "missing_field"
	ReasonUnsupportedEventType Reason = "unsupported_event_type"
	ReasonInvalidEventID       Reason = "invalid_event_id"
	ReasonEventTooOld          Reason = "event_too_old"
	ReasonEventFromFuture      Reason = "event_from_future"
	ReasonInvalidAmount        Reason = "invalid_amount"
	ReasonEventIDConflict      Reason = "event_id_conflict"
	ReasonOrderAlreadyCharged  Reason = "order_already_charged"
	ReasonRetriesExhausted     Reason = "retries_exhausted"
)

// Reasons lists every reason, for metrics that must exist from the start.
func Reasons() []Reason {
	return []Reason{
		ReasonInvalidJSON, ReasonInvalidField, ReasonMissingField, ReasonUnsupportedEventType,
		ReasonInvalidEventID, ReasonEventTooOld, ReasonEventFromFuture, ReasonInvalidAmount,
		ReasonEventIDConflict, ReasonOrderAlreadyCharged, ReasonRetriesExhausted,
	}
}

// Refusal is the error of a message that can never be accepted as it is. Detail is for people:
// never empty, and never a part of the payload.
type Refusal struct {
	Reason Reason
	Detail string
}

// Error returns reason and detail.
func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.Detail }

// Refuse builds a Refusal.
func Refuse(reason Reason, detail string) *Refusal { return &Refusal{Reason: reason, Detail: detail} }

// FingerprintSize is the length of a fingerprint in bytes: a version byte and 15 bytes of SHA-256.
const FingerprintSize = 16

const fingerprintVersion = 1

// Fingerprint is a hash of an order's content after defaults. Two fingerprints are compared only
// when their first byte, the version, is equal.
func (o Order) Fingerprint() [FingerprintSize]byte {
	h := sha256.New()
	for _, part := range []string{o.OrderID, o.CustomerID, strconv.FormatInt(o.Amount.Minor, 10), o.Amount.Currency} {
		var size [8]byte // the length goes first, so that no two different orders write the same bytes
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	var f [FingerprintSize]byte
	f[0] = fingerprintVersion
	copy(f[1:], h.Sum(nil))
	return f
}

// ParseEventID reads the canonical 36-character form in either hex case and accepts only UUID
// version 7 of the RFC variant; anything else is refused as invalid_event_id.
func ParseEventID(s string) (uuid.UUID, error) {
	if len(s) != 36 {
		return uuid.UUID{}, Refuse(ReasonInvalidEventID, "want 36 characters, got "+strconv.Itoa(len(s)))
	}
	id, err := uuid.FromString(s)
	if err != nil {
		return uuid.UUID{}, Refuse(ReasonInvalidEventID, "not a UUID")
	}
	if id.Version() != uuid.V7 || id.Variant() != uuid.VariantRFC9562 {
		return uuid.UUID{}, Refuse(ReasonInvalidEventID, fmt.Sprintf("want UUID version 7 of the RFC variant, got version %d", id.Version()))
	}
	return id, nil
}

// IDTime returns the instant in a UUID v7, to the millisecond.
func IDTime(id uuid.UUID) time.Time {
	var ms [8]byte
	copy(ms[2:], id[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(ms[:]))).UTC() //nolint:gosec // 48 bits fit
}

// IDBound returns the smallest UUID whose first 48 bits are t in milliseconds: the lower bound of all
// UUID v7 made at or after t, and the partition bound of processed_event.
func IDBound(t time.Time) uuid.UUID {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(max(t.UnixMilli(), 0)))
	var id uuid.UUID
	copy(id[:6], ms[2:])
	return id
}
