package charging_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"billing/internal/adapters/out/postgres"
	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/testkit"
)

func TestMain(m *testing.M) {
	// A hundred walks, rapid's own choice, meet few of the combinations that matter. The command line still decides.
	for name, value := range map[string]string{"rapid.checks": "3000", "rapid.steps": "60"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	testkit.Main(m)
}

// lockstep does everything on PostgreSQL and on the model, and compares.
type lockstep struct {
	w     *world
	pool  *pgxpool.Pool
	store *postgres.Store
}

const (
	insertSQL = `WITH made AS (
			INSERT INTO charge (event_id, order_id, customer_id, amount_minor, currency, source) VALUES ($1, $2, 'c', 100, 'RUB', 'kafka'))
		INSERT INTO outbox (channel, event_type, event_id, payload, headers) VALUES ('provider', 'ChargeRequested', $1, $3, ARRAY['traceparent'::bytea, ''::bytea])`
	chargeTimesSQL = `UPDATE charge SET created_at = statement_timestamp() - make_interval(secs => $2),
			first_sent_at = CASE WHEN first_sent_at IS NULL THEN NULL ELSE statement_timestamp() - make_interval(secs => $3) END,
			pending_since = CASE WHEN pending_since IS NULL THEN NULL ELSE statement_timestamp() - make_interval(secs => $4) END
		WHERE event_id = $1`
	dueTimeSQL = `UPDATE outbox SET run_at = statement_timestamp() - make_interval(secs => $2)
		WHERE channel = 'provider' AND event_id = $1 AND run_at < 'infinity'`
	stateSQL = `SELECT concat_ws(' ', c.event_id, c.status, coalesce(c.last_outcome, '-'), 'v', c.version, 'tries', c.attempts,
			'sent', c.first_sent_at IS NOT NULL, 'pending', c.pending_since IS NOT NULL,
			'queue', (SELECT concat_ws('/', status, attempt, run_at = 'infinity') FROM outbox o WHERE o.channel = 'provider' AND o.event_id = c.event_id),
			'journal', (SELECT string_agg(attempt || '=' || coalesce(outcome, 'open'), ',' ORDER BY attempt) FROM charge_attempt a WHERE a.event_id = c.event_id),
			'told', (SELECT string_agg(version || ' ' || type, ',' ORDER BY version) FROM charge_event e WHERE e.event_id = c.event_id AND version IS NOT NULL),
			'to publish', (SELECT string_agg(version || ' ' || event_type, ',' ORDER BY version) FROM outbox o WHERE o.channel = 'kafka' AND o.event_id = c.event_id))
		FROM charge c ORDER BY c.event_id`
)

func (l *lockstep) exec(sql string, args ...any) {
	if _, err := l.pool.Exec(l.w.ctx(), sql, args...); err != nil {
		l.w.t.Fatalf("%s: %v", sql, err)
	}
}

// text is a row as stateSQL shows it.
func (r *row) text() string {
	word := func(o domain.Outcome, empty string) string {
		if o == "" {
			return empty
		}
		return string(o)
	}
	s := fmt.Sprintf("%s %s %s v %d tries %d sent %s pending %s queue", r.id, r.status, word(r.last, "-"), r.version, r.tries, tf(!r.sentAt.IsZero()), tf(!r.pendingAt.IsZero()))
	if r.queued {
		s += fmt.Sprintf(" %s/%d/%s", map[bool]string{true: "PUBLISHING", false: "PENDING"}[r.publishing], r.attempt, tf(r.runAt.IsZero()))
	}
	s += " journal"
	var journal []string
	for _, attempt := range slices.Sorted(maps.Keys(r.journal)) {
		journal = append(journal, fmt.Sprintf("%d=%s", attempt, word(r.journal[attempt], "open")))
	}
	told := strings.Join(r.told, ",")
	return strings.Join(strings.Fields(s+" "+strings.Join(journal, ",")+" told "+told+" to publish "+told), " ")
}

func tf(b bool) string { return map[bool]string{true: "t", false: "f"}[b] }

// compare fails unless the tables say what the model says.
func (l *lockstep) compare() {
	rows, err := l.pool.Query(l.w.ctx(), stateSQL)
	if err != nil {
		l.w.t.Fatal(err)
	}
	var got []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			l.w.t.Fatal(err)
		}
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	if err := rows.Err(); err != nil {
		l.w.t.Fatal(err)
	}
	var want []string
	for _, r := range l.w.model.sorted(func(*row) bool { return true }) {
		want = append(want, r.text())
	}
	if !slices.Equal(got, want) {
		l.w.t.Fatalf("the tables say\n%s\nthe model says\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// setClock moves every time in the tables to where the model's clock has it: PostgreSQL's own cannot be moved.
func (l *lockstep) setClock() {
	ago := func(at time.Time) float64 {
		if at.IsZero() {
			return 0
		}
		return l.w.now.Sub(at).Seconds()
	}
	for _, r := range l.w.model.rows {
		l.exec(chargeTimesSQL, r.id, ago(r.createdAt), ago(r.sentAt), ago(r.pendingAt))
		if r.queued && !r.runAt.IsZero() {
			l.exec(dueTimeSQL, r.id, ago(r.runAt))
		}
	}
}

// ClaimCharges implements usecase.ChargeQueue. Which of the due charges are taken is PostgreSQL's choice.
func (l *lockstep) ClaimCharges(ctx context.Context, n int, rules usecase.ClaimRules) ([]usecase.Claim, error) {
	l.setClock()
	due := len(l.w.model.due())
	taken, err := l.store.ClaimCharges(ctx, n, rules)
	if err != nil {
		return nil, err //nolint:wrapcheck // a test
	}
	if len(taken) != min(n, due) {
		l.w.t.Fatalf("%d of %d due charges were claimed, %d were asked for", len(taken), due, n)
	}
	claims := make([]usecase.Claim, len(taken))
	for i, got := range taken {
		want := l.w.model.claim(l.w.model.rows[got.EventID], rules)
		claims[i] = want
		for _, pair := range [][2]time.Duration{{got.PostFor, want.PostFor}, {got.Age, want.Age}, {got.PendingFor, want.PendingFor}} {
			if (pair[0] - pair[1]).Abs() > time.Minute {
				l.w.t.Fatalf("PostFor, Age or PendingFor is %s, want %s: %+v", pair[0], pair[1], got)
			}
		}
		got.PostFor, got.Age, got.PendingFor, got.Now = want.PostFor, want.Age, want.PendingFor, want.Now
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			l.w.t.Fatalf("claimed\n%+v, want\n%+v", got, want)
		}
	}
	slices.SortFunc(claims, func(a, b usecase.Claim) int { return slices.Compare(a.EventID[:], b.EventID[:]) })
	return claims, nil
}

// SettleCharges implements usecase.ChargeQueue.
func (l *lockstep) SettleCharges(ctx context.Context, batch []usecase.Settlement) (usecase.Settled, error) {
	got, err := l.store.SettleCharges(ctx, batch)
	if err != nil {
		return got, err //nolint:wrapcheck // a test
	}
	want, _ := l.w.model.SettleCharges(ctx, batch)
	if fmt.Sprint(got.ByStatus) != fmt.Sprint(want.ByStatus) || len(got.Fenced) != len(want.Fenced) {
		l.w.t.Fatalf("settled %v, %d fenced; want %v, %d", got.ByStatus, len(got.Fenced), want.ByStatus, len(want.Fenced))
	}
	return got, nil
}

// SettleLate implements usecase.ChargeQueue.
func (l *lockstep) SettleLate(ctx context.Context, s usecase.Settlement, build func(int32) (usecase.Settlement, error)) (bool, error) {
	got, err := l.store.SettleLate(ctx, s, build)
	if err != nil {
		return got, err //nolint:wrapcheck // a test
	}
	if want, _ := l.w.model.SettleLate(ctx, s, build); got != want {
		l.w.t.Fatalf("a late success settled: %v, want %v", got, want)
	}
	return got, nil
}

// Charge implements usecase.ChargeDesk.
func (l *lockstep) Charge(ctx context.Context, id uuid.UUID) (usecase.ChargeState, error) {
	got, err := l.store.Charge(ctx, id)
	want, _ := l.w.model.Charge(ctx, id)
	if err == nil && (got.Sent != want.Sent || got.Status != want.Status || got.Version != want.Version || got.Account != want.Account) {
		l.w.t.Fatalf("the desk shows %+v, want %+v", got, want)
	}
	return got, err //nolint:wrapcheck // a test
}

// MoveCharge implements usecase.ChargeDesk.
func (l *lockstep) MoveCharge(ctx context.Context, id uuid.UUID, decide func(usecase.ChargeState) (usecase.ManualMove, error)) error {
	got, want := l.store.MoveCharge(ctx, id, decide), l.w.model.MoveCharge(ctx, id, decide)
	if (got == nil) != (want == nil) {
		l.w.t.Fatalf("moved by hand: %v, want %v", got, want)
	}
	return got //nolint:wrapcheck // a test
}

// The model is worth what it has in common with the SQL: the same random steps on both.
func TestPostgreSQLDoesWhatTheModelSays(t *testing.T) {
	t.Parallel()
	const most = 25 // walks: each of them takes as long as hundreds on the model
	db := testkit.NewDB(t)
	pool, err := postgres.NewPool(t.Context(), db.URL(), postgres.PoolOptions{MaxConns: 2, ApplicationName: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	walks, failed := 0, false
	rapid.Check(t, func(t *rapid.T) {
		if walks++; walks > most && !failed {
			return
		}
		done := false
		defer func() { failed = failed || !done }() // then rapid looks for a shorter walk
		w := newWorld(t)
		w.start = time.Now().Truncate(time.Second)
		w.now = w.start
		l := &lockstep{w: w, pool: pool, store: postgres.NewStore(pool)}
		w.desk = l
		l.exec("TRUNCATE charge, charge_attempt, charge_event, outbox")
		steps := w.steps(func() int { return rapid.IntRange(1, 3).Draw(t, "most") }, func(old bool) {
			w.newCharge(old)
			id := w.ids[len(w.ids)-1]
			l.exec(insertSQL, id, orderOf(id).OrderID, requestOf(id))
		})
		steps[""] = func(*rapid.T) {
			w.check()
			l.compare()
		}
		t.Repeat(steps)
		w.drain()
		l.compare()
		done = true
	})
	t.Logf("%d walks", min(walks, most))
}
