package testkit

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// errSchemaChanged says that a test has altered more than rows.
var errSchemaChanged = errors.New("schema differs from the template's")

//go:embed fingerprint.sql
var fingerprintSQL string

const (
	// sizesSQL finds the tables that hold something: one that was never written has no page.
	sizesSQL = `SELECT c.oid::regclass::text, pg_relation_size(c.oid) FROM pg_class c
		WHERE c.relkind = 'r' AND c.oid >= 16384 AND c.relpersistence <> 't' AND pg_relation_size(c.oid) > 0`
	sequencesSQL = `SELECT c.oid::regclass::text, coalesce(pg_sequence_last_value(c.oid), s.seqstart),
		pg_sequence_last_value(c.oid) IS NOT NULL FROM pg_class c JOIN pg_sequence s ON s.seqrelid = c.oid WHERE c.relpersistence <> 't'`
	terminateSQL = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`
)

// sequence is where a sequence stands.
type sequence struct {
	last   int64
	called bool
}

// pristine is what a freshly cloned database looks like.
type pristine struct {
	name        string
	fingerprint string
	seeds       map[string][]byte // the tables that migrations filled, as COPY text
	sequences   map[string]sequence
}

// content is the part of a database that tests change.
type content struct {
	fingerprint string
	tables      []string // those that hold something
	sequences   map[string]sequence
}

func readPristine(ctx context.Context, url, name string) (*pristine, error) {
	conn, err := connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	now, err := readContent(ctx, conn)
	if err != nil {
		return nil, err
	}
	p := &pristine{name: name, fingerprint: now.fingerprint, seeds: map[string][]byte{}, sequences: now.sequences}
	for _, table := range now.tables {
		if p.seeds[table], err = copyOut(ctx, conn, table); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// restore makes a used clone as good as new. Truncating what was touched leaves neither rows nor dead ones nor page counts
// behind, so plans and measurements do not depend on the test before.
func (p *pristine) restore(ctx context.Context, url string) error {
	conn, err := connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	// In this role no trigger and no foreign key has a say, those that guard history least of all.
	if _, err := conn.Exec(ctx, "SET session_replication_role = replica; SET lock_timeout = '10s'; "+terminateSQL); err != nil {
		return fmt.Errorf("end sessions: %w", err)
	}
	now, err := readContent(ctx, conn)
	if err != nil {
		return err
	}
	if now.fingerprint != p.fingerprint {
		return errSchemaChanged
	}
	if err := p.empty(ctx, conn, now); err != nil {
		return err
	}
	for table, rows := range p.seeds {
		if err := reseed(ctx, conn, table, rows); err != nil {
			return err
		}
	}
	return nil
}

func (p *pristine) empty(ctx context.Context, conn *pgx.Conn, now content) error {
	var touched []string
	for _, table := range now.tables {
		if _, seeded := p.seeds[table]; !seeded {
			touched = append(touched, table)
		}
	}
	batch := &pgx.Batch{}
	if len(touched) > 0 {
		batch.Queue("TRUNCATE " + strings.Join(touched, ", ") + " CASCADE")
	}
	for name, was := range p.sequences {
		if now.sequences[name] != was {
			batch.Queue("SELECT setval($1::regclass, $2, $3)", name, was.last, was.called)
		}
	}
	batch.Queue("SELECT pg_stat_reset()")
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("empty database: %w", err)
	}
	return nil
}

// reseed puts a table's first rows back when they are not there as they were.
func reseed(ctx context.Context, conn *pgx.Conn, table string, rows []byte) error {
	now, err := copyOut(ctx, conn, table)
	if err != nil || bytes.Equal(now, rows) {
		return err
	}
	if _, err := conn.Exec(ctx, "TRUNCATE "+table); err != nil {
		return fmt.Errorf("empty %s: %w", table, err)
	}
	if _, err := conn.PgConn().CopyFrom(ctx, bytes.NewReader(rows), "COPY "+table+" FROM STDIN"); err != nil {
		return fmt.Errorf("fill %s: %w", table, err)
	}
	return nil
}

func copyOut(ctx context.Context, conn *pgx.Conn, table string) ([]byte, error) {
	var out bytes.Buffer
	if _, err := conn.PgConn().CopyTo(ctx, &out, "COPY "+table+" TO STDOUT"); err != nil {
		return nil, fmt.Errorf("read %s: %w", table, err)
	}
	return out.Bytes(), nil
}

func readContent(ctx context.Context, conn *pgx.Conn) (content, error) {
	now := content{sequences: map[string]sequence{}}
	batch := &pgx.Batch{}
	batch.Queue(fingerprintSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&now.fingerprint) })
	batch.Queue(sizesSQL).Query(func(rows pgx.Rows) error {
		var table string
		var size int64
		_, err := pgx.ForEachRow(rows, []any{&table, &size}, func() error {
			now.tables = append(now.tables, table)
			return nil
		})
		return err
	})
	batch.Queue(sequencesSQL).Query(func(rows pgx.Rows) error {
		var name string
		var at sequence
		_, err := pgx.ForEachRow(rows, []any{&name, &at.last, &at.called}, func() error {
			now.sequences[name] = at
			return nil
		})
		return err
	})
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return content{}, fmt.Errorf("read content: %w", err)
	}
	return now, nil
}

// connect opens one connection. Statements are not prepared: each runs once in its life.
func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read database URL: %w", err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}
