package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

var (
	deadLettersListSQL      = statement("deadletters_list")
	deadLettersIDsSQL       = statement("deadletters_ids")
	deadLettersGroupsSQL    = statement("deadletters_groups")
	deadLettersPayloadSQL   = statement("deadletters_payload")
	deadLettersLockSQL      = statement("deadletters_lock")
	deadLettersResolveSQL   = statement("deadletters_resolve")
	deadLettersAcceptOldSQL = statement("deadletters_accept_old")
)

// letterArgs are the parameters that the lists have in common.
func letterArgs(f usecase.LetterFilter) []any {
	ids := f.IDs
	if ids == nil {
		ids = []int64{} // null would match nothing
	}
	return []any{ids, string(f.Reason), f.Topic}
}

func since(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

// ListLetters returns dead letters of a filter, the oldest first.
func (s *Store) ListLetters(ctx context.Context, f usecase.LetterFilter) ([]usecase.LetterRecord, error) {
	rows, err := s.pool.Query(ctx, deadLettersListSQL, append(letterArgs(f), string(f.Status), since(f.Since), f.Limit)...)
	if err != nil {
		return nil, wrap("list dead letters", err)
	}
	list, err := pgx.CollectRows(rows, scanLetter)
	return list, wrap("list dead letters", err)
}

func scanLetter(row pgx.CollectableRow) (l usecase.LetterRecord, err error) {
	err = row.Scan(&l.ID, &l.Group, &l.Topic, &l.Partition, &l.Offset, &l.MessageTime, &l.Reason, &l.Detail, &l.EventID, &l.Masked, &l.Status,
		&l.ResolvedAt, &l.ResolvedBy, &l.ResolvedReason, &l.PublishedAt, &l.CreatedAt)
	return l, err //nolint:wrapcheck // the caller wraps it
}

// GroupLetters counts dead letters of a filter by reason, topic and hour; the limit is of groups.
func (s *Store) GroupLetters(ctx context.Context, f usecase.LetterFilter) ([]usecase.LetterGroup, error) {
	rows, err := s.pool.Query(ctx, deadLettersGroupsSQL, append(letterArgs(f), string(f.Status), since(f.Since), f.Limit)...)
	if err != nil {
		return nil, wrap("group dead letters", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (g usecase.LetterGroup, err error) {
		err = row.Scan(&g.Reason, &g.Topic, &g.Hour, &g.N, &g.First, &g.Last)
		return g, err
	})
	return list, wrap("group dead letters", err)
}

// OpenLetters returns the ids of open dead letters of a filter, the oldest first, up to its limit, and how many there
// are in all.
func (s *Store) OpenLetters(ctx context.Context, f usecase.LetterFilter) (ids []int64, total int64, err error) {
	rows, err := s.pool.Query(ctx, deadLettersIDsSQL, append(letterArgs(f), since(f.Since), f.Limit)...)
	if err != nil {
		return nil, 0, wrap("pin dead letters", err)
	}
	var id int64
	_, err = pgx.ForEachRow(rows, []any{&id, &total}, func() error { ids = append(ids, id); return nil })
	return ids, total, wrap("pin dead letters", err)
}

// Letter returns one dead letter. usecase.ErrNoLetter.
func (s *Store) Letter(ctx context.Context, id int64) (usecase.LetterRecord, error) {
	list, err := s.ListLetters(ctx, usecase.LetterFilter{IDs: []int64{id}, Limit: 1})
	if err != nil {
		return usecase.LetterRecord{}, err
	}
	if len(list) == 0 {
		return usecase.LetterRecord{}, usecase.ErrNoLetter
	}
	return list[0], nil
}

// LetterPayload returns what came from the producer, as it was stored. usecase.ErrNoLetter.
func (s *Store) LetterPayload(ctx context.Context, id int64) (usecase.LetterPayload, error) {
	var p usecase.LetterPayload
	var flat [][]byte
	err := s.pool.QueryRow(ctx, deadLettersPayloadSQL, id).Scan(&p.Key, &p.Value, &flat)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, usecase.ErrNoLetter
	}
	p.Headers = headers(flat)
	return p, wrap("read the payload of a dead letter", err)
}

// InLetterTx implements usecase.LetterDesk.
func (s *Store) InLetterTx(ctx context.Context, id int64, fn func(ctx context.Context, letter usecase.StoredLetter, tx usecase.LetterTx) error) error {
	return s.inTx(ctx, "decide about a dead letter", func(tx pgx.Tx) error {
		var (
			l    usecase.StoredLetter
			flat [][]byte
		)
		err := tx.QueryRow(ctx, deadLettersLockSQL, id).Scan(&l.ID, &l.Group, &l.Origin.Topic, &l.Origin.Partition, &l.Origin.Offset, &l.Origin.Time,
			&l.Message.Key, &l.Message.Value, &flat, &l.Status, &l.Masked, &l.HistoryLost)
		if errors.Is(err, pgx.ErrNoRows) {
			return usecase.ErrNoLetter
		}
		if err != nil {
			return wrap("lock the dead letter", err)
		}
		l.Message.Offset, l.Message.Time, l.Message.Headers = l.Origin.Offset, l.Origin.Time, headers(flat)
		return fn(ctx, l, letterTx{acceptTx{tx}})
	})
}

// letterTx is the type behind usecase.LetterTx.
type letterTx struct{ acceptTx }

func (t letterTx) AcceptOld(ctx context.Context, a usecase.Acceptance, by usecase.By) (bool, error) {
	var sent *time.Time
	if a.Reread {
		at := domain.IDTime(a.Event.EventID)
		sent = &at
	}
	o := a.Event.Order
	tag, err := t.tx.Exec(ctx, deadLettersAcceptOldSQL, a.Event.EventID, o.OrderID, o.CustomerID, o.Amount.Minor, o.Amount.Currency,
		a.Request, a.Traceparent, sent, by.Actor, by.Reason)
	return tag.RowsAffected() == 1, wrap("charge an old event", err)
}

func (t letterTx) Resolve(ctx context.Context, id int64, status usecase.LetterStatus, by usecase.By) error {
	tag, err := t.tx.Exec(ctx, deadLettersResolveSQL, id, string(status), by.Actor, by.Reason)
	if err == nil && tag.RowsAffected() != 1 {
		return fmt.Errorf("dead letter %d is locked and not open", id)
	}
	return wrap("resolve a dead letter", err)
}
