package usecase_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// The ids are known to providers: no version of billing may make others.
func TestEventIDOfAPostNeverChanges(t *testing.T) {
	t.Parallel()
	id := usecase.PostedEventID("shop", "order-17")
	if want := "3840ee28-de48-53d1-8433-29b71042d48c"; id.String() != want || id.Version() != uuid.V5 {
		t.Errorf("got %s, want %s", id, want)
	}
}

func TestEventIDOfAPostIsUnambiguous(t *testing.T) {
	t.Parallel()
	pairs := [][2]string{{"a", "bc"}, {"ab", "c"}, {"abc", ""}, {"", "abc"}, {"a:b", "c"}, {"a", "b:c"}, {"a\x00b", "c"}, {"a", "\x00bc"}, {"A", "bc"}}
	seen := map[uuid.UUID][2]string{}
	for _, pair := range pairs {
		id := usecase.PostedEventID(pair[0], pair[1])
		if other, ok := seen[id]; ok {
			t.Errorf("%q and %q have one id", pair, other)
		}
		seen[id] = pair
	}
}

func TestIdempotencyKeyIsVisibleASCII(t *testing.T) {
	t.Parallel()
	for key, ok := range map[string]bool{
		"": false, "!": true, "~": true, " ": false, "a b": false, "a\tb": false, "a\x7f": false, "ключ": false, "a\x00": false,
		strings.Repeat("k", 255): true, strings.Repeat("k", 256): false,
	} {
		if err := usecase.CheckKey(key); (err == nil) != ok || (err != nil && !errors.Is(err, usecase.ErrKeyInvalid)) {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// postBook remembers keys and charges, and loses races as it is told.
type postBook struct {
	keys    map[string]usecase.Posting
	charges map[uuid.UUID]usecase.Posting
	races   int // so many transactions find that their opponent went away
}

func newPostBook() *postBook {
	return &postBook{keys: map[string]usecase.Posting{}, charges: map[uuid.UUID]usecase.Posting{}}
}

// postBookTx writes to copies, which count when the transaction ends well.
type postBookTx struct {
	*postBook
	key, charge *usecase.Posting
}

func (b *postBook) InPostTx(ctx context.Context, fn func(ctx context.Context, tx usecase.PostTx) error) error {
	tx := &postBookTx{postBook: b}
	if err := fn(ctx, tx); err != nil {
		return err
	}
	if tx.key != nil {
		b.keys[tx.key.Client+" "+tx.key.Key] = *tx.key
	}
	if tx.charge != nil {
		b.charges[tx.charge.EventID] = *tx.charge
	}
	return nil
}

func (t *postBookTx) TakeKey(_ context.Context, p usecase.Posting) (bool, error) {
	if _, ok := t.keys[p.Client+" "+p.Key]; ok {
		return false, nil
	}
	t.key = &p
	return true, nil
}

func (t *postBookTx) TakeOver(context.Context, usecase.Posting) (bool, error) { return false, nil }

func (t *postBookTx) StoredAnswer(_ context.Context, client, key string) (usecase.StoredAnswer, bool, error) {
	p, ok := t.keys[client+" "+key]
	return usecase.StoredAnswer{Hash: p.Hash, Answer: p.Answer}, ok, nil
}

func (t *postBookTx) AddCharge(_ context.Context, p usecase.Posting) (bool, error) {
	if t.races > 0 {
		return false, nil
	}
	t.charge = &p
	return true, nil
}

func (t *postBookTx) Conflict(context.Context, usecase.Posting) (usecase.PostConflict, error) {
	t.races--
	return usecase.PostConflict{}, nil
}

func newPost(book *postBook) usecase.Post {
	return usecase.Post{
		Store: book, Codec: plainCodec{}, MaxAmountMinor: 1000, Wake: func() {},
		Answer: func(id uuid.UUID, _ domain.Order) (usecase.Answer, error) {
			return usecase.Answer{Status: 202, Body: []byte(id.String())}, nil
		},
	}
}

var request = usecase.PostRequest{Client: "shop", Key: "k", OrderID: "o", CustomerID: "c", AmountMinor: 1000, Currency: "RUB"}

// A charge that stood in the way may be declined before it is looked at: then there is nothing to explain
// the refusal with, and the order is free.
func TestPostThatLostToNobodyIsDoneAgain(t *testing.T) {
	t.Parallel()
	for races, want := range map[int]error{0: nil, 2: nil, 3: domain.ErrRetry} {
		book := newPostBook()
		book.races = races
		if _, err := newPost(book).Do(t.Context(), request); !errors.Is(err, want) {
			t.Errorf("%d races: %v, want %v", races, err, want)
		}
		if stored := want == nil; len(book.charges) != len(book.keys) || (len(book.keys) == 1) != stored {
			t.Errorf("%d races: %d keys, %d charges", races, len(book.keys), len(book.charges))
		}
	}
}

func TestPostRefusesWhatMayNotBeCharged(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*usecase.PostRequest)
		reason domain.Reason
	}{
		"nothing":          {func(r *usecase.PostRequest) { r.AmountMinor = 0 }, domain.ReasonInvalidAmount},
		"less":             {func(r *usecase.PostRequest) { r.AmountMinor = -1 }, domain.ReasonInvalidAmount},
		"above maximum":    {func(r *usecase.PostRequest) { r.AmountMinor = 1001 }, domain.ReasonInvalidAmount},
		"unit of account":  {func(r *usecase.PostRequest) { r.Currency = "XDR" }, domain.ReasonInvalidField},
		"lower case":       {func(r *usecase.PostRequest) { r.Currency = "rub" }, domain.ReasonInvalidField},
		"no such currency": {func(r *usecase.PostRequest) { r.Currency = "ABC" }, domain.ReasonInvalidField},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			book, r := newPostBook(), request
			tc.change(&r)
			_, err := newPost(book).Do(t.Context(), r)
			if refusal, ok := errors.AsType[*domain.Refusal](err); !ok || refusal.Reason != tc.reason || len(book.keys) > 0 {
				t.Errorf("got %v, %d keys", err, len(book.keys))
			}
		})
	}
}
