package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

var (
	claimChargesSQL  = statement("claim_charges")
	settleChargesSQL = statement("settle_charges")
	genericPlansSQL  = statement("generic_plans")
	lateChargeSQL    = statement("late_charge")
	settleLateSQL    = statement("settle_late")
)

// ClaimCharges implements usecase.ChargeQueue. ClaimedAt is left to the caller, who read its clock before.
func (s *Store) ClaimCharges(ctx context.Context, n int, rules usecase.ClaimRules) ([]usecase.Claim, error) {
	rows, err := s.pool.Query(ctx, claimChargesSQL, n, rules.Lease.Seconds(), rules.Account, (rules.KeyWindow / 2).Seconds())
	if err != nil {
		return nil, wrap("claim charges", err)
	}
	claims, err := pgx.CollectRows(rows, scanClaim)
	if err != nil {
		return nil, wrap("claim charges", err)
	}
	if rules.KeyWindow == 0 { // one POST ever: the claim's lease is its only limit
		for i := range claims {
			claims[i].PostFor = rules.Lease
		}
	}
	return claims, nil
}

func scanClaim(row pgx.CollectableRow) (usecase.Claim, error) {
	var (
		c                        usecase.Claim
		postFor, age, pendingFor float64
		pending                  bool
	)
	err := row.Scan(&c.EventID, &c.Order.OrderID, &c.Order.CustomerID, &c.Order.Amount.Minor, &c.Order.Amount.Currency,
		&c.Request, &c.Traceparent, &c.Attempt, &c.Step, &c.LastOutcome, &c.Version, &c.Tries, &c.Journaled, &c.Stamped,
		&c.Reclaimed, &c.HistoryLost, &postFor, &age, &pendingFor, &pending, &c.Doubtful, &c.Now)
	c.PostFor, c.Age = seconds(postFor), seconds(age)
	if pending {
		c.PendingFor = max(seconds(pendingFor), 1)
	}
	return c, err //nolint:wrapcheck // CollectRows' caller wraps it
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// SettleCharges implements usecase.ChargeQueue.
func (s *Store) SettleCharges(ctx context.Context, batch []usecase.Settlement) (usecase.Settled, error) {
	type claim struct {
		id      uuid.UUID
		attempt int32
	}
	held := make(map[claim]bool, len(batch))
	statements := &pgx.Batch{}
	statements.Queue(genericPlansSQL)
	statements.Queue(settleChargesSQL, settleArgs(batch)...).Query(func(rows pgx.Rows) error {
		var c claim
		_, err := pgx.ForEachRow(rows, []any{&c.id, &c.attempt}, func() error { held[c] = true; return nil })
		return err //nolint:wrapcheck // wrapped below
	})
	if err := s.sendBatch(ctx, statements); err != nil {
		return usecase.Settled{}, wrap("settle charges", err)
	}
	settled := usecase.Settled{ByStatus: map[domain.Status]int{}}
	for i := range batch {
		switch {
		case !held[claim{batch[i].EventID, batch[i].Attempt}]:
			settled.Fenced = append(settled.Fenced, batch[i])
		case batch[i].Status != domain.StatusRequested:
			settled.ByStatus[batch[i].Status]++
		}
	}
	return settled, nil
}

// settleArgs turns settlements into the arrays that settle_charges.sql unnests; null stands for "no
// attempt row" and "no announcement".
func settleArgs(batch []usecase.Settlement) []any {
	n := len(batch)
	var (
		ids, announcements                  = make([]uuid.UUID, n), make([]*uuid.UUID, n)
		attempts, https                     = make([]int32, n), make([]int32, n)
		outcomes, refs, types, topics       = make([]*string, n), make([]*string, n), make([]*string, n), make([]*string, n)
		last, codes, details, stats, reason = make([]*string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		delays                              = make([]float64, n)
		clears, pendings, frees             = make([]bool, n), make([]bool, n), make([]bool, n)
		keys, values, traces                = make([][]byte, n), make([][]byte, n), make([][]byte, n)
	)
	for i := range batch {
		b := &batch[i]
		ids[i], attempts[i], https[i] = b.EventID, b.Attempt, int32(b.HTTPStatus) //nolint:gosec // three digits
		if b.Journaled {
			outcomes[i] = (*string)(&b.Outcome)
		}
		if b.LastOutcome != "" {
			last[i] = (*string)(&b.LastOutcome)
		}
		codes[i], details[i], refs[i] = b.Code, b.Detail, b.ProviderRef
		stats[i], reason[i], delays[i] = string(b.Status), b.Reason, b.Delay.Seconds()
		clears[i], pendings[i], frees[i] = b.ClearStamp, b.Pending, b.FreesOrder
		if a := b.Announcement; a != nil {
			announcements[i], types[i], topics[i] = &a.ID, &a.Type, &b.Message.Topic
			keys[i], values[i], traces[i] = b.Message.Key, b.Message.Value, traceHeader(b.Message.Headers)
		}
	}
	return []any{
		ids, attempts, outcomes, last, https, codes, details, refs, stats, reason, delays, clears, pendings,
		announcements, types, topics, keys, values, traces, frees,
	}
}

func traceHeader(list []usecase.Header) []byte {
	for _, h := range list {
		if h.Key == "traceparent" {
			return h.Value
		}
	}
	return nil
}

// SettleLate implements usecase.ChargeQueue. It takes the rows in the order in which every other
// statement takes them, outbox before charge.
func (s *Store) SettleLate(ctx context.Context, late usecase.Settlement, build func(version int32) (usecase.Settlement, error)) (bool, error) {
	done := false
	err := s.inTx(ctx, "settle a late success", func(tx pgx.Tx) error {
		var version int32
		var from string
		err := tx.QueryRow(ctx, lateChargeSQL, late.EventID).Scan(&from, &version)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // terminal already
		}
		if err != nil {
			return wrap("lock the charge", err)
		}
		b, err := build(version)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, settleLateSQL, b.EventID, b.ProviderRef, b.Announcement.ID, b.Announcement.Type, b.Message.Topic,
			b.Message.Key, b.Message.Value, traceHeader(b.Message.Headers), from)
		done = err == nil
		return wrap("write the success", err)
	})
	return done && err == nil, err
}
