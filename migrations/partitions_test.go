package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"billing/internal/core/domain"
	"billing/migrations"
)

func withTimeout(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// migrated makes a fresh database and migrates it.
func migrated(t *testing.T) (string, *pgx.Conn) {
	t.Helper()
	url := fresh(t)
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return url, connect(t, url)
}

// days lists the partitions of the inbox with their bounds.
func days(t *testing.T, conn *pgx.Conn) map[string]string {
	t.Helper()
	rows, err := conn.Query(t.Context(), `SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'processed_event'::regclass`)
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]string{}
	var name, bound string
	if _, err := pgx.ForEachRow(rows, []any{&name, &bound}, func() error { list[name] = bound; return nil }); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestFreshDatabaseHasEveryDayOfTheWindowAndNoDefault(t *testing.T) {
	t.Parallel()
	_, conn := migrated(t)
	list := days(t, conn)
	now := value[time.Time](t, conn, "SELECT now()").UTC()
	first := now.Add(-migrations.DefaultRetention - 24*time.Hour).Truncate(24 * time.Hour)
	last := now.Add(migrations.DefaultSkew + 48*time.Hour)
	n := 0
	for day := first; !day.After(last); day = day.Add(24 * time.Hour) {
		n++
		want := fmt.Sprintf("FOR VALUES FROM ('%s') TO ('%s')", domain.IDBound(day), domain.IDBound(day.Add(24*time.Hour)))
		if got := list["processed_event_"+day.Format("20060102")]; got != want {
			t.Errorf("%s is %q, want %q", day.Format(time.DateOnly), got, want)
		}
	}
	if len(list) != n {
		t.Errorf("%d partitions, want %d", len(list), n)
	}
	for _, age := range []time.Duration{migrations.DefaultRetention, 24 * time.Hour, 0, -migrations.DefaultSkew} {
		insert(t, conn, now.Add(-age))
	}
	// An id whose day is gone is refused, not taken in by some other table.
	_, err := conn.Exec(t.Context(), insertSQL, domain.IDBound(now.Add(-30*24*time.Hour)))
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != "23514" || pgErr.ConstraintName != "" {
		t.Errorf("an id of a missing day: %v", err)
	}
}

const insertSQL = "INSERT INTO processed_event (event_id, consumer_group, fingerprint) VALUES ($1, 'g', 'x')"

func insert(t *testing.T, conn *pgx.Conn, at time.Time) {
	t.Helper()
	exec(t, conn, insertSQL, domain.IDBound(at))
}

func TestBoundsOfIDsAreTheSameInGoAndSQL(t *testing.T) {
	t.Parallel()
	_, conn := migrated(t)
	for _, at := range []time.Time{
		time.UnixMilli(0), time.UnixMilli(-5), time.UnixMilli(1), time.Date(2026, 10, 8, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 3, 29, 2, 30, 0, 999_999_000, time.UTC), time.UnixMilli(1<<47 - 1), time.Date(4000, 1, 1, 0, 0, 0, 1000, time.UTC),
	} {
		exec(t, conn, "SET timezone = 'America/New_York'")
		if got := value[uuid.UUID](t, conn, "SELECT billing_id_bound($1)", at); got != domain.IDBound(at) {
			t.Errorf("%s: %s, want %s", at, got, domain.IDBound(at))
		}
	}
}

func TestLockedTableIsTriedAgain(t *testing.T) {
	t.Parallel()
	url, conn := migrated(t)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	exec(t, conn, "BEGIN; LOCK TABLE processed_event IN ACCESS EXCLUSIVE MODE")
	start := time.Now()
	// One try takes no longer than its lock_timeout, so that what queues behind it does not wait either.
	_, err = db.ExecContext(t.Context(), "SELECT billing_create_partitions('7 days', '72 hours')")
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != "55P03" || time.Since(start) > 5*time.Second {
		t.Fatalf("after %s: %v", time.Since(start), err)
	}
	if err := migrations.CreatePartitions(withTimeout(t, time.Second), db, migrations.DefaultRetention, 72*time.Hour); err == nil {
		t.Fatal("days were made behind a lock")
	}
	done := make(chan error)
	go func() {
		done <- migrations.CreatePartitions(t.Context(), db, migrations.DefaultRetention, 72*time.Hour)
	}()
	exec(t, conn, "COMMIT")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := len(days(t, conn)); n < 13 {
		t.Fatalf("%d days", n)
	}
}

// A day that somebody detached comes back with its rows: what it knew is still known.
func TestDetachedDayComesBackWithItsRows(t *testing.T) {
	t.Parallel()
	url, conn := migrated(t)
	now := value[time.Time](t, conn, "SELECT now()").UTC()
	insert(t, conn, now)
	exec(t, conn, "ALTER TABLE processed_event DETACH PARTITION processed_event_"+now.Format("20060102"))
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if n := value[int](t, conn, "SELECT count(*) FROM processed_event"); n != 1 {
		t.Fatalf("%d rows", n)
	}
}

// asRole makes a role that may do nothing yet and returns a connection as it.
func asRole(t *testing.T, url string, owner *pgx.Conn) (*pgx.Conn, string) {
	t.Helper()
	name := "role_" + strings.ReplaceAll(uuid.Must(uuid.NewV4()).String(), "-", "")
	exec(t, owner, "CREATE ROLE "+name+" LOGIN")
	t.Cleanup(func() { exec(t, owner, "DROP OWNED BY "+name+" CASCADE"); exec(t, owner, "DROP ROLE "+name) })
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.User = name
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn, name
}

func wantRefused(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql)
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != "42501" {
		t.Errorf("%s: %v, want permission denied", sql, err)
	}
}

func TestRoleWithoutDDLKeepsTheDays(t *testing.T) {
	t.Parallel()
	url, owner := migrated(t)
	conn, name := asRole(t, url, owner)
	wantRefused(t, conn, "SELECT billing_create_partitions('7 days', '3 days')")
	wantRefused(t, conn, "SELECT billing_drop_partition('1 day')")
	wantRefused(t, conn, "SELECT billing_detach_partition('1 day')")
	exec(t, owner, "GRANT EXECUTE ON FUNCTION billing_create_partitions, billing_detach_partition, billing_drop_partition TO "+name)
	exec(t, owner, "GRANT SELECT, INSERT ON processed_event TO "+name)
	before := len(days(t, owner))
	for i, want := range []int{1, 1, 0} {
		if n := value[int](t, conn, "SELECT billing_create_partitions('7 days', '3 days')"); n != want {
			t.Errorf("call %d made %d days, want %d", i+1, n, want)
		}
	}
	out, dropped := value[string](t, conn, "SELECT billing_detach_partition('1 day')"), value[string](t, conn, "SELECT billing_drop_partition('1 day')")
	if out == "" || dropped != out || len(days(t, owner)) != before+1 {
		t.Errorf("%s was taken out, %s dropped, there are %d days", out, dropped, len(days(t, owner)))
	}
	insert(t, conn, time.Now().Add(3*24*time.Hour)) // a day that this role made
	wantRefused(t, conn, "CREATE TABLE x ()")
	wantRefused(t, conn, "DROP TABLE processed_event")
	wantRefused(t, conn, "ALTER TABLE charge DISABLE TRIGGER ALL")
}

// A caller shadows everything that the functions name, in its own schema and among its temporary tables.
func TestCallerCannotMisleadFunctionsWithTheOwnersRights(t *testing.T) {
	t.Parallel()
	url, owner := migrated(t)
	conn, name := asRole(t, url, owner)
	exec(t, owner, "GRANT EXECUTE ON FUNCTION billing_create_partitions, billing_detach_partition, billing_drop_partition TO "+name)
	exec(t, owner, "CREATE SCHEMA evil AUTHORIZATION "+name)
	for _, sql := range []string{
		"CREATE TABLE evil.called (by text)",
		"CREATE TABLE evil.processed_event (event_id uuid) PARTITION BY RANGE (event_id)",
		"CREATE TEMP TABLE processed_event (event_id uuid) PARTITION BY RANGE (event_id)",
		"CREATE TEMP TABLE pg_inherits (inhparent regclass, inhrelid regclass)",
		"CREATE TABLE evil.pg_class (oid oid, relname text)",
	} {
		exec(t, conn, sql)
	}
	for signature, result := range map[string]string{
		"billing_id_bound(at timestamptz)":                "uuid",
		"date_trunc(text, timestamp)":                     "timestamp",
		"to_char(timestamp, text)":                        "text",
		"hashtextextended(text, bigint)":                  "bigint",
		"pg_try_advisory_xact_lock(bigint)":               "boolean",
		"generate_series(timestamp, timestamp, interval)": "SETOF timestamp",
	} {
		exec(t, conn, "CREATE FUNCTION evil."+signature+" RETURNS "+result+" LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'called as %', current_user; END $$")
	}
	before := len(days(t, owner))
	exec(t, conn, "SET search_path = pg_temp, evil, pg_catalog, public")
	if n := value[int](t, conn, "SELECT public.billing_create_partitions('7 days', '3 days')"); n != 1 || len(days(t, owner)) != before+1 {
		t.Errorf("made %d days, there are %d after %d", n, len(days(t, owner)), before)
	}
	out, dropped := value[string](t, conn, "SELECT public.billing_detach_partition('1 day')"), value[string](t, conn, "SELECT public.billing_drop_partition('1 day')")
	if !strings.HasPrefix(out, "processed_event_") || dropped != out || len(days(t, owner)) != before {
		t.Errorf("%s was taken out, %s dropped, there are %d days", out, dropped, len(days(t, owner)))
	}
	unsafe := value[int](t, owner, `SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
		AND NOT EXISTS (SELECT FROM unnest(proconfig) s WHERE s IN ('search_path=pg_catalog', 'search_path=public, pg_temp'))`)
	if unsafe != 0 {
		t.Errorf("%d functions take the search path of their caller", unsafe)
	}
}
