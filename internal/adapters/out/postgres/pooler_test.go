package postgres_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"billing/internal/adapters/out/postgres"
)

// refuser is a pooler that takes no startup parameter but the usual ones, as PgBouncer does.
func refuser(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			refuseStartup(conn)
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return "postgres://somebody:secret@" + listener.Addr().String() + "/billing?sslmode=disable"
}

func refuseStartup(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	server := pgproto3.NewBackend(conn, conn)
	if _, err := server.ReceiveStartupMessage(); err != nil {
		return
	}
	server.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: jit"})
	_ = server.Flush()
}

func TestPoolerThatRefusesTheSettingsIsNamed(t *testing.T) {
	t.Parallel()
	pool, err := postgres.NewPool(t.Context(), refuser(t), postgres.PoolOptions{MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	err = postgres.NewStore(pool).Ping(t.Context())
	if text := postgres.Describe(err); !strings.Contains(text, "pooler") || !strings.Contains(text, "jit") || strings.Contains(text, "secret") {
		t.Errorf("%q: %v", text, err)
	}
}

func TestPoolerThatDropsTheSettingsIsNoticed(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	acquire := func() error {
		conn, err := e.db.Pool(t).Acquire(context.Background()) // a connection without any setting of the service's
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		return postgres.CheckSession(t.Context(), conn.Conn())
	}
	err := acquire()
	if text := postgres.Describe(err); !strings.Contains(text, "lock_timeout, statement_timeout") || !strings.Contains(text, "PgBouncer") {
		t.Errorf("%q: %v", text, err)
	}
	for _, s := range []string{"lock_timeout = '2s'", "statement_timeout = '10s'", "idle_in_transaction_session_timeout = '30s'", "timezone = 'UTC'", "jit = off", "max_parallel_workers_per_gather = 0", "plan_cache_mode = 'force_custom_plan'"} {
		e.db.Exec(t, "ALTER DATABASE "+e.db.Name()+" SET "+s)
	}
	t.Cleanup(func() {
		if _, err := e.pool.Exec(context.Background(), "ALTER DATABASE "+e.db.Name()+" RESET ALL"); err != nil {
			t.Error(err)
		}
	})
	if err := acquire(); err != nil { // the database has them itself: then a pooler may drop ours
		t.Error(err)
	}
}
