package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"billing/internal/core/usecase"
)

const (
	defaultSession   = 15 * time.Second
	defaultWatch     = 30 * time.Second
	defaultLagEvery  = 15 * time.Second
	rebalanceTimeout = 20 * time.Second
	// joinPause keeps the group from being joined more than once a second, whatever goes wrong.
	joinPause = time.Second
	// leaveTimeout is for leaving the group after the handlers have ended.
	leaveTimeout = 5 * time.Second
	// drainMargin is how much earlier than the session's end handlers must be done: the client sends
	// no heartbeats while it waits for them.
	drainMargin = 2 * time.Second
)

// errTopicsChanged ends a membership so that the group is joined anew.
var errTopicsChanged = errors.New("topics or partitions changed")

// Handler processes one partition until ctx ends, which happens when the partition is revoked or the
// process stops. It must return within DrainTimeout after that. committed is the group's offset, -1 when
// there is none. When it returns earlier it is run again after a pause.
type Handler func(ctx context.Context, src usecase.Source, log usecase.PartitionLog, committed int64) error

// Group is one member of a consumer group. All fields without a default must be set.
type Group struct {
	Brokers     []string
	ID          string        // of the consumer group
	Topics      []string      // event topics: waited for, each joined as soon as it exists
	RetryTopics []string      // joined when they exist, never waited for
	Session     time.Duration // session timeout, 15 s by default
	Watch       time.Duration // how often topics and partitions are looked at, 30 s by default
	LagEvery    time.Duration // how often lag is polled, 15 s by default
	MaxBytes    int32         // of one fetch, 1 MiB by default

	Dialer    *kafka.Dialer    // for the group's own connections
	Transport *kafka.Transport // for fetches, metadata and offsets; with no MetadataTopics, or no new topic is seen
	Decode    func(topic string, partition int32, m usecase.Message) usecase.Delivery
	Handle    Handler
	Observer  Observer
	Clock     usecase.Clock
	Log       *slog.Logger

	running *atomic.Int32 // handlers at work
}

// DrainTimeout is how long handlers may work after their partition was revoked: the session without a
// margin of two seconds.
func (g *Group) DrainTimeout() time.Duration { return g.withDefaults().Session - drainMargin }

func (g *Group) withDefaults() *Group {
	filled := *g
	filled.running = &atomic.Int32{}
	filled.Session = orDefault(g.Session, defaultSession)
	filled.Watch = orDefault(g.Watch, defaultWatch)
	filled.LagEvery = orDefault(g.LagEvery, defaultLagEvery)
	if filled.MaxBytes == 0 {
		filled.MaxBytes = defaultMaxBytes
	}
	return &filled
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}

// Run is a member of the group until ctx ends. It waits for missing topics and unreachable brokers, and
// returns nil after the handlers have ended and the group was left, or an error when that took too long.
func (g *Group) Run(ctx context.Context) error {
	return g.withDefaults().run(ctx)
}

func (g *Group) run(ctx context.Context) error {
	joined := &reason{log: g.Log}
	for {
		found, ok := g.awaitTopics(ctx, joined)
		if !ok {
			return nil
		}
		if err := g.member(ctx, found); err != nil {
			return err
		}
		if !g.Clock.Sleep(ctx, joinPause) {
			return nil
		}
	}
}

// member joins the group with the topics that were found and stays until ctx ends or the topics change.
func (g *Group) member(ctx context.Context, found topics) error {
	cg, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                g.ID,
		Brokers:           g.Brokers,
		Dialer:            g.Dialer,
		Topics:            found.joined,
		HeartbeatInterval: g.Session / 5,
		SessionTimeout:    g.Session,
		RebalanceTimeout:  rebalanceTimeout,
		JoinGroupBackoff:  joinPause,
		StartOffset:       kafka.FirstOffset,
		Timeout:           requestTimeout,
	})
	if err != nil {
		return fmt.Errorf("configure consumer group: %w", err)
	}
	g.Log.InfoContext(ctx, "joining the group", "topics", found.joined)
	staying, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	g.generations(staying, cg, found, leave)
	return g.close(ctx, cg)
}

// generations starts the handlers of one generation after another until staying ends.
func (g *Group) generations(staying context.Context, cg *kafka.ConsumerGroup, found topics, leave context.CancelCauseFunc) {
	trouble := &reason{log: g.Log}
	for {
		gen, err := cg.Next(staying)
		switch {
		case staying.Err() != nil:
			if gen != nil {
				g.Log.InfoContext(staying, "leaving a group that was just joined", "generation", gen.ID)
			}
			return
		case err != nil:
			trouble.warn("the group cannot be joined", explain(err))
		default:
			trouble.over("the group is joined again")
			g.Observer.Rebalanced()
			g.start(staying, gen, found, leave)
		}
	}
}

// close leaves the group. The client waits for all handlers without a limit, so the limit is here.
func (g *Group) close(ctx context.Context, cg *kafka.ConsumerGroup) error {
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.DrainTimeout()+leaveTimeout)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- cg.Close() }()
	select {
	case err := <-closed:
		return err
	case <-limit.Done():
	}
	if n := g.running.Load(); n > 0 {
		return fmt.Errorf("leave the group: %d handlers still run after %s", n, g.DrainTimeout()+leaveTimeout)
	}
	// The client waits for an answer to its joining. Nothing is at work, so nothing is lost by not waiting.
	g.Log.WarnContext(ctx, "the group could not be left in time; the broker forgets this member when its session ends")
	return nil
}

// start runs everything that belongs to one generation. A function that returns would end it, so each
// stays until the generation is over.
func (g *Group) start(ctx context.Context, gen *kafka.Generation, found topics, leave context.CancelCauseFunc) {
	assigned := map[string][]int{}
	for topic, partitions := range gen.Assignments {
		for _, p := range partitions {
			assigned[topic] = append(assigned[topic], p.ID)
			src := usecase.Source{ClusterID: found.clusterID, Group: g.ID, Topic: topic, Partition: int32(p.ID)} //nolint:gosec // from an int32
			committed := max(p.Offset, -1)                                                                       // the client writes -2 where nothing is committed
			gen.Start(func(revoked context.Context) {
				g.partition(ctx, revoked, gen, src, committed, found.retention[src.Topic], leave)
			})
		}
		slices.Sort(assigned[topic])
	}
	g.Log.InfoContext(ctx, "joined the group", "generation", gen.ID, "member", gen.MemberID, "assigned", assigned)
	gen.Start(func(revoked context.Context) { g.watch(revoked, found, leave) })
	gen.Start(func(revoked context.Context) { g.pollLag(revoked, assigned) })
}

// partition runs the handler of one partition until it is revoked.
func (g *Group) partition(ctx, revoked context.Context, gen *kafka.Generation, src usecase.Source, committed int64, kept time.Duration, leave context.CancelCauseFunc) {
	// The generation's context ends with an error of its own; handlers shall see a plain cancellation.
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var drainFrom time.Time
	drained := make(chan struct{})
	end := context.AfterFunc(revoked, func() {
		drainFrom = g.Clock.Now()
		close(drained)
		stop()
	})
	defer end()

	g.running.Add(1)
	defer g.running.Add(-1)
	log := g.newLog(life, gen, src, committed)
	log.retention = kept
	g.Observer.Assigned(src.Topic, src.Partition)
	g.handle(life, src, log)
	log.close()
	if log.gone {
		// A generation that just ended would be joined again with the deleted topic, and while one is
		// missing the client assigns nobody anything.
		leave(errTopicsChanged)
		<-revoked.Done()
	}
	if life.Err() != nil {
		<-drained
		g.drained(src, g.Clock.Now().Sub(drainFrom))
	}
	g.Observer.Revoked(src.Topic, src.Partition)
}

// handle runs the handler again and again; an error of one partition must not take the others away.
// Only a generation that the broker already ended is left, after a pause so that no fault can turn it
// into a storm of joins.
func (g *Group) handle(ctx context.Context, src usecase.Source, log *Log) {
	for {
		err := g.Handle(ctx, src, log, log.committed)
		if ctx.Err() != nil {
			return
		}
		g.Log.ErrorContext(ctx, "the partition's handler stopped", "topic", src.Topic, "partition", src.Partition,
			"error", err, "assignment_over", log.over || log.gone)
		if !g.Clock.Sleep(ctx, joinPause) || log.over || log.gone {
			return
		}
	}
}

func (g *Group) drained(src usecase.Source, took time.Duration) {
	g.Observer.Drained(took)
	level := slog.LevelInfo
	if took > g.DrainTimeout() {
		level = slog.LevelWarn
	}
	g.Log.Log(context.Background(), level, "partition handed over", "topic", src.Topic, "partition", src.Partition, "drain_seconds", took.Seconds())
}

func (g *Group) newLog(life context.Context, gen *kafka.Generation, src usecase.Source, committed int64) *Log {
	life, stop := context.WithCancel(life)
	return &Log{
		topic:     src.Topic,
		partition: src.Partition,
		client:    g.client(),
		transport: g.Transport,
		maxBytes:  g.MaxBytes,
		maxWait:   defaultMaxWait,
		decode:    g.Decode,
		commit:    gen.CommitOffsets,
		observer:  g.Observer,
		clock:     g.Clock,
		log:       g.Log.With("topic", src.Topic, "partition", src.Partition),
		life:      life,
		stop:      stop,
		ahead:     make(chan ahead, 1),
		committed: committed,
	}
}

func (g *Group) client() *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(g.Brokers...), Transport: g.Transport, Timeout: requestTimeout}
}
