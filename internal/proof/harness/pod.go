package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"billing/internal/proof/point"
	"billing/internal/testkit"
)

// pod is one place where a process of the service runs, one after another.
type pod struct {
	rig      *rig
	name     string
	roles    string       // empty: all
	api      atomic.Value // where its process listens for clients, a string
	consumer bool
	mortal   bool          // it only dies: it is neither stopped nor paused
	calm     time.Duration // a life lasts half to one and a half of it
	random   *rand.Rand
	roll     chan chan struct{} // asks for a clean restart
	process  *testkit.Process
	points   func() string // the next point to die at, empty for none
}

var processes atomic.Int64

// start runs the next process, armed with a point or with none.
func (p *pod) start(at string) error {
	var more []string
	switch {
	case p.roles != "":
		more = append(more, "BILLING_ROLES="+p.roles)
	case p.rig.tokens != "":
		more = append(more, "BILLING_ROLES=consumer,charger,relay,maintenance,api", "BILLING_HTTP_ADDR=127.0.0.1:0", "BILLING_API_TOKENS_FILE="+p.rig.tokens)
	}
	if p.rig.o.Mutant != "" {
		more = append(more, "BILLING_MUTANT="+p.rig.o.Mutant)
	}
	if at != "" {
		hit := 1
		if at != point.PositionPut && at != point.MessagesReleased && at != point.JudgeOpen && at != point.JudgeCommitted {
			hit += p.random.IntN(8)
		}
		more = append(more, "BILLING_CRASH_POINT="+at, fmt.Sprintf("BILLING_CRASH_HIT=%d", hit))
	}
	number := int(processes.Add(1))
	var output io.Writer = &lines{book: p.rig.book}
	if p.rig.o.Logs != "" {
		file, err := os.Create(filepath.Join(p.rig.o.Logs, fmt.Sprintf("%04d-%s.log", number, p.name)))
		if err != nil {
			return fmt.Errorf("keep the log of a process: %w", err)
		}
		p.rig.onClose(file.Close)
		output = io.MultiWriter(output, file)
	}
	client := fmt.Sprintf("billing-%d", number)
	more = append(more, "BILLING_KAFKA_CLIENT_ID="+client)
	process, err := testkit.StartProcess(testkit.ProcessOptions{Path: p.rig.binary, Args: []string{"serve"}, Env: p.rig.env(more...), Output: output})
	if err != nil {
		return err
	}
	p.process = process
	p.rig.scrape(number, process, p)
	if p.rig.broker.apache == nil {
		p.rig.wait.Go(func() { p.rig.bury(process, client) })
	}
	return nil
}

// live lets process after process run and die until ctx ends; the last one is left running, unarmed.
func (p *pod) live(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := p.life(ctx); err != nil {
			return err
		}
	}
	if p.process == nil {
		return p.start("")
	}
	return nil
}

// life is one process from its start to its end.
func (p *pod) life(ctx context.Context) error {
	at := ""
	if p.random.IntN(3) > 0 {
		at = p.points()
	}
	if p.process == nil {
		if err := p.start(at); err != nil {
			return err
		}
	}
	patience := time.NewTimer(p.calm/2 + time.Duration(p.random.Int64N(int64(p.calm))))
	defer patience.Stop()
	select {
	case <-ctx.Done():
		return p.disarm(at)
	case <-p.process.Done():
		p.rig.book.killed() // at its point
		p.process = nil
		return nil
	case done := <-p.roll:
		err := p.term()
		if err == nil {
			err = p.start("")
		}
		close(done)
		return err
	case <-patience.C:
	}
	if at != "" { // the point was not reached in its time
		return p.kill()
	}
	return p.fate(ctx)
}

// fate ends a process that was not armed.
func (p *pod) fate(ctx context.Context) error {
	switch roll := p.random.IntN(100); {
	case p.mortal || roll < 55:
		return p.kill()
	case roll < 75:
		return p.term()
	case roll < 88:
		return p.pause(ctx, "sigstop_beyond_lease", p.rig.t.lease+2*time.Second)
	default:
		return p.pause(ctx, "sigstop_beyond_session", p.rig.t.session+2*time.Second)
	}
}

func (p *pod) kill() error {
	err := p.process.Kill()
	p.process = nil
	p.rig.book.killed()
	p.rig.book.note("sigkill", true)
	return err
}

// disarm replaces a process that would still die at a point.
func (p *pod) disarm(at string) error {
	if at == "" {
		return nil
	}
	if err := p.kill(); err != nil {
		return err
	}
	return p.start("")
}

// term asks the process to end and takes the time.
func (p *pod) term() error {
	process, start := p.process, time.Now()
	p.process = nil
	if err := process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 27*time.Second)
	defer cancel()
	code, err := process.Wait(ctx)
	if err != nil {
		err = errors.Join(err, process.Kill())
	}
	select {
	case <-process.Done():
	default:
	}
	if code == -1 { // its point came first
		p.rig.book.killed()
		return nil
	}
	p.rig.book.stopped(time.Since(start), code, err)
	p.rig.book.note("sigterm", err == nil)
	return nil
}

// pause lets the process stand still and go on.
func (p *pod) pause(ctx context.Context, kind string, d time.Duration) error {
	before := p.rig.pauseSigns()
	if err := p.process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	sleep(ctx, d)
	if err := p.process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	sleep(ctx, 2500*time.Millisecond)
	p.rig.book.note(kind, p.rig.pauseSigns() > before)
	return nil
}

// pauseSigns counts what others or the sleeper itself do about a sleep: leases that ran out, writes that
// were fenced, generations of the group.
func (r *rig) pauseSigns() int {
	return int(r.book.counter("billing_leases_expired_total") + r.book.counter("billing_fenced_writes_total") + r.book.counter("billing_kafka_rebalances_total"))
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// rotation gives out points, those first that were reached least.
func (r *rig) rotation(names []string, random *rand.Rand) func() string {
	return func() string {
		r.book.mu.Lock()
		defer r.book.mu.Unlock()
		var least []string
		for _, n := range names {
			if len(least) > 0 && r.book.points[n] > r.book.points[least[0]] {
				continue
			}
			if len(least) > 0 && r.book.points[n] < r.book.points[least[0]] {
				least = nil
			}
			least = append(least, n)
		}
		return least[random.IntN(len(least))]
	}
}
