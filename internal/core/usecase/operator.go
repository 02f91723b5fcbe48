package usecase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
)

// By names who acts and why. Both are recorded and neither may be empty.
type By struct {
	Actor  string
	Reason string
}

// Check refuses an action that nobody answers for.
func (b By) Check() error {
	switch {
	case b.Actor == "":
		return errors.New("an actor is required")
	case b.Reason == "":
		return errors.New("a reason is required")
	}
	return nil
}

// ErrNoCharge says that there is no charge with an id.
var ErrNoCharge = errors.New("there is no such charge")

// RefusedError says why a charge may not be moved as an operator asked.
type RefusedError struct{ Why string }

// Error returns why.
func (e *RefusedError) Error() string { return e.Why }

func refuse(format string, args ...any) error {
	return &RefusedError{Why: fmt.Sprintf(format, args...)}
}

// ChargeState is a charge as an operator's move finds it.
type ChargeState struct {
	domain.Charge
	Account     string // the provider account it was sent for, empty when for none
	Sent        bool   // a request may have reached the provider
	Traceparent string
	Now         time.Time // the database's clock
}

// ManualMove is what an operator does to one charge.
type ManualMove struct {
	To           domain.Status
	ProviderRef  *string // nil keeps what is known
	Reason       string  // of the charge, empty is null
	By           By
	Announcement *domain.Announcement // nil: the move is not announced
	Message      OutboxMessage        // of the announcement
}

// ChargeDesk is where operators move single charges.
type ChargeDesk interface {
	// Charge reads a charge. ErrNoCharge.
	Charge(ctx context.Context, id uuid.UUID) (ChargeState, error)
	// MoveCharge locks a charge as every other step does, its queue row first, lets decide say what is to
	// be done, and does it in the same transaction. ErrNoCharge.
	MoveCharge(ctx context.Context, id uuid.UUID, decide func(ChargeState) (ManualMove, error)) error
}

// Operate moves single charges by hand.
type Operate struct {
	Desk     ChargeDesk
	Codec    Codec
	IDs      IDs
	Provider Provider // for Retry; nil when it cannot be asked
	Account  string   // the configured provider account, for Retry
}

// Retry sends a parked charge again, with its old key in a new window. It is refused when a look-up
// finds the charge, or cannot tell: a new window makes sense only where no money was taken.
func (o Operate) Retry(ctx context.Context, id uuid.UUID, by By) error {
	if err := by.Check(); err != nil {
		return err
	}
	found, err := o.Desk.Charge(ctx, id)
	if err != nil {
		return fmt.Errorf("retry: %w", err)
	}
	if err := o.mayRetry(found); err != nil {
		return err
	}
	if err := o.lookUp(ctx, found); err != nil {
		return err
	}
	return wrapMove("retry", o.Desk.MoveCharge(ctx, id, func(c ChargeState) (ManualMove, error) {
		if err := o.mayRetry(c); err != nil {
			return ManualMove{}, err
		}
		if c.Version != found.Version {
			return ManualMove{}, refuse("the charge moved while it was looked up, look again")
		}
		return ManualMove{To: domain.StatusRequested, By: by}, nil
	}))
}

func (o Operate) mayRetry(c ChargeState) error {
	if c.Status != domain.StatusParked || !domain.CanMove(c.Status, domain.StatusRequested, c.Sent) {
		return refuse("only a parked charge is retried, this one is %s", c.Status)
	}
	if c.Account != "" && c.Account != o.Account {
		return refuse("it was sent for provider account %s and is never sent for another; BILLING_PROVIDER_ACCOUNT is %s", c.Account, o.Account)
	}
	return nil
}

// lookUp asks the provider whether it knows the charge, where it can be asked.
func (o Operate) lookUp(ctx context.Context, c ChargeState) error {
	if o.Provider == nil || !o.Provider.Capabilities().Lookup {
		return nil
	}
	a := o.Provider.Lookup(ctx, c.EventID, c.Order, c.Traceparent)
	switch {
	case a.Cause == domain.CauseNotFound:
		return nil
	case a.Outcome == domain.Succeeded, a.Outcome == domain.Declined:
		return refuse("the provider has this charge as %s: use billing charges resolve %s --as %s", a.Outcome, c.EventID, a.Outcome)
	case a.Outcome == domain.Pending, a.Outcome == domain.Rejected:
		return refuse("the provider has a charge under this key (%s %s)", a.Outcome, a.Detail)
	}
	return refuse("the provider does not say whether it has this charge (%s): try again later", a.Detail)
}

// Resolve settles a parked charge by a person's word, succeeded or declined, and announces it.
func (o Operate) Resolve(ctx context.Context, id uuid.UUID, as domain.Status, ref *string, by By) error {
	if err := by.Check(); err != nil {
		return err
	}
	if as != domain.StatusSucceeded && as != domain.StatusDeclined {
		return refuse("a charge is resolved as succeeded or declined, not as %s", as)
	}
	return wrapMove("resolve", o.Desk.MoveCharge(ctx, id, func(c ChargeState) (ManualMove, error) {
		if c.Status != domain.StatusParked || !domain.CanMove(c.Status, as, c.Sent) {
			return ManualMove{}, refuse("only a parked charge is resolved by hand, this one is %s", c.Status)
		}
		return o.announced(c, as, ref, by)
	}))
}

// Cancel gives up a charge that was never sent, and announces it. The order may then be charged by a new event.
func (o Operate) Cancel(ctx context.Context, id uuid.UUID, by By) error {
	if err := by.Check(); err != nil {
		return err
	}
	return wrapMove("cancel", o.Desk.MoveCharge(ctx, id, func(c ChargeState) (ManualMove, error) {
		if !domain.CanMove(c.Status, domain.StatusCancelled, c.Sent) {
			if c.Sent && !c.Status.Terminal() {
				return ManualMove{}, refuse("a request may have reached the provider: only a charge that was never sent is cancelled")
			}
			return ManualMove{}, refuse("a %s charge is not cancelled", c.Status)
		}
		return o.announced(c, domain.StatusCancelled, nil, by)
	}))
}

// byOperator is the public reason of what a person decided: the person's own words stay in the history.
const byOperator = "operator"

func (o Operate) announced(c ChargeState, to domain.Status, ref *string, by By) (ManualMove, error) {
	m := ManualMove{To: to, ProviderRef: ref, By: by}
	if to != domain.StatusSucceeded {
		m.Reason = byOperator
	}
	if ref == nil {
		ref = c.ProviderRef
	}
	m.Announcement = &domain.Announcement{
		ID: o.IDs(), Type: to.Announcement(), OccurredAt: c.Now, Charge: c.EventID, Order: c.Order,
		ProviderRef: ref, Reason: m.Reason, Version: c.Version + 1,
	}
	var err error
	m.Message, err = o.Codec.Announcement(*m.Announcement, c.Traceparent)
	if err != nil {
		return ManualMove{}, fmt.Errorf("encode the announcement of %s: %w", c.EventID, err)
	}
	return m, nil
}

// wrapMove says what was being done; a refusal speaks for itself.
func wrapMove(doing string, err error) error {
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return refused
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// PartitionAction is what an operator does to one partition.
type PartitionAction string

// The actions.
const (
	AcceptGap        PartitionAction = "accept-gap" // go on at the log's start, though position and log do not meet
	ReleasePartition PartitionAction = "release"    // go on where it stands
	SkipRecords      PartitionAction = "skip"       // go on behind records that cannot be read
)

// Apply returns the partition after an action, or a *RefusedError. to is the offset at which it goes on after SkipRecords.
func (a PartitionAction) Apply(p PartitionState, to int64) (PartitionState, error) {
	switch a {
	case AcceptGap:
		if p.Gap == "" {
			return p, refuse("position and log meet, there is no gap to accept")
		}
		if p.Halted != "" {
			p.GapAccepted = true // its owner starts anew
		} else {
			p.Gap = ""
		}
		return p, nil
	case ReleasePartition:
		if p.Halted == "" {
			return p, refuse("the partition is not halted")
		}
		if p.Halted == p.Gap {
			return p, refuse("the partition is halted by a gap: use accept-gap")
		}
		p.Halted = ""
		return p, nil
	case SkipRecords:
		switch {
		case p.Halted == "":
			return p, refuse("the partition is not halted: nothing keeps it from being read")
		case p.Halted == p.Gap:
			return p, refuse("the partition is halted by a gap: use accept-gap")
		case !p.corrupt():
			return p, refuse("its records can be read: the partition is halted because of %s", p.Halted)
		case to <= p.Next:
			return p, refuse("offset %d is not behind %d, where the partition stands", to, p.Next)
		}
		p.Halted, p.Skips = "", append(slices.Clone(p.Skips), Span{From: p.Next, To: to})
		return p, nil
	}
	return p, refuse("unknown action %s", a)
}
