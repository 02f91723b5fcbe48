package usecase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"billing/internal/core/domain"
)

// Partition reads one assigned partition: where to start, how much to take at once, when to commit, and
// what to do with a message that keeps failing, are decided here.
type Partition struct {
	Accept  Accept
	Clock   Clock
	Random  Random
	Backoff domain.Backoff
	// Tries is how often a chunk may fail for a reason that is not an outage before it is halved.
	Tries int
	// WriteTimeout bounds one transaction, also one that is under way when the assignment ends.
	WriteTimeout time.Duration
	// OperatorPoll is how often a halted partition looks whether an operator released it.
	OperatorPoll time.Duration
	// Wake is called after new charges were committed.
	Wake func()
	// Report is called after each transaction with what became of its messages.
	Report func(src Source, counts Counts)
	// Turn is called at every turn of the loop, retries included: the partition is alive.
	Turn func()
	// Trouble is called when something fails and is going to be tried again, with what was being done.
	Trouble func(ctx context.Context, src Source, err error)
	// Retry says what to do with a single message that keeps failing while others pass; nil makes it a
	// dead letter at once.
	Retry func(d Delivery, group string) (OutboxMessage, bool)
	// BrakeShare is that of Brake; 0 = off.
	BrakeShare float64
	// Build names the running version. What the brake of another one halted is tried again.
	Build string
	// Skipped is called after offsets were passed over that an operator gave up.
	Skipped func(ctx context.Context, src Source, s Span)
	// Notice is called at every start of an assignment with something that an operator should know; nil for nobody.
	Notice func(ctx context.Context, src Source, text string)

	brake *partitionBrake
}

// Run works until ctx is done, the assignment is over or another owner is at work. Only a transaction
// that is under way outlives ctx, by at most WriteTimeout: its offset is committed, then Run returns.
func (p Partition) Run(ctx context.Context, src Source, log PartitionLog, committed int64) error {
	p.brake = &partitionBrake{Brake: Brake{Share: p.BrakeShare}}
	p.Accept.Permit = p.permit
	corrupt := damage{tries: p.Tries}
	for ctx.Err() == nil {
		pos, err := p.start(ctx, src, log, committed)
		if err == nil {
			err = p.read(ctx, src, log, &pos)
			committed = max(committed, pos.Next) // ours, should the position have to be chosen again
			if isBraked(err) || corrupt.stays(pos.Next, err) {
				err = p.halt(ctx, src, log, pos.Next, err)
			}
		}
		switch {
		case errors.Is(err, domain.ErrFenced):
			return fmt.Errorf("partition %s/%d: %w", src.Topic, src.Partition, err)
		case err != nil && ctx.Err() == nil:
			p.Trouble(ctx, src, err)
			p.pause(ctx, err)
		}
	}
	return nil
}

// pause waits before the position is chosen again.
func (p Partition) pause(ctx context.Context, err error) {
	p.Turn()
	if errors.Is(err, errHalted) {
		p.Clock.Sleep(ctx, p.OperatorPoll)
		return
	}
	p.Clock.Sleep(ctx, p.Backoff.Delay(3, p.Random()))
}

// start chooses the position and writes the row before anything is fetched: a partition that was empty
// in a restored copy of the database must not lose its tail.
func (p Partition) start(ctx context.Context, src Source, log PartitionLog, committed int64) (Position, error) {
	bounds, err := log.Bounds(ctx)
	if err != nil {
		return Position{}, fmt.Errorf("ask for the log's bounds: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.WriteTimeout)
	defer cancel()
	stored, found, err := p.Accept.Inbox.Position(ctx, src)
	if err != nil {
		return Position{}, fmt.Errorf("start the partition: %w", err)
	}
	if stored.HaltedBy != "" && stored.HaltedBy != p.Build { // a new version reads it with other eyes
		stored.Halted, stored.HaltedBy, stored.PassBelow = "", "", 0
	}
	row := &stored
	if !found {
		row = nil
	}
	if HistoryLost(row, committed) {
		reason := fmt.Sprintf("position %d of %s/%d lies before the committed offset %d", stored.Next, src.Topic, src.Partition, committed)
		if err := p.Accept.Inbox.MarkHistoryLost(ctx, reason); err != nil {
			return Position{}, fmt.Errorf("start the partition: %w", err)
		}
	}
	pos := ChooseStart(row, committed, bounds)
	p.brake.passBelow = pos.PassBelow
	p.notice(ctx, src, bounds.Retention)
	if pos.Halted == "" || !found || stored.Halted != pos.Halted {
		if pos.Halted != "" && found {
			pos.Next = stored.Next // a halted partition keeps its place
		}
		if err := p.Accept.Inbox.PutPosition(ctx, src, pos); err != nil {
			return Position{}, fmt.Errorf("start the partition: %w", err)
		}
	}
	if pos.Halted != "" {
		return Position{}, fmt.Errorf("%w: %s", errHalted, pos.Halted)
	}
	return pos, nil
}

// notice says when a topic keeps messages longer than the inbox remembers them: read again from its start, it would give
// dead letters for old orders that were never charged.
func (p Partition) notice(ctx context.Context, src Source, kept time.Duration) {
	if OutlivesInbox(kept, p.Accept.Limits.Retention) && p.Notice != nil {
		p.Notice(ctx, src, fmt.Sprintf("the topic keeps messages for %s, the inbox remembers them for %s only", keeps(kept), p.Accept.Limits.Retention))
	}
}

// halt stops the partition where it stands until an operator or another version of the binary lets it go on.
func (p Partition) halt(ctx context.Context, src Source, log PartitionLog, next int64, cause error) error {
	if err := p.commit(ctx, log, next); err != nil { // what was written before it
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.WriteTimeout)
	defer cancel()
	reason := cause.Error()
	if braked, ok := errors.AsType[*brakedError](cause); ok {
		reason = braked.reason
	}
	if err := p.Accept.Inbox.HaltPartition(ctx, src, next, reason, p.Build); err != nil {
		return fmt.Errorf("halt the partition: %w", err)
	}
	return fmt.Errorf("%w: %s", errHalted, reason)
}

// read fetches, writes and commits until something ends it.
func (p Partition) read(ctx context.Context, src Source, log PartitionLog, pos *Position) error {
	for ctx.Err() == nil {
		p.Turn()
		if err := p.skip(ctx, src, log, pos); err != nil {
			return err
		}
		fetched, err := log.Fetch(ctx, pos.Next)
		if err != nil {
			return fmt.Errorf("fetch at %d: %w", pos.Next, err)
		}
		if fetched.Next == pos.Next {
			continue
		}
		if err := p.take(ctx, src, pos, fetched.Next, fetched.Deliveries); err != nil {
			return err
		}
		if err := p.commit(ctx, log, pos.Next); err != nil {
			return err
		}
	}
	return nil
}

// skip passes over what an operator gave up, and says so: its orders can only come another way.
func (p Partition) skip(ctx context.Context, src Source, log PartitionLog, pos *Position) error {
	to := pos.behindSkips(pos.Next)
	if to == pos.Next {
		return nil
	}
	from := pos.Next
	if err := p.take(ctx, src, pos, to, nil); err != nil || pos.Next != to {
		return err
	}
	p.Skipped(ctx, src, Span{From: from, To: to})
	return p.commit(ctx, log, to)
}

// damage tells a record that stays corrupt from one that only arrived so.
type damage struct {
	tries, seen int
	at          int64
}

func (d *damage) stays(next int64, err error) bool {
	if !errors.Is(err, ErrCorrupt) {
		return false
	}
	if next != d.at {
		d.at, d.seen = next, 0
	}
	d.seen++
	return d.seen >= d.tries
}

// take brings deliveries into the database, prefix by prefix, and advances pos with each transaction.
func (p Partition) take(ctx context.Context, src Source, pos *Position, next int64, deliveries []Delivery) error {
	failures := 0
	for pos.Next < next {
		p.Turn()
		reached, counts, err := p.write(ctx, src, *pos, next, deliveries)
		switch {
		case err == nil:
			failures = 0
			p.count(pos.Next, &counts)
			pos.Next = reached
			deliveries = after(deliveries, reached)
			p.Report(src, counts)
			if counts.Accepted > 0 {
				p.Wake()
			}
			continue
		case errors.Is(err, domain.ErrFenced), isBraked(err):
			return err
		case errors.Is(err, domain.ErrOutage), errors.Is(err, domain.ErrRetry):
			// nobody's fault: the same chunk again, in place
		default:
			if failures++; failures >= p.Tries {
				return p.bisect(ctx, src, pos, next, deliveries, err)
			}
		}
		p.Trouble(ctx, src, err)
		if !p.Clock.Sleep(ctx, p.Backoff.Delay(min(failures+2, 10), p.Random())) {
			return nil // the assignment is over and nothing of this chunk is committed
		}
	}
	return nil
}

// write is one transaction. It does not stop when the assignment ends, it only has a deadline: a commit
// that is cancelled half-way would leave us not knowing.
func (p Partition) write(ctx context.Context, src Source, pos Position, next int64, deliveries []Delivery) (int64, Counts, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.WriteTimeout)
	defer cancel()
	before := p.Clock.Now()
	reached, counts, err := p.Accept.Chunk(ctx, src, pos.Next, next, pos.RereadBelow, deliveries)
	counts.Took = p.Clock.Now().Sub(before)
	return reached, counts, err
}

// bisect halves a chunk that keeps failing for a reason that is not an outage, until one message is left,
// which is set aside.
func (p Partition) bisect(ctx context.Context, src Source, pos *Position, next int64, deliveries []Delivery, cause error) error {
	if len(deliveries) > 1 {
		p.Tries = 1 // the whole chunk had its tries
		half := len(deliveries) / 2
		if err := p.take(ctx, src, pos, deliveries[half].Message.Offset, deliveries[:half]); err != nil || ctx.Err() != nil {
			return err
		}
		return p.take(ctx, src, pos, next, deliveries[half:])
	}
	if len(deliveries) == 0 {
		return cause
	}
	reached, counts, err := p.setAside(ctx, src, *pos, next, deliveries[0], cause)
	if err != nil {
		return err
	}
	p.count(pos.Next, &counts)
	pos.Next = reached
	p.Report(src, counts)
	return nil
}

// setAside moves a single failing message to the retry topic, or to the dead letters when it has none left.
func (p Partition) setAside(ctx context.Context, src Source, pos Position, next int64, d Delivery, cause error) (int64, Counts, error) {
	p.Trouble(ctx, src, fmt.Errorf("offset %d is set aside: %w", d.Message.Offset, cause))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.WriteTimeout)
	defer cancel()
	if p.Retry != nil {
		if message, ok := p.Retry(d, src.Group); ok {
			_, err := p.Accept.Inbox.AcceptChunk(ctx, Chunk{Source: src, From: pos.Next, Next: next, Retries: []OutboxMessage{message}}, p.Accept.Limits)
			if err != nil {
				return pos.Next, Counts{}, fmt.Errorf("set offset %d aside: %w", d.Message.Offset, err)
			}
			return next, Counts{Retries: 1}, nil
		}
	}
	d.Kind = KindRefused
	d.Refusal = domain.Refuse(domain.ReasonRetriesExhausted, "the database refused it again and again")
	return p.Accept.Chunk(ctx, src, pos.Next, next, pos.RereadBelow, []Delivery{d})
}

// commit tells Kafka, again and again until it is done or the assignment is over: there may be no next
// message of an idle partition to cover for a commit that failed.
func (p Partition) commit(ctx context.Context, log PartitionLog, next int64) error {
	for try := 1; ; try++ {
		err := p.commitOnce(ctx, log, next)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, domain.ErrFenced), ctx.Err() != nil:
			return fmt.Errorf("commit offset %d: %w", next, err)
		}
		p.Turn()
		p.Clock.Sleep(ctx, p.Backoff.Delay(try, p.Random()))
	}
}

func (p Partition) commitOnce(ctx context.Context, log PartitionLog, next int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.WriteTimeout)
	defer cancel()
	return log.Commit(ctx, next) //nolint:wrapcheck // commit says what was being done
}

// after drops the deliveries below offset.
func after(deliveries []Delivery, offset int64) []Delivery {
	for i := range deliveries {
		if deliveries[i].Message.Offset >= offset {
			return deliveries[i:]
		}
	}
	return nil
}
