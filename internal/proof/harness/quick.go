package harness

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"billing/internal/proof/point"
)

// quickFor is how long the short form breaks things.
const quickFor = 10500 * time.Millisecond

// quick is the short form: two processes and a worker, and in ten seconds one of each fault that some
// mutant needs. A violation that is seen at once ends it early.
func (r *rig) quick(ctx context.Context) error {
	sleeper := r.addPod("pod-1", "", time.Hour, point.Consumer())
	other := r.addPod("pod-2", "", time.Hour, point.Consumer())
	worker := r.addPod("worker-1", "charger,relay", 900*time.Millisecond, []string{
		point.MessagesAcked, point.MessagesProduced, point.SendWritten, point.SettleBefore, point.ChargesClaimed,
	})
	for range 3 {
		r.producer.send(ctx, r.producer.confirm(silentPrefix))
	}
	chaos, stop := context.WithTimeout(ctx, quickFor)
	defer stop()
	group, chaos := errgroup.WithContext(chaos)
	for p, at := range map[*pod]string{sleeper: "", other: point.AcceptCommitted, worker: ""} {
		if r.o.Idle {
			at = ""
		}
		if err := p.start(at); err != nil {
			return err
		}
	}
	group.Go(func() error {
		busy, end := context.WithTimeout(chaos, quickFor-time.Second)
		defer end()
		return r.producer.run(busy, r.o.Rate)
	})
	if !r.o.Idle {
		group.Go(func() error { return other.liveOnce(chaos) })
		group.Go(func() error { return worker.live(chaos) })
		group.Go(func() error { return r.drill(chaos, sleeper) })
	}
	group.Go(func() error {
		for chaos.Err() == nil {
			if len(r.book.violated()) > 0 {
				stop()
			}
			sleep(chaos, 100*time.Millisecond)
		}
		return nil
	})
	return group.Wait()
}

// drill is what happens in the short form besides the deaths of the other two.
func (r *rig) drill(ctx context.Context, sleeper *pod) error {
	sleep(ctx, 2*time.Second)
	if ctx.Err() != nil {
		return nil
	}
	if err := r.server.postgres.CloneDatabase(context.WithoutCancel(ctx), r.dbName, r.dbName+"_copy"); err != nil {
		return err
	}
	r.onClose(func() error { return r.server.postgres.DropDatabase(context.Background(), r.dbName+"_copy") })
	r.copied = true
	sleep(ctx, 300*time.Millisecond)
	if err := sleeper.process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	wake := time.Now().Add(7 * time.Second)
	wanted := []string{"kafka_refuse", "provider_slow", "postgres_answers_lost", "provider_answers_lost"}
	for _, f := range r.faults() {
		if slices.Contains(wanted, f.kind) && ctx.Err() == nil {
			if err := f.run(ctx); err != nil {
				return errors.Join(err, sleeper.process.Signal(syscall.SIGCONT))
			}
			r.book.note(f.kind, true)
		}
	}
	sleep(ctx, time.Until(wake))
	r.book.note("sigstop_beyond_session", true)
	return sleeper.process.Signal(syscall.SIGCONT)
}

// liveOnce lets the armed process die at its point and runs another one that stays: each death of a consumer
// costs its group a session.
func (p *pod) liveOnce(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return p.disarm(point.AcceptCommitted)
	case <-p.process.Done():
		p.rig.book.killed()
		return p.start("")
	}
}
