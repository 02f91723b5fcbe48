package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

var (
	apiTakeKeySQL     = statement("api_take_key")
	apiTakeOverSQL    = statement("api_take_over")
	apiStoredSQL      = statement("api_stored")
	apiChargeSQL      = statement("api_charge")
	apiConflictSQL    = statement("api_conflict")
	apiPurgeKeysSQL   = statement("api_purge_keys")
	apiReadSQL        = statement("api_read")
	apiAttemptsSQL    = statement("api_attempts")
	apiHistorySQL     = statement("api_history")
	apiListAllSQL     = statement("api_list_all")
	apiListClientSQL  = statement("api_list_client")
	apiListWaitingSQL = statement("api_list_waiting")
	apiListOrderSQL   = statement("api_list_order")
)

const (
	// postLockTimeout is how long a POST waits for another one: its client knows better how to wait than
	// a connection that is held.
	postLockTimeout = 500 * time.Millisecond
	// listLooks bounds what one page costs, however few of the rows match.
	listLooks = 2000
	// latest is how many attempts and moves of one charge are shown.
	latest = 100
)

// InPostTx implements usecase.PostStore.
func (s *Store) InPostTx(ctx context.Context, fn func(ctx context.Context, tx usecase.PostTx) error) error {
	return s.inTx(ctx, "post in a transaction", func(tx pgx.Tx) error { return fn(ctx, postTx{tx}) })
}

// postTx is the type behind usecase.PostTx.
type postTx struct{ tx pgx.Tx }

// TakeKey sets the lock timeout of the whole transaction in the same round trip.
func (t postTx) TakeKey(ctx context.Context, p usecase.Posting) (bool, error) {
	batch := &pgx.Batch{}
	batch.Queue("SELECT set_config('lock_timeout', $1, true)", milliseconds(postLockTimeout))
	taken := false
	batch.Queue(apiTakeKeySQL, keyArgs(p)...).Exec(func(tag pgconn.CommandTag) error {
		taken = tag.RowsAffected() == 1
		return nil
	})
	return taken, inProgress(wrap("take the key", t.tx.SendBatch(ctx, batch).Close()))
}

func (t postTx) TakeOver(ctx context.Context, p usecase.Posting) (bool, error) {
	tag, err := t.tx.Exec(ctx, apiTakeOverSQL, keyArgs(p)...)
	return tag.RowsAffected() == 1, inProgress(wrap("take an expired key over", err))
}

func keyArgs(p usecase.Posting) []any {
	return []any{p.Client, p.Key, p.Hash[:], p.EventID, p.Answer.Status, p.Answer.Location, p.Answer.Body, p.TTL.Seconds()}
}

// inProgress tells a lock that was waited for in vain from other races.
func inProgress(err error) error {
	if code(err) == lockNotAvailable {
		return usecase.ErrKeyInProgress
	}
	return err
}

func (t postTx) StoredAnswer(ctx context.Context, client, key string) (a usecase.StoredAnswer, found bool, err error) {
	hash := a.Hash[:0]
	err = t.tx.QueryRow(ctx, apiStoredSQL, client, key).Scan(&hash, &a.Answer.Status, &a.Answer.Location, &a.Answer.Body, &a.Expired)
	if errors.Is(err, pgx.ErrNoRows) {
		return a, false, nil
	}
	copy(a.Hash[:], hash)
	return a, err == nil, wrap("read the answer of a key", err)
}

func (t postTx) AddCharge(ctx context.Context, p usecase.Posting) (bool, error) {
	tag, err := t.tx.Exec(ctx, apiChargeSQL, p.EventID, p.Order.OrderID, p.Order.CustomerID, p.Order.Amount.Minor, p.Order.Amount.Currency,
		p.Client, p.Request, p.Traceparent)
	return tag.RowsAffected() == 1, wrap("add a charge", err)
}

func (t postTx) Conflict(ctx context.Context, p usecase.Posting) (usecase.PostConflict, error) {
	rows, err := t.tx.Query(ctx, apiConflictSQL, p.EventID, p.Order.OrderID, p.Order.CustomerID, p.Order.Amount.Minor, p.Order.Amount.Currency)
	if err != nil {
		return usecase.PostConflict{}, wrap("look for the other charge", err)
	}
	var (
		c         usecase.PostConflict
		id        uuid.UUID
		own, same bool
		client    string
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &own, &same, &client}, func() error {
		if own {
			c.Own, c.OwnSame = true, same
		} else {
			c.Live, c.LiveClient = uuid.NullUUID{UUID: id, Valid: true}, client
		}
		return nil
	})
	return c, wrap("look for the other charge", err)
}

// PurgeKeys implements usecase.KeyStore.
func (s *Store) PurgeKeys(ctx context.Context, n int) (int, error) {
	tag, err := s.pool.Exec(ctx, apiPurgeKeysSQL, n)
	return int(tag.RowsAffected()), wrap("delete expired keys", err)
}

// ReadCharge implements usecase.ChargeReader.
func (s *Store) ReadCharge(ctx context.Context, client string, id uuid.UUID) (usecase.ChargeDossier, error) {
	var d usecase.ChargeDossier
	var charges []usecase.ChargeRecord
	batch := &pgx.Batch{}
	collect(batch, apiReadSQL, scanRecord, &charges, id, client)
	collect(batch, apiAttemptsSQL, scanAttempt, &d.Attempts, id, latest)
	collect(batch, apiHistorySQL, scanMove, &d.History, id, latest)
	if err := s.sendBatch(ctx, batch); err != nil {
		return usecase.ChargeDossier{}, wrap("read a charge", err)
	}
	if len(charges) == 0 {
		return usecase.ChargeDossier{}, usecase.ErrNoCharge
	}
	d.Charge = charges[0]
	return d, nil
}

// ReadCharges implements usecase.ChargeReader. Each way to the rows has an index, and none is on status:
// charges that wait are found by their provider rows.
func (s *Store) ReadCharges(ctx context.Context, q usecase.ChargeQuery) (usecase.ChargePage, error) {
	sql, args := apiListAllSQL, []any{q.After, q.Client, string(q.Status), listLooks, q.Limit + 1}
	switch {
	case q.OrderID != "":
		sql, args = apiListOrderSQL, append(args, q.OrderID)
	case q.Client != "":
		sql = apiListClientSQL
	case q.Status == domain.StatusRequested || q.Status == domain.StatusParked:
		sql = apiListWaitingSQL
	}
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return usecase.ChargePage{}, wrap("list charges", err)
	}
	looked, err := pgx.CollectRows(rows, scanLooked)
	if err != nil {
		return usecase.ChargePage{}, wrap("list charges", err)
	}
	return pageOf(looked, q.Limit), nil
}

// looked is a row that a list looked at: it matches, or it is the last one that may be looked at.
type looked struct {
	usecase.ChargeRecord
	matches, last bool
}

func scanLooked(row pgx.CollectableRow) (l looked, err error) {
	r := &l.ChargeRecord
	err = row.Scan(&r.EventID, &r.OrderID, &r.CustomerID, &r.AmountMinor, &r.Currency, &r.Source, &r.Status, &r.LastOutcome, &r.Reason,
		&r.Account, &r.ProviderRef, &r.Attempts, &r.Version, &r.FirstSentAt, &r.CreatedAt, &r.UpdatedAt, &l.matches, &l.last)
	return l, err //nolint:wrapcheck // the caller wraps it
}

// pageOf makes a page of limit charges out of up to limit + 1 rows.
func pageOf(rows []looked, limit int) usecase.ChargePage {
	page := usecase.ChargePage{Charges: make([]usecase.ChargeRecord, 0, min(len(rows), limit))}
	for i, row := range rows {
		if i == limit {
			page.Next = uuid.NullUUID{UUID: rows[limit-1].EventID, Valid: true}
			return page
		}
		if row.matches {
			page.Charges = append(page.Charges, row.ChargeRecord)
		}
		if row.last {
			page.Next = uuid.NullUUID{UUID: row.EventID, Valid: true}
		}
	}
	return page
}
