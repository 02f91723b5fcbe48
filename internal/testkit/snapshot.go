package testkit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"billing/migrations"
)

// databaseNumber keeps the names of databases on private servers apart.
var databaseNumber atomic.Int64

// Snapshot is an earlier copy of a database.
type Snapshot struct {
	db   *DB
	name string
}

// Snapshot copies the database as it is now. Every session on it is cut for the moment of copying, as nobody may be
// connected; clients must be able to reconnect. The copy is dropped at the end of the test.
func (db *DB) Snapshot(tb testing.TB) *Snapshot {
	tb.Helper()
	db.mu.Lock()
	db.snaps++
	snap := &Snapshot{db: db, name: fmt.Sprintf("%s_snap_%d", db.name, db.snaps)}
	db.mu.Unlock()
	if err := copyDatabase(tb.Context(), db.admin, db.name, snap.name); err != nil {
		tb.Fatalf("take snapshot: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), databaseTimeout)
		defer cancel()
		if err := execNames(ctx, db.admin, "DROP DATABASE IF EXISTS %s WITH (FORCE)", snap.name); err != nil {
			tb.Errorf("drop snapshot: %v", err)
		}
	})
	db.resetPools()
	return snap
}

// Restore puts the database back to the copy, as an operator does after a loss: sessions are cut, and the URL stays. It may
// be repeated.
func (s *Snapshot) Restore(tb testing.TB) {
	tb.Helper()
	ctx := tb.Context()
	if err := execNames(ctx, s.db.admin, "DROP DATABASE IF EXISTS %s WITH (FORCE)", s.db.name); err != nil {
		tb.Fatalf("restore snapshot: %v", err)
	}
	if err := copyDatabase(ctx, s.db.admin, s.name, s.db.name); err != nil {
		tb.Fatalf("restore snapshot: %v", err)
	}
	s.db.resetPools()
}

// resetPools lets the pools of the test forget the connections that were cut.
func (db *DB) resetPools() {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, pool := range db.pools {
		pool.Reset()
	}
}

// copyDatabase clones a database that clients may be connected to: it locks them out, ends their sessions and lets them in again.
func copyDatabase(ctx context.Context, admin *pgxpool.Pool, from, to string) (err error) {
	if err := execNames(ctx, admin, "ALTER DATABASE %s ALLOW_CONNECTIONS false", from); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, execNames(ctx, admin, "ALTER DATABASE %s ALLOW_CONNECTIONS true", from))
	}()
	if err := endSessions(ctx, admin, from); err != nil {
		return err
	}
	return execNames(ctx, admin, "CREATE DATABASE %s TEMPLATE %s STRATEGY file_copy", to, from)
}

// endSessions returns when nobody is connected any more.
func endSessions(ctx context.Context, admin *pgxpool.Pool, database string) error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		var left int
		err := admin.QueryRow(ctx, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1", database).Scan(&left)
		if err != nil {
			return fmt.Errorf("end sessions on %s: %w", database, err)
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("end %d sessions on %s: %w", left, database, ctx.Err())
		case <-ticker.C:
		}
	}
}

// CreateDatabase makes a migrated database on the server.
func (s *PostgresServer) CreateDatabase(ctx context.Context, name string) error {
	if err := s.admin(ctx, func(admin *pgxpool.Pool) error {
		return execNames(ctx, admin, "CREATE DATABASE %s", name)
	}); err != nil {
		return err
	}
	if err := migrations.Up(ctx, s.URL(name)); err != nil {
		return fmt.Errorf("migrate %s: %w", name, err)
	}
	return nil
}

// CloneDatabase copies a database under a new name; sessions on the first are cut.
func (s *PostgresServer) CloneDatabase(ctx context.Context, from, to string) error {
	return s.admin(ctx, func(admin *pgxpool.Pool) error { return copyDatabase(ctx, admin, from, to) })
}

// DropDatabase removes a database with the sessions on it.
func (s *PostgresServer) DropDatabase(ctx context.Context, name string) error {
	return s.admin(ctx, func(admin *pgxpool.Pool) error {
		return execNames(ctx, admin, "DROP DATABASE IF EXISTS %s WITH (FORCE)", name)
	})
}

func (s *PostgresServer) admin(ctx context.Context, do func(*pgxpool.Pool) error) error {
	pool, err := pgxpool.New(ctx, s.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to server: %w", err)
	}
	defer pool.Close()
	return do(pool)
}
