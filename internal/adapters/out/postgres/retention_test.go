package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// eager is a clock on which no pause takes time.
type eager struct{}

func (eager) Now() time.Time                                  { return time.Now() }
func (eager) Sleep(ctx context.Context, _ time.Duration) bool { return ctx.Err() == nil }

const month = 30 * 24 * time.Hour

// sweep deletes what is older than a month and returns how much of each kind.
func (e env) sweep(t *testing.T, rows int) map[usecase.Remains]int {
	t.Helper()
	deleted := map[usecase.Remains]int{}
	err := usecase.Retention{
		Store: e.store, Rows: rows, Timeout: time.Minute, Clock: eager{},
		Periods: map[usecase.Remains]time.Duration{usecase.RemainsAttempts: month, usecase.RemainsHistory: month, usecase.RemainsDeadLetters: month},
		Report:  func(kind usecase.Remains, n int) { deleted[kind] += n },
	}.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return deleted
}

// age makes everything that is there two months old.
func (e env) age(t *testing.T) {
	t.Helper()
	for _, sql := range []string{
		"UPDATE charge SET updated_at = updated_at - interval '60 days', created_at = created_at - interval '60 days'",
		"UPDATE charge_attempt SET started_at = started_at - interval '60 days', finished_at = finished_at - interval '60 days'",
		"ALTER TABLE charge_event DISABLE TRIGGER charge_event_keep_history",
		"UPDATE charge_event SET at = at - interval '60 days', published_at = published_at - interval '60 days'",
		"ALTER TABLE charge_event ENABLE TRIGGER charge_event_keep_history",
		"UPDATE dead_letter SET created_at = created_at - interval '60 days', resolved_at = resolved_at - interval '60 days', published_at = published_at - interval '60 days'",
	} {
		e.db.Exec(t, sql)
	}
}

func TestOnlyWhatIsOverIsDeleted(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	succeeded := b.charge(t, "o-1", domain.StatusSucceeded, domain.Succeeded)
	b.charge(t, "o-2", domain.StatusDeclined, domain.Declined)
	parked := b.charge(t, "o-3", domain.StatusParked, domain.Rejected)
	again := b.charge(t, "o-4", domain.StatusRequested, domain.Unknown)
	for range 3 {
		b.refuse(t)
	}
	b.publish(t)
	b.db.Exec(t, "UPDATE dead_letter SET status = 'discarded', resolved_at = now() WHERE id = (SELECT min(id) FROM dead_letter)")
	b.charge(t, "o-5", domain.StatusSucceeded, domain.Succeeded) // not published yet
	b.age(t)
	b.charge(t, "o-6", domain.StatusSucceeded, domain.Succeeded) // of today
	b.refuse(t)
	b.db.Exec(t, "UPDATE dead_letter SET status = 'discarded', resolved_at = now() - interval '90 days' WHERE id = (SELECT max(id) FROM dead_letter)")

	if got := b.sweep(t, 1000); got[usecase.RemainsAttempts] != 3 || got[usecase.RemainsHistory] != 2 || got[usecase.RemainsDeadLetters] != 1 {
		t.Errorf("deleted %v", got)
	}
	if got := b.sweep(t, 1000); got[usecase.RemainsAttempts]+got[usecase.RemainsHistory]+got[usecase.RemainsDeadLetters] != 0 {
		t.Errorf("deleted %v the second time", got)
	}
	b.count(t, 6, "SELECT count(*) FROM charge")
	b.count(t, 1, "SELECT count(*) FROM charge WHERE event_id = $1 AND attempts = 1 AND provider_ref IS NOT NULL AND version = 1 AND last_outcome = 'succeeded'", succeeded)
	b.count(t, 2, "SELECT count(*) FROM charge WHERE history_purged")
	b.count(t, 2, "SELECT count(*) FROM charge_attempt WHERE event_id IN ($1, $2)", parked, again)
	b.count(t, 3, "SELECT count(*) FROM charge_event") // parked, unpublished, of today
	b.count(t, 3, "SELECT count(*) FROM dead_letter")  // two open ones, one whose copy waits
	b.count(t, 2, "SELECT count(*) FROM outbox WHERE channel = 'kafka' AND version IS NOT NULL")
	wantSound(t, b.env)
	// What was deleted cannot be sent again, and says so.
	if got, err := b.republish().Do(t.Context(), succeeded, byTest); err != nil || got.Ordered {
		t.Errorf("%+v %v", got, err)
	}
}

// wantSound runs the audit on everything there is.
func wantSound(t *testing.T, e env) {
	t.Helper()
	report, err := usecase.Audit{
		Store: e.store, PageRows: 100, Timeout: time.Minute, Keep: 5, Limits: usecase.AuditLimits{Grace: -time.Minute, Retention: limits.Retention},
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		for _, f := range r.Findings {
			t.Errorf("%s %s: %s: %s", r.ID, r.Name, f.Subject, f.Detail)
		}
	}
}

func TestPagesReachEverything(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	for _, order := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		b.charge(t, order, domain.StatusSucceeded, domain.Succeeded)
		b.refuse(t)
	}
	b.publish(t)
	b.db.Exec(t, "UPDATE dead_letter SET status = 'replayed', resolved_at = now()")
	b.age(t)
	if got := b.sweep(t, 2); got[usecase.RemainsAttempts] != 7 || got[usecase.RemainsHistory] != 7 || got[usecase.RemainsDeadLetters] != 7 {
		t.Errorf("deleted %v", got)
	}
	wantSound(t, b.env)
}

// Evidence of a broken promise is not swept away.
func TestEvidenceIsKept(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	id := b.charge(t, "o-1", domain.StatusDeclined, domain.Declined)
	b.publish(t)
	b.db.Exec(t, "UPDATE charge_attempt SET outcome = 'succeeded' WHERE event_id = $1", id)
	untold := b.charge(t, "o-2", domain.StatusSucceeded, domain.Succeeded)
	b.db.Exec(t, "DELETE FROM outbox WHERE event_id = $1", untold)
	b.age(t)
	if got := b.sweep(t, 10); got[usecase.RemainsAttempts] != 1 || got[usecase.RemainsHistory] != 1 {
		t.Errorf("deleted %v", got)
	}
	b.count(t, 1, "SELECT count(*) FROM charge_attempt WHERE event_id = $1", id)
	b.count(t, 1, "SELECT count(*) FROM charge_event WHERE event_id = $1", untold)
}

func TestOneMaintainerDeletes(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	b.charge(t, "o-1", domain.StatusSucceeded, domain.Succeeded)
	b.publish(t)
	b.age(t)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT billing_purge_dead_letters('30 days', 0, 10)"); err != nil {
		t.Fatal(err)
	}
	if got := b.sweep(t, 10); len(got) != 0 {
		t.Errorf("deleted %v beside another maintainer", got)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { b.sweep(t, 10) })
	}
	wg.Wait()
	b.sweep(t, 10)
	b.count(t, 0, "SELECT count(*) FROM charge_event")
	for _, sql := range []string{"SELECT billing_purge_history('59 minutes', 0, 10)", "SELECT billing_purge_history('1 day', 0, 1001)", "SELECT billing_purge_attempts(NULL, '00000000-0000-0000-0000-000000000000', 1)"} {
		if _, err := b.pool.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s was accepted", sql)
		}
	}
}
