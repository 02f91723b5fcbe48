package usecase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
)

// LetterStatus is where a dead letter stands. The values are those of the table.
type LetterStatus string

// The statuses. An open letter waits for a person.
const (
	LetterOpen      LetterStatus = "open"
	LetterReplayed  LetterStatus = "replayed"
	LetterDiscarded LetterStatus = "discarded"
)

// ErrNoLetter says that there is no dead letter with an id.
var ErrNoLetter = errors.New("there is no such dead letter")

// StoredLetter is a dead letter as it lies in the database.
type StoredLetter struct {
	ID      int64
	Group   string
	Origin  Origin
	Message Message // its own key, value and headers
	Status  LetterStatus
	Masked  bool // card numbers in it were replaced: these are not the bytes that came
	// HistoryLost says that the database was restored: the letter may have been replayed before.
	HistoryLost bool
}

// LetterDesk is where operators decide about dead letters.
type LetterDesk interface {
	// InLetterTx locks a letter and runs fn in the same transaction, which is committed when fn returns nil.
	// ErrNoLetter; domain.ErrRetry: nothing was written, do it again.
	InLetterTx(ctx context.Context, id int64, fn func(ctx context.Context, letter StoredLetter, tx LetterTx) error) error
}

// LetterTx are the steps of deciding about a letter. Accept and Know are those of AcceptTx.
type LetterTx interface {
	Accept(ctx context.Context, group string, events []Acceptance, limits Limits) ([]bool, error)
	Know(ctx context.Context, group string, events []domain.OrderConfirmed, limits Limits) ([]Knowledge, error)
	// AcceptOld makes a charge of an event that the inbox is too young for, and writes in its history who did it. It
	// returns false when the event is a charge, or its order has one.
	AcceptOld(ctx context.Context, event Acceptance, by By) (bool, error)
	// Resolve ends an open letter.
	Resolve(ctx context.Context, id int64, status LetterStatus, by By) error
}

// Replay puts dead letters through the door again: what their bytes mean is read anew, and every rule that holds
// for a message from Kafka holds for them.
type Replay struct {
	Desk   LetterDesk
	Decode func(topic string, partition int32, m Message) Delivery
	Codec  Codec
	Limits Limits
	// AcceptOld lets an event become a charge that is older than the inbox remembers. Then only the charges
	// themselves keep it from being charged twice.
	AcceptOld bool
	// DryRun does everything and takes it back.
	DryRun  bool
	Timeout time.Duration // of one letter
}

// ReplayResult is what became of one letter.
type ReplayResult struct {
	ID       int64         `json:"id"`
	Accepted bool          `json:"accepted"` // it is a charge now, and the letter is replayed
	Status   LetterStatus  `json:"status"`
	Charge   uuid.NullUUID `json:"charge"` // the charge that was made, or the one that stands in the way
	Why      string        `json:"why"`
}

// errTakeBack ends a transaction that must leave no trace.
var errTakeBack = errors.New("nothing is to be kept")

// replayTries is how often a letter that lost a race is tried again.
const replayTries = 5

// Do replays one letter in one transaction: it becomes a charge and the letter replayed, or nothing changes and
// the result says why. A letter that is not open any more is left alone, so that replaying again is safe.
func (r Replay) Do(ctx context.Context, id int64, by By) (ReplayResult, error) {
	if err := by.Check(); err != nil {
		return ReplayResult{}, err
	}
	for try := 1; ; try++ {
		result, err := r.once(ctx, id, by)
		if errors.Is(err, domain.ErrRetry) && try < replayTries && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return ReplayResult{}, fmt.Errorf("replay dead letter %d: %w", id, err)
		}
		return result, nil
	}
}

func (r Replay) once(ctx context.Context, id int64, by By) (ReplayResult, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	var result ReplayResult
	err := r.Desk.InLetterTx(ctx, id, func(ctx context.Context, letter StoredLetter, tx LetterTx) error {
		var err error
		if result, err = r.judge(ctx, letter, tx, by); err != nil {
			return err
		}
		if !result.Accepted {
			return errTakeBack // also the inbox row that accepting may have written
		}
		if err := tx.Resolve(ctx, id, LetterReplayed, by); err != nil {
			return fmt.Errorf("resolve the letter: %w", err)
		}
		result.Status = LetterReplayed
		if r.DryRun {
			result.Status = letter.Status
			return errTakeBack
		}
		return nil
	})
	if errors.Is(err, errTakeBack) {
		err = nil
	}
	return result, err //nolint:wrapcheck // the caller wraps it
}

// judge reads a letter's bytes and lets them try to become a charge.
func (r Replay) judge(ctx context.Context, letter StoredLetter, tx LetterTx, by By) (ReplayResult, error) {
	result := ReplayResult{ID: letter.ID, Status: letter.Status}
	if letter.Status != LetterOpen {
		result.Why = "it is " + string(letter.Status) + " already"
		return result, nil
	}
	if letter.Masked {
		result.Why = "its bytes were masked because they held what looks like a card number: let the producer send the event again without it"
		return result, nil
	}
	d := r.Decode(letter.Origin.Topic, letter.Origin.Partition, letter.Message)
	switch d.Kind {
	case KindRefused:
		result.Why = "refused again: " + d.Refusal.Error()
		return result, nil
	case KindTombstone:
		result.Why = "it has no value"
		return result, nil
	case KindIgnored:
		result.Why = "its event type is ignored by configuration"
		return result, nil
	case KindEvent:
	}
	return r.enter(ctx, letter, d, tx, by)
}

func (r Replay) enter(ctx context.Context, letter StoredLetter, d Delivery, tx LetterTx, by By) (ReplayResult, error) {
	result := ReplayResult{ID: letter.ID, Status: letter.Status}
	request, err := r.Codec.Request(d.Event.Order)
	if err != nil {
		return result, fmt.Errorf("encode the provider request of %s: %w", d.Event.EventID, err)
	}
	event := Acceptance{Event: d.Event, Request: request, Traceparent: TraceOf(d), Reread: letter.HistoryLost}
	own := uuid.NullUUID{UUID: d.Event.EventID, Valid: true}
	charged, err := tx.Accept(ctx, letter.Group, []Acceptance{event}, r.Limits)
	if err != nil {
		return result, fmt.Errorf("accept the event: %w", err)
	}
	if charged[0] {
		result.Accepted, result.Charge, result.Why = true, own, "accepted"
		return result, nil
	}
	known, err := tx.Know(ctx, letter.Group, []domain.OrderConfirmed{d.Event}, r.Limits)
	if err != nil {
		return result, fmt.Errorf("ask what is known of the event: %w", err)
	}
	k := known[0]
	v, ok := judgeOne(k)
	switch {
	case !ok:
		return result, errRaced
	case v.refusal == nil && v.of.Valid:
		result.Charge, result.Why = v.of, "duplicate: its order has this charge with the same content"
	case v.refusal == nil:
		result.Charge, result.Why = own, "duplicate: the event was accepted before"
	case v.refusal.Reason == domain.ReasonEventTooOld && r.AcceptOld:
		return r.enterOld(ctx, event, k, tx, by, result)
	case v.refusal.Reason == domain.ReasonEventTooOld:
		result.Why = "refused again: " + v.refusal.Error() + " (--accept-old makes a charge of it)"
	default:
		result.Charge, result.Why = k.Live, "refused again: "+v.refusal.Error()
	}
	return result, nil
}

// enterOld charges an event that the inbox is too young for. Nobody else can take it in meanwhile: from Kafka it
// is refused as too old.
func (r Replay) enterOld(ctx context.Context, event Acceptance, k Knowledge, tx LetterTx, by By, result ReplayResult) (ReplayResult, error) {
	if k.Live.Valid {
		result.Charge, result.Why = k.Live, "its order has this charge"
		return result, nil
	}
	charged, err := tx.AcceptOld(ctx, event, by)
	if err != nil {
		return result, fmt.Errorf("accept the old event: %w", err)
	}
	if !charged {
		return result, errRaced
	}
	result.Accepted, result.Charge = true, uuid.NullUUID{UUID: event.Event.EventID, Valid: true}
	result.Why = "accepted, though older than the inbox remembers"
	return result, nil
}

// Discard ends an open letter without a charge: somebody decided that there is none to be made.
func (r Replay) Discard(ctx context.Context, id int64, by By) (ReplayResult, error) {
	if err := by.Check(); err != nil {
		return ReplayResult{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	result := ReplayResult{ID: id}
	err := r.Desk.InLetterTx(ctx, id, func(ctx context.Context, letter StoredLetter, tx LetterTx) error {
		result.Status = letter.Status
		if letter.Status != LetterOpen {
			result.Why = "it is " + string(letter.Status) + " already"
			return nil
		}
		result.Why = "discarded"
		if r.DryRun {
			result.Why = "would be discarded"
			return nil
		}
		result.Status = LetterDiscarded
		return tx.Resolve(ctx, id, LetterDiscarded, by) //nolint:wrapcheck // says what it did
	})
	if err != nil {
		return ReplayResult{}, fmt.Errorf("discard dead letter %d: %w", id, err)
	}
	return result, nil
}
