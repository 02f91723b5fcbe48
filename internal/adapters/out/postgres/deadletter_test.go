package postgres_test

import (
	"bytes"
	"context"
	"math"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// refused is a delivery that its decoder refused.
func refused(reason domain.Reason) usecase.Delivery {
	return usecase.Delivery{Kind: usecase.KindRefused, Refusal: domain.Refuse(reason, "why")}
}

func TestDeadLetterIsKeptOnceWithOneCopy(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	good := event("o-1")
	conflict := good
	conflict.Event.Order.CustomerID = "other"
	bad := []usecase.Delivery{refused(domain.ReasonInvalidJSON), good, refused(domain.ReasonMissingField), conflict}
	letters := []domain.Reason{domain.ReasonInvalidJSON, domain.ReasonMissingField, domain.ReasonEventIDConflict}
	want(t, r.take(t, bad...), 1, 0, letters...)
	// The same offsets are read again, as after a lost commit.
	e.db.Exec(t, "UPDATE consumer_position SET next_offset = 0")
	r.next = 0
	want(t, r.take(t, bad...), 0, 1, letters...)
	e.count(t, 3, "SELECT count(*) FROM dead_letter")
	e.count(t, 3, "SELECT count(*) FROM outbox o JOIN dead_letter d ON d.id = o.dead_letter_id WHERE channel = 'kafka' AND o.event_type = 'DeadLetter'")
	e.count(t, 3, "SELECT count(*) FROM outbox WHERE channel = 'kafka'")
	// The same offset of a topic made anew, or in another group, is another message.
	again := refused(domain.ReasonInvalidJSON)
	again.Message.Time = time.UnixMilli(1)
	e.db.Exec(t, "UPDATE consumer_position SET next_offset = 0")
	r.next = 0
	r.take(t, again)
	e.reader(t, "renamed", 0).take(t, refused(domain.ReasonInvalidJSON))
	e.count(t, 5, "SELECT count(*) FROM dead_letter")
	e.count(t, 5, "SELECT count(*) FROM outbox WHERE channel = 'kafka'")
}

func TestDeadLetterKeepsEveryByte(t *testing.T) {
	t.Parallel()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	messages := map[string]usecase.Message{
		"arbitrary bytes": {Key: every, Value: every, Headers: []usecase.Header{
			{Key: "null"},
			{Key: "empty", Value: []byte{}},
			{Key: "", Value: every},
			{Key: string(every), Value: []byte("x")},
			{Key: "null", Value: []byte("twice")},
		}},
		"null key, empty value": {Value: []byte{}},
		"empty key, null value": {Key: []byte{}, Headers: []usecase.Header{}},
	}
	for name, m := range messages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			d := refused(domain.ReasonInvalidJSON)
			d.Message = m
			d.EventID = uuid.NullUUID{UUID: newID(), Valid: true}
			want(t, e.reader(t, group, 7).take(t, d), 0, 0, domain.ReasonInvalidJSON)
			var key, value []byte
			var flat [][]byte
			if err := e.pool.QueryRow(t.Context(), "SELECT key, value, headers FROM dead_letter WHERE event_id = $1 AND partition = 7", d.EventID).Scan(&key, &value, &flat); err != nil {
				t.Fatal(err)
			}
			var kept []usecase.Header
			for i := 0; i < len(flat); i += 2 {
				kept = append(kept, usecase.Header{Key: string(flat[i]), Value: flat[i+1]})
			}
			sameMessage(t, key, value, kept, m, 0)
			copies, err := e.store.ClaimMessages(t.Context(), 10, lease)
			if err != nil || len(copies) != 1 {
				t.Fatalf("%d copies: %v", len(copies), err)
			}
			sameMessage(t, copies[0].Key, copies[0].Value, copies[0].Headers, m, 1)
		})
	}
}

// sameMessage compares bytes, and null with empty; the first skip headers are the service's own.
func sameMessage(t *testing.T, key, value []byte, headers []usecase.Header, m usecase.Message, skip int) {
	t.Helper()
	same := func(what string, got, want []byte) {
		t.Helper()
		if !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	same("key", key, m.Key)
	same("value", value, m.Value)
	if len(headers) != len(m.Headers)+skip {
		t.Fatalf("%d headers, want %d", len(headers), len(m.Headers)+skip)
	}
	for i, h := range m.Headers {
		if got := headers[i+skip]; got.Key != h.Key {
			t.Errorf("header %d is %q, want %q", i, got.Key, h.Key)
		}
		same("header "+h.Key, headers[i+skip].Value, h.Value)
	}
}

// A producer sets the time of its messages as it likes: none may make a dead letter impossible.
func TestDeadLetterTakesAnyMessageTime(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	for _, ms := range []int64{math.MaxInt64, math.MinInt64, -1, 0, 1 << 50, -1 << 50, 1 << 60} {
		d := refused(domain.ReasonInvalidJSON)
		d.Message.Time = time.UnixMilli(ms)
		want(t, r.take(t, d), 0, 0, domain.ReasonInvalidJSON)
	}
	rows, _ := e.pool.Query(t.Context(), "SELECT message_time FROM dead_letter")
	times, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil || len(times) != 7 {
		t.Fatalf("%d times: %v", len(times), err)
	}
}

func TestRetryMessageIsOrderedForLater(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	retry := usecase.OutboxMessage{EventType: "Retry", Topic: "retry", Key: []byte{0xff, 0}, Value: []byte{}, Delay: time.Hour, Headers: []usecase.Header{{Key: "retry-count", Value: []byte("1")}}}
	if _, err := e.store.AcceptChunk(t.Context(), usecase.Chunk{Source: r.src, From: 0, Next: 1, Retries: []usecase.OutboxMessage{retry}}, limits); err != nil {
		t.Fatal(err)
	}
	err := e.store.InTx(t.Context(), func(ctx context.Context, tx usecase.AcceptTx) error {
		return tx.PutMessages(ctx, []usecase.OutboxMessage{retry})
	})
	if err != nil {
		t.Fatal(err)
	}
	e.count(t, 2, "SELECT count(*) FROM outbox WHERE channel = 'kafka' AND topic = 'retry' AND run_at > now() + interval '59 minutes'")
	if due, err := e.store.ClaimMessages(t.Context(), 10, lease); err != nil || len(due) != 0 {
		t.Fatalf("%d are due at once: %v", len(due), err)
	}
}
