package postgres_test

import (
	"context"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

var rules = usecase.ClaimRules{Account: account, Lease: lease, KeyWindow: keyWindow}

// declineClaimed claims what is due and settles it as declined.
func (e env) declineClaimed(ctx context.Context) (int, error) {
	claims, err := e.store.ClaimCharges(ctx, 100, rules)
	if err != nil {
		return 0, err //nolint:wrapcheck // a test
	}
	batch := make([]usecase.Settlement, len(claims))
	for i, c := range claims {
		batch[i] = settlement(c, domain.Declined, domain.StatusDeclined)
	}
	_, err = e.settle.Do(ctx, batch)
	return len(claims), err //nolint:wrapcheck // a test
}

// settlement is what usecase.Send would make of an answer to c.
func settlement(c usecase.Claim, outcome domain.Outcome, status domain.Status) usecase.Settlement {
	s := usecase.Settlement{
		EventID: c.EventID, Attempt: c.Attempt, Journaled: c.Journaled, Outcome: outcome, LastOutcome: outcome,
		Status: status, Order: c.Order, Traceparent: c.Traceparent, Now: c.Now,
		ClearStamp: c.Stamped && outcome == domain.NotSent,
	}
	if status != domain.StatusRequested {
		s.Announcement = &domain.Announcement{
			ID: newID(), Type: status.Announcement(), OccurredAt: c.Now, Charge: c.EventID, Order: c.Order, Version: c.Version + 1,
		}
	}
	return s
}
