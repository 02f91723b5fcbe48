package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"billing/internal/proof/point"
)

// Verdict is what a run proved.
type Verdict struct {
	// Reasons say why the run is red; none when it is green.
	Reasons []string
	// Report is for people.
	Report string
}

// Run runs the system of the options on the server and returns its verdict. An error means that the
// harness itself failed, and nothing is proved. When ctx ends, a full run stops breaking things, heals and
// audits what was done so far, and is red because it was interrupted; a quick one returns an error.
func Run(ctx context.Context, server *Server, binary string, o Options) (v Verdict, err error) {
	r, err := newRig(ctx, server, binary, o)
	if err != nil {
		return Verdict{}, err
	}
	defer func() { err = errors.Join(err, r.killAll(), r.close()) }()
	healing := context.WithoutCancel(ctx)
	watched, stopWatching := context.WithCancel(healing)
	defer stopWatching()
	r.ended = watched.Done()
	r.wait.Go(func() { r.watch(watched) })
	if o.Quick {
		if err := r.quick(ctx); err != nil {
			return Verdict{}, err
		}
		return r.conclude(ctx)
	}
	if err := r.full(ctx); err != nil {
		return Verdict{}, err
	}
	if ctx.Err() != nil {
		r.interrupted = time.Since(r.book.start)
		r.book.say("interrupted: what was done so far is healed and audited; a second interrupt ends this at once")
	}
	return r.conclude(healing)
}

func (r *rig) addPod(name, roles string, calm time.Duration, points []string) *pod {
	random := rand.New(rand.NewPCG(r.o.Seed, uint64(10+len(r.pods))))
	p := &pod{
		rig: r, name: name, roles: roles, consumer: roles == "", calm: calm, random: random,
		roll: make(chan chan struct{}), points: r.rotation(points, random),
	}
	r.pods = append(r.pods, p)
	return p
}

// killAll ends what is left; the verdict is known.
func (r *rig) killAll() error {
	var errs []error
	for _, p := range r.pods {
		if p.process != nil {
			errs = append(errs, p.process.Kill())
			p.process = nil
		}
	}
	r.wait.Wait()
	return errors.Join(errs...)
}

// full is the long form: everything at once, at random.
func (r *rig) full(ctx context.Context) error {
	tokens, removeTokens, err := tokensFile()
	if err != nil {
		return err
	}
	r.onClose(removeTokens)
	r.tokens, r.poster = tokens, newPoster(r)
	calm := func(d time.Duration) time.Duration { return d * time.Duration(max(r.o.Calm, 1)) }
	for i := range 3 {
		r.addPod(fmt.Sprintf("pod-%d", i+1), "", calm(13*time.Second), point.Consumer())
	}
	for i := range 3 {
		r.addPod(fmt.Sprintf("worker-%d", i+1), "charger,relay", calm(2500*time.Millisecond), point.Worker())
	}
	chaos, stop := context.WithTimeout(ctx, r.o.Duration)
	defer stop()
	group, chaos := errgroup.WithContext(chaos)
	group.Go(func() error { return r.producer.run(chaos, r.o.Rate) })
	for _, p := range r.pods {
		if r.o.Idle {
			if err := p.start(""); err != nil {
				return err
			}
			continue
		}
		group.Go(func() error { return p.live(chaos) })
	}
	if !r.o.Idle {
		group.Go(func() error {
			return r.breakThings(chaos, rand.New(rand.NewPCG(r.o.Seed, 3)), calm(2500*time.Millisecond))
		})
	}
	group.Go(func() error { r.poster.run(chaos, 10); return nil })
	group.Go(func() error { return r.copyLate(chaos) })
	group.Go(func() error { r.progress(chaos); return nil })
	group.Go(func() error { r.measure(chaos); return nil })
	if err := group.Wait(); err != nil {
		return err
	}
	r.book.say("everything heals")
	r.poster.finish(context.WithoutCancel(ctx))
	return nil
}

// copyLate copies the database after four fifths of the time, to be restored in the end.
func (r *rig) copyLate(ctx context.Context) error {
	sleep(ctx, r.o.Duration*4/5)
	for ctx.Err() == nil {
		if err := r.server.postgres.CloneDatabase(context.WithoutCancel(ctx), r.dbName, r.dbName+"_copy"); err == nil {
			r.onClose(func() error {
				return r.server.postgres.DropDatabase(context.Background(), r.dbName+"_copy")
			})
			r.copied = true
			r.book.say("the database is copied")
			return nil
		}
		sleep(ctx, time.Second) // the server is being restarted
	}
	return nil
}

func (r *rig) progress(ctx context.Context) {
	for ctx.Err() == nil {
		sleep(ctx, max(15*time.Second, r.o.Duration/100))
		if ctx.Err() != nil {
			return
		}
		charges, _ := r.count(ctx, "SELECT count(*) FROM charge WHERE status <> 'requested'") // away now and then
		stats := r.sim.Stats()
		r.book.mu.Lock()
		kills := r.book.kills
		r.book.mu.Unlock()
		r.book.say("%d events acknowledged, %d charges settled, %d requests, %d kills", r.journal.acked.Load(), charges, stats.Received, kills)
	}
}

// drain waits until nothing is left to do, and says what was left when it took too long.
func (r *rig) drain(ctx context.Context, limit time.Duration) {
	start := time.Now()
	for time.Since(start) < limit && ctx.Err() == nil && len(r.book.violated()) == 0 {
		if r.drained(ctx) {
			r.book.say("drained within %s", time.Since(start).Round(time.Second))
			return
		}
		sleep(ctx, 200*time.Millisecond)
	}
	r.book.say("NOT drained within %s", limit)
}

// patience is how long what is left may take: what came in while everything was broken waits, too. Of a mutant nothing good is
// expected, while the service as it is may run beside many others.
func (r *rig) patience(full time.Duration) time.Duration {
	switch {
	case !r.o.Quick:
		return full + r.o.Duration/5
	case r.o.Mutant == "":
		return time.Minute
	}
	return 25 * time.Second
}

func (r *rig) drained(ctx context.Context) bool {
	var out findings
	if err := r.judgePositions(ctx, &out); err != nil || out.total() > 0 {
		return false
	}
	n, err := r.count(ctx, `SELECT (SELECT count(*) FROM outbox WHERE run_at < 'infinity') + (SELECT count(*) FROM charge_attempt WHERE outcome IS NULL)`)
	return err == nil && n == 0
}

// conclude drains, audits, restores the copy, audits again, and says what was proved.
func (r *rig) conclude(ctx context.Context) (Verdict, error) {
	r.drain(ctx, r.patience(3*time.Minute))
	facts, err := r.gather(ctx)
	if err != nil {
		return Verdict{}, err
	}
	found := r.judge(facts, false)
	if err := r.judgeTables(ctx, &found); err != nil {
		return Verdict{}, err
	}
	r.lookAtEffects()
	v := Verdict{Reasons: r.book.violated()}
	v.take("", found)
	if err := r.ownAudit(ctx, &v); err != nil {
		return Verdict{}, err
	}
	report := r.report(facts, found)
	v.Reasons = append(v.Reasons, r.badStops()...)
	v.Reasons = append(v.Reasons, r.grewTooMuch()...)
	switch {
	case r.interrupted > 0:
		v.Reasons = append(v.Reasons, fmt.Sprintf("interrupted after %s of %s", r.interrupted.Round(time.Second), r.o.Duration))
	case !r.o.Quick || r.o.Idle:
		v.Reasons = append(v.Reasons, r.didNothing()...)
	}
	if len(v.Reasons) == 0 && r.copied {
		after, err := r.restore(ctx)
		if err != nil {
			return Verdict{}, err
		}
		v.take("after the restore: ", after)
		report += fmt.Sprintf("after the restore of an earlier copy: findings %s\n", after.String())
		if err := r.ownAudit(ctx, &v); err != nil {
			return Verdict{}, err
		}
	}
	v.Report = report
	return v, nil
}

func (v *Verdict) take(prefix string, f findings) {
	if f.total() > 0 {
		v.Reasons = append(v.Reasons, prefix+f.String())
		for _, e := range f.examples {
			v.Reasons = append(v.Reasons, prefix+e)
		}
	}
}

// ownAudit runs the service's own audit against the provider's list.
func (r *rig) ownAudit(ctx context.Context, v *Verdict) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	code, output, err := r.verb(ctx, "audit", "--provider", "--grace", "0s")
	if err != nil {
		return fmt.Errorf("billing audit: %w", err)
	}
	if code != 0 {
		var lines []string
		for line := range strings.Lines(output) {
			if fields := strings.Fields(line); len(fields) > 2 && fields[2] != "0" {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		v.Reasons = append(v.Reasons, fmt.Sprintf("billing audit ended with %d: %s", code, strings.Join(lines[:min(len(lines), 6)], " | ")))
	}
	r.book.say("billing audit --provider ended with %d", code)
	return nil
}

// restore puts the earlier copy back while nothing runs, starts the processes again, and produces a little
// more: positions and charges are behind what Kafka and the provider know.
func (r *rig) restore(ctx context.Context) (findings, error) {
	for _, p := range r.pods {
		if p.process != nil {
			if err := p.term(); err != nil {
				return findings{}, err
			}
		}
	}
	r.restored.Store(true)
	r.pool.Reset()
	if err := r.server.postgres.DropDatabase(ctx, r.dbName); err != nil {
		return findings{}, err
	}
	if err := r.server.postgres.CloneDatabase(ctx, r.dbName+"_copy", r.dbName); err != nil {
		return findings{}, err
	}
	r.book.say("the earlier copy is restored")
	for range 30 {
		r.producer.send(ctx, r.producer.next())
	}
	if err := r.producer.flush(ctx); err != nil {
		return findings{}, err
	}
	for _, p := range r.pods {
		if err := p.start(""); err != nil {
			return findings{}, err
		}
	}
	if r.poster != nil {
		r.poster.repeatAll(ctx)
	}
	r.drain(ctx, r.patience(5*time.Minute))
	facts, err := r.gather(ctx)
	if err != nil {
		return findings{}, err
	}
	found := r.judge(facts, true)
	return found, r.judgeTables(ctx, &found)
}
