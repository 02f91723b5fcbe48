package bench_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"billing/internal/proof/bench"
	"billing/internal/testkit"
)

const (
	claimed = 50
)

// cost is what one claim of fifty and one settlement of them take.
type cost struct {
	buffers [2]float64 // of the claim, of the settlement
	took    [2]float64 // milliseconds, planning included
}

var numbers = map[string]*regexp.Regexp{
	"hit": regexp.MustCompile(`Buffers: shared hit=(\d+)`), "read": regexp.MustCompile(`Buffers: shared (?:hit=\d+ )?read=(\d+)`),
	"plan": regexp.MustCompile(`Planning Time: ([\d.]+) ms`), "run": regexp.MustCompile(`Execution Time: ([\d.]+) ms`),
}

func number(plan, what string) float64 {
	m := numbers[what].FindStringSubmatch(plan)
	if m == nil {
		return 0
	}
	f, _ := strconv.ParseFloat(m[1], 64)
	return f
}

// explained runs a statement and returns its plan with what it did.
func explained(t *testing.T, conn *pgx.Conn, sql string, args ...any) string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) "+sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// wrapInFunctions makes functions of the service's own statements. EXPLAIN of a call counts all that the statement
// touches, which it does not for a statement whose parts nothing refers to; planning is in the time too. The values
// that decide about the plan are written into the text, because the service plans each claim for its values.
func wrapInFunctions(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for name, values := range map[string]struct {
		types string
		fixed *strings.Replacer
	}{
		"claim_charges": {"", strings.NewReplacer("$1", strconv.Itoa(claimed), "$2", "30.0", "$3", "'default'", "$4", "43200.0")},
		"settle_charges": {"uuid[], int[], text[], text[], int[], text[], text[], text[], text[], text[], float8[], boolean[], boolean[], " +
			"uuid[], text[], text[], bytea[], bytea[], bytea[], boolean[]", strings.NewReplacer()},
	} {
		text, err := os.ReadFile("../../adapters/out/postgres/sql/" + name + ".sql")
		if err != nil {
			t.Fatal(err)
		}
		exec(t, pool, fmt.Sprintf("CREATE FUNCTION bench_%s(%s) RETURNS void LANGUAGE sql AS $bench$%s$bench$", name, values.types, values.fixed.Replace(string(text))))
	}
}

func placeholders(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("$%d", i+1)
	}
	return strings.Join(list, ", ")
}

type claim struct {
	ID      uuid.UUID
	Attempt int32
}

// settleArgs are the arrays of settle_charges.sql for claims that all succeeded.
func settleArgs(claims []claim) []any {
	n := len(claims)
	ids, attempts := make([]uuid.UUID, n), make([]int32, n)
	for i, c := range claims {
		ids[i], attempts[i] = c.ID, c.Attempt
	}
	texts := func(s string) []string { return slices.Repeat([]string{s}, n) }
	bytes := func(size int) [][]byte { return slices.Repeat([][]byte{make([]byte, size)}, n) }
	no := make([]bool, n)
	return []any{
		ids, attempts, texts("succeeded"), texts("succeeded"), slices.Repeat([]int32{201}, n), texts(""), texts(""), texts("ch_1"), texts("succeeded"), texts(""),
		make([]float64, n), no, no, ids, texts("ChargeSucceeded"), texts("billing.charge-results"), bytes(20), bytes(400), bytes(55), no,
	}
}

// measure claims fifty and settles them, in a transaction that is rolled back.
func measure(t *testing.T, pool *pgxpool.Pool) cost {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	plan := explained(t, conn.Conn(), "SELECT bench_claim_charges()")
	var c cost
	c.buffers[0], c.took[0] = number(plan, "hit")+number(plan, "read"), number(plan, "run")
	found, err := tx.Query(t.Context(), "SELECT event_id, attempt FROM outbox WHERE channel = 'provider' AND status = 'PUBLISHING'")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := pgx.CollectRows(found, pgx.RowToStructByPos[claim])
	if err != nil || len(rows) != claimed {
		t.Fatalf("%d claims: %v", len(rows), err)
	}
	plan = explained(t, conn.Conn(), "SELECT bench_settle_charges("+placeholders(20)+")", settleArgs(rows)...)
	c.buffers[1], c.took[1] = number(plan, "hit")+number(plan, "read"), number(plan, "run")
	return c
}

// historySQL makes charges that are settled, with all that is kept of them.
const historySQL = `WITH made AS (
		INSERT INTO charge (event_id, order_id, customer_id, amount_minor, currency, source, status, last_outcome, provider_account, attempts, first_sent_at, version)
		SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - 86400000 + g), 12, '0') || '7' || lpad(to_hex(g & 4095), 3, '0') || '8' || substr(replace(gen_random_uuid()::text, '-', ''), 18, 15))::uuid,
		       'history-' || g, 'c', 1, 'RUB', 'kafka', 'succeeded', 'succeeded', 'default', 1, now(), 1 FROM generate_series(1, $1::int) g
		RETURNING event_id), attempts AS (
		INSERT INTO charge_attempt (event_id, attempt, outcome, finished_at) SELECT event_id, 1, 'succeeded', now() FROM made)
	INSERT INTO charge_event (event_id, version, announcement_id, type, from_status, to_status, published_at)
	SELECT event_id, 1, event_id, 'ChargeSucceeded', 'requested', 'succeeded', now() FROM made`

func TestCostOfClaimAndSettlementStaysFlat(t *testing.T) {
	var totals, times []float64
	var text strings.Builder
	for _, history := range []int{0, size(2_000, 1_000_000)} {
		db := testkit.NewDB(t)
		pool := newPool(t, db)
		wrapInFunctions(t, pool)
		exec(t, pool, historySQL, history)
		filled := 0
		for _, backlog := range []int{claimed, size(1_000, 100_000), size(2_000, 1_000_000)} {
			exec(t, pool, fillSQL, backlog-filled, fmt.Sprint("backlog", backlog))
			filled = backlog
			exec(t, pool, "ANALYZE charge, outbox, charge_attempt")
			var rounds []cost
			for range size(1, 21) {
				rounds = append(rounds, measure(t, pool))
			}
			pick := func(of func(cost) float64) float64 {
				values := make([]float64, len(rounds))
				for i, c := range rounds {
					values[i] = of(c)
				}
				return bench.Median(values)
			}
			buffers := pick(func(c cost) float64 { return c.buffers[0] + c.buffers[1] })
			took := pick(func(c cost) float64 { return c.took[0] + c.took[1] })
			totals, times = append(totals, buffers), append(times, took)
			fmt.Fprintf(&text, "\nbacklog %7d, history %7d: claim %5.0f buffers %6.2f ms, settlement %5.0f buffers %6.2f ms, of %d",
				backlog, history, pick(func(c cost) float64 { return c.buffers[0] }), pick(func(c cost) float64 { return c.took[0] }),
				pick(func(c cost) float64 { return c.buffers[1] }), pick(func(c cost) float64 { return c.took[1] }), claimed)
		}
	}
	t.Logf("%s\nlargest to smallest: buffers %.2f, time %.2f (goal 1.3)", text.String(), slices.Max(totals)/slices.Min(totals), slices.Max(times)/slices.Min(times))
}
