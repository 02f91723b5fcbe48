// Package mutants breaks the service on purpose, one promise at a time, to show that the proof notices.
// With the build tag mutants the environment variable BILLING_MUTANT names the mutant that a process is;
// without the tag the package does nothing.
package mutants

// Mutant is one way to break the service.
type Mutant struct {
	Name string
	// Breaks says which line of the design it ignores.
	Breaks string
}

// The mutants.
const (
	OffsetFirst      = "offset_before_database"
	PositionIgnored  = "position_ignored"
	FenceRemoved     = "position_fence_removed"
	DedupOutside     = "dedup_outside_transaction"
	OrderNotUnique   = "order_not_unique"
	DeadLetterLost   = "dead_letter_dropped"
	NewKey           = "new_key_per_attempt"
	BodyChanged      = "body_changed_per_attempt"
	GetBodyKept      = "getbody_kept"
	UnknownDeclined  = "unknown_as_declined"
	TimeoutSucceeded = "timeout_as_succeeded"
	TimeoutNotSent   = "timeout_as_not_sent"
	LeaseIgnored     = "lease_ignored"
	WindowIgnored    = "window_ignored"
	ClaimsTwice      = "claims_twice"
	NotAnnounced     = "settled_without_announcement"
	AckFirst         = "ack_before_write"
	FailedAcked      = "failed_write_acked"
)

// All lists every mutant.
func All() []Mutant {
	return []Mutant{
		{OffsetFirst, "Kafka's offset is committed before the database has the messages"},
		{PositionIgnored, "a partition starts at Kafka's offset, not at the smaller of both"},
		{FenceRemoved, "a former owner of a partition writes over the new one's position"},
		{DedupOutside, "the inbox row is committed before the charge"},
		{OrderNotUnique, "only the EventID is unique, not the order"},
		{DeadLetterLost, "a refused message is skipped without a dead letter"},
		{NewKey, "each attempt has its own idempotency key"},
		{BodyChanged, "an attempt does not repeat the bytes of the one before"},
		{GetBodyKept, "the HTTP client repeats a POST by itself"},
		{UnknownDeclined, "no answer counts as declined"},
		{TimeoutSucceeded, "no answer counts as succeeded"},
		{TimeoutNotSent, "a request without an answer is journalled as never sent"},
		{LeaseIgnored, "charges are claimed while another owner's lease holds"},
		{WindowIgnored, "a charge is posted again after half of the key window"},
		{ClaimsTwice, "one claim is worked on twice"},
		{NotAnnounced, "a charge is settled and nobody is told"},
		{AckFirst, "a message counts as published before it is written"},
		{FailedAcked, "a message counts as published although the write failed"},
	}
}
