package domain

import "time"

// Outcome is what is known of one attempt, or of the latest word on a charge.
type Outcome string

// The outcomes, contract §7. The empty outcome is written as null: in flight, or nothing known yet.
const (
	Succeeded Outcome = "succeeded" // the provider said yes, and its echo agrees
	Declined  Outcome = "declined"  // the provider explicitly said no
	Pending   Outcome = "pending"   // accepted, not final: look-up only
	Rejected  Outcome = "rejected"  // refused before execution by our own fault: a person decides
	NotSent   Outcome = "not_sent"  // certainly not executed: no connection, or refused by 401, 403
	Unknown   Outcome = "unknown"   // may have been executed: the same key again, then look-up
)

// Outcomes lists every outcome, for metrics that must exist from the start.
func Outcomes() []Outcome {
	return []Outcome{Succeeded, Declined, Pending, Rejected, NotSent, Unknown}
}

// Cause refines an outcome for the gate and for the reason of a parked charge.
type Cause string

// The causes. The empty cause needs no refinement.
const (
	CauseNone             Cause = ""
	CauseNoConnection     Cause = "no_connection"     // not sent: DNS, refused, TLS
	CauseUnauthorized     Cause = "unauthorized"      // not sent: 401, 403; the gate closes
	CauseReleased         Cause = "released"          // not sent: the claim was given back (stop, lease or window over)
	CauseThrottled        Cause = "throttled"         // unknown: 429, 503
	CauseServerError      Cause = "server_error"      // unknown: other 5xx
	CauseTimeout          Cause = "timeout"           // unknown: no complete answer in time
	CauseBroken           Cause = "broken"            // unknown: reset, cut, oversized or unreadable answer
	CauseInProgress       Cause = "in_progress"       // unknown: 409, the same key is being worked on
	CauseAlreadyProcessed Cause = "already_processed" // 409: done before; to be confirmed by look-up
	CauseUnexpected       Cause = "unexpected"        // unknown: an answer outside the contract, redirects included
	CauseKeyReused        Cause = "key_reused"        // rejected: the provider knows the key with other content
	CauseEchoMismatch     Cause = "echo_mismatch"     // rejected: the answer speaks of another order, amount or currency
	CauseInvalidRequest   Cause = "invalid_request"   // rejected: any other 4xx
	CauseNotFound         Cause = "not_found"         // look-up: the provider has no charge under the key
)

// Answer is what one call to the provider brought, already classified by its adapter.
type Answer struct {
	Outcome     Outcome
	Cause       Cause
	HTTPStatus  int           // 0 when there was no answer
	Code        string        // the provider's own code, at most 64 bytes of printable ASCII
	ProviderRef *string       // the provider's id of the charge, nil when absent
	RetryAfter  time.Duration // the provider's hint, already clamped; 0 when none
	Detail      string        // for the journal: what happened, without payload
}
