package migrations_test

import (
	_ "embed"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"billing/internal/testkit"
	"billing/migrations"
)

//go:embed testdata/schema.sql
var schemaSQL string

// schema is the whole schema as text.
func schema(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	rows, err := conn.Query(t.Context(), schemaSQL)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestSchemaIsTheGoldenOne(t *testing.T) {
	t.Parallel()
	url := fresh(t)
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "schema.golden.sql", []byte(schema(t, connect(t, url))))
}

func TestThreeStartersMigrateOnce(t *testing.T) {
	t.Parallel()
	url := fresh(t)
	required, err := migrations.Required()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	applied, errs := make([]int, 3), make([]error, 3)
	for i := range applied {
		wg.Go(func() {
			done, err := migrations.Apply(t.Context(), url, migrations.DefaultRetention, migrations.DefaultSkew)
			applied[i], errs[i] = len(done), err
		})
	}
	wg.Wait()
	sum := 0
	for i := range applied {
		if errs[i] != nil {
			t.Error(errs[i])
		}
		sum += applied[i]
	}
	if sum != int(required) {
		t.Fatalf("%v migrations were applied, want %d in all", applied, required)
	}
	if again, err := migrations.Apply(t.Context(), url, migrations.DefaultRetention, migrations.DefaultSkew); err != nil || len(again) != 0 {
		t.Fatalf("the next run applied %v: %v", again, err)
	}
	states, err := migrations.Status(t.Context(), url)
	if err != nil || len(states) != int(required) {
		t.Fatalf("%d states: %v", len(states), err)
	}
	for _, s := range states {
		if s.AppliedAt.IsZero() {
			t.Errorf("%s is pending", s.Name)
		}
	}
}

func TestDownTakesEverythingBack(t *testing.T) {
	t.Parallel()
	url := fresh(t)
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, url)
	before := schema(t, conn)
	if err := migrations.Down(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if left := schema(t, conn); left != "\n" {
		t.Fatalf("left behind:\n%s", left)
	}
	if n := value[int](t, conn, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname LIKE 'processed_event%'"); n != 0 {
		t.Fatalf("%d tables and indexes are left", n)
	}
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if after := schema(t, conn); after != before {
		t.Fatalf("after going down and up:\n%s", after)
	}
}

func TestURLIsNeverPrinted(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://u:secret@host:notaport/x", "postgres://u:secret@127.0.0.1:1/x?connect_timeout=1"} {
		if err := migrations.Up(t.Context(), url); err == nil || strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
	}
}

func TestWaitingForTheMaintainerEndsWithTheContext(t *testing.T) {
	t.Parallel()
	url := fresh(t)
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, url)
	exec(t, conn, "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('billing_partitions', 0))")
	start := time.Now()
	_, err := migrations.Apply(withTimeout(t, 500*time.Millisecond), url, migrations.DefaultRetention, migrations.DefaultSkew)
	if err == nil || time.Since(start) > 10*time.Second {
		t.Fatalf("after %s: %v", time.Since(start), err)
	}
	exec(t, conn, "COMMIT")
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
}
