package postgres_test

import (
	"testing"
	"time"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

func TestStatsShowWhatIsUnfinished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.db.Exec(t, `UPDATE charge SET first_sent_at = now() - interval '5 hours' WHERE event_id = $1`, w.waiting)
	w.db.Exec(t, `UPDATE outbox SET run_at = now() - interval '1 hour' WHERE event_id = $1`, w.held)
	stats, err := w.store.Stats(t.Context(), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	signs, err := w.store.Signs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int64{}
	for _, c := range stats.Waiting {
		counts[string(c.Status)+"/"+string(c.LastOutcome)] += c.N
		if age := signs.Now.Sub(c.Oldest); age < 0 || age > time.Hour {
			t.Errorf("the oldest %s charge is %s old", c.Status, age)
		}
	}
	if len(counts) != 3 || counts["requested/"] != 2 || counts["requested/unknown"] != 1 || counts["parked/unknown"] != 1 {
		t.Errorf("waiting charges %v", counts)
	}
	if left := stats.NearestDeadline.Sub(signs.Now); left < 6*time.Hour || left > 7*time.Hour {
		t.Errorf("the nearest deadline is in %s, want 7 hours from the first send 5 hours ago", left)
	}
	rows, expired := map[string]int64{}, int64(0)
	for _, c := range stats.Outbox {
		rows[c.Channel] += c.N
		expired += c.Expired
	}
	if rows["provider"] != 3 || rows["kafka"] != 2 || expired != 1 {
		t.Errorf("outbox rows %v with %d expired leases; the parked charge's row counts nowhere", rows, expired)
	}
	finished, err := w.store.Finished(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []usecase.ChargeCount{
		{Status: domain.StatusSucceeded, LastOutcome: domain.Succeeded, N: 2}, {Status: domain.StatusDeclined, LastOutcome: domain.Declined, N: 1},
	}
	if len(finished) != len(want) || finished[0] != want[0] || finished[1] != want[1] {
		t.Errorf("finished charges %+v, want %+v", finished, want)
	}
}

func TestPendingChargeHasNoKeyDeadline(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	b.charge(t, "o-1", domain.StatusRequested, domain.Unknown)
	b.db.Exec(t, `UPDATE charge SET pending_since = now()`)
	for _, window := range []time.Duration{0, 24 * time.Hour} {
		if stats, err := b.store.Stats(t.Context(), window); err != nil || !stats.NearestDeadline.IsZero() {
			t.Errorf("deadline %s: %v", stats.NearestDeadline, err)
		}
	}
}

func TestSignsShowSwitchesAndGaps(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	if err := b.store.MarkHistoryLost(t.Context(), "restored"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		position usecase.Position
		want     int64
	}{{usecase.Position{Gap: "g"}, 1}, {usecase.Position{Gap: "g", GapAccepted: true}, 0}, {usecase.Position{}, 0}} {
		if err := b.store.PutPosition(t.Context(), b.orders.src, test.position); err != nil {
			t.Fatal(err)
		}
		signs, err := b.store.Signs(t.Context())
		if err != nil || signs.Violations[usecase.RulePositionBeyondLog] != test.want {
			t.Errorf("%+v: violations %v, %v", test.position, signs.Violations, err)
		}
		if !signs.Switches[usecase.HistoryWasLost] || signs.Switches[usecase.ChargingPaused] {
			t.Errorf("switches %v", signs.Switches)
		}
	}
}

func TestOverviewShowsEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.store.TurnOn(t.Context(), usecase.ChargingPaused, somebody); err != nil {
		t.Fatal(err)
	}
	o, err := w.store.Overview(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case o.SchemaVersion == 0, len(o.Charges) == 0, len(o.Outbox) == 0, len(o.Switches) != 1, len(o.Partitions) != 1:
		t.Errorf("overview %+v", o)
	case len(o.DeadLetters) != 1 || o.DeadLetters[0].N != 2 || o.DeadLetters[0].Reason != domain.ReasonInvalidJSON:
		t.Errorf("dead letters %+v", o.DeadLetters)
	case !o.Inbox.HasToday || !o.Inbox.HasTomorrow || o.Inbox.N < 9:
		t.Errorf("days of the inbox %+v", o.Inbox)
	}
	w.db.Exec(t, `DO $$ BEGIN EXECUTE format('DROP TABLE processed_event_%s', to_char((now() AT TIME ZONE 'UTC')::date + 1, 'YYYYMMDD')); END $$`)
	if o, err = w.store.Overview(t.Context(), time.Hour); err != nil || o.Inbox.HasTomorrow {
		t.Errorf("the missing day of tomorrow is not seen: %+v, %v", o.Inbox, err)
	}
}

func TestMaintainMakesMissingDaysAndDropsOldOnesOneByOne(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	b.db.Exec(t, `DO $$ BEGIN EXECUTE format('DROP TABLE processed_event_%s', to_char((now() AT TIME ZONE 'UTC')::date + 1, 'YYYYMMDD')); END $$`)
	m := usecase.Maintain{Days: b.store, Limits: usecase.Limits{Retention: 100 * time.Hour, Skew: limits.Skew}, Timeout: 5 * time.Second}
	report, busy, err := m.Step(t.Context())
	if err != nil || !report.Created || report.Dropped == "" || !busy {
		t.Fatalf("first step: %+v, busy %t, %v", report, busy, err)
	}
	for steps := 0; busy; steps++ {
		if steps > 10 {
			t.Fatal("never done")
		}
		if report, busy, err = m.Step(t.Context()); err != nil || report.Created {
			t.Fatalf("step %d: %+v, %v", steps+2, report, err)
		}
	}
	o, err := b.store.Overview(t.Context(), time.Hour)
	if err != nil || !o.Inbox.HasTomorrow || o.Now.Sub(o.Inbox.Oldest) > (100+72)*time.Hour {
		t.Fatalf("days %+v: %v", o.Inbox, err)
	}
}

// TestMaintenanceGivesUpSoonBehindALock: a waiting ACCESS EXCLUSIVE lock would stop every insert behind it.
func TestMaintenanceGivesUpSoonBehindALock(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE processed_event IN ROW EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	m := usecase.Maintain{Days: b.store, Limits: usecase.Limits{Retention: 100 * time.Hour, Skew: limits.Skew}, Timeout: 5 * time.Second}
	start := time.Now()
	if _, _, err := m.Step(t.Context()); err == nil {
		t.Fatal("dropped a partition of a locked table")
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("waited %s for a lock", took)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if report, _, err := m.Step(t.Context()); err != nil || report.Dropped == "" {
		t.Errorf("after the lock: %+v, %v", report, err)
	}
}
