package usecase

import (
	"context"
	"time"

	"billing/internal/core/domain"
)

// The pauses between look-ups of a charge that the provider accepted and did not finish, contract §3.
const (
	pendingFirst = 10 * time.Second
	pendingMost  = 10 * time.Minute
)

// Send turns a claim into a settlement: it calls the provider, at most once for money, and decides what
// the answer means for the charge.
type Send struct {
	Provider   Provider
	Gate       *Gate
	Codec      Codec
	Clock      Clock
	Random     Random
	IDs        IDs
	Backoff    domain.Backoff
	Lease      time.Duration
	Timeout    time.Duration // of one call, the answer read
	PendingMax time.Duration
	// HoldUntil keeps charges that an earlier life of the database may have sent from being sent without a
	// look-up, where there is none: a restore shows only after the partitions were assigned. Zero holds nothing.
	HoldUntil time.Time
}

// Do works on one claim. A shutdown does not cut a call that is under way: its answer may be the only
// word that money was taken.
func (s Send) Do(ctx context.Context, c Claim) Settlement {
	ctx = context.WithoutCancel(ctx)
	canAsk := s.Provider.Capabilities().Lookup
	if !s.Gate.Pass(c.ClaimedAt) {
		return s.Release(c)
	}
	switch c.Step {
	case StepPark:
		return s.park(c, domain.Answer{Outcome: c.LastOutcome}, domain.ParkProviderChanged)
	case StepLookup:
		if !canAsk {
			return s.park(c, domain.Answer{Outcome: c.LastOutcome}, domain.ParkOutcomeUnknown)
		}
		return s.afterLookup(c, s.lookup(ctx, c))
	case StepLookupPost:
		if !canAsk && c.HistoryLost {
			settlement := s.park(c, notSent(), domain.ParkHistoryLost)
			settlement.ClearStamp = false // another life may have sent it: nobody may cancel it as never sent
			return settlement
		}
		if wait := s.HoldUntil.Sub(s.Clock.Now()); !canAsk && wait > 0 {
			s.Gate.Unused()
			return s.again(c, notSent(), wait)
		}
		if canAsk {
			if settlement, done := s.lookBefore(ctx, c); done {
				return settlement
			}
		}
	case StepPost:
	}
	return s.post(ctx, c, canAsk)
}

// park ends the automatic work on a charge without asking the provider.
func (s Send) park(c Claim, a domain.Answer, why domain.ParkReason) Settlement {
	s.Gate.Unused()
	return s.finish(c, a, domain.StatusParked, string(why))
}

// Release gives a claim back unused: the process stops, the gate has closed, or it is too late to send.
func (s Send) Release(c Claim) Settlement {
	a := notSent()
	if !c.Journaled {
		a.Outcome = c.LastOutcome
	}
	return s.again(c, a, 0)
}

func notSent() domain.Answer {
	return domain.Answer{Outcome: domain.NotSent, Cause: domain.CauseReleased, Detail: "given back without a request"}
}

// lookBefore asks what became of a charge before its first request, because an earlier life of the
// database may have sent one. It returns false when the provider never heard of it.
func (s Send) lookBefore(ctx context.Context, c Claim) (Settlement, bool) {
	a := s.lookup(ctx, c)
	if a.Cause == domain.CauseNotFound {
		return Settlement{}, false
	}
	if a.Outcome == domain.Unknown {
		s.Gate.ReportLookup(a)
		released := notSent()
		released.Detail = "look-up before the first request brought no answer: " + a.Detail
		return s.again(c, released, s.backoff(c, a)), true
	}
	settlement := s.afterLookup(c, a)
	settlement.Outcome = domain.NotSent // this attempt sent nothing; the charge is settled by what was found
	settlement.ClearStamp = false
	return settlement, true
}

func (s Send) lookup(ctx context.Context, c Claim) domain.Answer {
	return s.Provider.Lookup(ctx, c.EventID, c.Order, c.Traceparent)
}

// post sends the request, if it still may.
func (s Send) post(ctx context.Context, c Claim, canAsk bool) Settlement {
	if !s.mayPost(c) {
		s.Gate.Unused()
		return s.Release(c)
	}
	a := s.Provider.Charge(ctx, c.EventID, c.Request, c.Order, c.Traceparent)
	if a.Cause == domain.CauseAlreadyProcessed {
		a = s.confirm(ctx, c, a, canAsk)
	}
	return s.afterPost(c, a, canAsk)
}

// mayPost checks lease and key window on both of the pod's clocks since before the claim: the monotonic
// one stands still while a machine sleeps, the other one may be set back.
func (s Send) mayPost(c Claim) bool {
	now := s.Clock.Now()
	limit := min(s.Lease-s.Timeout, c.PostFor)
	return now.Sub(c.ClaimedAt) < limit && now.Round(0).Sub(c.ClaimedAt.Round(0)) < limit
}

// confirm finds out what "already processed" means. Without look-up the requirement documents decide:
// processed is succeeded.
func (s Send) confirm(ctx context.Context, c Claim, a domain.Answer, canAsk bool) domain.Answer {
	if !canAsk {
		a.Outcome = domain.Succeeded
		return a
	}
	found := s.lookup(ctx, c)
	if found.Outcome == domain.Unknown {
		a.Detail = "already processed, and look-up: " + found.Detail
		return a
	}
	found.HTTPStatus = a.HTTPStatus // of the POST, which the attempt row is about
	return found
}

func (s Send) afterPost(c Claim, a domain.Answer, canAsk bool) Settlement {
	parkIt := s.Gate.Report(c.EventID, a)
	switch a.Outcome {
	case domain.Succeeded:
		return s.finish(c, a, domain.StatusSucceeded, "")
	case domain.Declined:
		return s.finish(c, a, domain.StatusDeclined, a.Code)
	case domain.Pending:
		if !canAsk {
			return s.finish(c, a, domain.StatusParked, string(domain.ParkOutcomeUnknown))
		}
		return s.stillPending(c, a)
	case domain.Rejected:
		if parkIt {
			return s.finish(c, a, domain.StatusParked, string(a.Cause))
		}
	case domain.NotSent, domain.Unknown:
	}
	return s.again(c, a, s.backoff(c, a))
}

func (s Send) afterLookup(c Claim, a domain.Answer) Settlement {
	s.Gate.ReportLookup(a)
	window := s.Provider.Capabilities().KeyWindow / 2
	switch {
	case a.Outcome == domain.Succeeded:
		return s.finish(c, a, domain.StatusSucceeded, "")
	case a.Outcome == domain.Declined:
		return s.finish(c, a, domain.StatusDeclined, a.Code)
	case a.Outcome == domain.Rejected:
		return s.finish(c, a, domain.StatusParked, string(a.Cause))
	case a.Outcome == domain.Pending, c.PendingFor > 0:
		a.Outcome = domain.Pending
		return s.stillPending(c, a)
	case a.Cause == domain.CauseNotFound && c.Doubtful:
		settlement := s.finish(c, a, domain.StatusParked, string(domain.ParkHistoryLost))
		settlement.FreesOrder = true
		return settlement
	case a.Cause == domain.CauseNotFound, c.Age > window+s.PendingMax && !c.Doubtful:
		return s.finish(c, a, domain.StatusParked, string(domain.ParkOutcomeUnknown))
	}
	return s.again(c, a, s.backoff(c, a))
}

// stillPending looks again after as long as the charge has been pending, so that the pauses double.
func (s Send) stillPending(c Claim, a domain.Answer) Settlement {
	if c.PendingFor > s.PendingMax {
		return s.finish(c, a, domain.StatusParked, string(domain.ParkPendingTooLong))
	}
	settlement := s.again(c, a, min(max(c.PendingFor, pendingFirst), pendingMost))
	settlement.Pending = true
	return settlement
}

// backoff grows with the attempts of a charge, and for look-ups, which make none, with its claims.
func (s Send) backoff(c Claim, a domain.Answer) time.Duration {
	n := c.Tries
	if c.Step == StepLookup {
		n = c.Attempt
	}
	return max(s.Backoff.Delay(int(n), s.Random()), a.RetryAfter)
}

// again leaves the charge requested, due after delay.
func (s Send) again(c Claim, a domain.Answer, delay time.Duration) Settlement {
	settlement := s.base(c, a)
	settlement.Status = domain.StatusRequested
	settlement.Delay = delay
	settlement.ClearStamp = c.Stamped && a.Outcome == domain.NotSent
	return settlement
}

// finish moves the charge and tells the world.
func (s Send) finish(c Claim, a domain.Answer, status domain.Status, reason string) Settlement {
	settlement := s.base(c, a)
	settlement.Status = status
	settlement.Reason = reason
	settlement.ClearStamp = c.Stamped && a.Outcome == domain.NotSent
	settlement.announce(s.IDs(), c.Version+1)
	return settlement
}

func (s Send) base(c Claim, a domain.Answer) Settlement {
	return Settlement{
		EventID: c.EventID, Attempt: c.Attempt, Journaled: c.Journaled, Outcome: a.Outcome, LastOutcome: a.Outcome,
		HTTPStatus: a.HTTPStatus, Code: a.Code, Detail: a.Detail, ProviderRef: a.ProviderRef,
		Order: c.Order, Traceparent: c.Traceparent, Now: c.Now.Add(s.Clock.Now().Sub(c.ClaimedAt)),
	}
}
