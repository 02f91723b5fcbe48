package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

func (e env) republish() usecase.Republish {
	return usecase.Republish{Desk: e.store, Codec: codec{}, Timeout: time.Minute}
}

func TestResultIsPublishedAgainUnderItsIdentity(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	id := b.charge(t, "o-1", domain.StatusSucceeded, domain.Succeeded)
	first := b.text(t, "SELECT announcement_id FROM charge_event WHERE event_id = $1", id)
	if got, err := b.republish().Do(t.Context(), id, byTest); err != nil || got.Ordered || got.Why != "it waits to be published" {
		t.Fatalf("before it was published: %+v %v", got, err)
	}
	b.publish(t)
	published := b.text(t, "SELECT published_at FROM charge_event WHERE event_id = $1", id)
	hold, err := b.db.Pool(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hold.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := hold.Exec(t.Context(), "SELECT FROM charge_event FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			_, err := b.republish().Do(t.Context(), id, byTest)
			for errors.Is(err, domain.ErrRetry) { // waited longer than a lock may be waited for
				_, err = b.republish().Do(t.Context(), id, byTest)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "all of them wait for the same announcement", func() bool { return b.waiting(t) == 4 })
	if err := hold.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	messages, err := b.store.ClaimMessages(t.Context(), 10, time.Minute)
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d messages: %v", len(messages), err)
	}
	var value struct {
		EventID string `json:"event_id"`
		Version int    `json:"version"`
		Type    string `json:"event_type"`
	}
	if err := json.Unmarshal(messages[0].Value, &value); err != nil || value.EventID != first || value.Version != 1 || value.Type != "ChargeSucceeded" {
		t.Errorf("%s: %v", messages[0].Value, err)
	}
	if _, err := b.store.AckMessages(t.Context(), []usecase.MessageRef{{ID: messages[0].ID, Attempt: messages[0].Attempt}}); err != nil {
		t.Fatal(err)
	}
	if got := b.text(t, "SELECT published_at FROM charge_event WHERE event_id = $1", id); got != published {
		t.Errorf("published at %s, was %s", got, published)
	}
	b.count(t, 0, "SELECT count(*) FROM outbox")
	b.count(t, 1, "SELECT count(*) FROM operator_action WHERE action = 'charges republish' AND actor = 'ann' AND target LIKE $1 || ' version 1'", id.String())
}

func TestOnlyResultsAreRepublished(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	settled := b.charge(t, "o-1", domain.StatusDeclined, domain.Declined)
	parked := b.charge(t, "o-2", domain.StatusParked, domain.Rejected)
	waiting := b.request(t, "o-3")
	b.publish(t)
	if got, err := b.republish().Do(t.Context(), waiting, byTest); err != nil || got.Ordered {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := b.republish().Do(t.Context(), newID(), byTest); err != nil || got.Ordered || got.Why != usecase.ErrNoCharge.Error() {
		t.Errorf("%+v %v", got, err)
	}
	ids, err := b.store.AnnouncedSince(t.Context(), time.Now().Add(-time.Minute), 10)
	if err != nil || len(ids) != 2 || ids[0] != parked || ids[1] != settled {
		t.Errorf("%v %v", ids, err)
	}
	if ids, err = b.store.AnnouncedSince(t.Context(), time.Now().Add(time.Minute), 10); err != nil || len(ids) != 0 {
		t.Errorf("%v %v", ids, err)
	}
	if ids, err = b.store.AnnouncedSince(t.Context(), time.Time{}, 1); err != nil || len(ids) != 1 {
		t.Errorf("%v %v", ids, err)
	}
}
