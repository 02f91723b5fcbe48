package usecase

import (
	"context"
	"errors"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
)

// Errors of a posted charge, each with a code of its own at the edge.
var (
	// ErrKeyInvalid says that an idempotency key is absent or not 1 to 255 visible ASCII characters.
	ErrKeyInvalid = errors.New("the idempotency key is not 1 to 255 visible ASCII characters")
	// ErrKeyReused says that a client's key was used for other content.
	ErrKeyReused = errors.New("the idempotency key was used for other content")
	// ErrKeyInProgress says that another request with the same key has not ended yet.
	ErrKeyInProgress = errors.New("a request with this idempotency key is in progress")
)

// OrderChargedError says that an order has a live charge, made by an event or by another POST.
type OrderChargedError struct {
	EventID uuid.UUID // of that charge
	Client  string    // who posted it, empty when an event made it
}

// Error names the charge.
func (e *OrderChargedError) Error() string { return "the order has charge " + e.EventID.String() }

// Answer is what a client is told of its POST, and told again byte for byte when it repeats it.
type Answer struct {
	Status   int
	Location string
	Body     []byte
}

// Posting is one POST as it enters the database: its key with the answer, the charge, and the order for
// the provider call.
type Posting struct {
	Client      string
	Key         string
	Hash        [32]byte // of client and content
	TTL         time.Duration
	EventID     uuid.UUID
	Order       domain.Order
	Request     []byte // the provider request, stored once and sent byte for byte
	Traceparent string
	Answer      Answer
}

// StoredAnswer is what the database remembers of a key.
type StoredAnswer struct {
	Hash    [32]byte
	Answer  Answer
	Expired bool
}

// PostConflict is what keeps a POST from becoming a charge. Without Own and Live nothing does any more.
type PostConflict struct {
	Own        bool // a charge with this EventID is there
	OwnSame    bool // with the same content
	Live       uuid.NullUUID
	LiveClient string // who posted the live charge of the order, empty when an event made it
}

// PostStore is the way in of the API, as the database offers it.
type PostStore interface {
	// InPostTx runs fn in one transaction, which is committed when fn returns nil. Nothing in it waits
	// long for a lock.
	InPostTx(ctx context.Context, fn func(ctx context.Context, tx PostTx) error) error
}

// PostTx are the steps of a POST, in the transaction of PostStore.InPostTx.
type PostTx interface {
	// TakeKey stores a key that nobody has, with its answer, and reports whether it did. ErrKeyInProgress:
	// a transaction that has the key is still open.
	TakeKey(ctx context.Context, p Posting) (bool, error)
	// StoredAnswer reads the answer of a key, and whether there is one.
	StoredAnswer(ctx context.Context, client, key string) (StoredAnswer, bool, error)
	// TakeOver stores a key in the place of an expired one and reports whether it did. ErrKeyInProgress as above.
	TakeOver(ctx context.Context, p Posting) (bool, error)
	// AddCharge inserts the charge and its provider row. It returns false when the EventID or the order
	// has a charge already.
	AddCharge(ctx context.Context, p Posting) (bool, error)
	// Conflict reads, in a fresh snapshot, why a charge was not added.
	Conflict(ctx context.Context, p Posting) (PostConflict, error)
}

// KeyStore forgets expired keys.
type KeyStore interface {
	// PurgeKeys deletes up to n expired keys and returns how many it deleted.
	PurgeKeys(ctx context.Context, n int) (int, error)
}

// ChargeQuery selects a page of charges by EventID.
type ChargeQuery struct {
	Client  string        // only charges that it posted; empty for all
	OrderID string        // empty for any
	Status  domain.Status // empty for any
	After   uuid.UUID     // only charges behind it
	Limit   int
}

// ChargePage is one page of charges in the order of their EventIDs. A page may hold fewer charges than
// asked for, even none, and still have a next one: a query looks at a bounded number of rows.
type ChargePage struct {
	Charges []ChargeRecord
	Next    uuid.NullUUID // behind which the next page begins
}

// ChargeReader shows charges to clients of the API. A client that is not empty sees only the charges
// that it posted.
type ChargeReader interface {
	// ReadCharge returns one charge with its latest attempts and moves, or ErrNoCharge.
	ReadCharge(ctx context.Context, client string, id uuid.UUID) (ChargeDossier, error)
	// ReadCharges returns a page of charges.
	ReadCharges(ctx context.Context, q ChargeQuery) (ChargePage, error)
}
