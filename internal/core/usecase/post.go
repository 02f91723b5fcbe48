package usecase

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
)

// postedNamespace is the namespace of the ids of posted charges. It never changes: a client that repeats
// its POST after the database lost it must get the id that the provider may know already.
var postedNamespace = uuid.Must(uuid.FromString("c87761cd-f81c-449d-bd6f-5ad3a1bb87b3"))

// PostedEventID is the id of the charge that a client orders under an idempotency key.
func PostedEventID(client, key string) uuid.UUID {
	return uuid.NewV5(postedNamespace, string(appendSized(nil, client, key)))
}

// appendSized writes each part behind its length, so that no two lists of parts write the same bytes.
func appendSized(b []byte, parts ...string) []byte {
	for _, part := range parts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	return b
}

// CheckKey returns ErrKeyInvalid unless an idempotency key is 1 to 255 visible ASCII characters.
func CheckKey(key string) error {
	if key == "" || len(key) > 255 {
		return ErrKeyInvalid
	}
	for i := range len(key) {
		if key[i] < '!' || key[i] > '~' {
			return ErrKeyInvalid
		}
	}
	return nil
}

// PostRequest is what a client asks for. Ids are not empty; the use case checks the rest.
type PostRequest struct {
	Client      string
	Key         string
	OrderID     string
	CustomerID  string
	AmountMinor int64
	Currency    string
	Traceparent string // W3C
}

// Posted is what a POST came to.
type Posted struct {
	Answer   Answer
	Replayed bool // it had been done before
}

// Post is the door for charges over HTTP: key, charge, order for the provider call and answer are stored
// in one transaction, so that no state between "never came" and "done" can ever be seen.
type Post struct {
	Store          PostStore
	Codec          Codec
	MaxAmountMinor int64
	KeyTTL         time.Duration
	// Answer makes what the client is told of a new charge. The same charge gives the same answer.
	Answer func(id uuid.UUID, order domain.Order) (Answer, error)
	// Wake is called when a charge was added.
	Wake func()
}

// postTries is how often a POST that lost a race is done again before its client is asked to do it.
const postTries = 3

// Do orders a charge, or finds what an earlier request with the same key ordered. Its errors: a
// *domain.Refusal for the content, ErrKeyInvalid, ErrKeyReused, ErrKeyInProgress, *OrderChargedError,
// domain.ErrOutage and domain.ErrRetry. With an error nothing was stored, but for an outage, of which
// nothing is known: the repeat will tell.
func (p Post) Do(ctx context.Context, r PostRequest) (Posted, error) {
	posting, err := p.posting(r)
	if err != nil {
		return Posted{}, err
	}
	for try := 1; ; try++ {
		posted, err := p.store(ctx, posting)
		if errors.Is(err, domain.ErrRetry) && try < postTries && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return Posted{}, fmt.Errorf("post a charge: %w", err)
		}
		if !posted.Replayed {
			p.Wake()
		}
		return posted, nil
	}
}

func (p Post) posting(r PostRequest) (Posting, error) {
	if err := CheckKey(r.Key); err != nil {
		return Posting{}, err
	}
	money, err := domain.NewMoney(r.AmountMinor, r.Currency, p.MaxAmountMinor)
	if err != nil {
		return Posting{}, err //nolint:wrapcheck // a refusal says all
	}
	order := domain.Order{OrderID: r.OrderID, CustomerID: r.CustomerID, Amount: money}
	id := PostedEventID(r.Client, r.Key)
	request, err := p.Codec.Request(order)
	if err != nil {
		return Posting{}, fmt.Errorf("encode the provider request of %s: %w", id, err)
	}
	answer, err := p.Answer(id, order)
	if err != nil {
		return Posting{}, fmt.Errorf("encode the answer for %s: %w", id, err)
	}
	return Posting{
		Client: r.Client, Key: r.Key, Hash: postHash(r.Client, order), TTL: p.KeyTTL, EventID: id, Order: order,
		Request: request, Traceparent: r.Traceparent, Answer: answer,
	}, nil
}

// postHash tells whether a key comes again with the same content, whatever its spelling was.
func postHash(client string, o domain.Order) [32]byte {
	const version = 1
	return sha256.Sum256(appendSized([]byte{version},
		client, o.OrderID, o.CustomerID, strconv.FormatInt(o.Amount.Minor, 10), o.Amount.Currency))
}

// store is one try in one transaction.
func (p Post) store(ctx context.Context, posting Posting) (posted Posted, err error) {
	err = p.Store.InPostTx(ctx, func(ctx context.Context, tx PostTx) error {
		taken, err := tx.TakeKey(ctx, posting)
		if err == nil && !taken {
			posted, taken, err = known(ctx, tx, posting)
		}
		if err != nil || !taken {
			return err
		}
		added, err := tx.AddCharge(ctx, posting)
		if err == nil && !added {
			err = explain(ctx, tx, posting)
			posted.Replayed = err == nil
		}
		posted.Answer = posting.Answer
		return err
	})
	return posted, err //nolint:wrapcheck // the caller wraps it
}

// known finds the answer of a key that is there already, or takes an expired key over.
func known(ctx context.Context, tx PostTx, posting Posting) (posted Posted, taken bool, err error) {
	stored, ok, err := tx.StoredAnswer(ctx, posting.Client, posting.Key)
	switch {
	case err != nil:
		return Posted{}, false, err //nolint:wrapcheck // the caller wraps it
	case !ok:
		return Posted{}, false, fmt.Errorf("the key was purged while it was looked for: %w", domain.ErrRetry)
	case stored.Expired:
		taken, err = tx.TakeOver(ctx, posting)
		if err == nil && !taken {
			err = fmt.Errorf("another request took the expired key: %w", domain.ErrRetry)
		}
		return Posted{}, taken, err
	case stored.Hash != posting.Hash:
		return Posted{}, false, ErrKeyReused
	}
	return Posted{Answer: stored.Answer, Replayed: true}, false, nil
}

// explain says why a charge was not added. A charge of this very key is there when the key was forgotten:
// it expired, and since a key always makes the same EventID, the same content is a repeat like any other.
func explain(ctx context.Context, tx PostTx, posting Posting) error {
	c, err := tx.Conflict(ctx, posting)
	switch {
	case err != nil:
		return err //nolint:wrapcheck // the caller wraps it
	case c.Own && c.OwnSame:
		return nil
	case c.Own:
		return ErrKeyReused
	case c.Live.Valid:
		return &OrderChargedError{EventID: c.Live.UUID, Client: c.LiveClient}
	}
	return errRaced
}

// PurgeKeys forgets expired keys in bounded chunks.
type PurgeKeys struct {
	Store   KeyStore
	Limit   int           // of keys in one chunk
	Timeout time.Duration // of one chunk
}

// Step deletes one chunk and returns how many keys it deleted, and whether there may be more.
func (p PurgeKeys) Step(ctx context.Context) (deleted int, busy bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	deleted, err = p.Store.PurgeKeys(ctx, p.Limit)
	if err != nil {
		return 0, false, fmt.Errorf("purge expired keys: %w", err)
	}
	return deleted, deleted == p.Limit, nil
}
