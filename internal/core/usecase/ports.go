// Package usecase says what billing does, one file for each action: accept an event, run a partition,
// claim, send and settle a charge, relay a message, audit. Use cases are blocking functions over the
// ports of this file. They start no goroutine and read neither clock nor randomness but through ports,
// so that a seeded simulation can run the very same code.
package usecase

import (
	"context"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
)

// Clock is the pod's own clock. It decides pauses and elapsed time only: leases, windows and ages are
// decided by the database's clock.
type Clock interface {
	// Now returns the time with its monotonic reading.
	Now() time.Time
	// Sleep waits for d and returns true, or false as soon as ctx is done.
	Sleep(ctx context.Context, d time.Duration) bool
}

// Header is one header of a Kafka message.
type Header struct {
	Key   string
	Value []byte
}

// Message is one record of a topic as it lies there.
type Message struct {
	Offset  int64
	Time    time.Time
	Key     []byte
	Value   []byte
	Headers []Header
}

// Kind says what a decoder made of a message.
type Kind uint8

// The kinds of deliveries.
const (
	KindEvent     Kind = iota // a well-formed OrderConfirmed
	KindRefused               // can never be accepted as it is
	KindTombstone             // null or empty value: counted and skipped
	KindIgnored               // an event type that this service is told to ignore
)

// Origin is where a message was first read: for a message that came back by the retry topic, the
// coordinates of its first reading.
type Origin struct {
	Topic     string
	Partition int32
	Offset    int64
	Time      time.Time
}

// Delivery is one message with its reading.
type Delivery struct {
	Message     Message
	Origin      Origin
	Kind        Kind
	Event       domain.OrderConfirmed // for KindEvent
	Refusal     *domain.Refusal       // for KindRefused
	EventID     uuid.NullUUID         // of a refused message too, where it could be read
	Traceparent string                // W3C, empty when the message carries none
	Retries     int                   // how often the message went through the retry topic
}

// Fetched is what one fetch brought. Next is the position behind everything that was looked at, so it
// moves over control records and records of aborted transactions as well.
type Fetched struct {
	Deliveries []Delivery
	Next       int64
}

// Bounds are the first offset of a partition's log and the one behind its last.
type Bounds struct {
	Start, End int64
	Retention  time.Duration // how long the topic keeps messages: 0 not known, negative without limit
}

// PartitionLog is one assigned partition, for the time of one assignment.
type PartitionLog interface {
	// Bounds asks the broker for the ends of the log.
	Bounds(ctx context.Context) (Bounds, error)
	// Fetch returns committed records at or above offset, waiting a while when there are none. An empty
	// answer is not an error.
	Fetch(ctx context.Context, offset int64) (Fetched, error)
	// Commit stores the next offset of the group. It returns domain.ErrFenced when the assignment is over.
	Commit(ctx context.Context, next int64) error
}

// Source names a partition as one consumer group of one cluster reads it.
type Source struct {
	ClusterID string
	Group     string
	Topic     string
	Partition int32
}

// Position is a partition's row: where to go on, and what stands in the way.
type Position struct {
	Next        int64
	RereadBelow int64  // events below were read before the database lost them; 0 when none
	Gap         string // the log and the position do not meet: what was found; empty when they do
	GapAccepted bool   // an operator accepted the gap
	Halted      string // an operator must release the partition: why; empty when it runs
	HaltedBy    string // the version of the binary whose brake halted it
	PassBelow   int64  // an operator released what lies below, the brake lets it pass; PassAll until its owner sees it
	Skips       []Span // what an operator had passed over, in this log

	TopicRetention time.Duration // as in Bounds, when the assignment began
}

// Span is a range of offsets.
type Span struct {
	From int64 `json:"from"`
	To   int64 `json:"to"` // the first offset behind it
}

// Acceptance is one event that asks to become a charge.
type Acceptance struct {
	Event       domain.OrderConfirmed
	Request     []byte // the provider request, stored once and sent byte for byte
	Traceparent string
	Reread      bool // it may have been charged before the database lost it
}

// DeadLetter is one message that was refused, with its bytes.
type DeadLetter struct {
	Group   string
	Origin  Origin
	Key     []byte
	Value   []byte
	Headers []Header
	Reason  domain.Reason
	Detail  string // never empty, no payload
	EventID uuid.NullUUID
	Masked  bool          // card numbers were replaced: key, value and headers are not what came
	Copy    OutboxMessage // for the dead-letter topic
}

// OutboxMessage is one Kafka message to publish. EventID and Version name the announcement it carries,
// DeadLetterID the dead letter it copies.
type OutboxMessage struct {
	ID           int64 // of the outbox row, once stored
	Attempt      int32 // the fencing token, once claimed
	EventType    string
	Topic        string
	Key          []byte
	Value        []byte
	Headers      []Header
	EventID      uuid.NullUUID
	Version      int32
	DeadLetterID int64
	Reclaimed    bool          // its former owner's lease had run out
	Delay        time.Duration // before it is due, when it is stored
}

// Chunk is a run of deliveries of one partition that enters the database in one transaction, together
// with the position behind it. No order and no EventID stands in it twice with different content.
type Chunk struct {
	Source      Source
	From, Next  int64 // the position before and behind the chunk
	Events      []Acceptance
	DeadLetters []DeadLetter // of messages that no look at the tables can save
	Retries     []OutboxMessage
}

// Limits are the ages that the inbox accepts, by the database's clock.
type Limits struct {
	Retention time.Duration // ids older are refused unless known
	Skew      time.Duration // ids further ahead are refused unless known
}

// Accepted tells what a chunk of new events and plain duplicates became.
type Accepted struct {
	Charged []bool    // by index of Chunk.Events; false is a duplicate
	Now     time.Time // the database's clock
}

// Knowledge is what the tables say of one event, in the transaction that asks.
type Knowledge struct {
	Seen      bool // its EventID is in the inbox of any group, or is a charge, and not by this transaction
	SeenSame  bool // with the same content
	TooOld    bool
	Ahead     bool // further ahead than the allowed skew
	Live      uuid.NullUUID
	LiveSame  bool // the live charge of the order has the same content
	LiveAsked bool // it is not known yet what becomes of the live charge
	InboxMine bool // this transaction wrote its inbox row
}

// Inbox is the way in, as the database offers it.
type Inbox interface {
	// Position returns the stored row of a partition, and whether there is one.
	Position(ctx context.Context, src Source) (Position, bool, error)
	// PutPosition writes the row at the beginning of an assignment, before the first fetch.
	PutPosition(ctx context.Context, src Source, p Position) error
	// HaltPartition stops a partition that stands at next, for a reason, by the brake of a version of the binary.
	// domain.ErrFenced: it does not stand there any more.
	HaltPartition(ctx context.Context, src Source, next int64, reason, build string) error
	// MarkHistoryLost sets the control switch: the database was restored to an earlier point.
	MarkHistoryLost(ctx context.Context, reason string) error
	// AcceptChunk writes a chunk in one round trip when it is made of new events and plain duplicates.
	// Otherwise nothing is written and it returns domain.ErrMixed. domain.ErrFenced: the position moved
	// under another owner. domain.ErrOutage, domain.ErrRetry: nothing is known to be written, do it again.
	AcceptChunk(ctx context.Context, c Chunk, limits Limits) (Accepted, error)
	// InTx runs fn in one transaction, which is committed when fn returns nil.
	InTx(ctx context.Context, fn func(ctx context.Context, tx AcceptTx) error) error
}

// AcceptTx are the steps of accepting, in the transaction of Inbox.InTx.
type AcceptTx interface {
	// Accept inserts inbox rows, charges and provider rows for those events that are new in every
	// respect and of acceptable age, and reports which became charges.
	Accept(ctx context.Context, group string, events []Acceptance, limits Limits) ([]bool, error)
	// Know reads, in a fresh snapshot, what the tables say of each event.
	Know(ctx context.Context, group string, events []domain.OrderConfirmed, limits Limits) ([]Knowledge, error)
	// MarkDuplicates writes inbox rows that name the charge whose duplicates the events are.
	MarkDuplicates(ctx context.Context, group string, events []domain.OrderConfirmed, of []uuid.UUID) error
	// Forget takes back the inbox rows that this transaction wrote for refused events.
	Forget(ctx context.Context, group string, ids []uuid.UUID) error
	// PutDeadLetters writes dead letters with their copies; a repeat of a known one writes nothing.
	PutDeadLetters(ctx context.Context, letters []DeadLetter) error
	// PutMessages writes messages to publish.
	PutMessages(ctx context.Context, messages []OutboxMessage) error
	// MovePosition advances a partition's row and returns domain.ErrFenced when it is not at from.
	MovePosition(ctx context.Context, src Source, from, next int64) error
}

// Step is what a claim allows its owner to do.
type Step string

// The steps, decided by the claiming statement on the database's clock.
const (
	StepPost       Step = "post"        // send the request
	StepLookupPost Step = "lookup_post" // look up first; only a charge that is not found may be sent
	StepLookup     Step = "lookup"      // look up only: the answer is pending or the key window is over
	StepPark       Step = "park"        // sent for another provider account: never to be sent for this one
)

// ClaimRules are the limits that the claiming statement applies.
type ClaimRules struct {
	Account   string        // the configured provider account
	Lease     time.Duration // how long the claim holds
	KeyWindow time.Duration // 0 = one POST ever
}

// Claim is the right to work on one charge until its lease ends. Attempt is its fencing token.
type Claim struct {
	EventID     uuid.UUID
	Order       domain.Order
	Request     []byte
	Traceparent string
	Attempt     int32
	Step        Step
	LastOutcome domain.Outcome
	Version     int32 // announcements so far
	Tries       int32 // attempt rows so far, this one included
	Journaled   bool  // this claim wrote an attempt row
	Stamped     bool  // this claim set first_sent_at
	Reclaimed   bool  // the former owner's lease had run out
	HistoryLost bool  // the database was restored and nobody cleared it yet
	// Doubtful: after a restore it was read again behind a declined charge of its order. The lost history refused it or charged
	// it, so it is only looked up.
	Doubtful   bool
	PostFor    time.Duration // a POST may start only this long after the claim
	Age        time.Duration // since first_sent_at, 0 when never sent
	PendingFor time.Duration // since the provider first said pending, 0 when it did not
	Now        time.Time     // the database's clock at the claim
	ClaimedAt  time.Time     // the pod's clock from before the claim, with its monotonic reading
}

// Settlement is what one claim came to.
type Settlement struct {
	EventID      uuid.UUID
	Attempt      int32
	Journaled    bool
	Outcome      domain.Outcome // of the attempt row
	LastOutcome  domain.Outcome // of the charge; equals Outcome but for look-ups
	HTTPStatus   int
	Code         string
	Detail       string
	ProviderRef  *string
	Status       domain.Status // requested: to be tried again after Delay
	Reason       string        // why parked, or the provider's code of a decline; empty is null
	Delay        time.Duration
	ClearStamp   bool // take back first_sent_at, which this claim set and nothing used
	Pending      bool // remember since when the provider says pending
	FreesOrder   bool // parked without holding its order: another charge may take it
	Announcement *domain.Announcement
	Message      OutboxMessage // of the announcement
	Order        domain.Order
	Traceparent  string
	Now          time.Time // the database's clock when the answer came, estimated from the claim
}

// Settled counts what a settling statement did.
type Settled struct {
	ByStatus map[domain.Status]int // charges that reached a status other than requested
	Fenced   []Settlement          // whose claim was no longer theirs
}

// ChargeQueue is the provider channel of the outbox.
type ChargeQueue interface {
	// ClaimCharges leases up to n due charges and writes their attempt rows, in one statement.
	ClaimCharges(ctx context.Context, n int, rules ClaimRules) ([]Claim, error)
	// SettleCharges writes outcomes and announcements in one statement, fenced by attempt. Attempt rows
	// are closed even when the charge is fenced.
	SettleCharges(ctx context.Context, batch []Settlement) (Settled, error)
	// SettleLate settles a charge that is not terminal by a verified success of a former owner. build
	// makes the announcement for the charge's version. It reports whether the charge was settled by it.
	SettleLate(ctx context.Context, s Settlement, build func(version int32) (Settlement, error)) (bool, error)
}

// Capabilities are what a provider can and cannot do.
type Capabilities struct {
	Name      string
	Lookup    bool          // it answers look-up by key
	KeyWindow time.Duration // how long it remembers a key
}

// Provider is a payment company behind its adapter. Its methods never return an error: whatever
// happens is an answer, and an answer that is not clear is domain.Unknown.
type Provider interface {
	Capabilities() Capabilities
	// Charge sends one request with the EventID as its idempotency key: exactly one request on the wire.
	Charge(ctx context.Context, key uuid.UUID, request []byte, order domain.Order, traceparent string) domain.Answer
	// Lookup asks what became of a key. Cause not_found is the provider's explicit word; it comes with Unknown.
	Lookup(ctx context.Context, key uuid.UUID, order domain.Order, traceparent string) domain.Answer
}

// Codec makes the bytes that leave the service.
type Codec interface {
	// Request encodes what the provider is asked to collect. The same order gives the same bytes.
	Request(order domain.Order) ([]byte, error)
	// Announcement encodes the message that tells of a charge's move.
	Announcement(a domain.Announcement, traceparent string) (OutboxMessage, error)
	// DeadLetter encodes the copy of a refused message for the dead-letter topic.
	DeadLetter(d DeadLetter) (OutboxMessage, error)
}

// MessageRef names a claimed message of the Kafka channel.
type MessageRef struct {
	ID      int64
	Attempt int32
	Delay   time.Duration // before it is due again, when it is released
}

// MessageQueue is the Kafka channel of the outbox.
type MessageQueue interface {
	// ClaimMessages leases up to n due messages, oldest first, and no more of them than a process may well have in memory.
	ClaimMessages(ctx context.Context, n int, lease time.Duration) ([]OutboxMessage, error)
	// AckMessages deletes published messages and stamps what they announced, in one statement. It
	// returns how many were no longer theirs.
	AckMessages(ctx context.Context, refs []MessageRef) (fenced int, err error)
	// ReleaseMessages makes messages due again after their delay.
	ReleaseMessages(ctx context.Context, refs []MessageRef) error
}

// Publisher writes messages to one topic. The result has an entry for each message: nil when the
// broker acknowledged it, otherwise why nothing is known of it.
type Publisher interface {
	Publish(ctx context.Context, topic string, messages []OutboxMessage) []error
}

// IDs makes time-ordered identifiers for announcements.
type IDs func() uuid.UUID

// Random returns a number in [0, 1).
type Random func() float64
