// Package migrations holds the schema of billing as embedded goose files and applies them. Files are
// added, never edited once released; the binary runs before and after each of them.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed 0*.sql
var files embed.FS

// The partitions that Up makes when nothing else is said: the defaults of BILLING_RETENTION and
// BILLING_CLOCK_SKEW.
const (
	DefaultRetention = 168 * time.Hour
	DefaultSkew      = 24 * time.Hour
)

// lockPatience is how long partitions wait for a lock, try by try.
const lockPatience = time.Minute

// lockNotAvailable is the SQLSTATE of a lock_timeout.
const lockNotAvailable = "55P03"

// Required is the schema version this binary needs.
func Required() (int64, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return 0, fmt.Errorf("list migrations: %w", err)
	}
	return goose.NumericComponent(names[len(names)-1])
}

// Applied is one migration that Apply ran.
type Applied struct {
	Version  int64
	Name     string
	Duration time.Duration
}

// State is one migration as Status reports it.
type State struct {
	Version   int64
	Name      string
	AppliedAt time.Time // zero while pending
}

// Up brings the database at url to the version this binary needs and makes the partitions of the
// inbox with the default retention and skew. It may run in several processes at once and again.
func Up(ctx context.Context, url string) error {
	_, err := Apply(ctx, url, DefaultRetention, DefaultSkew)
	return err
}

// Apply is Up with the retention and clock skew that the partitions of the inbox must cover. It
// returns what it ran; nothing when the database was current.
func Apply(ctx context.Context, url string, retention, skew time.Duration) ([]Applied, error) {
	db, provider, err := open(url)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	results, err := provider.Up(ctx)
	if err != nil {
		return nil, fmt.Errorf("apply migrations: %w", err)
	}
	if _, err := db.ExecContext(ctx, "SELECT billing_grant_roles()"); err != nil {
		return nil, fmt.Errorf("give the roles what they need: %w", err)
	}
	if err := CreatePartitions(ctx, db, retention, skew); err != nil {
		return nil, err
	}
	done := make([]Applied, 0, len(results))
	for _, r := range results {
		done = append(done, Applied{Version: r.Source.Version, Name: r.Source.Path, Duration: r.Duration})
	}
	return done, nil
}

// Status lists every migration of this binary, applied or pending, in order.
func Status(ctx context.Context, url string) ([]State, error) {
	db, provider, err := open(url)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	list, err := provider.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("read migration status: %w", err)
	}
	states := make([]State, 0, len(list))
	for _, s := range list {
		states = append(states, State{Version: s.Source.Version, Name: s.Source.Path, AppliedAt: s.AppliedAt})
	}
	return states, nil
}

// CreatePartitions makes the missing days of processed_event. When another session holds the
// maintainer's lock or the table's, it tries again for up to a minute, because a fresh database must take
// events at once.
func CreatePartitions(ctx context.Context, db *sql.DB, retention, skew time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for {
		var made int
		err := db.QueryRowContext(ctx, "SELECT billing_create_partitions(make_interval(secs => $1), make_interval(secs => $2))",
			retention.Seconds(), skew.Seconds()).Scan(&made)
		pgErr, _ := errors.AsType[*pgconn.PgError](err)
		locked := pgErr != nil && pgErr.Code == lockNotAvailable
		switch {
		case err != nil && !locked:
			return fmt.Errorf("create partitions of processed_event: %w", err)
		case err == nil && made == 0:
			return nil
		case err == nil && made > 0:
			continue
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("create partitions of processed_event: another session is at it: %w", errors.Join(ctx.Err(), err))
		case <-pause.C:
		}
	}
}

// open connects and builds the goose provider. The session lock makes three pods that start at once
// apply every file once; its pauses are short, so that the losers do not wait seconds for nothing.
func open(url string) (*sql.DB, *goose.Provider, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, nil, errors.New("the database URL is not valid") // the parser's text may show the password
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 120), lock.WithUnlockTimeout(1, 30))
	if err != nil {
		return nil, nil, fmt.Errorf("prepare the migration lock: %w", err)
	}
	db := stdlib.OpenDB(*cfg)
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		_ = db.Close()
		return nil, nil, fmt.Errorf("read migrations: %w", err)
	}
	return db, provider, nil
}
