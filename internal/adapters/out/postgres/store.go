// Package postgres keeps everything the service knows in PostgreSQL: the inbox, charges and their
// journal, the outbox with both its channels, dead letters and positions. Its SQL lies in sql/, one
// statement a file. A public method is one business step, committed whole or not at all.
package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// statement returns the text of an embedded file; a missing one is a mistake of the build.
func statement(name string) string {
	text, err := sqlFiles.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Store implements the database ports of the use cases on one pool of connections.
type Store struct {
	pool *pgxpool.Pool
}

// NewStore returns a Store on pool.
func NewStore(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// PoolOptions shape the connections of one pool.
type PoolOptions struct {
	MaxConns        int32
	ApplicationName string
}

// ErrInvalidURL is returned for a database URL that cannot be parsed; its text never shows the URL.
var ErrInvalidURL = errors.New("the database URL is not valid")

// NewPool prepares a pool without connecting yet. Every session commits synchronously, whatever the
// server's default is: a charge that is acknowledged must survive a crash.
func NewPool(ctx context.Context, url string, opts PoolOptions) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, ErrInvalidURL
	}
	cfg.MaxConns = opts.MaxConns
	cfg.MaxConnIdleTime = 5 * time.Minute
	cfg.MaxConnLifetime = time.Hour
	cfg.MaxConnLifetimeJitter = 10 * time.Minute
	cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	params := cfg.ConnConfig.RuntimeParams
	params["application_name"] = opts.ApplicationName
	for _, s := range settings() {
		params[s.name] = s.value
	}
	cfg.AfterConnect = checkSession
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("prepare the connection pool: %w", err)
	}
	return pool, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Ping asks whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	return wrap("ping the database", s.pool.Ping(ctx))
}

// SchemaVersion returns the newest applied migration, 0 when there is none.
func (s *Store) SchemaVersion(ctx context.Context) (int64, error) {
	var version int64
	err := s.pool.QueryRow(ctx, statement("schema_version")).Scan(&version)
	if code(err) == undefinedTable {
		return 0, nil
	}
	return version, wrap("read the schema version", err)
}

// inTx runs fn in one transaction. A commit whose answer is lost is an outage: the caller does the same
// work again and finds what was written.
func (s *Store) inTx(ctx context.Context, doing string, fn func(tx pgx.Tx) error) error {
	var inner error
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		inner = fn(tx)
		return inner
	})
	if inner != nil {
		return fmt.Errorf("%s: %w", doing, inner) // classified where it arose
	}
	return wrap(doing, err)
}

// sendBatch runs the queued statements in one round trip and one implicit transaction. They count only
// when the last answer was read and Close returned nil.
func (s *Store) sendBatch(ctx context.Context, batch *pgx.Batch) error {
	return s.pool.SendBatch(ctx, batch).Close() //nolint:wrapcheck // every caller wraps it
}
