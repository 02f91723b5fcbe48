package testkit_test

import (
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"

	"billing/internal/testkit"
)

// fill writes to an ordinary table, to one with an identity, to a partition and to one that guards its history.
func fill(t *testing.T, db *testkit.DB) {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "INSERT INTO processed_event (event_id, consumer_group, fingerprint) VALUES ($1, 'g', 'x')", id)
	db.Exec(t, "INSERT INTO charge (event_id, order_id, customer_id, amount_minor, currency, source) VALUES ($1, 'o', 'c', 1, 'RUB', 'kafka')", id)
	db.Exec(t, "INSERT INTO charge_event (event_id, type, from_status, to_status, published_at) VALUES ($1, 'x', 'requested', 'succeeded', now())", id)
	db.Exec(t, "UPDATE charge SET status = 'succeeded'")
}

// contents renders every row and the state of every sequence.
func contents(t *testing.T, db *testkit.DB) []string {
	t.Helper()
	const query = `SELECT format('%s %s', c.oid::regclass,
			CASE WHEN relkind = 'S' THEN coalesce(pg_sequence_last_value(c.oid), -1)::text
			     ELSE query_to_xml(format('SELECT * FROM %s', c.oid::regclass), true, false, '')::text END)
		FROM pg_class c WHERE c.oid >= 16384 AND relkind IN ('r', 'S', 'p') ORDER BY 1`
	rows, err := db.Pool(t).Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestParallelDatabasesAreIsolated(t *testing.T) {
	t.Parallel()
	a, b := testkit.NewDB(t), testkit.NewDB(t)
	if a.Name() == b.Name() {
		t.Fatalf("both tests got %s", a.Name())
	}
	fill(t, a)
	if n := b.Count(t, "SELECT count(*) FROM charge"); n != 0 {
		t.Fatalf("the other database has %d charges", n)
	}
	if n := a.Count(t, "SELECT count(*) FROM charge"); n != 1 {
		t.Fatalf("own database has %d charges", n)
	}
}

//nolint:paralleltest // one at a time, so that the clone that was used is the one that comes again
func TestReusedCloneIsLikeNew(t *testing.T) {
	var first, second string
	var fresh, again []string
	t.Run("use", func(t *testing.T) {
		db := testkit.NewDB(t)
		first, fresh = db.Name(), contents(t, db)
		fill(t, db)
		db.Exec(t, "DELETE FROM goose_db_version")
		if slices.Equal(fresh, contents(t, db)) {
			t.Fatal("the comparison does not see changes")
		}
	})
	t.Run("use again", func(t *testing.T) {
		db := testkit.NewDB(t)
		second, again = db.Name(), contents(t, db)
		db.Exec(t, `INSERT INTO control (name, actor, reason) VALUES ('history_lost', 'x', repeat('x', 1 << 20))`)
		db.Exec(t, `INSERT INTO operator_action (action, target, actor, reason) SELECT 'x', 'x', 'x', repeat('x', 500) FROM generate_series(1, 1000)`)
	})
	t.Run("use after much was written", func(t *testing.T) {
		if db := testkit.NewDB(t); !slices.Equal(fresh, contents(t, db)) {
			t.Error("rows are left")
		}
	})
	if first != second {
		t.Errorf("clone %s was not reused, but %s", first, second)
	}
	if !slices.Equal(fresh, again) {
		t.Errorf("a reused clone differs:\n%s\n%s", fresh, again)
	}
}

//nolint:paralleltest // as above
func TestCloneWithChangedSchemaIsNotReused(t *testing.T) {
	changes := map[string]string{
		"partition dropped": "DO $$ BEGIN EXECUTE (SELECT 'DROP TABLE ' || min(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'processed_event'::regclass); END $$",
		"table added":       "CREATE TABLE extra ()",
		"trigger disabled":  "ALTER TABLE charge DISABLE TRIGGER ALL",
		"column default":    "ALTER TABLE charge ALTER currency SET DEFAULT 'RUB'",
		"function replaced": "CREATE OR REPLACE FUNCTION charge_keep_terminal() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
		"setting":           "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem = %L', current_database(), '1MB'); END $$",
	}
	for name, sql := range changes {
		t.Run(name, func(t *testing.T) {
			var changed string
			t.Run("change", func(t *testing.T) {
				db := testkit.NewDB(t)
				changed = db.Name()
				db.Exec(t, sql)
			})
			if db := testkit.NewDB(t); db.Name() == changed {
				t.Errorf("%s was handed out again", changed)
			}
		})
	}
}

func TestTwoHundredParallelTests(t *testing.T) {
	t.Parallel()
	for i := range 200 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			db := testkit.NewDB(t)
			fill(t, db)
			if n := db.Count(t, "SELECT count(*) FROM charge"); n != 1 {
				t.Errorf("%d charges", n)
			}
		})
	}
}

func TestSnapshotBringsTheOldRowsBack(t *testing.T) {
	t.Parallel()
	db := testkit.NewDB(t)
	fill(t, db)
	snapshot := db.Snapshot(t)
	// Clients that keep connecting must not be in the way.
	pool := db.Pool(t)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = pool.Ping(t.Context())
				}
			}
		})
	}
	for range 2 {
		db.Exec(t, "DELETE FROM charge")
		snapshot.Restore(t)
		if n := db.Count(t, "SELECT count(*) FROM charge"); n != 1 {
			t.Errorf("%d charges after restoring", n)
		}
	}
	close(stop)
	clients.Wait()
}
