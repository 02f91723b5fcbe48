package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"billing/internal/adapters/out/postgres"
	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

func TestErrorsAreClassifiedByWhoseFaultTheyAre(t *testing.T) {
	t.Parallel()
	pgErr := func(code string) error { return &pgconn.PgError{Code: code, ConstraintName: "x"} }
	tests := map[string]struct {
		err  error
		want error // nil: plain, it may be the fault of one message
	}{
		"our own: mixed":       {pgErr("BL001"), domain.ErrMixed},
		"our own: fenced":      {pgErr("BL002"), domain.ErrFenced},
		"our own: terminal":    {pgErr("BL010"), nil},
		"deadlock":             {pgErr("40P01"), domain.ErrRetry},
		"serialization":        {pgErr("40001"), domain.ErrRetry},
		"lock timeout":         {pgErr("55P03"), domain.ErrRetry},
		"statement timeout":    {pgErr("57014"), domain.ErrRetry},
		"check":                {pgErr("23514"), nil},
		"no partition":         {&pgconn.PgError{Code: "23514"}, domain.ErrOutage},
		"unique":               {pgErr("23505"), nil},
		"not null":             {pgErr("23502"), nil},
		"bad text":             {pgErr("22021"), nil},
		"too large":            {pgErr("54000"), nil},
		"admin shutdown":       {pgErr("57P01"), domain.ErrOutage},
		"starting up":          {pgErr("57P03"), domain.ErrOutage},
		"read-only":            {pgErr("25006"), domain.ErrOutage},
		"disk full":            {pgErr("53100"), domain.ErrOutage},
		"too many connections": {pgErr("53300"), domain.ErrOutage},
		"no privilege":         {pgErr("42501"), domain.ErrOutage},
		"no table":             {pgErr("42P01"), domain.ErrOutage},
		"internal":             {pgErr("XX000"), domain.ErrOutage},
		"idle in transaction":  {pgErr("25P03"), domain.ErrOutage},
		"no code":              {pgErr(""), domain.ErrOutage},
		"connection":           {&net.OpError{Op: "dial", Err: errors.New("refused")}, domain.ErrOutage},
		"deadline":             {context.DeadlineExceeded, domain.ErrOutage},
		"commit rolled back":   {pgx.ErrTxCommitRollback, domain.ErrOutage},
		"classified below":     {fmt.Errorf("x: %w", domain.ErrRetry), domain.ErrRetry},
	}
	classes := []error{domain.ErrOutage, domain.ErrRetry, domain.ErrFenced, domain.ErrMixed}
	for name, tt := range tests {
		err := postgres.Wrap("do", fmt.Errorf("inner: %w", tt.err))
		if !errors.Is(err, tt.err) || !strings.HasPrefix(err.Error(), "do: ") {
			t.Errorf("%s: %v", name, err)
		}
		for _, class := range classes {
			if errors.Is(err, class) != (class == tt.want) { //nolint:errorlint // identity of the class
				t.Errorf("%s: %v, want %v", name, err, tt.want)
			}
		}
	}
	if postgres.Wrap("do", nil) != nil {
		t.Error("no error became one")
	}
}

// write does the three kinds of writing on a database in some state of trouble.
func (r *reader) write(ctx context.Context) map[string]error {
	_, _, chunk := r.chunk(ctx, event("o-1"))
	tx := r.store.InTx(ctx, func(ctx context.Context, tx usecase.AcceptTx) error { return tx.MovePosition(ctx, r.src, 0, 1) })
	_, claim := r.store.ClaimCharges(ctx, 1, rules)
	_, messages := r.store.ClaimMessages(ctx, 1, lease)
	return map[string]error{"chunk": chunk, "transaction": tx, "claim": claim, "claim messages": messages}
}

func wantClass(t *testing.T, errs map[string]error, class error) {
	t.Helper()
	for what, err := range errs {
		if !errors.Is(err, class) {
			t.Errorf("%s: %v, want %v", what, err, class)
		}
	}
}

func TestUnreachableDatabaseIsAnOutage(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	store := postgres.NewStore(productPool(t, "postgres://postgres@"+address+"/x", 2))
	r := &reader{env: env{store: store, accept: usecase.Accept{Inbox: store, Codec: codec{}, Limits: limits}}}
	wantClass(t, r.write(t.Context()), domain.ErrOutage)
	if err := store.Ping(t.Context()); !errors.Is(err, domain.ErrOutage) {
		t.Error(err)
	}
	if _, err := postgres.NewPool(t.Context(), "postgres://u:secret@host:notaport/x", postgres.PoolOptions{}); !errors.Is(err, postgres.ErrInvalidURL) || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

func TestReadOnlyDatabaseIsAnOutage(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	readOnly := e.db.URL() + "?options=-cdefault_transaction_read_only%3Don"
	if strings.Contains(e.db.URL(), "?") {
		readOnly = e.db.URL() + "&options=-cdefault_transaction_read_only%3Don"
	}
	r.store = postgres.NewStore(productPool(t, readOnly, 2))
	r.accept.Inbox = r.store
	wantClass(t, r.write(t.Context()), domain.ErrOutage)
	e.count(t, 0, "SELECT next_offset FROM consumer_position")
}

func TestStatementsThatWaitTooLongAreRepeated(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	for _, setting := range []string{"statement_timeout", "lock_timeout"} {
		pool := e.db.Pool(t)
		blocker, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := blocker.Exec(t.Context(), "SELECT 1 FROM consumer_position FOR UPDATE"); err != nil {
			t.Fatal(err)
		}
		config := e.pool.Config()
		config.ConnConfig.RuntimeParams[setting] = "50"
		config.AfterConnect = nil // which wants the service's own settings
		impatient := *r
		impatient.store = postgres.NewStore(poolOf(t, config))
		impatient.accept.Inbox = impatient.store
		start := time.Now()
		if _, _, err := impatient.chunk(t.Context(), event("o-1")); !errors.Is(err, domain.ErrRetry) || time.Since(start) > 5*time.Second {
			t.Errorf("%s: %v", setting, err)
		}
		if err := blocker.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want(t, r.take(t, event("o-1")), 1, 0)
}

func TestSessionKilledInsideATransactionIsAnOutage(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	err := e.store.InTx(t.Context(), func(ctx context.Context, tx usecase.AcceptTx) error {
		if err := tx.MovePosition(ctx, r.src, 0, 1); err != nil {
			return err
		}
		e.count(t, 1, "SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction') x")
		return tx.MovePosition(ctx, r.src, 1, 2)
	})
	if !errors.Is(err, domain.ErrOutage) {
		t.Fatal(err)
	}
	e.count(t, 0, "SELECT next_offset FROM consumer_position")
	want(t, r.take(t, event("o-1")), 1, 0) // the next connection is a new one
}

func TestSessionsCommitSynchronously(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.db.Exec(t, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$`)
	pool := productPool(t, e.db.URL(), 1)
	for setting, want := range map[string]string{"synchronous_commit": "on", "plan_cache_mode": "force_custom_plan", "TimeZone": "UTC", "jit": "off", "application_name": "test"} {
		var got string
		if err := pool.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %s, want %s: %v", setting, got, want, err)
		}
	}
}

func TestSchemaVersionIsZeroBeforeTheFirstMigration(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	version, err := e.store.SchemaVersion(t.Context())
	if err != nil || version < 2 {
		t.Fatalf("%d: %v", version, err)
	}
	e.db.Exec(t, "DROP TABLE goose_db_version")
	if version, err := e.store.SchemaVersion(t.Context()); err != nil || version != 0 {
		t.Fatalf("%d: %v", version, err)
	}
}
