package postgres_test

import (
	"errors"
	"testing"
	"time"

	"billing/internal/core/domain"
)

const days = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'processed_event'::regclass"

func TestOnlyADayOlderThanTheRetentionIsDropped(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	before := e.db.Count(t, days)
	if name, err := e.store.DropPartition(t.Context(), limits.Retention); name != "" || err != nil {
		t.Fatalf("dropped %s: %v", name, err)
	}
	// With a shorter retention the oldest days go one by one, and no id of an acceptable age loses its day.
	const retention = 3 * 24 * time.Hour
	last := ""
	for dropped := 0; ; dropped++ {
		name, err := e.store.DropPartition(t.Context(), retention)
		if err != nil {
			t.Fatal(err)
		}
		if name == "" {
			e.count(t, before-dropped, days)
			if dropped < 2 {
				t.Fatalf("%d days were dropped", dropped)
			}
			break
		}
		if name <= last {
			t.Errorf("%s came after %s", name, last)
		}
		last = name
	}
	day, err := time.Parse("20060102", last[len(last)-8:])
	if err != nil || time.Since(day.Add(24*time.Hour)) < retention+24*time.Hour || time.Since(day) > retention+4*24*time.Hour {
		t.Fatalf("the last dropped day is %s: %v", last, err)
	}
	e.accept.Limits.Retention = retention
	r := e.reader(t, group, 0)
	want(t, r.take(t, eventOf(idAt(time.Now().Add(-retention+time.Minute)), orderOf("o-1"))), 1, 0)
	want(t, r.take(t, eventOf(idAt(time.Now().Add(-limits.Retention+time.Minute)), orderOf("o-2"))), 0, 0, domain.ReasonEventTooOld)
	if made := e.makeDays(t, limits.Retention, limits.Skew); made < 2 {
		t.Fatalf("made %d", made)
	}
	e.count(t, before, days)
}

func TestMaintenanceGivesWayQuickly(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	blocker, err := e.db.Pool(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// An insert is under way: a drop would have to wait for it, and every later insert for the drop.
	if _, err := blocker.Exec(t.Context(), "INSERT INTO processed_event (event_id, consumer_group, fingerprint) VALUES ($1, 'g', 'x')", newID()); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if name, err := e.store.DropPartition(t.Context(), 2*24*time.Hour); !errors.Is(err, domain.ErrRetry) || time.Since(start) > 5*time.Second {
		t.Fatalf("dropped %s after %s: %v", name, time.Since(start), err)
	}
	if err := blocker.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if name, err := e.store.DropPartition(t.Context(), 2*24*time.Hour); name == "" || err != nil {
		t.Fatalf("dropped %s: %v", name, err)
	}
}

// makeDays makes all missing days and returns how many.
func (e env) makeDays(t *testing.T, retention, skew time.Duration) (made int) {
	t.Helper()
	for {
		more, err := e.store.CreatePartition(t.Context(), retention, skew)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return made
		}
		made++
	}
}

// A process died between the two halves of a drop.
func TestADayThatWasOnlyTakenOutIsDropped(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const retention = 3 * 24 * time.Hour
	e.db.Exec(t, "SELECT billing_detach_partition(make_interval(secs => $1))", retention.Seconds())
	const tables = `SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ '^processed_event_[0-9]{8}$'`
	before := e.db.Count(t, tables)
	e.count(t, before-1, days)
	for name := "x"; name != ""; {
		var err error
		if name, err = e.store.DropPartition(t.Context(), retention); err != nil {
			t.Fatal(err)
		}
	}
	if left := e.db.Count(t, tables); left > before-2 || left != e.db.Count(t, days) {
		t.Errorf("%d of %d tables are left, %d of them in the inbox", left, before, e.db.Count(t, days))
	}
}

// A day is made while inserts go on: they never wait for it.
func TestMakingADayDoesNotWaitForInserts(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	blocker, err := e.db.Pool(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = blocker.Rollback(t.Context()) }()
	if _, err := blocker.Exec(t.Context(), "INSERT INTO processed_event (event_id, consumer_group, fingerprint) VALUES ($1, 'g', 'x')", newID()); err != nil {
		t.Fatal(err)
	}
	if made := e.makeDays(t, limits.Retention, 72*time.Hour); made < 2 {
		t.Fatalf("made %d", made)
	}
}

func TestOneMaintainerAtATime(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	other, err := e.db.Pool(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback(t.Context()) }()
	if _, err := other.Exec(t.Context(), "SELECT pg_advisory_xact_lock(hashtextextended('billing_partitions', 0))"); err != nil {
		t.Fatal(err)
	}
	if made, err := e.store.CreatePartition(t.Context(), limits.Retention, 72*time.Hour); made || err != nil {
		t.Fatalf("made %t: %v", made, err)
	}
	if name, err := e.store.DropPartition(t.Context(), 2*24*time.Hour); name != "" || err != nil {
		t.Fatalf("dropped %s: %v", name, err)
	}
}

func TestMaintenanceRefusesNonsense(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	before := e.db.Count(t, days)
	for _, b := range [][2]time.Duration{{0, 0}, {-time.Hour, 0}, {limits.Retention, -time.Hour}, {limits.Retention, 73 * time.Hour}, {401 * 24 * time.Hour, 0}} {
		if _, err := e.store.CreatePartition(t.Context(), b[0], b[1]); err == nil {
			t.Errorf("%v was taken", b)
		}
	}
	if _, err := e.store.DropPartition(t.Context(), -1000*time.Hour); err == nil {
		t.Error("a negative retention was taken")
	}
	e.count(t, before, days)
}
