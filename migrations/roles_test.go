package migrations_test

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"billing/internal/testkit"
	"billing/migrations"
)

// member is a connection as a user who has nothing but a role.
func member(t *testing.T, url string, owner *pgx.Conn, role string) *pgx.Conn {
	t.Helper()
	conn, name := asRole(t, url, owner)
	exec(t, owner, "GRANT "+role+" TO "+name)
	return conn
}

// Rights are checked by their effect: what is not named here is not allowed either, see TestEveryTableIsDecidedAbout.
func TestRolesMayNotDoWhatTheirWorkDoesNotNeed(t *testing.T) {
	t.Parallel()
	url, owner := migrated(t)
	exec(t, owner, `INSERT INTO charge (event_id, order_id, customer_id, amount_minor, currency, source) VALUES ('0198c2d4-7a51-7c9e-8f7a-3f7c2c1f0a11', 'o', 'c', 1, 'RUB', 'kafka')`)
	app, readonly := member(t, url, owner, "billing_app"), member(t, url, owner, "billing_readonly")
	for _, sql := range []string{
		"DROP TABLE charge", "CREATE TABLE x ()", "ALTER TABLE charge ADD x int", "TRUNCATE charge_event", "CREATE INDEX ON charge (status)",
		"ALTER TABLE charge DISABLE TRIGGER ALL", "DROP TRIGGER charge_keep_terminal ON charge",
		"CREATE OR REPLACE FUNCTION billing_require(ok boolean, state text, message text) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
		"SET session_replication_role = replica", "DROP TABLE processed_event",
		"DELETE FROM charge", "DELETE FROM charge_attempt", "DELETE FROM charge_event", "DELETE FROM dead_letter", "DELETE FROM operator_action",
		"DELETE FROM consumer_position", "DELETE FROM goose_db_version",
		"UPDATE charge SET amount_minor = 2", "UPDATE charge SET currency = 'USD'", "UPDATE charge SET order_id = 'x'", "UPDATE charge SET customer_id = 'x'",
		"UPDATE charge SET event_id = gen_random_uuid()", "UPDATE charge SET source = 'api'", "UPDATE charge SET created_at = now()", "UPDATE charge SET history_purged = true",
		"UPDATE charge_attempt SET event_id = gen_random_uuid()", "UPDATE charge_attempt SET started_at = now()", "UPDATE charge_event SET actor = 'x'",
		"UPDATE charge_event SET announcement_id = gen_random_uuid()", "UPDATE outbox SET payload = ''", "UPDATE outbox SET event_id = NULL",
		"UPDATE dead_letter SET value = ''", "UPDATE dead_letter SET reason = 'x'", "UPDATE dead_letter SET masked = false", "UPDATE processed_event SET fingerprint = ''",
		"UPDATE operator_action SET actor = 'x'", "UPDATE control SET actor = 'x'", "UPDATE goose_db_version SET is_applied = false",
		"SELECT billing_grant_roles()", "SELECT billing_may_purge('1 day', 1)",
	} {
		wantRefused(t, app, sql)
		wantRefused(t, readonly, sql)
	}
	for _, sql := range []string{
		"INSERT INTO charge (event_id, order_id, customer_id, amount_minor, currency, source) VALUES (gen_random_uuid(), 'x', 'c', 1, 'RUB', 'kafka')",
		"INSERT INTO control (name, actor, reason) VALUES ('charging_paused', 'x', 'x')", "DELETE FROM outbox", "DELETE FROM processed_event", "DELETE FROM control",
		"UPDATE charge SET status = 'parked'", "UPDATE consumer_position SET next_offset = 0", "SELECT value FROM dead_letter", "SELECT key FROM dead_letter",
		"SELECT headers FROM dead_letter", "SELECT payload FROM outbox", "SELECT * FROM idempotency_key", "SELECT FROM charge FOR UPDATE",
		"SELECT billing_purge_history('1 day', 0, 1)", "SELECT billing_create_partitions('7 days', '1 day')", "SELECT billing_drop_partition('7 days')",
		"SELECT billing_detach_partition('7 days')",
	} {
		wantRefused(t, readonly, sql)
	}
	// The owner's rules hold for the service's role, too.
	exec(t, app, "UPDATE charge SET status = 'succeeded'")
	if _, err := app.Exec(t.Context(), "UPDATE charge SET status = 'requested'"); code(err) != "BL010" {
		t.Errorf("a final charge was moved: %v", err)
	}
	exec(t, app, "SELECT billing_purge_history('1 day', 0, 1), billing_purge_attempts('1 day', gen_random_uuid(), 1), billing_purge_dead_letters('1 day', 0, 1)")
	exec(t, app, "SELECT billing_create_partitions('7 days', '3 days')")
	exec(t, readonly, "CREATE TEMPORARY TABLE mine (x int)") // the audit's place for the provider's list
	exec(t, readonly, "SELECT count(*) FROM outbox_state")
}

func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// A table that a later migration makes must be given to the roles, or its makers must say here why not.
func TestEveryTableIsDecidedAbout(t *testing.T) {
	t.Parallel()
	url, owner := migrated(t)
	app, readonly := member(t, url, owner, "billing_app"), member(t, url, owner, "billing_readonly")
	hidden := map[string]bool{"idempotency_key": true} // the answers of the API's clients are nobody else's
	rows, err := owner.Query(t.Context(), `SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v') AND NOT relispartition`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 12 {
		t.Fatalf("%d tables: %v", len(tables), err)
	}
	for _, table := range tables {
		if _, err := app.Exec(t.Context(), "SELECT count(*) FROM "+table); err != nil {
			t.Errorf("billing_app: %v", err)
		}
		if _, err := readonly.Exec(t.Context(), "SELECT count(*) FROM "+table); (err != nil) != hidden[table] {
			t.Errorf("billing_readonly, %s: %v", table, err)
		}
	}
}

func TestRolesAreMadeOnceForAllDatabases(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for range 4 {
		url := fresh(t)
		wg.Go(func() {
			if err := migrations.Up(t.Context(), url); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// A managed database may not let the migrating user create roles: then an administrator makes them, before or after.
// This server is the test's own, because roles belong to all databases of one.
func TestMigrationNeedsNoRightToCreateRoles(t *testing.T) {
	t.Parallel()
	server, err := testkit.StartPostgres(t.Context(), testkit.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	admin := connect(t, server.URL("postgres"))
	exec(t, admin, "CREATE ROLE owner LOGIN")
	exec(t, admin, "CREATE DATABASE billing OWNER owner")
	as := func(user string) string {
		u, err := url.Parse(server.URL("billing"))
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.User(user)
		return u.String()
	}
	owner := as("owner")
	if err := migrations.Up(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	if n := value[int](t, admin, "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'billing%'"); n != 0 {
		t.Fatalf("%d roles", n)
	}
	exec(t, admin, "CREATE ROLE billing_app NOLOGIN; CREATE ROLE billing_readonly NOLOGIN; CREATE ROLE svc LOGIN IN ROLE billing_app")
	for range 2 {
		if err := migrations.Up(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
	}
	svc, err := pgx.Connect(t.Context(), as("svc"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = svc.Close(context.Background()) }()
	exec(t, svc, "SELECT count(*) FROM charge")
	wantRefused(t, svc, "DELETE FROM charge")
}
