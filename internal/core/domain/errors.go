package domain

import "errors"

// Errors that callers decide by. Adapters wrap them at the border where the knowledge is.
var (
	// ErrOutage marks a dependency that is away: the same work is done again later, nothing is skipped.
	ErrOutage = errors.New("dependency unavailable")
	// ErrRetry marks a transaction that lost a race (deadlock, serialization, lock timeout): do it again.
	ErrRetry = errors.New("transaction must be repeated")
	// ErrFenced marks a write by an owner that is no longer the owner.
	ErrFenced = errors.New("fenced: no longer the owner")
	// ErrMixed marks a chunk that is not made of new events and plain duplicates only, so that each
	// of its messages has to be judged.
	ErrMixed = errors.New("chunk needs a verdict for each message")
)
