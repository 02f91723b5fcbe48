package usecase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
)

// Announced is the last announcement of a charge, as the tables know it.
type Announced struct {
	Announcement domain.Announcement
	Status       domain.Status // of the charge
	Found        bool          // there is one
	Published    bool          // it was published at least once
	Waiting      bool          // it waits in the outbox
}

// AnnouncementDesk is where announcements are ordered again.
type AnnouncementDesk interface {
	// Reannounce reads the last announcement of a charge under a lock, lets decide make a message of it, stores that
	// and records who wanted it, in one transaction. A decision without topic stores nothing. ErrNoCharge.
	Reannounce(ctx context.Context, id uuid.UUID, by By, decide func(Announced) (OutboxMessage, error)) error
	// AnnouncedSince returns the charges that were settled or parked at or after a time, at most n.
	AnnouncedSince(ctx context.Context, at time.Time, n int) ([]uuid.UUID, error)
}

// Republish sends results again, for a consumer that lost some: the same event id, the same version.
type Republish struct {
	Desk    AnnouncementDesk
	Codec   Codec
	Timeout time.Duration // of one charge
}

// RepublishResult is what became of one charge.
type RepublishResult struct {
	Charge  uuid.UUID `json:"charge"`
	Ordered bool      `json:"ordered"` // its last announcement is published again
	EventID string    `json:"event_id,omitempty"`
	Version int32     `json:"version,omitempty"`
	Why     string    `json:"why"`
}

// Do orders the last announcement of a charge to be published again. One that waits to be published is left alone,
// so that it is safe to repeat.
func (r Republish) Do(ctx context.Context, id uuid.UUID, by By) (RepublishResult, error) {
	if err := by.Check(); err != nil {
		return RepublishResult{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	result := RepublishResult{Charge: id}
	err := r.Desk.Reannounce(ctx, id, by, func(a Announced) (OutboxMessage, error) {
		switch {
		case a.Status == domain.StatusRequested:
			result.Why = "it is requested, there is no result yet"
			return OutboxMessage{}, nil
		case !a.Found:
			result.Why = "its history was deleted, nothing is left to send"
			return OutboxMessage{}, nil
		}
		result.EventID, result.Version = a.Announcement.ID.String(), a.Announcement.Version
		if a.Waiting || !a.Published {
			result.Why = "it waits to be published"
			return OutboxMessage{}, nil
		}
		trace := TraceOf(Delivery{Event: domain.OrderConfirmed{EventID: id}})
		m, err := r.Codec.Announcement(a.Announcement, trace)
		if err != nil {
			return m, fmt.Errorf("encode the announcement of %s: %w", id, err)
		}
		result.Ordered, result.Why = true, "ordered again"
		return m, nil
	})
	if errors.Is(err, ErrNoCharge) {
		result.Why, err = ErrNoCharge.Error(), nil
	}
	if err != nil {
		return RepublishResult{}, fmt.Errorf("republish the result of %s: %w", id, err)
	}
	return result, nil
}
