package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	httpin "billing/internal/adapters/in/http"
	"billing/internal/adapters/out/postgres"
	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/observe"
	"billing/internal/worker"
	"billing/migrations"
)

const (
	// dbTimeout bounds one transaction, also one that is under way at SIGTERM.
	dbTimeout = 10 * time.Second
	// pollEvery is how often an idle queue is looked at; a wake-up inside the process comes sooner.
	pollEvery = 50 * time.Millisecond
)

// service is everything one process runs, built top to bottom from its configuration.
type service struct {
	cfg      Config
	log      *slog.Logger
	clock    worker.Clock
	registry *prometheus.Registry
	metrics  *observe.Metrics
	liveness *observe.Liveness
	gate     *usecase.Gate

	// The consumer's connections are set apart from those of the queue, so that many partitions
	// cannot starve the charger.
	inboxPool, queuePool *pgxpool.Pool
	inbox, queue         *postgres.Store

	figures figures
	paused  atomic.Bool // an operator's switch, as last seen

	charges  worker.Signal // new charges were accepted in this process
	messages worker.Signal // new messages wait to be published
}

func newService(ctx context.Context, cfg Config, log *slog.Logger) (*service, error) {
	s := &service{cfg: cfg, log: log, registry: prometheus.NewRegistry(), charges: worker.NewSignal(), messages: worker.NewSignal()}
	s.metrics = observe.New(s.registry, buildInfo(), cfg.ProviderAccount)
	s.liveness = observe.NewLiveness(s.clock.Now)
	s.expect()
	if err := s.registry.Register(s.liveness); err != nil {
		return nil, fmt.Errorf("register liveness: %w", err)
	}
	s.gate = &usecase.Gate{Clock: s.clock, Random: rand.Float64, Backoff: domain.Backoff{Min: 500 * time.Millisecond, Max: 30 * time.Second}, Limiter: newLimiter(cfg.ProviderRate)}
	queueConns := min(cfg.DatabaseMaxConns/2, 8)
	var err error
	s.queuePool, err = postgres.NewPool(ctx, string(cfg.DatabaseURL), postgres.PoolOptions{MaxConns: queueConns, ApplicationName: "billing-queue"})
	if err != nil {
		return nil, err
	}
	s.inboxPool, err = postgres.NewPool(ctx, string(cfg.DatabaseURL), postgres.PoolOptions{MaxConns: cfg.DatabaseMaxConns - queueConns, ApplicationName: "billing-inbox"})
	if err != nil {
		s.queuePool.Close()
		return nil, err
	}
	s.queue, s.inbox = postgres.NewStore(s.queuePool), postgres.NewStore(s.inboxPool)
	return s, nil
}

// part is anything that runs until its context is done.
type part struct {
	name string
	run  func(ctx context.Context) error
}

// run serves the operations port from the first moment to the last, and the roles in between, once the
// schema is there. A part that fails stops the others.
func (s *service) run(ctx context.Context) error {
	defer s.queuePool.Close()
	defer s.inboxPool.Close()
	parts, closeParts, err := s.parts()
	if err != nil {
		return err
	}
	defer closeParts()
	checks, closeChecks, err := s.checks(ctx)
	if err != nil {
		return err
	}
	defer closeChecks()
	opsCtx, stopOps := context.WithCancel(context.WithoutCancel(ctx))
	defer stopOps()
	ctx, stopWork := context.WithCancel(ctx)
	defer stopWork()
	ops, opsCtx := errgroup.WithContext(opsCtx)
	for _, p := range s.opsParts(checks) {
		ops.Go(func() error {
			defer stopWork() // without its operations port a process must not work unseen
			return p.run(opsCtx)
		})
	}
	work, workCtx := errgroup.WithContext(ctx)
	work.Go(func() error {
		if !s.awaitSchema(workCtx) {
			return nil
		}
		for _, p := range parts {
			work.Go(func() error {
				if err := p.run(workCtx); err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
				return nil
			})
		}
		return nil
	})
	err = work.Wait()
	stopOps()
	return errors.Join(err, ops.Wait())
}

// opsParts are the listeners that also answer while the service starts and stops.
func (s *service) opsParts(checks []httpin.Check) []part {
	ops := httpin.Ops{Addr: s.cfg.OpsAddr, Gatherer: s.registry, Liveness: s.liveness, Log: s.log, Checks: checks}
	list := []part{{"ops", ops.Run}}
	if s.cfg.PprofAddr != "" {
		list = append(list, part{"pprof", httpin.Pprof{Addr: s.cfg.PprofAddr, Log: s.log}.Run})
	}
	return list
}

// checks are the lines of /readyz: database and schema decide, the rest is shown.
func (s *service) checks(serving context.Context) (list []httpin.Check, closeChecks func(), err error) {
	closeChecks = func() {}
	list = []httpin.Check{
		{Name: "serving", Critical: true, Run: func(context.Context) (string, error) {
			if serving.Err() != nil {
				return "", errors.New("stopping")
			}
			return "yes", nil
		}},
		{Name: "database", Critical: true, Run: func(ctx context.Context) (string, error) {
			if err := s.queue.Ping(ctx); err != nil {
				return "", errors.New("unreachable") // the cause may name users and hosts; it is in the log
			}
			return "reachable", nil
		}},
		{Name: "schema", Critical: true, Run: func(ctx context.Context) (string, error) { return s.checkSchema(ctx) }},
		{Name: "gate", Run: func(context.Context) (string, error) {
			if why := s.gateReason(); why != "" {
				return "closed: " + why, nil
			}
			return "open", nil
		}},
	}
	if s.cfg.Roles.Has(RoleConsumer, RoleRelay) {
		check, closeCheck, err := s.kafkaCheck()
		if err != nil {
			return nil, nil, err
		}
		list, closeChecks = append(list, check), closeCheck
	}
	return list, closeChecks, nil
}

func (s *service) checkSchema(ctx context.Context) (string, error) {
	need, err := migrations.Required()
	if err != nil {
		return "", err
	}
	have, err := s.queue.SchemaVersion(ctx)
	switch {
	case err != nil:
		return "", errors.New("unknown")
	case have < need:
		return "", fmt.Errorf("version %d, want %d: run billing migrate up", have, need)
	}
	return fmt.Sprintf("version %d", have), nil
}

// awaitSchema waits until the database answers and has the schema. It returns false when ctx is done.
func (s *service) awaitSchema(ctx context.Context) bool {
	beat := s.liveness.Register("start")
	defer beat.Stop()
	reason := ""
	backoff := domain.Backoff{Min: 200 * time.Millisecond, Max: 5 * time.Second}
	for try := 1; ; try++ {
		beat.Beat()
		why := s.schemaTrouble(ctx)
		if why == "" {
			if reason != "" {
				s.log.InfoContext(ctx, "the database is ready")
			}
			return true
		}
		if why != reason && ctx.Err() == nil {
			reason = why
			s.log.WarnContext(ctx, "waiting for the database", "reason", why)
		}
		if !s.clock.Sleep(ctx, backoff.Delay(try, rand.Float64())) {
			return false
		}
	}
}

// schemaTrouble says in one line what stands in the way; nothing when the database is ready.
func (s *service) schemaTrouble(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	if err := s.queue.Ping(ctx); err != nil {
		return postgres.Describe(err)
	}
	if _, err := s.checkSchema(ctx); err != nil {
		return "schema: " + err.Error()
	}
	return ""
}

// parts builds the roles of this process.
func (s *service) parts() (list []part, closeParts func(), err error) {
	var closers []func()
	closeParts = func() {
		for _, c := range closers {
			c()
		}
	}
	if s.cfg.Roles.Has(RoleConsumer) {
		p, err := s.consumer()
		if err != nil {
			return nil, nil, err
		}
		list = append(list, p)
	}
	if s.cfg.Roles.Has(RoleCharger) {
		p, stop, err := s.charger()
		if err != nil {
			return nil, nil, err
		}
		list, closers = append(list, p), append(closers, stop)
	}
	if s.cfg.Roles.Has(RoleRelay) {
		p, stop, err := s.relay()
		if err != nil {
			return nil, nil, err
		}
		list, closers = append(list, p), append(closers, stop)
	}
	if s.cfg.Roles.Has(RoleAPI) {
		p, err := s.api()
		if err != nil {
			return nil, nil, err
		}
		list = append(list, p)
	}
	return append(list, s.background()...), closeParts, nil
}
