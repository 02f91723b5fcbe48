package postgres_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

func TestPositionMovesInTheTransactionOfItsMessages(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	want(t, r.take(t, event("o-1")), 1, 0)
	boom := errors.New("the process dies here")
	err := e.store.InTx(t.Context(), func(ctx context.Context, tx usecase.AcceptTx) error {
		if err := tx.MovePosition(ctx, r.src, 1, 2); err != nil {
			return err
		}
		charged, err := tx.Accept(ctx, group, []usecase.Acceptance{{Event: event("o-2").Event, Request: []byte("{}")}}, limits)
		if err != nil || !charged[0] {
			t.Errorf("charged %v: %v", charged, err)
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatal(err)
	}
	// The same in one round trip: the last statement of the batch fails.
	letter := usecase.DeadLetter{Group: group, Reason: domain.ReasonInvalidJSON, Detail: ""}
	_, err = e.store.AcceptChunk(t.Context(), usecase.Chunk{
		Source: r.src, From: 1, Next: 2, DeadLetters: []usecase.DeadLetter{letter},
		Events: []usecase.Acceptance{{Event: event("o-3").Event, Request: []byte("{}")}},
	}, limits)
	if err == nil || errors.Is(err, domain.ErrOutage) || errors.Is(err, domain.ErrRetry) {
		t.Fatalf("a dead letter without detail: %v", err)
	}
	e.count(t, 1, "SELECT next_offset FROM consumer_position")
	e.count(t, 1, "SELECT count(*) FROM charge")
	e.count(t, 1, "SELECT count(*) FROM processed_event")
}

func TestFormerOwnerOfAPartitionIsFenced(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	former := e.reader(t, group, 0)
	owner := *former
	want(t, owner.take(t, event("o-1")), 1, 0)
	conflict := event("o-1")
	conflict.Event.Order.Amount.Minor++
	for name, d := range map[string]usecase.Delivery{"new": event("o-2"), "to be judged": conflict, "refused": refused(domain.ReasonInvalidJSON)} {
		if _, _, err := former.chunk(t.Context(), d); !errors.Is(err, domain.ErrFenced) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := former.accept.Chunk(t.Context(), former.src, 0, 5, 0, nil); !errors.Is(err, domain.ErrFenced) {
		t.Errorf("empty chunk: %v", err)
	}
	e.count(t, 1, "SELECT count(*) FROM charge")
	e.count(t, 0, "SELECT count(*) FROM dead_letter")
	unknown := former.src
	unknown.Partition = 99
	if _, _, err := former.accept.Chunk(t.Context(), unknown, 0, 5, 0, nil); !errors.Is(err, domain.ErrFenced) {
		t.Errorf("a partition without a row: %v", err)
	}
}

func TestHaltedPartitionTakesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	e.db.Exec(t, "UPDATE consumer_position SET halted = 'too many dead letters'")
	if _, _, err := r.chunk(t.Context(), event("o-1")); !errors.Is(err, domain.ErrFenced) {
		t.Fatal(err)
	}
	e.count(t, 0, "SELECT count(*) FROM charge")
}

func TestEmptyChunkMovesThePosition(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	tombstones := []usecase.Delivery{{Kind: usecase.KindTombstone}, {Kind: usecase.KindIgnored}}
	counts, taken, err := r.chunk(t.Context(), tombstones...)
	if err != nil || taken != 2 || counts.Tombstones != 1 || counts.Ignored != 1 {
		t.Fatalf("took %d with %+v: %v", taken, counts, err)
	}
	next, _, err := e.accept.Chunk(t.Context(), r.src, 2, 77, 0, nil)
	if err != nil || next != 77 {
		t.Fatalf("moved to %d: %v", next, err)
	}
	e.count(t, 77, "SELECT next_offset FROM consumer_position")
}

func TestPositionIsReadAsItWasPut(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	src := usecase.Source{ClusterID: "c", Group: "g", Topic: "t", Partition: 3}
	if _, found, err := e.store.Position(t.Context(), src); found || err != nil {
		t.Fatalf("found a row: %v", err)
	}
	for _, p := range []usecase.Position{
		{Next: 5},
		{Next: 4, RereadBelow: 9, Gap: "gap", GapAccepted: true, Halted: "halted", Skips: []usecase.Span{{From: 1, To: 3}, {From: 7, To: 8}}},
		{Next: 6},
	} {
		if err := e.store.PutPosition(t.Context(), src, p); err != nil {
			t.Fatal(err)
		}
		if got, found, err := e.store.Position(t.Context(), src); !found || err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("got %+v, %v, want %+v: %v", got, found, p, err)
		}
	}
	for range 2 {
		if err := e.store.MarkHistoryLost(t.Context(), "restored"); err != nil {
			t.Fatal(err)
		}
	}
	e.count(t, 1, "SELECT count(*) FROM control WHERE name = 'history_lost' AND reason = 'restored'")
}

func TestMissingPartitionInsideTheWindowIsAnOutage(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	d := event("o-1")
	day := domain.IDTime(d.Event.EventID).Format("20060102")
	e.db.Exec(t, "DROP TABLE processed_event_"+day)
	for _, deliveries := range [][]usecase.Delivery{{d}, {d, refused(domain.ReasonInvalidJSON)}} {
		if _, _, err := r.chunk(t.Context(), deliveries...); !errors.Is(err, domain.ErrOutage) {
			t.Fatal(err)
		}
	}
	err := e.store.InTx(t.Context(), func(ctx context.Context, tx usecase.AcceptTx) error {
		_, err := tx.Accept(ctx, group, []usecase.Acceptance{{Event: d.Event, Request: []byte("{}")}}, limits)
		return err
	})
	if !errors.Is(err, domain.ErrOutage) {
		t.Fatal(err)
	}
	e.count(t, 0, "SELECT count(*) FROM dead_letter")
	e.count(t, 0, "SELECT next_offset FROM consumer_position")
	if made, err := e.store.CreatePartition(t.Context(), limits.Retention, limits.Skew); !made || err != nil {
		t.Fatalf("made %t: %v", made, err)
	}
	want(t, r.take(t, d), 1, 0)
}
