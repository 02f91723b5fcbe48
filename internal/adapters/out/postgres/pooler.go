package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// protocolViolation is the SQLSTATE by which PgBouncer refuses what it does not know.
const protocolViolation = "08P01"

// adviceOnPoolers ends what is said of a connection pooler.
const adviceOnPoolers = "connect to PostgreSQL itself, or see the README on PgBouncer"

// PoolerError says that something between the service and PostgreSQL does not keep the settings of its sessions.
type PoolerError struct{ Settings string }

// Error names the settings.
func (e *PoolerError) Error() string {
	return "the database connection does not have the service's settings (" + e.Settings + "), as behind a connection pooler that drops them: " + adviceOnPoolers
}

// settings are those of every session. Charging depends on the first ones: a commit that is not on disk may be
// lost, a lock that is waited for without limit holds up everything.
func settings() []struct{ name, value string } {
	return []struct{ name, value string }{
		{"synchronous_commit", "on"},
		{"lock_timeout", "2s"},
		{"statement_timeout", "10s"},
		{"idle_in_transaction_session_timeout", "30s"},
		{"timezone", "UTC"},
		{"jit", "off"},                           // compiling costs seconds where statistics are missing, and no statement here reads much
		{"max_parallel_workers_per_gather", "0"}, // counting and auditing take one core, and leave the others to charging
		// A generic plan that was cached while a queue was tiny turns every later claim into a scan of the whole
		// backlog, and one of the accepting statement joins 500 events by 500 times 500 comparisons.
		{"plan_cache_mode", "force_custom_plan"},
	}
}

// checkSession asks a new connection whether it has its settings. They are sent when it is opened, and a pooler
// may have left them out.
func checkSession(ctx context.Context, conn *pgx.Conn) error {
	var names strings.Builder
	for _, s := range settings() {
		if names.Len() > 0 {
			names.WriteString(", ")
		}
		fmt.Fprintf(&names, "('%s', '%s')", s.name, s.value)
	}
	// Without parameters and not prepared: a pooler may not know prepared statements.
	sql := "SELECT coalesce(string_agg(name, ', '), '') FROM (VALUES " + names.String() + ") AS s (name, value) WHERE current_setting(name) <> value"
	var missing string
	if err := conn.QueryRow(ctx, sql, pgx.QueryExecModeSimpleProtocol).Scan(&missing); err != nil {
		return fmt.Errorf("check the session's settings: %w", err)
	}
	if missing != "" {
		return &PoolerError{Settings: missing}
	}
	return nil
}

// describePooler says what a pooler has to do with err; nothing when it has none.
func describePooler(err error) string {
	if e, ok := errors.AsType[*PoolerError](err); ok {
		return e.Error()
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	if ok && e.Code == protocolViolation && strings.Contains(e.Message, "startup parameter") {
		return "a connection pooler refuses the service's session settings (" + e.Message + "): " + adviceOnPoolers
	}
	return ""
}
