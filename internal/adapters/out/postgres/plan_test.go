package postgres_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"

	"billing/internal/adapters/out/postgres"
)

// explain runs a statement in a transaction that is rolled back and returns its plan.
func (e env) explain(t *testing.T, sql string, args ...any) string {
	t.Helper()
	conn, err := e.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	rows, err := tx.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF) "+sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

var buffersOf = regexp.MustCompile(`Buffers: shared hit=(\d+)(?: read=(\d+))?`)

// buffers is the total of the top node, which includes those below it.
func buffers(t *testing.T, plan string) int {
	t.Helper()
	m := buffersOf.FindStringSubmatch(plan)
	if m == nil {
		t.Fatalf("no buffers in\n%s", plan)
	}
	hit, _ := strconv.Atoi(m[1])
	read, _ := strconv.Atoi(m[2])
	return hit + read
}

// fill makes a backlog of n charges and n messages of Kafka, and as many parked and finished charges.
func (e env) fill(t *testing.T, n int) {
	t.Helper()
	e.db.Exec(t, `INSERT INTO charge (event_id, order_id, customer_id, amount_minor, currency, source)
		SELECT gen_random_uuid(), 'o-' || g, 'c', 1, 'RUB', 'kafka' FROM generate_series(1, $1 * 2) g`, n)
	e.db.Exec(t, `INSERT INTO outbox (channel, event_type, event_id, attempt, payload, run_at)
		SELECT 'provider', 'ChargeRequested', event_id, 1, decode(repeat('ab', 120), 'hex'), CASE WHEN random() < 0.5 THEN now() - random() * interval '1 hour' ELSE 'infinity' END FROM charge`)
	e.db.Exec(t, `INSERT INTO charge_attempt (event_id, attempt, outcome, finished_at) SELECT event_id, 1, 'unknown', now() FROM charge`)
	e.db.Exec(t, "UPDATE charge SET attempts = 1")
	e.db.Exec(t, `INSERT INTO outbox (channel, event_type, topic, payload, run_at)
		SELECT 'kafka', 'x', 't', decode(repeat('ab', 120), 'hex'), now() - random() * interval '1 hour' FROM generate_series(1, $1) g`, n)
}

func TestClaimsStayCheapWhateverTheBacklog(t *testing.T) {
	t.Parallel()
	const limit = 10
	for _, backlog := range []int{10, 100_000} {
		t.Run(strconv.Itoa(backlog), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.fill(t, backlog) // without ANALYZE: statistics are always stale when a backlog arrives
			statements := map[string]string{
				"charges":  e.explain(t, postgres.ClaimSQL, limit, 30.0, account, 43200.0),
				"messages": e.explain(t, postgres.MessageSQL, limit, 30.0, 1<<20),
			}
			for name, plan := range statements {
				if n := buffers(t, plan); n > 60*limit {
					t.Errorf("%s: %d buffers\n%s", name, n, plan)
				}
				if backlog < 1000 {
					continue
				}
				if !strings.Contains(plan, "outbox_due") || strings.Contains(plan, "Seq Scan") || sorts(plan) {
					t.Errorf("%s:\n%s", name, plan)
				}
			}
		})
	}
}

// sorts reports whether more than the claimed rows are sorted.
func sorts(plan string) bool {
	for _, m := range regexp.MustCompile(`Sort .*rows=(\d+)(?:\.\d+)? loops=1\)`).FindAllStringSubmatch(plan, -1) {
		if n, _ := strconv.Atoi(m[1]); n > 100 {
			return true
		}
	}
	return false
}

func TestSettlingStaysCheapWhateverTheBacklog(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.fill(t, 50_000)
	rows, _ := e.pool.Query(t.Context(), "UPDATE outbox SET status = 'PUBLISHING' WHERE id IN (SELECT id FROM outbox WHERE channel = 'provider' AND run_at < now() LIMIT 10) RETURNING event_id")
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil || len(ids) != 10 {
		t.Fatalf("%d ids: %v", len(ids), err)
	}
	n := len(ids)
	texts := func(s string) []string { return strings.Split(strings.Repeat(s+",", n-1)+s, ",") }
	bytea := make([][]byte, n)
	for i := range bytea {
		bytea[i] = []byte("x")
	}
	ones, zeros, no := make([]int32, n), make([]float64, n), make([]bool, n)
	for i := range ones {
		ones[i] = 1
	}
	plan := e.explain(t, postgres.SettleSQL, ids, ones, texts("succeeded"), texts("succeeded"), ones, texts(""), texts(""), texts(""), texts("succeeded"), texts(""),
		zeros, no, no, ids, texts("ChargeSucceeded"), texts("t"), bytea, bytea, bytea, no)
	if strings.Contains(plan, "Seq Scan") || buffers(t, plan) > 1000 {
		t.Error(plan)
	}
}

// A connection keeps these plans for as long as it lives, and many begin on empty tables: every look must be a probe of an index.
func TestPlansThatAreMadeOnEmptyTablesFitFullOnes(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	today := fmt.Sprintf("'%s'", idAt(time.Now()))
	for name, kept := range map[string]struct {
		sql    string
		values []string
	}{
		"settle": {postgres.SettleSQL, slices.Repeat([]string{"NULL"}, 20)},
		"accept": {postgres.PlainSQL, append(slices.Repeat([]string{"NULL"}, 12), today, today)},
	} {
		conn, err := pgx.Connect(t.Context(), e.db.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		for _, sql := range []string{"BEGIN", postgres.GenericPlansSQL, "PREPARE kept AS " + kept.sql} {
			if _, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := conn.Query(t.Context(), "EXPLAIN EXECUTE kept ("+strings.Join(kept.values, ", ")+")", pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		scans := strings.Count(plan, "Index Scan") + strings.Count(plan, "Index Only Scan")
		if scans == 0 || strings.Count(plan, "Index Cond") != scans || regexp.MustCompile("Seq Scan|Hash Join|Merge Join").MatchString(plan) {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}

// The statistics of a day that has just begun say nothing, and a plan may be generic.
func TestInboxLookUpProbesOnlyTheDaysOfItsIDs(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	now := time.Now()
	ids := []uuid.UUID{idAt(now.Add(-25 * time.Hour)), idAt(now)}
	orders, bytes := []string{"o-1", "o-2"}, [][]byte{make([]byte, 16), make([]byte, 16)}
	for _, id := range ids {
		e.db.Exec(t, `INSERT INTO processed_event (event_id, consumer_group, fingerprint)
			SELECT (left($1::text, 9) || lpad(to_hex(g), 4, '0') || '-' || substr(gen_random_uuid()::text, 15))::uuid, 'former', $2 FROM generate_series(1, 20000) g`, id, bytes[0])
	}
	args := make([]any, 0, 14)
	args = append(
		args,
		ids, orders, orders, []int64{1, 1}, []string{"RUB", "RUB"}, bytes, bytes, orders, []*time.Time{nil, nil},
		group, limits.Retention.Seconds(), limits.Skew.Seconds(),
	)
	probesTwoDays(t, e.explain(t, postgres.AcceptSQL, args...))
	probesTwoDays(t, e.explain(t, postgres.PlainSQL, append(args, ids[0], ids[1])...))
}

func probesTwoDays(t *testing.T, plan string) {
	t.Helper()
	read := 0
	for _, line := range regexp.MustCompile(`.*(?:Seq Scan|Heap Scan|using \S+) on processed_event_\d{8}.*`).FindAllString(plan, -1) {
		if strings.Contains(line, "Seq Scan") {
			t.Error(line)
		}
		if !strings.Contains(line, "never executed") {
			read++
		}
	}
	if read != 2 {
		t.Errorf("%d days are read\n%s", read, plan)
	}
}
