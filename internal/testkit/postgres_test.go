package testkit_test

import (
	"os"
	"testing"

	"billing/internal/testkit"
)

func TestPostgresCrashKeepsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	server := testkit.NewPostgres(t, testkit.PostgresOptions{Durable: true, MaxConnections: 20})
	db := server.NewDB(t)
	fill(t, db)
	if err := server.RestartImmediate(t.Context()); err != nil {
		t.Fatal(err)
	}
	pool := db.Pool(t)
	var fsync, connections string
	var charges int
	err := pool.QueryRow(t.Context(), "SELECT current_setting('fsync'), current_setting('max_connections'), (SELECT count(*) FROM charge)").
		Scan(&fsync, &connections, &charges)
	if err != nil {
		t.Fatal(err)
	}
	if fsync != "on" || connections != "20" || charges != 1 {
		t.Errorf("fsync %s, max_connections %s, %d charges", fsync, connections, charges)
	}
}

func TestClosedPostgresLeavesNothing(t *testing.T) {
	t.Parallel()
	server, err := testkit.StartPostgres(t.Context(), testkit.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(server.DataDir()); !os.IsNotExist(err) {
		t.Errorf("data directory: %v", err)
	}
	if err := server.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestMissingPostgresIsSaidWithTheVariable(t *testing.T) {
	t.Setenv("BILLING_TEST_PG_BIN", t.TempDir())
	if _, err := testkit.StartPostgres(t.Context(), testkit.PostgresOptions{}); err == nil {
		t.Error("started without programs")
	}
}
