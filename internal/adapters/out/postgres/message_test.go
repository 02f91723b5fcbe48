package postgres_test

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// announced makes one settled charge and returns its claimed announcement.
func (e env) announced(t *testing.T) usecase.OutboxMessage {
	t.Helper()
	e.charge(t)
	e.write(t, 0, settlement(e.claim(t), domain.Succeeded, domain.StatusSucceeded))
	return e.claimMessage(t)
}

func (e env) claimMessage(t *testing.T) usecase.OutboxMessage {
	t.Helper()
	messages, err := e.store.ClaimMessages(t.Context(), 10, lease)
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d messages: %v", len(messages), err)
	}
	return messages[0]
}

func (e env) ack(t *testing.T, fenced int, refs ...usecase.MessageRef) {
	t.Helper()
	if got, err := e.store.AckMessages(t.Context(), refs); err != nil || got != fenced {
		t.Fatalf("%d fenced, want %d: %v", got, fenced, err)
	}
}

func ref(m usecase.OutboxMessage) usecase.MessageRef {
	return usecase.MessageRef{ID: m.ID, Attempt: m.Attempt}
}

func TestAcknowledgedAnnouncementIsStamped(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	m := e.announced(t)
	if m.Attempt != 1 || m.Reclaimed {
		t.Fatalf("%+v", m)
	}
	e.count(t, 1, "SELECT count(*) FROM outbox_state WHERE channel = 'kafka' AND status = 'PUBLISHING'")
	e.ack(t, 0, ref(m))
	e.count(t, 0, "SELECT count(*) FROM outbox")
	e.count(t, 1, "SELECT count(*) FROM charge_event WHERE published_at IS NOT NULL")
	e.count(t, 1, "SELECT count(*) FROM outbox_state WHERE status = 'PUBLISHED' AND event_type = 'ChargeSucceeded'")
	e.ack(t, 1, ref(m)) // the answer of the commit was lost
	e.ack(t, 0)
}

func TestAcknowledgedDeadLetterIsStamped(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.reader(t, group, 0).take(t, refused(domain.ReasonInvalidJSON))
	e.ack(t, 0, ref(e.claimMessage(t)))
	e.count(t, 1, "SELECT count(*) FROM dead_letter WHERE published_at IS NOT NULL AND status = 'open'")
	e.count(t, 1, "SELECT count(*) FROM outbox_state WHERE status = 'PUBLISHED' AND event_type = 'DeadLetter'")
}

func TestReleasedMessageIsDueAfterItsDelay(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first := ref(e.announced(t))
	first.Delay = time.Hour
	if err := e.store.ReleaseMessages(t.Context(), []usecase.MessageRef{first}); err != nil {
		t.Fatal(err)
	}
	e.count(t, 1, "SELECT count(*) FROM outbox WHERE status = 'PENDING' AND run_at > now() + interval '59 minutes'")
	if messages, err := e.store.ClaimMessages(t.Context(), 10, lease); err != nil || len(messages) > 0 {
		t.Fatalf("%d messages: %v", len(messages), err)
	}
	e.expire(t)
	if m := e.claimMessage(t); m.Attempt != 2 || m.Reclaimed {
		t.Fatalf("%+v", m)
	}
}

func TestFormerPublisherIsFenced(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first := e.announced(t)
	e.expire(t)
	second := e.claimMessage(t)
	if !second.Reclaimed || second.Attempt != 2 || string(second.Value) != string(first.Value) {
		t.Fatalf("%+v", second)
	}
	e.ack(t, 1, ref(first))
	if err := e.store.ReleaseMessages(t.Context(), []usecase.MessageRef{ref(first)}); err != nil {
		t.Fatal(err)
	}
	e.count(t, 1, "SELECT count(*) FROM outbox WHERE status = 'PUBLISHING' AND attempt = 2")
	e.count(t, 0, "SELECT count(*) FROM charge_event WHERE published_at IS NOT NULL")
	e.ack(t, 0, ref(second))
}

func TestPublishersNeverShareAMessage(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	const n = 300
	letters := make([]usecase.Delivery, n)
	for i := range letters {
		letters[i] = refused(domain.ReasonInvalidJSON)
	}
	r.take(t, letters...)
	var mu sync.Mutex
	seen := map[int64]bool{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				messages, err := e.store.ClaimMessages(t.Context(), 9, lease)
				if err != nil || len(messages) == 0 {
					if err != nil {
						t.Error(err)
					}
					return
				}
				refs := make([]usecase.MessageRef, len(messages))
				mu.Lock()
				for i, m := range messages {
					if seen[m.ID] {
						t.Errorf("%d was claimed twice", m.ID)
					}
					seen[m.ID] = true
					refs[i] = ref(m)
				}
				mu.Unlock()
				if fenced, err := e.store.AckMessages(t.Context(), refs); err != nil || fenced > 0 {
					t.Error(fenced, err)
				}
			}
		})
	}
	wg.Wait()
	if len(seen) != n {
		t.Errorf("%d messages were claimed", len(seen))
	}
	e.count(t, n, "SELECT count(*) FROM dead_letter WHERE published_at IS NOT NULL")
}

func TestMessagesComeInTheOrderTheyWereWritten(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	for i := range 5 {
		d := refused(domain.ReasonInvalidJSON)
		d.Message.Value = []byte(strconv.Itoa(i))
		r.take(t, d)
	}
	messages, err := e.store.ClaimMessages(t.Context(), 3, lease)
	if err != nil || len(messages) != 3 {
		t.Fatalf("%d messages: %v", len(messages), err)
	}
	for i, m := range messages {
		if string(m.Value) != strconv.Itoa(i) {
			t.Errorf("message %d is %s", i, m.Value)
		}
	}
}

func TestAClaimOfLargeMessagesStaysSmall(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.db.Exec(t, `INSERT INTO outbox (channel, event_type, topic, payload) SELECT 'kafka', 'DeadLetter', 'letters', decode(repeat('00', 7 << 20), 'hex') FROM generate_series(1, 3)`)
	e.db.Exec(t, `INSERT INTO outbox (channel, event_type, topic, payload) VALUES ('kafka', 'DeadLetter', 'letters', NULL), ('kafka', 'DeadLetter', 'letters', decode(repeat('00', 20 << 20), 'hex'))`)
	for i, want := range []int{2, 2, 1} { // two of 7 MiB; the third with the empty one; one that is larger than any claim may be, alone
		messages, err := e.store.ClaimMessages(t.Context(), 10, lease)
		if err != nil || len(messages) != want {
			t.Fatalf("claim %d: %d messages, want %d: %v", i+1, len(messages), want, err)
		}
	}
}

func TestAnAnnouncementWaitsForTheEarlierOneOfItsCharge(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	id := b.charge(t, "o-1", domain.StatusParked, domain.Unknown)
	parked := b.claimMessage(t)
	ref := "ref-1"
	if err := b.operate(nil).Resolve(t.Context(), id, domain.StatusSucceeded, &ref, somebody); err != nil {
		t.Fatal(err)
	}
	b.charge(t, "o-2", domain.StatusSucceeded, domain.Succeeded)
	if other := b.claimMessage(t); other.EventType != "ChargeSucceeded" || string(other.Key) != "o-2" {
		t.Fatalf("claimed %s of %s while the parking is not published", other.EventType, other.Key)
	}
	refused := usecase.MessageRef{ID: parked.ID, Attempt: parked.Attempt, Delay: time.Hour}
	if err := b.store.ReleaseMessages(t.Context(), []usecase.MessageRef{refused}); err != nil {
		t.Fatal(err)
	}
	if messages, err := b.store.ClaimMessages(t.Context(), 10, lease); err != nil || len(messages) > 0 {
		t.Fatalf("%d messages: %v", len(messages), err)
	}
	b.db.Exec(t, "UPDATE outbox SET run_at = now() WHERE id = $1", parked.ID)
	parked = b.claimMessage(t) // alone
	b.ack(t, 0, usecase.MessageRef{ID: parked.ID, Attempt: parked.Attempt})
	if m := b.claimMessage(t); m.EventType != "ChargeSucceeded" || string(m.Key) != "o-1" {
		t.Fatalf("%s of %s", m.EventType, m.Key)
	}
}
