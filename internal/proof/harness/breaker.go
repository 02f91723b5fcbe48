package harness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"billing/internal/paysim"
	"billing/internal/testkit"
)

// fault is one way to break what the processes stand on. It heals before run returns. sign counts what must
// move by it: in logs and counters of the processes, at the provider, or in the tables.
type fault struct {
	kind string
	run  func(ctx context.Context) error
	sign func(ctx context.Context) int
}

// faults lists what this system can suffer.
func (r *rig) faults() []fault {
	list := []fault{
		{"postgres_restart", r.restartPostgres, r.databaseTrouble},
		{"postgres_cut", r.network(r.pgProxy, (*testkit.Proxy).Cut), r.databaseTrouble},
		{"postgres_refuse", r.network(r.pgProxy, (*testkit.Proxy).Refuse), r.databaseTrouble},
		{"postgres_black_hole", r.longBlackHole, r.databaseTrouble},
		{"postgres_answers_lost", r.answersLost(r.pgProxy), r.databaseTrouble},
		{"postgres_slow", r.slow(r.pgProxy), func(context.Context) int { return int(r.pgProxy.BytesDown()) }},
		{"kafka_cut", r.network(r.broker.proxy, (*testkit.Proxy).Cut), r.kafkaTrouble},
		{"kafka_refuse", r.network(r.broker.proxy, (*testkit.Proxy).Refuse), r.kafkaTrouble},
		{"kafka_black_hole", r.network(r.broker.proxy, (*testkit.Proxy).BlackHole), r.kafkaTrouble},
		{"kafka_answers_lost", r.answersLost(r.broker.proxy), r.kafkaTrouble},
		{"provider_refuse", r.network(r.payProxy, (*testkit.Proxy).Refuse), r.attempts("outcome = 'not_sent' AND detail LIKE 'no connection%'")},
		{"provider_black_hole", r.network(r.payProxy, (*testkit.Proxy).BlackHole), r.attempts("outcome = 'unknown'")},
		{"provider_network_answers_lost", r.answersLost(r.payProxy), r.attempts("outcome = 'unknown'")},
		{"provider_outage", r.provider(paysim.Fault{Kind: paysim.Answer, Status: 503, RetryAfter: "1"}), r.attempts("http_status = 503")},
		{"provider_slow", r.provider(paysim.Fault{Kind: paysim.Hang, Phase: paysim.After, Limit: 2 * r.t.timeout}), r.attempts("outcome = 'unknown' AND http_status IS NULL")},
		{"provider_answers_lost", r.provider(paysim.Fault{Kind: paysim.Drop, Phase: paysim.After}), r.replays},
		{"provider_errors", r.provider(paysim.Fault{Kind: paysim.Answer, Status: 500, Phase: paysim.After}), r.attempts("http_status = 500")},
		{"rolling_restart", r.rollingRestart, func(context.Context) int { return r.book.said("stopped") }},
	}
	if r.broker.apache != nil {
		list = append(list, fault{"broker_kill", r.killBroker, r.kafkaTrouble})
	}
	return list
}

// breakThings suffers one fault after another until ctx ends, each kind as often as any other.
func (r *rig) breakThings(ctx context.Context, random *rand.Rand, rest time.Duration) error {
	var queue []fault
	for {
		sleep(ctx, rest/2+time.Duration(random.Int64N(int64(rest))))
		if ctx.Err() != nil {
			return nil
		}
		if len(queue) == 0 {
			queue = r.faults()
			random.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
		}
		if err := r.suffer(ctx, queue[0]); err != nil {
			return err
		}
		queue = queue[1:]
	}
}

// suffer injects a fault and waits a moment for its sign.
func (r *rig) suffer(ctx context.Context, f fault) error {
	before := f.sign(ctx)
	if err := f.run(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("%s: %w", f.kind, err)
	}
	moved := false
	for end := time.Now().Add(3 * time.Second); !moved && time.Now().Before(end); {
		moved = f.sign(context.WithoutCancel(ctx)) > before
		if !moved {
			sleep(context.WithoutCancel(ctx), 200*time.Millisecond)
		}
	}
	r.book.note(f.kind, moved)
	r.book.say("%s (sign seen: %t)", f.kind, moved)
	return nil
}

// span is how long a fault of the network or the provider lasts.
func (r *rig) span() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Second + time.Duration(r.random.Int64N(int64(2500*time.Millisecond)))
}

func (r *rig) network(p *testkit.Proxy, breakIt func(*testkit.Proxy)) func(context.Context) error {
	return func(ctx context.Context) error {
		breakIt(p)
		sleep(ctx, r.span())
		return p.Resume()
	}
}

// longBlackHole outlasts the deadline of a statement, which is ten seconds: before, nobody can notice it.
func (r *rig) longBlackHole(ctx context.Context) error {
	r.pgProxy.BlackHole()
	sleep(ctx, 12*time.Second)
	return r.pgProxy.Resume()
}

// answersLost lets requests arrive and loses what is answered: a commit that is done and not known to be.
func (r *rig) answersLost(p *testkit.Proxy) func(context.Context) error {
	return func(ctx context.Context) error {
		for range 3 {
			p.HoldAnswers()
			sleep(ctx, 150*time.Millisecond)
			p.Cut()
			if err := p.Resume(); err != nil {
				return err
			}
			sleep(ctx, 300*time.Millisecond)
		}
		return nil
	}
}

func (r *rig) slow(p *testkit.Proxy) func(context.Context) error {
	return func(ctx context.Context) error {
		p.SetLatency(40 * time.Millisecond)
		sleep(ctx, r.span())
		p.SetLatency(0)
		return nil
	}
}

func (r *rig) provider(f paysim.Fault) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := r.sim.AddRules(paysim.Rule{Fault: f}); err != nil {
			return err
		}
		sleep(ctx, r.span())
		return r.sim.SetScript(r.usual())
	}
}

func (r *rig) restartPostgres(ctx context.Context) error {
	if err := r.server.postgres.StopImmediate(); err != nil {
		return err
	}
	sleep(ctx, 300*time.Millisecond)
	return r.server.postgres.Start(ctx)
}

func (r *rig) killBroker(ctx context.Context) error {
	if err := r.broker.apache.Kill9(); err != nil {
		return err
	}
	sleep(ctx, 500*time.Millisecond)
	return r.broker.apache.Restart(ctx)
}

func (r *rig) rollingRestart(ctx context.Context) error {
	for _, p := range r.pods {
		if !p.consumer {
			continue
		}
		done := make(chan struct{})
		select {
		case p.roll <- done:
			<-done
		case <-time.After(20 * time.Second): // it sleeps, or everything ends
		case <-ctx.Done():
		}
	}
	return nil
}

func (r *rig) databaseTrouble(context.Context) int {
	return r.book.said("step failed and is tried again", "worker step failed", "the partition does not advance", "waiting for the database",
		"step works again", "worker step works again")
}

func (r *rig) kafkaTrouble(context.Context) int {
	return r.book.said("the group cannot be joined", "the group is joined again", "the partition does not advance", "the partition's handler stopped",
		"worker step failed", "worker step works again", "joined the group") + int(r.book.counter("billing_publish_errors_total"))
}

func (r *rig) attempts(where string) func(context.Context) int {
	return func(ctx context.Context) int {
		n, _ := r.count(ctx, "SELECT count(*) FROM charge_attempt WHERE "+where) // no answer is no sign
		return n
	}
}

// replays counts requests that the provider answered from its memory: their first answer was lost.
func (r *rig) replays(context.Context) (n int) {
	for _, q := range r.sim.Requests() {
		if q.Replayed {
			n++
		}
	}
	return n
}
