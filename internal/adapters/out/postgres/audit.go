package postgres

import (
	"context"
	"embed"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"billing/internal/core/usecase"
)

// The statements of sql/effects need the temporary tables that open.sql and open_results.sql make.
//
//go:embed sql/effects/*.sql
var effectFiles embed.FS

// auditRule is a rule with its SQL, which lies in audit_<name>.sql.
type auditRule struct {
	name string
	sql  string
}

// How a page of a walk ends lies in audit_walk_<walk>.sql.
var (
	auditWalkSQL, auditRules = auditStatements()
	openEffectsSQL           = effectStatement("open")
	putEffectsSQL            = effectStatement("put")
	openResultsSQL           = effectStatement("open_results")
	putResultsSQL            = effectStatement("put_results")
)

func auditStatements() (map[usecase.Walk]string, map[usecase.Walk][]auditRule) {
	walks, rules := map[usecase.Walk]string{}, map[usecase.Walk][]auditRule{}
	for _, rule := range usecase.Rules() {
		walks[rule.Walk] = auditStatement(rule.Walk, "walk_"+string(rule.Walk))
		rules[rule.Walk] = append(rules[rule.Walk], auditRule{name: rule.Name, sql: AuditSQL(rule)})
	}
	return walks, rules
}

// AuditSQL is the statement behind a rule, with the comment that says what its parameters are.
func AuditSQL(rule usecase.Rule) string { return auditStatement(rule.Walk, rule.Name) }

func auditStatement(walk usecase.Walk, name string) string {
	switch walk {
	case usecase.WalkEffects, usecase.WalkSucceeded, usecase.WalkResults, usecase.WalkPublished:
		return effectStatement("audit_" + name)
	case usecase.WalkCharges, usecase.WalkAnnouncements, usecase.WalkAttempts, usecase.WalkInbox, usecase.WalkOutbox,
		usecase.WalkDeadLetters, usecase.WalkPositions:
	}
	return statement("audit_" + name)
}

func effectStatement(name string) string {
	text, err := effectFiles.ReadFile("sql/effects/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// begin is what lies before every key of a walk.
func begin(walk usecase.Walk) string {
	switch walk {
	case usecase.WalkCharges, usecase.WalkSucceeded, usecase.WalkAttempts, usecase.WalkInbox:
		return "00000000-0000-0000-0000-000000000000"
	case usecase.WalkAnnouncements, usecase.WalkOutbox, usecase.WalkDeadLetters, usecase.WalkEffects, usecase.WalkPositions,
		usecase.WalkResults, usecase.WalkPublished:
	}
	return "0"
}

// AuditPage implements usecase.AuditStore.
func (s *Store) AuditPage(ctx context.Context, walk usecase.Walk, after string, n int, limits usecase.AuditLimits) (usecase.AuditPage, error) {
	return auditPage(ctx, s.pool, walk, after, n, limits, compared{})
}

// beginner is a pool or one connection of it.
type beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// compared is what a list from outside was: when it was begun, by the database's clock, and since when it is whole.
type compared struct{ listed, since time.Time }

// auditPage looks at one page in one snapshot. A long audit is many short ones, so that it holds up no vacuum.
func auditPage(ctx context.Context, db beginner, walk usecase.Walk, after string, n int, limits usecase.AuditLimits, with compared) (usecase.AuditPage, error) {
	if after == "" {
		after = begin(walk)
	}
	var page usecase.AuditPage
	var inner error
	err := pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		var to *string
		if inner = tx.QueryRow(ctx, auditWalkSQL[walk], after, n).Scan(&to, &page.Rows); inner != nil || page.Rows == 0 {
			return inner
		}
		if page.Rows >= n {
			page.Next = *to
		}
		batch := &pgx.Batch{}
		for _, rule := range auditRules[walk] {
			batch.Queue(rule.sql, auditArgs(rule.name, after, *to, limits, with)...).
				Query(func(rows pgx.Rows) error { return readFindings(rows, rule.name, &page) })
		}
		inner = tx.SendBatch(ctx, batch).Close()
		return inner
	})
	return page, wrap("read a page", err)
}

// auditArgs are the parameters that the rules' statements have in common, and those that a few add.
func auditArgs(rule, after, to string, limits usecase.AuditLimits, with compared) []any {
	args := []any{after, to, limits.Grace.Seconds()}
	switch rule {
	case usecase.RulePositionBeyondLog:
		return nil
	case "effect_once", "result_known", "result_content":
		return args[:2]
	case "result_present":
		return append(args[:2], with.since, with.listed)
	case "charge_inbox":
		return append(args, limits.Retention.Seconds())
	case "charge_effect":
		return append(args, limits.Account, with.listed)
	}
	return args
}

func readFindings(rows pgx.Rows, rule string, page *usecase.AuditPage) error {
	f := usecase.Finding{Rule: rule}
	_, err := pgx.ForEachRow(rows, []any{&f.Subject, &f.Detail}, func() error {
		page.Findings = append(page.Findings, f)
		return nil
	})
	return err //nolint:wrapcheck // the caller wraps it
}

// OpenEffects implements usecase.AuditStore with a temporary table of one connection.
func (s *Store) OpenEffects(ctx context.Context) (usecase.EffectStore, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, wrap("take a connection for the provider's list", err)
	}
	e := &effects{conn: conn}
	if _, err = conn.Exec(ctx, openEffectsSQL); err == nil {
		err = conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&e.listed)
	}
	if err != nil {
		_ = e.Close(ctx) // what went wrong first is told
		return nil, wrap("make a place for the provider's list", err)
	}
	return e, nil
}

// effects is the type behind usecase.EffectStore.
type effects struct {
	conn   *pgxpool.Conn
	listed time.Time // the database's clock before the list was begun
}

func (e *effects) PutEffects(ctx context.Context, list []usecase.Effect) error {
	n := len(list)
	keys, refs, statuses := make([]string, n), make([]string, n), make([]string, n)
	orders, currencies, amounts := make([]string, n), make([]string, n), make([]int64, n)
	for i := range list {
		keys[i], refs[i], statuses[i] = list[i].Key, list[i].Ref, list[i].Status
		orders[i], amounts[i], currencies[i] = list[i].OrderID, list[i].Amount.Minor, list[i].Amount.Currency
	}
	_, err := e.conn.Exec(ctx, putEffectsSQL, keys, refs, statuses, orders, amounts, currencies)
	return wrap("write listed charges", err)
}

func (e *effects) AuditPage(ctx context.Context, walk usecase.Walk, after string, n int, limits usecase.AuditLimits) (usecase.AuditPage, error) {
	return auditPage(ctx, e.conn, walk, after, n, limits, compared{listed: e.listed})
}

// Close ends the session, and with it the table: no other user of the pool may find it.
func (e *effects) Close(ctx context.Context) error {
	return wrap("end the session of the audit", e.conn.Hijack().Close(ctx))
}
