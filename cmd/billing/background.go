package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/observe"
	"billing/internal/worker"
)

const (
	statsEvery = 2 * time.Second // a pause by an operator shows within this
	// countRests bounds what counting charges may cost: it rests twenty times as long as it took, so that a table or a backlog
	// of any size is counted as often as the database can afford.
	countRests   = 20
	countRestMax = time.Minute
)

// The jobs of this process, as billing_job_last_success_timestamp_seconds names them.
const (
	jobMaintain = "maintenance"
	jobStats    = "stats"
	jobKeys     = "keys"
)

// background builds the loops beside the roles: figures for metrics in every process, and the inbox's
// days in those with the maintenance role.
func (s *service) background() []part {
	list := []part{s.loop("signs", statsEvery, s.signsStep()), s.loop("stats", statsEvery, s.statsStep()), s.presence()}
	if s.cfg.Roles.Has(RoleMaintenance) {
		list = append(list, s.loop("finished", statsEvery, s.finishedStep()), s.maintenance(), s.forgetKeys(), s.forgetProcesses())
	}
	if s.cfg.Roles.Has(RoleMaintenance) {
		list = append(list, s.retention(), s.auditing())
	}
	return list
}

// loop wraps a step that has nothing to hurry for.
func (s *service) loop(name string, idle time.Duration, step func(ctx context.Context) error) part {
	beat := s.liveness.Register(name)
	l := worker.Loop{
		Name: name, Idle: idle, Max: time.Minute, Clock: s.clock, Log: s.log, Turn: beat.Beat,
		Step: func(ctx context.Context) (bool, error) { return false, step(ctx) },
	}
	run := func(ctx context.Context) error {
		defer beat.Stop()
		return l.Run(ctx)
	}
	return part{name, run}
}

// signsStep shows what changes how this process works.
func (s *service) signsStep() func(ctx context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, dbTimeout)
		defer cancel()
		signs, err := s.queue.Signs(ctx)
		if err != nil {
			return err
		}
		for rule, n := range signs.Violations {
			s.metrics.Violations(rule, int(n))
		}
		s.metrics.HistoryLost(signs.Switches[usecase.HistoryWasLost])
		paused := signs.Switches[usecase.ChargingPaused]
		s.metrics.ChargingPaused(paused)
		s.paused.Store(paused)
		s.metrics.Gate(s.gateReason())
		return nil
	}
}

// statsStep shows what is unfinished, as seldom as its own cost demands: every process counts, and the more waits the less may
// the counting take from those that work it off.
func (s *service) statsStep() func(ctx context.Context) error {
	return func(ctx context.Context) error {
		counting, cancel := context.WithTimeout(ctx, dbTimeout)
		defer cancel()
		p := newPace(s.clock, countRests, countRestMax)
		stats, err := s.queue.Stats(counting, s.cfg.ProviderKeyWindow)
		if err != nil {
			return err
		}
		s.figures.setWaiting(stats)
		s.metrics.Backlog(s.figures.backlog())
		s.metrics.JobSucceeded(jobStats, s.clock.Now())
		p.rest(ctx)
		return nil
	}
}

// gateReason says why nothing is claimed; empty when the gate is open.
func (s *service) gateReason() string {
	if s.paused.Load() {
		return usecase.GatePaused
	}
	if state := s.gate.State(); state != usecase.GateOpen {
		return string(state)
	}
	return ""
}

// finishedStep counts what is finished, as seldom as its own cost demands.
func (s *service) finishedStep() func(ctx context.Context) error {
	return func(ctx context.Context) error {
		p := newPace(s.clock, countRests, countRestMax)
		counts, err := s.queue.Finished(ctx)
		if err != nil {
			return err
		}
		s.figures.setFinished(counts)
		p.rest(ctx)
		return nil
	}
}

// maintenance keeps the days of the inbox ahead and drops old ones.
func (s *service) maintenance() part {
	m := usecase.Maintain{
		Days: s.queue, Limits: usecase.Limits{Retention: s.cfg.Retention, Skew: s.cfg.ClockSkew}, Timeout: dbTimeout,
	}
	beat := s.liveness.Register("maintenance")
	l := worker.Loop{
		Name: "maintenance", Idle: time.Minute, Max: time.Minute, Clock: s.clock, Log: s.log, Turn: beat.Beat,
		Step: func(ctx context.Context) (bool, error) {
			report, busy, err := m.Step(ctx)
			if report.Created || report.Dropped != "" {
				s.log.InfoContext(ctx, "inbox days maintained", "created", report.Created, "dropped", report.Dropped)
			}
			if err == nil {
				s.metrics.JobSucceeded(jobMaintain, s.clock.Now())
			}
			return busy, err
		},
	}
	run := func(ctx context.Context) error {
		defer beat.Stop()
		return l.Run(ctx)
	}
	return part{"maintenance", run}
}

// expect makes every series whose names only the configuration knows exist from the start.
func (s *service) expect() {
	names := observe.Names{
		Topics: []string{s.cfg.KafkaResultsTopic, s.cfg.KafkaDeadLetterTopic},
		Jobs:   []string{jobMaintain, jobStats, jobKeys},
	}
	for _, topic := range s.cfg.KafkaTopics {
		names.Topics = append(names.Topics, usecase.RetryTopic(topic, s.cfg.KafkaGroup))
	}
	names.Jobs = append(names.Jobs, jobRetention, jobAudit)
	for _, rule := range usecase.Rules() {
		names.Rules = append(names.Rules, rule.Name)
	}
	s.metrics.Expect(names)
}

// figures joins the two looks at the tables, which come at different times.
type figures struct {
	mu       sync.Mutex
	waiting  usecase.Stats
	finished []usecase.ChargeCount
}

func (f *figures) setWaiting(stats usecase.Stats) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = stats
}

func (f *figures) setFinished(counts []usecase.ChargeCount) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finished = counts
}

func (f *figures) backlog() observe.Backlog {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := observe.Backlog{
		Charges: map[observe.ChargeState]int64{}, OldestCharge: map[domain.Status]time.Time{},
		OutboxRows: map[string]int64{}, OldestOutbox: map[string]time.Time{}, NearestKeyDeadline: f.waiting.NearestDeadline,
	}
	for _, c := range slices.Concat(f.waiting.Waiting, f.finished) {
		b.Charges[observe.ChargeState{Status: c.Status, LastOutcome: c.LastOutcome}] += c.N
		if old := b.OldestCharge[c.Status]; !c.Oldest.IsZero() && (old.IsZero() || c.Oldest.Before(old)) {
			b.OldestCharge[c.Status] = c.Oldest
		}
	}
	for _, c := range f.waiting.Outbox {
		b.OutboxRows[c.Channel] += c.N
		if old := b.OldestOutbox[c.Channel]; old.IsZero() || c.Oldest.Before(old) {
			b.OldestOutbox[c.Channel] = c.Oldest
		}
	}
	return b
}
