package postgres

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"

	"billing/internal/core/usecase"
)

var (
	republishLockSQL   = statement("republish_lock")
	republishReadSQL   = statement("republish_read")
	republishStatusSQL = statement("republish_status")
	republishPutSQL    = statement("republish_put")
	republishPageSQL   = statement("republish_page")
)

const (
	// keepHistory holds off the purge of history while an announcement is taken from it.
	keepHistory    = "SELECT pg_advisory_xact_lock_shared(hashtextextended('billing_retention', 0))"
	historyPage    = 1000
	historyOverlap = time.Hour // ids are given in another order than times, for as long as a transaction takes
)

// Reannounce implements usecase.AnnouncementDesk.
func (s *Store) Reannounce(ctx context.Context, id uuid.UUID, by usecase.By, decide func(usecase.Announced) (usecase.OutboxMessage, error)) error {
	return s.inTx(ctx, "announce again", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, keepHistory); err != nil {
			return wrap("keep the history", err)
		}
		if _, err := tx.Exec(ctx, republishLockSQL, id); err != nil {
			return wrap("lock the announcement", err)
		}
		announced, err := readAnnounced(ctx, tx, id)
		if err != nil {
			return err
		}
		m, err := decide(announced)
		if err != nil || m.Topic == "" {
			return err
		}
		_, err = tx.Exec(ctx, republishPutSQL, m.EventType, m.Topic, m.Key, m.Value, flatHeaders(m.Headers), id, announced.Announcement.Version, by.Actor, by.Reason)
		return wrap("order the announcement", err)
	})
}

func readAnnounced(ctx context.Context, tx pgx.Tx, id uuid.UUID) (usecase.Announced, error) {
	var announced usecase.Announced
	a := &announced.Announcement
	a.Charge = id
	err := tx.QueryRow(ctx, republishReadSQL, id).Scan(&announced.Status, &a.Order.OrderID, &a.Order.CustomerID, &a.Order.Amount.Minor,
		&a.Order.Amount.Currency, &a.ProviderRef, &a.Reason, &a.ID, &a.Type, &a.OccurredAt, &a.Version, &announced.Published, &announced.Waiting)
	if err == nil {
		announced.Found = true
		return announced, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return announced, wrap("read the announcement", err)
	}
	err = tx.QueryRow(ctx, republishStatusSQL, id).Scan(&announced.Status)
	if errors.Is(err, pgx.ErrNoRows) {
		return announced, usecase.ErrNoCharge
	}
	return announced, wrap("read the charge", err)
}

// AnnouncedSince implements usecase.AnnouncementDesk. It walks the history backwards, the newest charge first.
func (s *Store) AnnouncedSince(ctx context.Context, since time.Time, n int) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	known := map[uuid.UUID]bool{}
	for before, done := int64(math.MaxInt64), false; !done; {
		rows, err := s.pool.Query(ctx, republishPageSQL, before, historyPage)
		if err != nil {
			return nil, wrap("read the history", err)
		}
		var (
			id        uuid.UUID
			at        time.Time
			announced bool
		)
		done = true
		_, err = pgx.ForEachRow(rows, []any{&before, &id, &at, &announced}, func() error {
			done = done && at.Before(since.Add(-historyOverlap))
			if announced && !at.Before(since) && !known[id] && len(ids) < n {
				known[id] = true
				ids = append(ids, id)
			}
			return nil
		})
		if err != nil {
			return nil, wrap("read the history", err)
		}
		done = done || len(ids) == n
	}
	return ids, nil
}
