package migrations_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"billing/internal/testkit"
)

// fresh makes a database without any table and returns its URL.
func fresh(t *testing.T) string {
	t.Helper()
	db := testkit.NewDB(t)
	name := db.Name() + "_fresh"
	admin := connect(t, db.URL())
	exec(t, admin, "CREATE DATABASE "+name)
	t.Cleanup(func() { exec(t, admin, "DROP DATABASE "+name+" WITH (FORCE)") })
	u, err := url.Parse(db.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// exec uses no context of the test, so that clean-up can.
func exec(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func value[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}
