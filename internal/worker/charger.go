package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// Charger runs the three steps of charging, claim, send and settle, so that many requests are in flight
// while each step stays a plain function: one goroutine claims, Concurrency send, one settles in batches.
type Charger struct {
	Queue       usecase.ChargeQueue
	Send        usecase.Send
	Settle      usecase.Settle
	Gate        *usecase.Gate
	Rules       usecase.ClaimRules
	Concurrency int           // requests in flight
	Ahead       int           // claims waiting for a sender, at most
	Poll        time.Duration // pause when nothing is due
	SettleAfter time.Duration // an outcome waits at most this long for others
	SettleMost  int           // outcomes of one statement
	DBTimeout   time.Duration // of one statement
	Backoff     domain.Backoff
	Clock       usecase.Clock
	Wake        <-chan struct{}
	Settled     func() // called after announcements were committed
	Observe     ChargerObserver
	Log         *slog.Logger

	pace atomic.Int64 // how long a call takes, a moving average in nanoseconds; 0 is not known
}

// What keeps the senders busy and outcomes prompt, as measured.
const (
	SettleAfter = 5 * time.Millisecond
	SettleMost  = 50

	// settleCrowd times SettleMost outcomes are written at once when so many wait already.
	settleCrowd = 4
	// holdAhead is how long a claim may be expected to wait for a sender: another process could send it meanwhile,
	// and a claim that waits for too long is given back.
	holdAhead = 500 * time.Millisecond
)

// AheadOf is how many claims may wait for that many senders of a fast provider.
func AheadOf(concurrency int) int { return 4 * concurrency }

// ChargerObserver is told what the charger does, for the metrics at the edge.
type ChargerObserver interface {
	Turn()
	// Claimed is told of each claiming statement that found something.
	Claimed(claims []usecase.Claim, took time.Duration)
	// Started is told that the work on a claim begins; what it returns is called with the end.
	Started(c usecase.Claim) func(s usecase.Settlement, took time.Duration)
	// Attempted is told of each outcome, also of claims that were given back.
	Attempted(s usecase.Settlement)
	// Settled is told of each settling statement.
	Settled(r usecase.SettleReport, took time.Duration)
}

// Run works until ctx is done. Then nothing more is claimed, claims that were not begun are given back,
// requests in flight end on their own deadline, and every outcome is settled before Run returns.
func (c *Charger) Run(ctx context.Context) error {
	claims := make(chan usecase.Claim, c.Ahead)
	outcomes := make(chan usecase.Settlement, c.Concurrency+c.Ahead)
	slots := make(chan struct{}, c.Concurrency+c.Ahead) // bounds what is claimed and not settled
	freed := NewSignal()
	var senders, settler sync.WaitGroup
	settler.Go(func() { c.settle(ctx, outcomes, slots, freed) })
	for range c.Concurrency {
		senders.Go(func() {
			for claim := range claims {
				outcomes <- c.send(ctx, claim)
			}
		})
	}
	c.claim(ctx, claims, slots, freed)
	close(claims)
	senders.Wait()
	close(outcomes)
	settler.Wait()
	return nil
}

// claim feeds the senders as fast as gate and slots allow.
func (c *Charger) claim(ctx context.Context, claims chan<- usecase.Claim, slots chan struct{}, freed <-chan struct{}) {
	failing := failure{log: c.Log, doing: "claim charges"}
	for ctx.Err() == nil {
		c.Observe.Turn()
		ahead := c.ahead()
		free := c.Concurrency + ahead - len(slots)
		if free < c.worthClaiming(ahead) {
			c.rest(ctx, c.Poll, freed)
			continue
		}
		n, wait := c.Gate.Allow(free)
		if n == 0 {
			c.rest(ctx, min(max(wait, c.Poll/10), time.Second), nil)
			continue
		}
		taken, err := c.claimOnce(ctx, n)
		if len(taken) == 0 {
			c.Gate.Unused()
		}
		if err != nil {
			failing.note(ctx, err)
			c.Clock.Sleep(ctx, c.Backoff.Delay(min(failing.n, 8), c.Send.Random()))
			continue
		}
		failing.end(ctx)
		for _, claim := range taken {
			slots <- struct{}{} // never blocks: free was counted by the only one who takes
			claims <- claim
		}
		if len(taken) < n {
			c.rest(ctx, c.Poll, nil)
		}
	}
}

// ahead is how many claims may wait for a sender now: fewer the longer a call takes.
func (c *Charger) ahead() int {
	pace := time.Duration(c.pace.Load())
	if pace == 0 {
		return min(c.Concurrency, c.Ahead)
	}
	return min(max(int(int64(c.Concurrency)*int64(holdAhead)/int64(pace)), 1), c.Ahead)
}

// keepPace takes the time of a call into the average. Of two at the same moment one may be lost.
func (c *Charger) keepPace(took time.Duration) {
	pace := c.pace.Load()
	c.pace.Store(max(pace+(int64(took)-pace)/8, 1))
}

// worthClaiming keeps claims large while the queue is long and calls are short: a statement for each freed
// slot would cost more than the requests themselves. No sender waits for it while others are ahead.
func (c *Charger) worthClaiming(ahead int) int {
	return max(min((c.Concurrency+ahead)/4, ahead/2), 1)
}

func (c *Charger) claimOnce(ctx context.Context, n int) ([]usecase.Claim, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.DBTimeout)
	defer cancel()
	before := c.Clock.Now()
	taken, err := c.Queue.ClaimCharges(ctx, n, c.Rules)
	if err != nil {
		return nil, fmt.Errorf("charger: %w", err)
	}
	for i := range taken {
		taken[i].ClaimedAt = before
	}
	if len(taken) > 0 {
		c.Observe.Claimed(taken, c.Clock.Now().Sub(before))
	}
	return taken, nil
}

// send makes the call, or gives the claim back when the process is stopping.
func (c *Charger) send(ctx context.Context, claim usecase.Claim) usecase.Settlement {
	if ctx.Err() != nil {
		settlement := c.Send.Release(claim)
		c.Observe.Attempted(settlement)
		return settlement
	}
	done := c.Observe.Started(claim)
	before := c.Clock.Now()
	settlement := c.Send.Do(ctx, claim)
	took := c.Clock.Now().Sub(before)
	if settlement.Outcome != domain.NotSent {
		c.keepPace(took)
	}
	done(settlement, took)
	c.Observe.Attempted(settlement)
	return settlement
}

// settle collects outcomes and writes them together, until all senders are done.
func (c *Charger) settle(stopping context.Context, outcomes <-chan usecase.Settlement, slots <-chan struct{}, freed Signal) {
	ctx := context.WithoutCancel(stopping)
	for first := range outcomes {
		batch := c.collect(first, outcomes)
		c.write(ctx, stopping, batch)
		for range batch {
			<-slots
		}
		freed.Set()
	}
}

// collect waits a moment for more: one commit for fifty outcomes costs hardly more than for one. What came
// during the last commit is taken along.
func (c *Charger) collect(first usecase.Settlement, outcomes <-chan usecase.Settlement) []usecase.Settlement {
	batch := append(make([]usecase.Settlement, 0, c.SettleMost), first)
	timer := time.NewTimer(c.SettleAfter)
	defer timer.Stop()
	for len(batch) < c.SettleMost || (len(outcomes) > 0 && len(batch) < settleCrowd*c.SettleMost) {
		select {
		case next, ok := <-outcomes:
			if !ok {
				return batch
			}
			batch = append(batch, next)
		case <-timer.C:
			return batch
		}
	}
	return batch
}

// write settles a batch, again and again while the database is away: an answer that was received must
// not be lost. What the database refuses for another reason is written one by one, so that one outcome
// cannot hold up the others, and is soon left to its charge's next owner, who asks again with the same key.
func (c *Charger) write(ctx, stopping context.Context, batch []usecase.Settlement) {
	failing := failure{log: c.Log, doing: "settle charges"}
	deadline := c.Clock.Now().Add(c.Rules.Lease)
	for {
		before := c.Clock.Now()
		report, err := c.writeOnce(ctx, batch)
		if err == nil {
			failing.end(ctx)
			c.Observe.Settled(report, c.Clock.Now().Sub(before))
			c.Settled()
			return
		}
		failing.note(ctx, err)
		away := errors.Is(err, domain.ErrOutage) || errors.Is(err, domain.ErrRetry)
		switch {
		case !away && len(batch) > 1:
			for i := range batch {
				c.write(ctx, stopping, batch[i:i+1])
			}
			return
		case !away && failing.n >= refusedMost, away && stopping.Err() != nil && c.Clock.Now().After(deadline):
			c.Log.ErrorContext(ctx, "outcomes are left to the next owners of their charges", "charges", len(batch), "error", err)
			return
		}
		c.Clock.Sleep(ctx, c.Backoff.Delay(min(failing.n, 6), c.Send.Random()))
	}
}

// refusedMost is how often the database may refuse a single outcome.
const refusedMost = 3

func (c *Charger) writeOnce(ctx context.Context, batch []usecase.Settlement) (usecase.SettleReport, error) {
	ctx, cancel := context.WithTimeout(ctx, c.DBTimeout)
	defer cancel()
	report, err := c.Settle.Do(ctx, batch)
	if err != nil {
		return report, fmt.Errorf("charger: %w", err)
	}
	return report, nil
}

// rest waits for d, until a new charge was accepted by this process, or until slots were freed.
func (c *Charger) rest(ctx context.Context, d time.Duration, freed <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-c.Wake:
	case <-freed:
	}
}

// failure logs a repeated failure once, and again when its reason changes.
type failure struct {
	log    *slog.Logger
	doing  string
	n      int
	reason string
}

func (f *failure) note(ctx context.Context, err error) {
	f.n++
	if text := err.Error(); text != f.reason {
		f.reason = text
		f.log.ErrorContext(ctx, "step failed and is tried again", "step", f.doing, "error", err)
	}
}

func (f *failure) end(ctx context.Context) {
	if f.n > 0 {
		f.log.InfoContext(ctx, "step works again", "step", f.doing, "failures", f.n)
		f.n, f.reason = 0, ""
	}
}
