package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

var (
	operatorListWaitingSQL   = statement("operator_list_waiting")
	operatorListOrderSQL     = statement("operator_list_order")
	operatorListNewestSQL    = statement("operator_list_newest")
	operatorShowSQL          = statement("operator_show")
	operatorAttemptsSQL      = statement("operator_attempts")
	operatorHistorySQL       = statement("operator_history")
	operatorChargeSQL        = statement("operator_charge")
	operatorLockRowSQL       = statement("operator_lock_row")
	operatorLockChargeSQL    = statement("operator_lock_charge")
	operatorMoveSQL          = statement("operator_move")
	operatorSwitchOnSQL      = statement("operator_switch_on")
	operatorSwitchOffSQL     = statement("operator_switch_off")
	operatorNoteSQL          = statement("operator_note")
	operatorPartitionsSQL    = statement("operator_partitions")
	operatorLockPartitionSQL = statement("operator_lock_partition")
)

// User is the database's name for whoever is connected: the actor when none is named.
func (s *Store) User(ctx context.Context) (string, error) {
	var user string
	err := s.pool.QueryRow(ctx, "SELECT session_user::text").Scan(&user)
	return user, wrap("ask for the database user", err)
}

// ListCharges returns the newest charges of a filter.
func (s *Store) ListCharges(ctx context.Context, f usecase.ChargeFilter) ([]usecase.ChargeRecord, error) {
	var rows pgx.Rows
	var err error
	switch {
	case f.OrderID != "":
		rows, err = s.pool.Query(ctx, operatorListOrderSQL, f.OrderID, string(f.Status), f.Limit)
	case f.Status != "" && !f.Status.Terminal():
		rows, err = s.pool.Query(ctx, operatorListWaitingSQL, string(f.Status), f.Limit)
	default:
		rows, err = s.pool.Query(ctx, operatorListNewestSQL, string(f.Status), f.Limit)
	}
	if err != nil {
		return nil, wrap("list charges", err)
	}
	list, err := pgx.CollectRows(rows, scanRecord)
	return list, wrap("list charges", err)
}

func scanRecord(row pgx.CollectableRow) (r usecase.ChargeRecord, err error) {
	err = row.Scan(&r.EventID, &r.OrderID, &r.CustomerID, &r.AmountMinor, &r.Currency, &r.Source, &r.Status, &r.LastOutcome, &r.Reason,
		&r.Account, &r.ProviderRef, &r.Attempts, &r.Version, &r.FirstSentAt, &r.CreatedAt, &r.UpdatedAt)
	return r, err //nolint:wrapcheck // the caller wraps it
}

// Dossier returns all that is known of one charge: usecase.ErrNoCharge when there is none.
func (s *Store) Dossier(ctx context.Context, id uuid.UUID) (usecase.ChargeDossier, error) {
	var d usecase.ChargeDossier
	var charges []usecase.ChargeRecord
	batch := &pgx.Batch{}
	collect(batch, operatorShowSQL, scanRecord, &charges, id)
	collect(batch, operatorAttemptsSQL, scanAttempt, &d.Attempts, id)
	collect(batch, operatorHistorySQL, scanMove, &d.History, id)
	if err := s.sendBatch(ctx, batch); err != nil {
		return d, wrap("show a charge", err)
	}
	if len(charges) == 0 {
		return d, usecase.ErrNoCharge
	}
	d.Charge = charges[0]
	return d, nil
}

func scanAttempt(row pgx.CollectableRow) (a usecase.AttemptRecord, err error) {
	err = row.Scan(&a.Attempt, &a.StartedAt, &a.FinishedAt, &a.Outcome, &a.HTTPStatus, &a.Code, &a.Detail)
	return a, err //nolint:wrapcheck // the caller wraps it
}

func scanMove(row pgx.CollectableRow) (m usecase.MoveRecord, err error) {
	err = row.Scan(&m.At, &m.Type, &m.From, &m.To, &m.Actor, &m.Reason, &m.Version, &m.PublishedAt)
	return m, err //nolint:wrapcheck // the caller wraps it
}

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Charge implements usecase.ChargeDesk.
func (s *Store) Charge(ctx context.Context, id uuid.UUID) (usecase.ChargeState, error) {
	return chargeState(ctx, s.pool, id)
}

func chargeState(ctx context.Context, db querier, id uuid.UUID) (usecase.ChargeState, error) {
	c := usecase.ChargeState{Charge: domain.Charge{EventID: id}}
	err := db.QueryRow(ctx, operatorChargeSQL, id).Scan(&c.Order.OrderID, &c.Order.CustomerID, &c.Order.Amount.Minor, &c.Order.Amount.Currency,
		&c.Source, &c.Status, &c.LastOutcome, &c.Reason, &c.ProviderRef, &c.Version, &c.Attempts, &c.CreatedAt, &c.UpdatedAt,
		&c.Account, &c.Sent, &c.Traceparent, &c.Now)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, usecase.ErrNoCharge
	}
	if c.Traceparent == "" {
		c.Traceparent = usecase.TraceOf(usecase.Delivery{Event: domain.OrderConfirmed{EventID: id}})
	}
	return c, wrap("read the charge", err)
}

// MoveCharge implements usecase.ChargeDesk. Locks come first, in statements of their own: what is read
// behind them is read in a newer snapshot and cannot change any more.
func (s *Store) MoveCharge(ctx context.Context, id uuid.UUID, decide func(usecase.ChargeState) (usecase.ManualMove, error)) error {
	return s.inTx(ctx, "move a charge by hand", func(tx pgx.Tx) error {
		for _, lock := range []string{operatorLockRowSQL, operatorLockChargeSQL} {
			if _, err := tx.Exec(ctx, lock, id); err != nil {
				return wrap("lock the charge", err)
			}
		}
		c, err := chargeState(ctx, tx, id)
		if err != nil {
			return err
		}
		move, err := decide(c)
		if err != nil {
			return err
		}
		return moveCharge(ctx, tx, c, move)
	})
}

// eventRetried is the type of a retry in the history, which is not announced (contract §7).
const eventRetried = "ChargeRetried"

func moveCharge(ctx context.Context, tx pgx.Tx, c usecase.ChargeState, m usecase.ManualMove) error {
	kind, announcement := eventRetried, uuid.NullUUID{}
	if m.Announcement != nil {
		kind, announcement = m.Announcement.Type, uuid.NullUUID{UUID: m.Announcement.ID, Valid: true}
	}
	var complete bool
	err := tx.QueryRow(ctx, operatorMoveSQL, c.EventID, string(c.Status), string(m.To), m.Reason, m.ProviderRef, kind, m.By.Reason, m.By.Actor,
		announcement, m.Message.Topic, m.Message.Key, m.Message.Value, traceHeader(m.Message.Headers)).Scan(&complete)
	if err == nil && !complete {
		return fmt.Errorf("charge %s has no provider row to retry", c.EventID)
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.ConstraintName == "charge_order_key" {
		return &usecase.RefusedError{Why: fmt.Sprintf("order %s has another charge by now: see billing charges list --order", c.Order.OrderID)}
	}
	return wrap("write the move", err)
}

// TurnOn turns a switch on and records who did it. It returns false when it was on, which keeps its reason.
func (s *Store) TurnOn(ctx context.Context, name usecase.Switch, by usecase.By) (bool, error) {
	return s.turn(ctx, operatorSwitchOnSQL, "turn on", name, by)
}

// TurnOff turns a switch off and records who did it. It returns false when it was off.
func (s *Store) TurnOff(ctx context.Context, name usecase.Switch, by usecase.By) (bool, error) {
	return s.turn(ctx, operatorSwitchOffSQL, "turn off", name, by)
}

func (s *Store) turn(ctx context.Context, sql, action string, name usecase.Switch, by usecase.By) (bool, error) {
	if err := by.Check(); err != nil {
		return false, err //nolint:wrapcheck // says all
	}
	var turned bool
	err := s.pool.QueryRow(ctx, sql, string(name), by.Actor, by.Reason, action).Scan(&turned)
	return turned, wrap(action+" "+string(name), err)
}

// Partitions lists the positions that src names; empty names and a partition of -1 stand for any.
func (s *Store) Partitions(ctx context.Context, src usecase.Source) ([]usecase.PartitionState, error) {
	rows, err := s.pool.Query(ctx, operatorPartitionsSQL, src.ClusterID, src.Group, src.Topic, src.Partition)
	if err != nil {
		return nil, wrap("list partitions", err)
	}
	list, err := pgx.CollectRows(rows, scanPartition)
	return list, wrap("list partitions", err)
}

func scanPartition(row pgx.CollectableRow) (p usecase.PartitionState, err error) {
	var skips spans
	err = row.Scan(&p.ClusterID, &p.Group, &p.Topic, &p.Partition, &p.Next, &p.RereadBelow, &p.Gap, &p.GapAccepted, &p.Halted, &p.UpdatedAt, &p.TopicRetentionMS, &skips)
	p.Skips = spanList(skips)
	return p, err //nolint:wrapcheck // the caller wraps it
}

// ActOnPartition does an operator's action to one partition and records it; to is where a skip goes on. It returns the
// partition as it was and as it is.
func (s *Store) ActOnPartition(ctx context.Context, src usecase.Source, action usecase.PartitionAction, to int64, by usecase.By) (was, is usecase.PartitionState, err error) {
	if err := by.Check(); err != nil {
		return was, is, err //nolint:wrapcheck // says all
	}
	err = s.inTx(ctx, string(action)+" a partition", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, operatorLockPartitionSQL, src.ClusterID, src.Group, src.Topic, src.Partition)
		if err != nil {
			return wrap("lock the partition", err)
		}
		if was, err = pgx.CollectExactlyOneRow(rows, scanPartition); err != nil {
			return wrap("lock the partition", err)
		}
		if is, err = action.Apply(was, to); err != nil {
			return err //nolint:wrapcheck // a refusal says all
		}
		var passBelow *int64
		if action == usecase.ReleasePartition { // nothing else opens the brake
			passBelow = new(usecase.PassAll)
		}
		if _, err := tx.Exec(ctx, putPositionSQL, src.ClusterID, src.Group, src.Topic, src.Partition,
			is.Next, is.RereadBelow, is.Gap, is.GapAccepted, is.Halted, nil, passBelow, nil, spansOf(is.Skips)); err != nil {
			return wrap("write the position", err)
		}
		target := fmt.Sprintf("%s/%s %s/%d at %d, halted %q, gap %q",
			src.ClusterID, src.Group, src.Topic, src.Partition, was.Next, was.Halted, was.Gap)
		if action == usecase.SkipRecords {
			target += fmt.Sprintf(", goes on at %d", to)
		}
		_, err = tx.Exec(ctx, operatorNoteSQL, "partitions "+string(action), target, by.Actor, by.Reason)
		return wrap("record the action", err)
	})
	return was, is, err
}
