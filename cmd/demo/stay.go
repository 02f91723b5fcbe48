package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	trickleEvery = 500 * time.Millisecond
	stayLines    = 20 // trickled orders between two lines where progress cannot be rewritten
)

// stay keeps the system running, with a new order now and then, until ctx is done.
func (d *demo) stay(ctx context.Context) error {
	d.out.printf("%s", d.out.bold("  Still running. Ctrl-C ends it and leaves nothing behind."))
	for _, p := range d.processes {
		d.out.printf("  metrics   curl -s http://%s/metrics | grep '^billing_'     %s", p.ops, d.out.dim(p.name))
	}
	d.out.printf("  database  psql '%s'", d.database)
	d.out.printf("  kafka     %s", d.brokers[0])
	d.out.printf("  provider  curl -s %s/_sim/stats", d.simURL)
	for _, p := range d.processes {
		d.out.printf("  log       tail -f %s", p.log)
	}
	d.out.printf("")
	client, err := kgo.NewClient(kgo.SeedBrokers(d.brokers...))
	if err != nil {
		return fmt.Errorf("make producer: %w", err)
	}
	defer client.Close()
	return d.trickle(ctx, client)
}

func (d *demo) trickle(ctx context.Context, client *kgo.Client) error {
	ticker := time.NewTicker(trickleEvery)
	defer ticker.Stop()
	for made := 1; ; made++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		d.planner.now = time.Now()
		if err := produce(ctx, client, []*message{d.planner.confirm()}); err != nil {
			return unlessInterrupted(ctx, err)
		}
		now, err := d.look(ctx)
		if err != nil {
			return unlessInterrupted(ctx, err)
		}
		if d.out.live || made%stayLines == 0 {
			d.out.progress(fmt.Sprintf("  %s new orders, %s charges settled, %s in the outbox", grouped(made), grouped(now.settled), grouped(now.waiting)))
		}
	}
}

// unlessInterrupted drops an error that comes from being interrupted.
func unlessInterrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the interrupt is what ended it
	}
	return errors.Join(errors.New("the system broke while it was left running"), err)
}
