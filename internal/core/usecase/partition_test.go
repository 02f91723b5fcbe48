package usecase_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// inbox is a database of one partition. It keeps what was committed and fails when told to.
type inbox struct {
	position *usecase.Position
	charged  map[uuid.UUID]domain.Order
	letters  []usecase.DeadLetter
	retries  []usecase.OutboxMessage
	chunks   []int // events of each committed chunk
	lost     []string
	fail     func(c usecase.Chunk) error
}

func newInbox() *inbox { return &inbox{charged: map[uuid.UUID]domain.Order{}} }

func (b *inbox) Position(context.Context, usecase.Source) (usecase.Position, bool, error) {
	if b.position == nil {
		return usecase.Position{}, false, nil
	}
	return *b.position, true, nil
}

func (b *inbox) PutPosition(_ context.Context, _ usecase.Source, p usecase.Position) error {
	b.position = &p
	return nil
}

func (b *inbox) HaltPartition(_ context.Context, _ usecase.Source, next int64, reason, build string) error {
	if b.position.Next != next || b.position.Halted != "" {
		return domain.ErrFenced
	}
	b.position.Halted, b.position.HaltedBy, b.position.PassBelow = reason, build, 0
	return nil
}

func (b *inbox) MarkHistoryLost(_ context.Context, reason string) error {
	b.lost = append(b.lost, reason)
	return nil
}

func (b *inbox) AcceptChunk(ctx context.Context, c usecase.Chunk, _ usecase.Limits) (usecase.Accepted, error) {
	if b.fail != nil {
		if err := b.fail(c); err != nil {
			return usecase.Accepted{}, err
		}
	}
	if ctx.Err() != nil {
		return usecase.Accepted{}, ctx.Err()
	}
	if b.position.Next != c.From {
		return usecase.Accepted{}, domain.ErrFenced
	}
	accepted := usecase.Accepted{Charged: make([]bool, len(c.Events))}
	for i := range c.Events {
		if _, known := b.charged[c.Events[i].Event.EventID]; !known {
			b.charged[c.Events[i].Event.EventID] = c.Events[i].Event.Order
			accepted.Charged[i] = true
		}
	}
	b.letters = append(b.letters, c.DeadLetters...)
	b.retries = append(b.retries, c.Retries...)
	b.chunks = append(b.chunks, len(c.Events))
	b.position.Next = c.Next
	return accepted, nil
}

func (b *inbox) InTx(context.Context, func(context.Context, usecase.AcceptTx) error) error {
	return errors.New("no chunk of these tests needs a verdict")
}

// memoryLog is a log in memory; it cancels the test's context when all is read and committed.
type memoryLog struct {
	deliveries []usecase.Delivery
	bounds     usecase.Bounds
	commits    []int64
	commitErrs []error
	known      int64          // the group's offset
	corrupt    []usecase.Span // batches that cannot be read
	refused    int            // fetches that met one
	done       func()
}

func (l *memoryLog) Bounds(context.Context) (usecase.Bounds, error) { return l.bounds, nil }

func (l *memoryLog) Fetch(_ context.Context, offset int64) (usecase.Fetched, error) {
	if offset >= l.bounds.End {
		l.done()
		return usecase.Fetched{Next: offset}, nil
	}
	f := usecase.Fetched{Next: l.bounds.End}
	for _, c := range l.corrupt {
		if c.From <= offset && offset < c.To {
			l.refused++
			return usecase.Fetched{}, fmt.Errorf("%w: the batch at offset %d", usecase.ErrCorrupt, c.From)
		}
		if offset < c.From {
			f.Next = min(f.Next, c.From)
		}
	}
	for _, d := range l.deliveries {
		if d.Message.Offset >= offset && d.Message.Offset < f.Next {
			f.Deliveries = append(f.Deliveries, d)
		}
	}
	return f, nil
}

func (l *memoryLog) Commit(_ context.Context, next int64) error {
	if len(l.commitErrs) > 0 {
		err := l.commitErrs[0]
		l.commitErrs = l.commitErrs[1:]
		return err
	}
	l.commits = append(l.commits, next)
	return nil
}

// confirmed is an event at an offset; n names both its id and its order.
func confirmed(offset int64, n byte) usecase.Delivery {
	return usecase.Delivery{
		Message: usecase.Message{Offset: offset}, Origin: usecase.Origin{Topic: "t", Offset: offset},
		Event: domain.OrderConfirmed{
			EventID: uuid.UUID{n},
			Order:   domain.Order{OrderID: fmt.Sprint("o-", n), CustomerID: "c", Amount: domain.Money{Minor: 1, Currency: "RUB"}},
		},
	}
}

func newLog(deliveries ...usecase.Delivery) *memoryLog {
	return &memoryLog{deliveries: deliveries, bounds: usecase.Bounds{End: int64(len(deliveries))}, known: usecase.NoOffset}
}

// run reads the log to its end and returns what was counted and the troubles on the way.
func run(t *testing.T, b *inbox, log *memoryLog, change func(*usecase.Partition)) (counts usecase.Counts, troubles []error, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log.done = cancel
	p := usecase.Partition{
		Accept: usecase.Accept{Inbox: b, Codec: plainCodec{}}, Clock: newClock(), Random: half,
		Backoff: domain.Backoff{Min: time.Second, Max: time.Minute}, Tries: 3, WriteTimeout: time.Minute, OperatorPoll: time.Second,
		Wake: func() {}, Turn: func() {},
		Report: func(_ usecase.Source, c usecase.Counts) {
			counts.Accepted += c.Accepted
			counts.Duplicates += c.Duplicates
			counts.Tombstones += c.Tombstones
			counts.Retries += c.Retries
			for range c.DeadLetters {
				counts.Ignored++ // stands for reasons seen
			}
		},
		Skipped: func(context.Context, usecase.Source, usecase.Span) {},
		Trouble: func(_ context.Context, _ usecase.Source, err error) { troubles = append(troubles, err) },
	}
	if change != nil {
		change(&p)
	}
	err = p.Run(ctx, usecase.Source{Group: "g", Topic: "t"}, log, log.known)
	return counts, troubles, err
}

func TestOffsetIsCommittedOnlyAfterTheDatabase(t *testing.T) {
	t.Parallel()
	b, log := newInbox(), newLog(confirmed(0, 1), confirmed(1, 2))
	b.fail = func(usecase.Chunk) error {
		if len(log.commits) > 0 {
			t.Errorf("committed %v before the database", log.commits)
		}
		return nil
	}
	counts, _, err := run(t, b, log, nil)
	if err != nil || counts.Accepted != 2 || !slices.Equal(log.commits, []int64{2}) {
		t.Errorf("accepted %d, commits %v, %v", counts.Accepted, log.commits, err)
	}
}

func TestAnOutageIsWaitedForInPlace(t *testing.T) {
	t.Parallel()
	b, log := newInbox(), newLog(confirmed(0, 1), confirmed(1, 2))
	failures := 0
	b.fail = func(c usecase.Chunk) error {
		if len(c.Events) != 2 {
			t.Errorf("a chunk of %d events during an outage, want the same 2", len(c.Events))
		}
		if failures++; failures < 50 {
			return fmt.Errorf("away: %w", domain.ErrOutage)
		}
		return nil
	}
	counts, _, err := run(t, b, log, nil)
	if err != nil || counts.Accepted != 2 || len(b.letters)+len(b.retries) != 0 {
		t.Errorf("accepted %d, set aside %d, %v", counts.Accepted, len(b.letters)+len(b.retries), err)
	}
}

func TestOnePoisonMessageIsSetAsideAndTheOthersAreAccepted(t *testing.T) {
	t.Parallel()
	for name, delays := range map[string][]time.Duration{"to the retry topic": {time.Minute}, "to the dead letters": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newInbox()
			deliveries := make([]usecase.Delivery, 0, 9)
			for i := range 9 {
				deliveries = append(deliveries, confirmed(int64(i), byte(i+1)))
			}
			log := newLog(deliveries...)
			b.fail = func(c usecase.Chunk) error {
				for i := range c.Events {
					if c.Events[i].Event.EventID == (uuid.UUID{5}) {
						return errors.New("value out of range")
					}
				}
				return nil
			}
			plan := usecase.RetryPlan{Delays: delays}
			counts, _, err := run(t, b, log, func(p *usecase.Partition) { p.Retry = plan.Message })
			if err != nil || counts.Accepted != 8 {
				t.Fatalf("accepted %d, want 8; %v", counts.Accepted, err)
			}
			if len(b.retries) != len(delays) || len(b.letters) != 1-len(delays) {
				t.Errorf("%d to retry, %d dead letters", len(b.retries), len(b.letters))
			}
			if len(b.letters) == 1 && (b.letters[0].Reason != domain.ReasonRetriesExhausted || b.letters[0].Origin.Offset != 4) {
				t.Errorf("dead letter %s of offset %d", b.letters[0].Reason, b.letters[0].Origin.Offset)
			}
			if last := log.commits[len(log.commits)-1]; last != 9 || b.position.Next != 9 {
				t.Errorf("committed %d, position %d; want 9", last, b.position.Next)
			}
		})
	}
}

func TestACommitThatFailsIsRepeatedThoughNoMessageFollows(t *testing.T) {
	t.Parallel()
	b, log := newInbox(), newLog(confirmed(0, 1))
	log.commitErrs = []error{errors.New("coordinator moved"), errors.New("coordinator moved")}
	if _, _, err := run(t, b, log, nil); err != nil || !slices.Equal(log.commits, []int64{1}) {
		t.Errorf("commits %v, %v", log.commits, err)
	}
}

func TestAFencedOwnerStops(t *testing.T) {
	t.Parallel()
	b, log := newInbox(), newLog(confirmed(0, 1))
	log.commitErrs = []error{fmt.Errorf("generation over: %w", domain.ErrFenced)}
	if _, _, err := run(t, b, log, nil); !errors.Is(err, domain.ErrFenced) {
		t.Errorf("got %v, want fenced", err)
	}
	b.fail = func(usecase.Chunk) error { return domain.ErrFenced }
	if _, _, err := run(t, b, newLog(confirmed(0, 1), confirmed(1, 2)), nil); !errors.Is(err, domain.ErrFenced) {
		t.Errorf("got %v, want fenced", err)
	}
}

func TestStoppingIsNoFailure(t *testing.T) {
	t.Parallel()
	b, log := newInbox(), newLog(confirmed(0, 1))
	b.fail = func(usecase.Chunk) error {
		log.done() // the assignment ends while the transaction runs
		return nil
	}
	counts, troubles, err := run(t, b, log, nil)
	if err != nil || len(troubles) != 0 || counts.Accepted != 1 || !slices.Equal(log.commits, []int64{1}) {
		t.Errorf("accepted %d, commits %v, troubles %v, %v", counts.Accepted, log.commits, troubles, err)
	}
}

func TestMessagesThatDependOnEachOtherNeverShareAChunk(t *testing.T) {
	t.Parallel()
	other := confirmed(1, 1) // the same id, other content
	other.Event.Order.Amount.Minor = 2
	again := confirmed(1, 9) // another id, the same order
	again.Event.Order.OrderID = "o-1"
	for name, tc := range map[string]struct {
		deliveries []usecase.Delivery
		chunks     []int
		duplicates int
	}{
		"different orders":            {[]usecase.Delivery{confirmed(0, 1), confirmed(1, 2)}, []int{2}, 0},
		"an exact copy":               {[]usecase.Delivery{confirmed(0, 1), confirmed(1, 1)}, []int{1}, 1},
		"one id, other content":       {[]usecase.Delivery{confirmed(0, 1), other, confirmed(2, 3)}, []int{1, 2}, 1},
		"one order, another id":       {[]usecase.Delivery{confirmed(0, 1), again, confirmed(2, 3)}, []int{1, 2}, 0},
		"a tombstone is only skipped": {[]usecase.Delivery{{Kind: usecase.KindTombstone}, confirmed(1, 2)}, []int{1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, log := newInbox(), newLog(tc.deliveries...)
			counts, _, err := run(t, b, log, nil)
			if err != nil || !slices.Equal(b.chunks, tc.chunks) || counts.Duplicates != tc.duplicates {
				t.Errorf("chunks %v, %d duplicates, want %v, %d; %v", b.chunks, counts.Duplicates, tc.chunks, tc.duplicates, err)
			}
		})
	}
}

func TestAHaltedPartitionWaitsAndGoesOnWhenReleased(t *testing.T) {
	t.Parallel()
	b, log := newInbox(), newLog(confirmed(0, 1))
	b.position = &usecase.Position{Halted: "brake"}
	_, _, err := run(t, b, log, func(p *usecase.Partition) {
		p.Trouble = func(context.Context, usecase.Source, error) {
			if len(b.charged) > 0 {
				t.Error("a halted partition was read")
			}
			b.position.Halted = "" // what an operator does
		}
	})
	if err != nil || len(b.charged) != 1 {
		t.Errorf("%d charged, %v", len(b.charged), err)
	}
}

func TestAnAssignmentWritesItsRowBeforeTheFirstFetch(t *testing.T) {
	t.Parallel()
	b, log := newInbox(), newLog()
	if _, _, err := run(t, b, log, nil); err != nil || b.position == nil || b.position.Next != 0 {
		t.Errorf("row %+v, %v", b.position, err)
	}
}
