package main

import (
	"context"
	"time"

	"billing/internal/core/usecase"
	"billing/internal/worker"
)

const (
	jobRetention = "retention"
	jobAudit     = "audit"

	// seldomTurn is how often a loop turns whose job is seldom due.
	seldomTurn = 30 * time.Second

	sweepEvery = time.Hour
	sweepRows  = 1000
	sweepPause = 20 * time.Millisecond

	auditAgainAfter = 5 * time.Minute
	// auditRests bounds what the audit takes from others, in a process that has just started as well as in one that runs for days:
	// it rests nine times as long as each page took.
	auditRests   = 9
	auditRestMax = 30 * time.Second
)

// seldom is a loop for a job that rests longer than a loop may stand still. The job calls turn while it works, and
// returns how long it rests.
func (s *service) seldom(name string, job func(ctx context.Context, turn func()) (rest time.Duration, err error)) part {
	beat := s.liveness.Register(name)
	var due time.Time
	l := worker.Loop{
		Name: name, Idle: seldomTurn, Max: 2 * seldomTurn, Clock: s.clock, Log: s.log, Turn: beat.Beat,
		Step: func(ctx context.Context) (bool, error) {
			if s.clock.Now().Before(due) {
				return false, nil
			}
			rest, err := job(ctx, beat.Beat)
			if err != nil || ctx.Err() != nil {
				return false, err
			}
			s.metrics.JobSucceeded(name, s.clock.Now())
			due = s.clock.Now().Add(rest)
			return false, nil
		},
	}
	run := func(ctx context.Context) error {
		defer beat.Stop()
		return l.Run(ctx)
	}
	return part{name, run}
}

// retention deletes what is over, for the maintenance role.
func (s *service) retention() part {
	return s.seldom(jobRetention, func(ctx context.Context, turn func()) (time.Duration, error) {
		r := usecase.Retention{
			Store: s.inbox, Rows: sweepRows, Pause: sweepPause, Timeout: dbTimeout, Clock: s.clock,
			Periods: map[usecase.Remains]time.Duration{
				usecase.RemainsAttempts: s.cfg.RetentionAttempts, usecase.RemainsHistory: s.cfg.RetentionHistory,
				usecase.RemainsDeadLetters: s.cfg.RetentionDeadLetters,
			},
			Report: func(kind usecase.Remains, deleted int) {
				turn()
				s.metrics.Purged(string(kind), deleted)
			},
		}
		return sweepEvery, r.Sweep(ctx)
	})
}

// auditing runs the rules on our own tables again and again and shows what they find, for the maintenance role.
func (s *service) auditing() part {
	return s.seldom(jobAudit, func(ctx context.Context, turn func()) (time.Duration, error) {
		audit := newAudit(s.cfg, s.inbox)
		p := newPace(s.clock, auditRests, auditRestMax)
		audit.Progress = func(usecase.AuditProgress) {
			turn()
			p.rest(ctx)
		}
		report, err := audit.Run(ctx)
		if err != nil {
			return 0, err
		}
		for rule, n := range report.Counts() {
			s.metrics.Violations(rule, int(n))
		}
		return auditAgainAfter, nil
	})
}
