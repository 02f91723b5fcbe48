package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/adapters/out/postgres"
	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/worker"
)

// ledger is a provider's list in memory.
type ledger struct{ effects []usecase.Effect }

func (l *ledger) ListEffects(_ context.Context, cursor string) ([]usecase.Effect, string, error) {
	const size = 2
	at, _ := strconv.Atoi(cursor)
	end := min(at+size, len(l.effects))
	if end == len(l.effects) {
		return l.effects[at:end], "", nil
	}
	return l.effects[at:end], strconv.Itoa(end), nil
}

// world is a database with a charge of every kind, and the provider's list that belongs to it.
type world struct {
	*books
	ledger
	succeeded, declined, parked, waiting, held, api, twin uuid.UUID
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{books: newBooks(t)}
	w.succeeded = w.charge(t, "o-succeeded", domain.StatusSucceeded, domain.Succeeded)
	w.publish(t)
	w.declined = w.charge(t, "o-declined", domain.StatusDeclined, domain.Declined)
	w.parked = w.charge(t, "o-parked", domain.StatusParked, domain.Unknown)
	w.refuse(t)
	w.publish(t)
	w.twin = w.charge(t, "o-declined", domain.StatusSucceeded, domain.Succeeded) // confirmed again
	w.waiting = w.charge(t, "o-waiting", domain.StatusRequested, domain.Unknown)
	w.refuse(t)
	w.held = w.request(t, "o-held")
	w.claim(t)
	w.api = uuid.NewV5(uuid.NamespaceURL, "api")
	w.db.Exec(t, `INSERT INTO charge (event_id, order_id, customer_id, amount_minor, currency, source) VALUES ($1, 'o-api', 'c', 5, 'RUB', 'api')`, w.api)
	w.db.Exec(t, `INSERT INTO outbox (channel, event_type, event_id, payload) VALUES ('provider', 'ChargeRequested', $1, '{}')`, w.api)
	w.duplicate(t, w.succeeded)
	for _, id := range []uuid.UUID{w.succeeded, w.twin, w.held} {
		w.effect(t, id, "succeeded")
	}
	w.effect(t, w.declined, "declined")
	w.effect(t, w.waiting, "pending")
	return w
}

// duplicate counts a second event of a charge's order.
func (w *world) duplicate(t *testing.T, of uuid.UUID) uuid.UUID {
	t.Helper()
	id := newID()
	w.db.Exec(t, `INSERT INTO processed_event (event_id, consumer_group, fingerprint, duplicate_of)
		SELECT $1, consumer_group, fingerprint, event_id FROM processed_event WHERE event_id = $2`, id, of)
	return id
}

// effect lists a charge at the provider.
func (w *world) effect(t *testing.T, id uuid.UUID, status string) *usecase.Effect {
	t.Helper()
	e := usecase.Effect{Key: id.String(), Ref: fmt.Sprintf("p-%d", len(w.effects)+1), Status: status}
	row := w.pool.QueryRow(t.Context(), `SELECT order_id, amount_minor, currency FROM charge WHERE event_id = $1`, id)
	if err := row.Scan(&e.OrderID, &e.Amount.Minor, &e.Amount.Currency); err != nil {
		t.Fatal(err)
	}
	w.effects = append(w.effects, e)
	return &w.effects[len(w.effects)-1]
}

func (w *world) audit(t *testing.T, grace time.Duration) usecase.AuditReport {
	t.Helper()
	audit := usecase.Audit{
		Store: w.store, Provider: &w.ledger, PageRows: 2, Timeout: time.Minute, Keep: 10, Clock: worker.Clock{}, Random: func() float64 { return 0 }, Tries: 1,
		Limits: usecase.AuditLimits{Grace: grace, Retention: 168 * time.Hour, Account: account},
	}
	report, err := audit.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// found lists the findings as "rule subject".
func found(report usecase.AuditReport) []string {
	list := []string{}
	for _, result := range report.Results {
		for _, f := range result.Findings {
			list = append(list, f.Rule+" "+f.Subject)
		}
	}
	return list
}

// exec is one statement with its parameters.
func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if w.db.Exec(t, sql, args...) == 0 {
		t.Fatalf("%s: touched no row", sql)
	}
}

// unguarded runs a statement that the triggers forbid.
func (w *world) unguarded(t *testing.T, sql string, args ...any) {
	t.Helper()
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "SET LOCAL session_replication_role = replica"); err != nil {
		t.Fatal(err)
	}
	tag, err := tx.Exec(t.Context(), sql, args...)
	if err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%s: %d rows, %v", sql, tag.RowsAffected(), err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestCleanDatabaseHasNoFindings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	report := w.audit(t, 0)
	if list := found(report); len(list) > 0 {
		t.Fatalf("findings in a clean database: %q", list)
	}
	for _, walk := range []usecase.Walk{
		usecase.WalkCharges, usecase.WalkAnnouncements, usecase.WalkAttempts, usecase.WalkInbox, usecase.WalkOutbox,
		usecase.WalkDeadLetters, usecase.WalkPositions, usecase.WalkEffects, usecase.WalkSucceeded,
	} {
		if report.Rows[walk] == 0 {
			t.Errorf("walk %s looked at nothing", walk)
		}
	}
	if got, want := report.Rows[usecase.WalkCharges], int64(7); got != want {
		t.Errorf("looked at %d charges, want %d", got, want)
	}
}

// violation breaks one rule and says what the audit has to find.
type violation func(t *testing.T, w *world) (finding string)

func violations() map[string]violation {
	return map[string]violation{
		"announcement of the status is missing": func(t *testing.T, w *world) string {
			t.Helper()
			w.unguarded(t, `UPDATE charge_event SET type = 'ChargeDeclined' WHERE event_id = $1`, w.succeeded)
			return "announced " + w.succeeded.String()
		},
		"charge settled without a word": func(t *testing.T, w *world) string {
			t.Helper()
			w.exec(t, `DELETE FROM charge_event WHERE event_id = $1`, w.succeeded)
			w.exec(t, `UPDATE charge SET version = 0 WHERE event_id = $1`, w.succeeded)
			return "announced " + w.succeeded.String()
		},
		"announcement neither published nor waiting": func(t *testing.T, w *world) string {
			t.Helper()
			w.exec(t, `DELETE FROM outbox WHERE channel = 'kafka' AND event_id = $1`, w.twin)
			return "published " + w.twin.String()
		},
		"version skipped": func(t *testing.T, w *world) string {
			t.Helper()
			w.unguarded(t, `UPDATE charge_event SET version = 2 WHERE event_id = $1`, w.parked)
			w.exec(t, `UPDATE charge SET version = 2 WHERE event_id = $1`, w.parked)
			return "versions " + w.parked.String()
		},
		"two charges of one order": func(t *testing.T, w *world) string {
			t.Helper()
			w.orderAs(t, w.waiting, "o-api")
			return "one_charge_per_order " + max(w.waiting.String(), w.api.String())
		},
		"terminal status left": func(t *testing.T, w *world) string {
			t.Helper()
			w.exec(t, `INSERT INTO charge_event (event_id, type, from_status, to_status) VALUES ($1, 'x', 'succeeded', 'succeeded')`, w.succeeded)
			return "history " + w.succeeded.String()
		},
		"move from nowhere": func(t *testing.T, w *world) string {
			t.Helper()
			w.unguarded(t, `UPDATE charge_event SET from_status = 'parked' WHERE event_id = $1`, w.succeeded)
			return "history " + w.succeeded.String()
		},
		"status changed without a move": func(t *testing.T, w *world) string {
			t.Helper()
			w.exec(t, `INSERT INTO charge_event (event_id, type, from_status, to_status) VALUES ($1, 'ChargeRetried', 'parked', 'requested')`, w.parked)
			return "history " + w.parked.String()
		},
		"requested charge that nobody works on": func(t *testing.T, w *world) string {
			t.Helper()
			w.exec(t, `DELETE FROM outbox WHERE channel = 'provider' AND event_id = $1`, w.waiting)
			return "provider_row " + w.waiting.String()
		},
		"requested charge that is never due": func(t *testing.T, w *world) string {
			t.Helper()
			w.exec(t, `UPDATE outbox SET run_at = 'infinity' WHERE channel = 'provider' AND event_id = $1`, w.waiting)
			return "provider_row " + w.waiting.String()
		},
		"parked charge that becomes due": func(t *testing.T, w *world) string {
			t.Helper()
			w.exec(t, `UPDATE outbox SET run_at = now() + interval '1 hour' WHERE channel = 'provider' AND event_id = $1`, w.parked)
			return "provider_row " + w.parked.String()
		},
		"settled charge that would be sent again": func(t *testing.T, w *world) string {
			t.Helper()
			w.exec(t, `INSERT INTO outbox (channel, event_type, event_id, payload) VALUES ('provider', 'ChargeRequested', $1, '{}')`, w.declined)
			return "provider_row " + w.declined.String()
		},
		"lease long over": func(t *testing.T, w *world) string {
			t.Helper()
			w.exec(t, `UPDATE outbox SET run_at = now() - interval '1 hour' WHERE channel = 'provider' AND event_id = $1`, w.held)
			return "lease " + w.held.String()
		},
		"event handled and no charge": func(t *testing.T, w *world) string {
			t.Helper()
			id := w.duplicate(t, w.succeeded)
			w.exec(t, `UPDATE processed_event SET duplicate_of = NULL WHERE event_id = $1`, id)
			return "inbox " + id.String()
		},
		"duplicate of nothing": func(t *testing.T, w *world) string {
			t.Helper()
			id := w.duplicate(t, w.succeeded)
			w.exec(t, `UPDATE processed_event SET duplicate_of = $2 WHERE event_id = $1`, id, newID())
			return "inbox " + id.String()
		},
		"duplicate that was charged": func(t *testing.T, w *world) string {
			t.Helper()
			w.exec(t, `UPDATE processed_event SET duplicate_of = $2, fingerprint = o.fingerprint
				FROM (SELECT fingerprint FROM processed_event WHERE event_id = $2) o WHERE event_id = $1`, w.waiting, w.succeeded)
			return "inbox " + w.waiting.String()
		},
		"other amount than ordered": func(t *testing.T, w *world) string {
			t.Helper()
			w.exec(t, `UPDATE charge SET amount_minor = amount_minor + 1 WHERE event_id = $1`, w.parked)
			return "inbox_content " + w.parked.String()
		},
		"charge that the inbox forgot": func(t *testing.T, w *world) string {
			t.Helper()
			w.exec(t, `DELETE FROM processed_event WHERE event_id = $1`, w.waiting)
			return "charge_inbox " + w.waiting.String()
		},
		"attempt that nobody works on": func(t *testing.T, w *world) string {
			t.Helper()
			w.exec(t, `INSERT INTO charge_attempt (event_id, attempt) VALUES ($1, 9)`, w.held)
			return "open_attempt " + w.held.String()
		},
		"money taken for a declined charge": func(t *testing.T, w *world) string {
			t.Helper()
			w.exec(t, `UPDATE charge_attempt SET outcome = 'succeeded' WHERE event_id = $1`, w.declined)
			return "money_taken " + w.declined.String()
		},
		"amount not positive": func(t *testing.T, w *world) string {
			t.Helper()
			w.db.Exec(t, `ALTER TABLE charge DROP CONSTRAINT charge_amount_minor_check`)
			w.exec(t, `UPDATE charge SET amount_minor = 0 WHERE event_id = $1`, w.api)
			return "amount " + w.api.String()
		},
		"dead letter without its copy": func(t *testing.T, w *world) string {
			t.Helper()
			w.exec(t, `DELETE FROM outbox WHERE dead_letter_id IS NOT NULL`)
			return fmt.Sprintf("dead_letter dead letter %d", w.db.Count(t, `SELECT id FROM dead_letter WHERE published_at IS NULL`))
		},
		"outbox row about nothing": func(t *testing.T, w *world) string {
			t.Helper()
			id := newID()
			w.exec(t, `INSERT INTO outbox (channel, event_type, topic, event_id, version) VALUES ('kafka', 'ChargeSucceeded', 't', $1, 1)`, id)
			return "outbox_target " + id.String()
		},
		"position beyond the log": func(t *testing.T, w *world) string {
			t.Helper()
			w.exec(t, `UPDATE consumer_position SET gap = 'position 9 lies beyond the log''s end 3'`)
			return "position_beyond_log " + topic + "/0"
		},
		"money taken without a charge": func(t *testing.T, w *world) string {
			t.Helper()
			e := w.effect(t, w.api, "succeeded")
			e.Key, e.OrderID = "not-a-uuid", "o-else"
			return "effect_charge not-a-uuid"
		},
		"other amount at the provider": func(t *testing.T, w *world) string {
			t.Helper()
			w.effects[0].Amount.Minor++
			return "effect_content " + w.effects[0].Key
		},
		"other currency at the provider": func(t *testing.T, w *world) string {
			t.Helper()
			w.effects[0].Amount.Currency = "USD"
			return "effect_content " + w.effects[0].Key
		},
		"money taken twice": func(t *testing.T, w *world) string {
			t.Helper()
			return "effect_once " + w.effect(t, w.succeeded, "succeeded").Key
		},
		"succeeded charge that the provider does not know": func(_ *testing.T, w *world) string {
			w.effects = slices.DeleteFunc(w.effects, func(e usecase.Effect) bool { return e.Key == w.succeeded.String() })
			return "charge_effect " + w.succeeded.String()
		},
		"succeeded charge that the provider declined": func(_ *testing.T, w *world) string {
			w.effects[0].Status = "declined"
			return "charge_effect " + w.effects[0].Key
		},
	}
}

// orderAs gives a charge another order, and changes whatever else would then break another rule.
func (w *world) orderAs(t *testing.T, id uuid.UUID, order string) {
	t.Helper()
	w.db.Exec(t, `DROP INDEX charge_order_key`)
	w.exec(t, `DELETE FROM processed_event WHERE event_id = $1`, id)
	w.exec(t, `UPDATE charge SET source = 'api', order_id = $2 WHERE event_id = $1`, id, order)
	w.effects = slices.DeleteFunc(w.effects, func(e usecase.Effect) bool { return e.Key == id.String() })
}

func TestEachViolationIsFoundByItsRuleAlone(t *testing.T) {
	t.Parallel()
	var planted sync.Map
	t.Cleanup(func() {
		for _, rule := range usecase.Rules() {
			if rule.Walk == usecase.WalkResults || rule.Walk == usecase.WalkPublished {
				continue // planted on the topic, see TestResultsOnTheTopicAreComparedInBothDirections
			}
			if _, ok := planted.Load(rule.Name); !ok {
				t.Errorf("no violation of %s %s was planted", rule.ID, rule.Name)
			}
		}
	})
	for name, plant := range violations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			want := plant(t, w)
			if got := found(w.audit(t, 0)); !slices.Equal(got, []string{want}) {
				t.Fatalf("found %q, want %q", got, want)
			}
			rule, _, _ := strings.Cut(want, " ")
			planted.Store(rule, true)
		})
	}
}

// Of a parked charge nobody knows whether the money was taken: a person has been asked already.
func TestMoneyTakenForAParkedChargeIsNoFinding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.effect(t, w.parked, "succeeded")
	if list := found(w.audit(t, 0)); len(list) > 0 {
		t.Errorf("findings %q", list)
	}
}

func TestWhatWasTouchedLatelyIsNotLookedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, `DELETE FROM outbox WHERE channel = 'provider' AND event_id = $1`, w.waiting)
	w.exec(t, `DELETE FROM outbox WHERE channel = 'kafka' AND event_id = $1`, w.twin)
	w.effect(t, w.parked, "succeeded")
	w.effects = w.effects[1:]
	if list := found(w.audit(t, time.Hour)); len(list) > 0 {
		t.Fatalf("findings of charges that are being worked on: %q", list)
	}
}

func TestAllFindingsAreCountedAndTheFirstAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, `DELETE FROM outbox WHERE channel = 'provider'`)
	audit := usecase.Audit{Store: w.store, PageRows: 3, Timeout: time.Minute, Keep: 1, Limits: usecase.AuditLimits{Retention: time.Hour}}
	report, err := audit.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := report.Counts()["provider_row"]; got != 4 {
		t.Errorf("counted %d charges without a provider row, want 4", got)
	}
	if got := len(found(report)); got != 2 { // one of provider_row, one of open_attempt
		t.Errorf("kept %d findings, want one of each rule", got)
	}
	if got := report.Total(); got != 5 {
		t.Errorf("counted %d findings, want 5", got)
	}
}

// interrupted fails at the second page, once with a failure that may pass.
type interrupted struct {
	ledger
	calls int
	err   error
}

func (i *interrupted) ListEffects(ctx context.Context, cursor string) ([]usecase.Effect, string, error) {
	if i.calls++; i.calls == 2 {
		return nil, "", i.err
	}
	return i.ledger.ListEffects(ctx, cursor)
}

func TestListOfTheProviderIsReadOnAfterAnOutage(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"outage": domain.ErrOutage, "nonsense": errors.New("nonsense")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			audit := usecase.Audit{
				Store: w.store, PageRows: 100, Timeout: time.Minute, Keep: 1, Clock: worker.Clock{}, Random: func() float64 { return 0 }, Tries: 3,
				Provider: &interrupted{ledger: w.ledger, err: failure}, Limits: usecase.AuditLimits{Retention: time.Hour, Account: account},
			}
			report, err := audit.Run(t.Context())
			if outage := errors.Is(failure, domain.ErrOutage); outage != (err == nil) {
				t.Fatalf("the audit ended with %v", err)
			} else if outage && report.Total() > 0 {
				t.Fatalf("findings: %q", found(report))
			}
		})
	}
}

func TestAuditWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.db.Exec(t, `CREATE ROLE readonly_`+w.db.Name()+`; GRANT SELECT ON ALL TABLES IN SCHEMA public TO readonly_`+w.db.Name())
	t.Cleanup(func() {
		// The role lives beside the database and would outlive it.
		_, _ = w.pool.Exec(context.Background(), `RESET ROLE; DROP OWNED BY readonly_`+w.db.Name()+`; DROP ROLE readonly_`+w.db.Name())
	})
	pool := productPool(t, w.db.URL()+"&options=-c%20role%3Dreadonly_"+w.db.Name(), 2)
	w.store = postgres.NewStore(pool)
	if list := found(w.audit(t, 0)); len(list) > 0 {
		t.Fatalf("findings: %q", list)
	}
}
