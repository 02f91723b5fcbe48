// Package point names the places between two effects at which a process may die. In a product build
// Hit is an empty function that the compiler removes. With the build tag crashpoints the environment
// variable BILLING_CRASH_POINT names one point, BILLING_CRASH_HIT which visit of it is fatal, and
// the process ends there by SIGKILL.
package point

// The points, in the order in which an order passes them.
const (
	PositionPut      = "position_put"      // the start of an assignment is written, nothing is fetched
	Fetched          = "fetched"           // messages are read, nothing is written
	AcceptBefore     = "accept_before"     // before the accepting transaction
	AcceptCommitted  = "accept_committed"  // after its commit, before Kafka's offset
	JudgeOpen        = "judge_open"        // inside the judging transaction, all written, nothing committed
	JudgeCommitted   = "judge_committed"   // after its commit, before Kafka's offset
	OffsetCommitted  = "offset_committed"  // Kafka took the offset
	ChargesClaimed   = "charges_claimed"   // leases and attempt rows are committed, nothing is sent
	SendBefore       = "send_before"       // one charge is about to be sent
	SendWritten      = "send_written"      // the request is on the wire
	SendHeaders      = "send_headers"      // the first byte of the answer is here
	SendAnswered     = "send_answered"     // the answer is read and classified
	SettleBefore     = "settle_before"     // outcomes are collected, not written
	SettleCommitted  = "settle_committed"  // outcomes and announcements are committed
	MessagesClaimed  = "messages_claimed"  // the relay has leases, nothing is produced
	MessagesProduced = "messages_produced" // the broker has the messages, the outbox does not know
	MessagesAcked    = "messages_acked"    // the outbox knows
	MessagesReleased = "messages_released" // failed messages are due again
)

// Consumer lists the points of a process that consumes.
func Consumer() []string {
	return []string{PositionPut, Fetched, AcceptBefore, AcceptCommitted, JudgeOpen, JudgeCommitted, OffsetCommitted}
}

// Worker lists the points of a process that charges and relays.
func Worker() []string {
	return []string{
		ChargesClaimed, SendBefore, SendWritten, SendHeaders, SendAnswered, SettleBefore, SettleCommitted,
		MessagesClaimed, MessagesProduced, MessagesAcked, MessagesReleased,
	}
}
