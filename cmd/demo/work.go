package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"billing/internal/paysim"
)

const (
	lookEvery    = 100 * time.Millisecond
	chunkEvery   = 20 * time.Millisecond
	patience     = 120 * time.Second // without any progress
	fullTime     = 2 * time.Second   // in which all orders are produced, at least
	fastest      = 5000              // messages a second
	answerWithin = 10 * time.Second
)

// counts is how far the service is, by its database.
type counts struct {
	consumed, charges, settled, waiting, letters int64
}

// done tells whether all that was produced has come to its end.
func (c counts) done(produced int64) bool {
	return c.consumed >= produced && c.settled == c.charges && c.waiting == 0
}

func (d *demo) count(ctx context.Context) (c counts, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	err = d.watching.QueryRow(ctx, `
		SELECT (SELECT coalesce(sum(next_offset), 0)::bigint FROM consumer_position WHERE topic = $1),
		       (SELECT count(*) FROM charge), (SELECT count(*) FROM charge WHERE status <> 'requested'),
		       (SELECT count(*) FROM outbox WHERE run_at < 'infinity'), (SELECT count(*) FROM dead_letter)`, ordersTopic).
		Scan(&c.consumed, &c.charges, &c.settled, &c.waiting, &c.letters)
	if err != nil {
		return c, fmt.Errorf("look at the database: %w", err)
	}
	return c, nil
}

// work produces all orders, kills a process half-way, and returns when everything is settled and published.
func (d *demo) work(ctx context.Context) error {
	now := time.Now()
	d.planner = newPlanner(d.options.seed, now)
	plan := d.planner.plan(d.options.events)
	d.began = now
	group, ctx := errgroup.WithContext(ctx)
	produced := make(chan struct{})
	group.Go(func() error {
		if err := d.produceAll(ctx, plan); err != nil {
			return err
		}
		close(produced)
		return nil
	})
	half := make(chan struct{})
	group.Go(func() error {
		if err := d.sim.Wait(ctx, d.timeToKill); err != nil {
			return err
		}
		close(half)
		return nil
	})
	group.Go(func() error { return d.watch(ctx, int64(len(plan)), produced, half) })
	if err := group.Wait(); err != nil {
		return err
	}
	d.sent, d.settled = plan, time.Since(d.began)
	d.out.step("every charge is settled and every result published")
	return nil
}

// timeToKill is when half of the orders are charged and both processes have requests at the provider; soon
// after that it is time anyway.
func (d *demo) timeToKill(s paysim.Stats) bool {
	busy := s.Executing > min(concurrency, d.options.events/100)
	return s.Effects*2 >= d.options.events && busy || s.Effects*4 >= d.options.events*3
}

// produceAll sends the plan evenly over some time, so that there is something to see.
func (d *demo) produceAll(ctx context.Context, plan []*message) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(d.brokers...))
	if err != nil {
		return fmt.Errorf("make producer: %w", err)
	}
	defer client.Close()
	chunk := max(1, min(len(plan)*int(chunkEvery)/int(fullTime), fastest*int(chunkEvery)/int(time.Second)))
	ticker := time.NewTicker(chunkEvery)
	defer ticker.Stop()
	for at := 0; at < len(plan); at += chunk {
		if err := produce(ctx, client, plan[at:min(at+chunk, len(plan))]); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	d.out.step("the producer has sent %s messages", grouped(len(plan)))
	return nil
}

// watch shows the progress, kills one process half-way, and returns when all is done. It fails when nothing
// has moved for a while.
func (d *demo) watch(ctx context.Context, messages int64, produced, half <-chan struct{}) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var last counts
	var second []int64 // settled, at the looks of about the last second
	moved := time.Now()
	for {
		select {
		case <-ticker.C:
		case <-half:
			if err := d.killOne(ctx); err != nil {
				return err
			}
			half = nil
		case <-ctx.Done():
			return ctx.Err()
		}
		now, err := d.look(ctx)
		if err != nil {
			return err
		}
		if now != last {
			last, moved = now, time.Now()
		}
		if time.Since(moved) > patience {
			return d.stuck(ctx, now, messages)
		}
		second = append(second, now.settled)
		second = second[max(0, len(second)-int(time.Second/lookEvery)-1):]
		d.busiest = max(d.busiest, now.settled-second[0])
		d.out.progress(d.describe(now))
		select {
		case <-produced:
			if now.done(messages) && d.kills > 0 {
				return nil
			}
		default:
		}
	}
}

// look counts, and fails when a process has ended by itself.
func (d *demo) look(ctx context.Context) (counts, error) {
	if err := d.ended(); err != nil {
		return counts{}, err
	}
	return d.count(ctx)
}

func (d *demo) describe(c counts) string {
	return fmt.Sprintf("%6.1fs  %s %s of %s settled, %s to publish, %s dead letters", d.out.elapsed().Seconds(),
		bar(c.settled, int64(d.options.events), 20), grouped(c.settled), grouped(d.options.events), grouped(max(0, c.waiting-c.charges+c.settled)), grouped(c.letters))
}

// killOne ends one process without any warning and starts it again.
func (d *demo) killOne(ctx context.Context) error {
	victim := d.processes[rand.New(rand.NewPCG(d.options.seed, 1)).IntN(len(d.processes))]
	pid, stats := victim.running.Pid(), d.sim.Stats()
	if err := victim.kill(); err != nil {
		return err
	}
	d.kills++
	d.out.step("%s", d.out.bold(fmt.Sprintf("kill -9 %d: %s, after %s charges, with %d requests at the provider", pid, victim.name, grouped(stats.Effects), stats.Executing)))
	if err := victim.start(d.binary, d.env("BILLING_KAFKA_CLIENT_ID="+victim.name)); err != nil {
		return err
	}
	if err := victim.awaitReady(ctx); err != nil {
		return err
	}
	d.out.step("%s serves again, process %d; its leases and its group session have to run out", victim.name, victim.running.Pid())
	return nil
}

// stuck says what has not come to its end.
func (d *demo) stuck(ctx context.Context, c counts, messages int64) error {
	what := []string{fmt.Sprintf("nothing has moved for %s", patience)}
	if n := messages - c.consumed; n > 0 {
		what = append(what, fmt.Sprintf("%d of %d messages are not consumed", n, messages))
	}
	if n := c.charges - c.settled; n > 0 {
		what = append(what, fmt.Sprintf("%d of %d charges are not settled", n, c.charges))
	}
	if c.waiting > 0 {
		what = append(what, fmt.Sprintf("%d rows wait in the outbox", c.waiting))
	}
	var outcomes *string
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	err := d.watching.QueryRow(ctx, `
		SELECT string_agg(format('%s x %s', n, outcome), ', ')
		  FROM (SELECT coalesce(last_outcome, 'never sent') AS outcome, count(*) AS n FROM charge WHERE status = 'requested' GROUP BY 1) o`).
		Scan(&outcomes)
	if err == nil && outcomes != nil {
		what = append(what, "last outcomes of those charges: "+*outcomes)
	}
	return errors.New("stuck: " + strings.Join(what, "; "))
}
