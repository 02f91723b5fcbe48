package testkit

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// errSchemaChanged says that a test has altered more than rows.
var errSchemaChanged = errors.New("schema differs from the template's")

//go:embed fingerprint.sql
var fingerprintSQL string

// truncateAbove is the size in bytes of a table that is truncated, not deleted from.
const truncateAbove = 256 << 10

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
	tables      map[string]int64 // the bytes of those that hold something
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
	for table := range now.tables {
		if p.seeds[table], err = copyOut(ctx, conn, table); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// clone is a database on the free list, with the connection that empties it: opening one would cost more than the rest.
type clone struct {
	name string
	url  string
	conn *pgx.Conn
}

// restore makes a used clone as good as new.
func (c *clone) restore(ctx context.Context, p *pristine) error {
	if err := c.connect(ctx); err != nil {
		return err
	}
	if _, err := c.conn.Exec(ctx, terminateSQL); err != nil {
		return fmt.Errorf("end sessions: %w", err)
	}
	now, err := readContent(ctx, c.conn)
	if err != nil {
		return err
	}
	if now.fingerprint != p.fingerprint {
		return errSchemaChanged
	}
	if err := p.empty(ctx, c.conn, now); err != nil {
		return err
	}
	for table, rows := range p.seeds {
		if err := reseed(ctx, c.conn, table, rows); err != nil {
			return err
		}
	}
	return nil
}

// connect opens the connection at first use, and again when a test has cut it.
func (c *clone) connect(ctx context.Context) error {
	if c.conn != nil && c.conn.Ping(ctx) == nil {
		return nil
	}
	conn, err := connect(ctx, c.url)
	if err != nil {
		return err
	}
	c.conn = conn
	// In this role no trigger and no foreign key has a say, those that guard history least of all.
	if _, err := conn.Exec(ctx, "SET session_replication_role = replica; SET lock_timeout = '10s'"); err != nil {
		return fmt.Errorf("prepare connection: %w", err)
	}
	return nil
}

// release closes the connection.
func (c *clone) release(ctx context.Context) {
	if c.conn != nil {
		_ = c.conn.Close(ctx)
		c.conn = nil
	}
}

// empty removes the rows of all tables that were written to, and turns the sequences back. DELETE takes a thirtieth of the time
// of TRUNCATE, but leaves dead rows: above a size that plans and measurements would notice, the table is truncated.
func (p *pristine) empty(ctx context.Context, conn *pgx.Conn, now content) error {
	batch := &pgx.Batch{}
	for table, size := range now.tables {
		switch _, seeded := p.seeds[table]; {
		case seeded:
		case size > truncateAbove:
			batch.Queue("TRUNCATE " + table + " CASCADE")
		default:
			batch.Queue("DELETE FROM " + table)
		}
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
	now := content{tables: map[string]int64{}, sequences: map[string]sequence{}}
	batch := &pgx.Batch{}
	batch.Queue(fingerprintSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&now.fingerprint) })
	batch.Queue(sizesSQL).Query(func(rows pgx.Rows) error {
		var table string
		var size int64
		_, err := pgx.ForEachRow(rows, []any{&table, &size}, func() error {
			now.tables[table] = size
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

// connect opens one connection, which sessions on pg_stat_activity can be told from.
func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read database URL: %w", err)
	}
	config.RuntimeParams["application_name"] = "testkit"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}
