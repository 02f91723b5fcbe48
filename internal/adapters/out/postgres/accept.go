package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

var (
	acceptSQL         = statement("accept")
	acceptPlainSQL    = statement("accept_plain")
	knowSQL           = statement("know")
	markDuplicatesSQL = statement("mark_duplicates")
	forgetSQL         = statement("forget")
	deadLetterSQL     = statement("dead_letter")
	messageSQL        = statement("message")
	movePositionSQL   = statement("move_position")
)

// AcceptChunk implements usecase.Inbox: one pgx.Batch, one round trip, one implicit transaction.
func (s *Store) AcceptChunk(ctx context.Context, c usecase.Chunk, limits usecase.Limits) (usecase.Accepted, error) {
	accepted := usecase.Accepted{Charged: make([]bool, len(c.Events))}
	batch := &pgx.Batch{}
	queueMove(batch, c.Source, c.From, c.Next) // first, so that a fenced owner does no work
	if len(c.Events) > 0 {
		batch.Queue(genericPlansSQL)
		first, last := [16]byte(c.Events[0].Event.EventID), [16]byte(c.Events[len(c.Events)-1].Event.EventID)
		batch.Queue(acceptPlainSQL, append(acceptArgs(c.Source.Group, c.Events, limits), first, last)...).
			QueryRow(func(row pgx.Row) error { return readPlain(row, c.Events, &accepted) })
	}
	for i := range c.DeadLetters {
		queueDeadLetter(batch, &c.DeadLetters[i])
	}
	for i := range c.Retries {
		queueMessage(batch, &c.Retries[i])
	}
	if err := s.sendBatch(ctx, batch); err != nil {
		if code(err) == uniqueViolation { // a row of another transaction: the statement with ON CONFLICT finds out whose
			return usecase.Accepted{}, fmt.Errorf("accept a chunk: %w: %w", domain.ErrMixed, err)
		}
		return usecase.Accepted{}, wrap("accept a chunk", err)
	}
	return accepted, nil
}

// InTx implements usecase.Inbox.
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx usecase.AcceptTx) error) error {
	return s.inTx(ctx, "accept in a transaction", func(tx pgx.Tx) error { return fn(ctx, acceptTx{tx}) })
}

// acceptTx is the type behind usecase.AcceptTx.
type acceptTx struct{ tx pgx.Tx }

func (t acceptTx) Accept(ctx context.Context, group string, events []usecase.Acceptance, limits usecase.Limits) ([]bool, error) {
	rows, err := t.tx.Query(ctx, acceptSQL, acceptArgs(group, events, limits)...)
	if err != nil {
		return nil, wrap("accept events", err)
	}
	charged, err := readAccepted(rows, events)
	return charged, wrap("accept events", err)
}

func (t acceptTx) Know(ctx context.Context, group string, events []domain.OrderConfirmed, limits usecase.Limits) ([]usecase.Knowledge, error) {
	c := newColumns(len(events))
	for i := range events {
		c.add(&events[i])
	}
	rows, err := t.tx.Query(ctx, knowSQL, c.ids, c.orders, c.customers, c.amounts, c.currencies, c.fingerprints,
		group, limits.Retention.Seconds(), limits.Skew.Seconds())
	if err != nil {
		return nil, wrap("look up known events", err)
	}
	byID := make(map[uuid.UUID]usecase.Knowledge, len(events))
	var id uuid.UUID
	var k usecase.Knowledge
	_, err = pgx.ForEachRow(rows, []any{&id, &k.Seen, &k.SeenSame, &k.TooOld, &k.Ahead, &k.Live, &k.LiveSame, &k.LiveAsked, &k.InboxMine}, func() error {
		byID[id] = k
		return nil
	})
	if err != nil {
		return nil, wrap("look up known events", err)
	}
	known := make([]usecase.Knowledge, len(events))
	for i := range events {
		known[i] = byID[events[i].EventID]
	}
	return known, nil
}

func (t acceptTx) MarkDuplicates(ctx context.Context, group string, events []domain.OrderConfirmed, of []uuid.UUID) error {
	ids := make([]uuid.UUID, len(events))
	for i := range events {
		ids[i] = events[i].EventID
	}
	_, err := t.tx.Exec(ctx, markDuplicatesSQL, ids, of, group)
	return wrap("mark duplicates", err)
}

func (t acceptTx) Forget(ctx context.Context, group string, ids []uuid.UUID) error {
	_, err := t.tx.Exec(ctx, forgetSQL, ids, group)
	return wrap("forget refused events", err)
}

func (t acceptTx) PutDeadLetters(ctx context.Context, letters []usecase.DeadLetter) error {
	batch := &pgx.Batch{}
	for i := range letters {
		queueDeadLetter(batch, &letters[i])
	}
	return wrap("keep dead letters", t.tx.SendBatch(ctx, batch).Close())
}

func (t acceptTx) PutMessages(ctx context.Context, messages []usecase.OutboxMessage) error {
	batch := &pgx.Batch{}
	for i := range messages {
		queueMessage(batch, &messages[i])
	}
	return wrap("order messages", t.tx.SendBatch(ctx, batch).Close())
}

func (t acceptTx) MovePosition(ctx context.Context, src usecase.Source, from, next int64) error {
	_, err := t.tx.Exec(ctx, movePositionSQL, src.ClusterID, src.Group, src.Topic, src.Partition, from, next)
	return wrap("move the position", err)
}

// columns are events turned into the arrays that the statements unnest.
type columns struct {
	ids                           [][16]byte // what the driver encodes without going through text
	orders, customers, currencies []string
	amounts                       []int64
	fingerprints                  [][]byte
}

func newColumns(n int) *columns {
	return &columns{
		ids: make([][16]byte, 0, n), orders: make([]string, 0, n), customers: make([]string, 0, n),
		currencies: make([]string, 0, n), amounts: make([]int64, 0, n), fingerprints: make([][]byte, 0, n),
	}
}

func (c *columns) add(e *domain.OrderConfirmed) {
	f := e.Order.Fingerprint()
	c.ids = append(c.ids, e.EventID)
	c.orders = append(c.orders, e.Order.OrderID)
	c.customers = append(c.customers, e.Order.CustomerID)
	c.amounts = append(c.amounts, e.Order.Amount.Minor)
	c.currencies = append(c.currencies, e.Order.Amount.Currency)
	c.fingerprints = append(c.fingerprints, f[:])
}

func acceptArgs(group string, events []usecase.Acceptance, limits usecase.Limits) []any {
	c := newColumns(len(events))
	requests := make([][]byte, len(events))
	traces := make([]string, len(events))
	sent := make([]*time.Time, len(events))
	for i := range events {
		c.add(&events[i].Event)
		requests[i] = events[i].Request
		traces[i] = events[i].Traceparent
		if events[i].Reread {
			at := domain.IDTime(events[i].Event.EventID)
			sent[i] = &at
		}
	}
	return []any{
		c.ids, c.orders, c.customers, c.amounts, c.currencies, c.fingerprints, requests, traces, sent,
		group, limits.Retention.Seconds(), limits.Skew.Seconds(),
	}
}

// readAccepted reads the answer of accept.sql, which comes in the order of ids, as the events must be given.
func readAccepted(rows pgx.Rows, events []usecase.Acceptance) ([]bool, error) {
	charged := make([]bool, 0, len(events))
	var id [16]byte
	var won bool
	_, err := pgx.ForEachRow(rows, []any{&id, &won}, func() error {
		if n := len(charged); n == len(events) || events[n].Event.EventID != id {
			return fmt.Errorf("event %d is not %s: events must be sorted", n, uuid.UUID(id))
		}
		charged = append(charged, won)
		return nil
	})
	if err == nil && len(charged) != len(events) {
		err = fmt.Errorf("%d rows for %d events", len(charged), len(events))
	}
	return charged, err //nolint:wrapcheck // every caller wraps it
}

// readPlain reads the answer of accept_plain.sql: every event that was not seen before became a charge.
func readPlain(row pgx.Row, events []usecase.Acceptance, into *usecase.Accepted) error {
	var seen [][16]byte
	var passed bool
	if err := row.Scan(&into.Now, &seen, &passed); err != nil {
		return err //nolint:wrapcheck // every caller wraps it
	}
	known := make(map[[16]byte]struct{}, len(seen))
	for _, id := range seen {
		known[id] = struct{}{}
	}
	for i := range events {
		_, again := known[events[i].Event.EventID]
		into.Charged[i] = !again
	}
	return nil
}

func queueMove(batch *pgx.Batch, src usecase.Source, from, next int64) {
	batch.Queue(movePositionSQL, src.ClusterID, src.Group, src.Topic, src.Partition, from, next)
}

func queueDeadLetter(batch *pgx.Batch, d *usecase.DeadLetter) {
	batch.Queue(deadLetterSQL, d.Group, d.Origin.Topic, d.Origin.Partition, d.Origin.Offset, storable(d.Origin.Time), d.Key, d.Value,
		flatHeaders(d.Headers), string(d.Reason), d.Detail, d.EventID, d.Copy.Topic, d.Copy.Key, d.Copy.Value, flatHeaders(d.Copy.Headers), d.Masked)
}

// storable keeps a message's time, which its producer sets as it likes, within what timestamptz holds.
func storable(at time.Time) time.Time {
	if oldest := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC); at.Before(oldest) {
		return oldest
	}
	if newest := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC); at.After(newest) {
		return newest
	}
	return at
}

func queueMessage(batch *pgx.Batch, m *usecase.OutboxMessage) {
	batch.Queue(messageSQL, m.EventType, m.Topic, m.Key, m.Value, flatHeaders(m.Headers), m.EventID, m.Delay.Seconds())
}

// flatHeaders turns headers into name, value, name, value …: bytes stay bytes.
func flatHeaders(headers []usecase.Header) [][]byte {
	flat := make([][]byte, 0, 2*len(headers))
	for _, h := range headers {
		flat = append(flat, []byte(h.Key), h.Value)
	}
	return flat
}

// headers is the inverse of flatHeaders.
func headers(flat [][]byte) []usecase.Header {
	list := make([]usecase.Header, 0, len(flat)/2)
	for i := 0; i+1 < len(flat); i += 2 {
		list = append(list, usecase.Header{Key: string(flat[i]), Value: flat[i+1]})
	}
	return list
}
