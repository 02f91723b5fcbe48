package testkit

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// DB is a migrated database that belongs to one test.
type DB struct {
	owner testing.TB
	admin *pgxpool.Pool // on the server's maintenance database
	url   string
	name  string

	mu    sync.Mutex
	own   *pgxpool.Pool // of the helpers, made at first use
	pools []*pgxpool.Pool
	snaps int
}

// NewDB gives the test a migrated, empty database of its own, on the server named by BILLING_TEST_POSTGRES_URL or on one that
// this process starts. It is taken back at the end of the test; that of a failed test is kept and its name is logged.
func NewDB(tb testing.TB) *DB {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), databaseTimeout)
	defer cancel()
	clone, err := shared.take(ctx)
	if err != nil {
		tb.Fatalf("make a test database: %v", err)
	}
	db := &DB{owner: tb, admin: shared.admin, url: clone.url, name: clone.name}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the database of this test is kept: %s (as long as its server lives: name one in %s)", clone.name, postgresURLEnv)
			shared.keep(clone.name)
			clone.release(context.Background())
			return
		}
		shared.put(clone)
	})
	return db
}

// NewDB is a migrated database on this server, for tests that stop or break it; it goes with the server.
func (s *PostgresServer) NewDB(tb testing.TB) *DB {
	tb.Helper()
	name := fmt.Sprintf("test_%d", databaseNumber.Add(1))
	admin, err := pgxpool.New(tb.Context(), s.URL("postgres"))
	if err != nil {
		tb.Fatalf("connect to server: %v", err)
	}
	tb.Cleanup(admin.Close)
	if err := s.CreateDatabase(tb.Context(), name); err != nil {
		tb.Fatal(err)
	}
	return &DB{owner: tb, admin: admin, url: s.URL(name), name: name}
}

// URL is the address for the server's superuser.
func (db *DB) URL() string { return db.url }

// URLVia is the same database through a proxy at addr.
func (db *DB) URLVia(addr string) string {
	u, err := url.Parse(db.url)
	if err != nil {
		return db.url
	}
	u.Host = addr
	return u.String()
}

// Name is the database's name on its server.
func (db *DB) Name() string { return db.name }

// Addr is host:port of the server, for a proxy in front of it.
func (db *DB) Addr() string {
	u, err := url.Parse(db.url)
	if err != nil {
		return db.url
	}
	return u.Host
}

// Pool opens a pool of up to 8 connections that is closed at the end of t.
func (db *DB) Pool(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	config, err := pgxpool.ParseConfig(db.url)
	if err != nil {
		tb.Fatalf("read database URL: %v", err)
	}
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(tb.Context(), config)
	if err != nil {
		tb.Fatalf("open pool: %v", err)
	}
	tb.Cleanup(pool.Close)
	db.mu.Lock()
	defer db.mu.Unlock()
	db.pools = append(db.pools, pool)
	return pool
}

// helperPool serves Exec, Count and Value.
func (db *DB) helperPool(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	db.mu.Lock()
	pool := db.own
	db.mu.Unlock()
	if pool != nil {
		return pool
	}
	pool = db.Pool(db.owner)
	db.mu.Lock()
	defer db.mu.Unlock()
	db.own = pool
	return pool
}

// Exec runs a statement and returns the number of rows it touched.
func (db *DB) Exec(tb testing.TB, sql string, args ...any) int {
	tb.Helper()
	tag, err := db.helperPool(tb).Exec(tb.Context(), sql, args...)
	if err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return int(tag.RowsAffected())
}

// Count is the one number that the query returns, as in SELECT count(*).
func (db *DB) Count(tb testing.TB, sql string, args ...any) int {
	tb.Helper()
	return Value[int](tb, db, sql, args...)
}

// Value is the one value that the query returns.
func Value[T any](tb testing.TB, db *DB, sql string, args ...any) T {
	tb.Helper()
	var value T
	if err := db.helperPool(tb).QueryRow(tb.Context(), sql, args...).Scan(&value); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return value
}
