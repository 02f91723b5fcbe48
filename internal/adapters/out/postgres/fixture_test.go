package postgres_test

import (
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

const trace = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"

// books is a database whose charges were brought where they are by the service's own statements.
type books struct {
	env
	orders *reader
}

func newBooks(t *testing.T) *books {
	t.Helper()
	b := &books{env: newEnv(t)}
	b.orders = b.reader(t, group, 0)
	return b
}

// request makes a charge of a new event and returns its id.
func (b *books) request(t *testing.T, order string) uuid.UUID {
	t.Helper()
	e := event(order)
	want(t, b.orders.take(t, e), 1, 0)
	return e.Event.EventID
}

// refuse makes a dead letter.
func (b *books) refuse(t *testing.T) {
	t.Helper()
	b.orders.take(t, refused(domain.ReasonInvalidJSON))
}

// claim takes the one charge that is due.
func (b *books) claim(t *testing.T) usecase.Claim {
	t.Helper()
	claims, err := b.store.ClaimCharges(t.Context(), 10, rules)
	if err != nil || len(claims) != 1 {
		t.Fatalf("claimed %d charges, want 1: %v", len(claims), err)
	}
	return claims[0]
}

// conclude writes what a claim came to and reports whether it still held.
func (b *books) conclude(t *testing.T, c usecase.Claim, status domain.Status, outcome domain.Outcome) bool {
	t.Helper()
	ref := "ref-" + c.EventID.String()
	s := usecase.Settlement{
		EventID: c.EventID, Attempt: c.Attempt, Journaled: c.Journaled, Outcome: outcome, LastOutcome: outcome, HTTPStatus: 200,
		ProviderRef: &ref, Status: status, Order: c.Order, Traceparent: trace, Delay: time.Hour,
	}
	if status != domain.StatusRequested {
		s.Announcement = &domain.Announcement{ID: newID(), Type: status.Announcement(), Charge: c.EventID, Order: c.Order, Version: c.Version + 1}
	}
	report, err := b.settle.Do(t.Context(), []usecase.Settlement{s})
	if err != nil {
		t.Fatalf("settle as %s: %v", status, err)
	}
	return report.Fenced == 0
}

// charge brings a new order to a status by way of one attempt.
func (b *books) charge(t *testing.T, order string, status domain.Status, outcome domain.Outcome) uuid.UUID {
	t.Helper()
	id := b.request(t, order)
	if !b.conclude(t, b.claim(t), status, outcome) {
		t.Fatalf("the claim of order %s did not hold", order)
	}
	return id
}

// publish acknowledges everything that waits for Kafka.
func (b *books) publish(t *testing.T) {
	t.Helper()
	messages, err := b.store.ClaimMessages(t.Context(), 100, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	refs := make([]usecase.MessageRef, 0, len(messages))
	for _, m := range messages {
		refs = append(refs, usecase.MessageRef{ID: m.ID, Attempt: m.Attempt})
	}
	if fenced, err := b.store.AckMessages(t.Context(), refs); err != nil || fenced != 0 {
		t.Fatalf("acknowledge: %v, %d fenced", err, fenced)
	}
}
