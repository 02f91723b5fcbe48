package harness

import (
	"context"
	"errors"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"billing/internal/proof/point"
)

// quickFor is how long the short form breaks things at most, and without faults.
const quickFor = 25 * time.Second

// quick is the short form: two processes and a worker, and in ten seconds one of each fault that some
// mutant needs. A violation that is seen at once ends it early.
func (r *rig) quick(ctx context.Context) error {
	sleeper := r.addPod("pod-1", "", time.Hour, point.Consumer())
	other := r.addPod("pod-2", "", time.Hour, point.Consumer())
	worker := r.addPod("worker-1", "charger,relay", 900*time.Millisecond, []string{
		point.MessagesAcked, point.MessagesProduced, point.SendWritten, point.SettleBefore, point.ChargesClaimed,
	})
	worker.mortal = true
	for range 3 {
		r.producer.send(ctx, r.producer.confirm(silentPrefix))
	}
	for range 3 * r.o.Rate {
		r.producer.send(ctx, r.producer.next())
	}
	chaos, stop := context.WithTimeout(ctx, quickFor)
	defer stop()
	group, chaos := errgroup.WithContext(chaos)
	for _, p := range []*pod{sleeper, other, worker} {
		if err := p.start(""); err != nil {
			return err
		}
	}
	group.Go(func() error { return r.producer.run(chaos, r.o.Rate) })
	if !r.o.Idle {
		group.Go(func() error { return worker.live(chaos) })
		group.Go(func() error {
			defer stop()
			return r.drill(chaos, sleeper, other)
		})
	} else {
		group.Go(func() error {
			defer stop()
			sleep(chaos, 3*time.Second)
			return nil
		})
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

// drill is what happens in the short form besides the deaths of the worker. The order matters: what a sleeper
// holds when it falls asleep has to be what it writes when it wakes, so its connection to the database must
// last.
func (r *rig) drill(ctx context.Context, sleeper, other *pod) error {
	if err := r.sim.WaitEffects(ctx, r.o.Rate/4); err != nil {
		return nil //nolint:nilerr // too late for more
	}
	if err := r.server.postgres.CloneDatabase(context.WithoutCancel(ctx), r.dbName, r.dbName+"_copy"); err != nil {
		return err
	}
	r.onClose(func() error { return r.server.postgres.DropDatabase(context.Background(), r.dbName+"_copy") })
	r.copied = true
	if err := r.sim.WaitEffects(ctx, r.sim.Stats().Effects+r.o.Rate/2); err != nil {
		return nil //nolint:nilerr // too late for more
	}
	if err := sleeper.process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	err := r.whileAsleep(ctx)
	r.book.note("sigstop_beyond_session", true)
	if err := errors.Join(err, sleeper.process.Signal(syscall.SIGCONT)); err != nil {
		return err
	}
	sleep(ctx, 500*time.Millisecond)
	if err := r.answersLost(r.pgProxy)(ctx); err != nil {
		return err
	}
	r.book.note("postgres_answers_lost", true)
	if err := other.kill(); err != nil {
		return err
	}
	return other.start("")
}

func (r *rig) whileAsleep(ctx context.Context) error {
	sleep(ctx, 700*time.Millisecond) // what the sleeper asked for is on its way to it
	r.broker.proxy.Refuse()
	sleep(ctx, 1500*time.Millisecond)
	if err := r.broker.proxy.Resume(); err != nil {
		return err
	}
	r.book.note("kafka_refuse", true)
	joined := r.book.said("joined the group")
	for _, f := range r.faults() {
		if (f.kind == "provider_slow" || f.kind == "provider_answers_lost") && ctx.Err() == nil {
			if err := f.run(ctx); err != nil {
				return err
			}
			r.book.note(f.kind, true)
		}
	}
	// The others take the sleeper's partitions over, and go on where it stands.
	for r.book.said("joined the group") == joined && ctx.Err() == nil {
		sleep(ctx, 50*time.Millisecond)
	}
	sleep(ctx, time.Second)
	return nil
}
