package domain

import (
	"time"

	"github.com/gofrs/uuid/v5"
)

// Status is where a charge stands.
type Status string

// The statuses, contract §7.
const (
	StatusRequested Status = "requested"
	StatusSucceeded Status = "succeeded"
	StatusDeclined  Status = "declined"
	StatusParked    Status = "parked"
	StatusCancelled Status = "cancelled"
)

// Statuses lists every status, for metrics that must exist from the start.
func Statuses() []Status {
	return []Status{StatusRequested, StatusSucceeded, StatusDeclined, StatusParked, StatusCancelled}
}

// Terminal reports whether a charge never leaves s.
func (s Status) Terminal() bool {
	return s == StatusSucceeded || s == StatusDeclined || s == StatusCancelled
}

// Announcement returns the event type that tells the world of a charge that reached s, contract §4;
// the empty string for requested, which is not announced.
func (s Status) Announcement() string {
	switch s {
	case StatusSucceeded:
		return "ChargeSucceeded"
	case StatusDeclined:
		return "ChargeDeclined"
	case StatusParked:
		return "ChargeParked"
	case StatusCancelled:
		return "ChargeCancelled"
	case StatusRequested:
		return ""
	}
	return ""
}

// ParkReason says why automatic work on a charge has stopped.
type ParkReason string

// The reasons of parked charges. A rejected charge carries the Cause of its rejection instead.
const (
	ParkOutcomeUnknown  ParkReason = "outcome_unknown"  // the key window is over and nobody can say whether it was charged
	ParkPendingTooLong  ParkReason = "pending_too_long" // accepted by the provider and not final within the limit
	ParkProviderChanged ParkReason = "provider_changed" // sent for another provider account
	ParkHistoryLost     ParkReason = "history_lost"     // the database was restored, and there is no look-up to ask or the provider does not know it
)

// Charge is a sum to collect exactly once. Its id is the EventID.
type Charge struct {
	EventID     uuid.UUID
	Order       Order
	Source      string // "kafka" or "api"
	Status      Status
	LastOutcome Outcome // empty when nothing is known yet
	Reason      string
	ProviderRef *string
	Version     int32 // announcements so far
	Attempts    int32
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// CanMove reports whether a charge may go from one status to another. sent says whether a request
// may have reached the provider: a sent charge is never cancelled.
func CanMove(from, to Status, sent bool) bool {
	switch from {
	case StatusRequested:
		return to == StatusSucceeded || to == StatusDeclined || to == StatusParked || (to == StatusCancelled && !sent)
	case StatusParked:
		return to == StatusSucceeded || to == StatusDeclined || to == StatusRequested || (to == StatusCancelled && !sent)
	case StatusSucceeded, StatusDeclined, StatusCancelled:
		return false
	}
	return false
}

// Announcement is one numbered telling of a charge's move, contract §4. ID is fixed when the charge
// is settled and stays the same on every publication.
type Announcement struct {
	ID          uuid.UUID
	Type        string
	OccurredAt  time.Time
	Charge      uuid.UUID
	Order       Order
	ProviderRef *string
	Reason      string // empty is written as null
	Version     int32
}
