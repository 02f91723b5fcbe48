package main

import (
	"time"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/observe"
)

// chargerObserver exports what the charger does.
type chargerObserver struct {
	metrics *observe.Metrics
	beat    *observe.Heartbeat
}

// Turn implements worker.ChargerObserver.
func (o chargerObserver) Turn() { o.beat.Beat() }

// Claimed implements worker.ChargerObserver.
func (o chargerObserver) Claimed(claims []usecase.Claim, took time.Duration) {
	reclaimed := 0
	for i := range claims {
		if claims[i].Reclaimed {
			reclaimed++
		}
	}
	o.metrics.Claimed("provider", took, reclaimed)
}

// Started implements worker.ChargerObserver.
func (o chargerObserver) Started(c usecase.Claim) func(usecase.Settlement, time.Duration) {
	done := o.metrics.RequestStarted(c.Step == usecase.StepLookup)
	return func(s usecase.Settlement, took time.Duration) {
		outcome := s.LastOutcome
		if outcome == "" {
			outcome = domain.Unknown
		}
		done(outcome, took)
	}
}

// Attempted implements worker.ChargerObserver.
func (o chargerObserver) Attempted(s usecase.Settlement) {
	if s.Journaled {
		o.metrics.Attempted(s.Outcome, 1)
	}
}

// Settled implements worker.ChargerObserver.
func (o chargerObserver) Settled(r usecase.SettleReport, took time.Duration) {
	o.metrics.Wrote("provider", took, r.Fenced)
	for status, n := range r.ByStatus {
		o.metrics.Settled(status, n)
	}
}

// groupObserver exports what the consumer group does.
type groupObserver struct{ *observe.Metrics }

// AbortedRecords implements the Kafka adapter's Observer.
func (o groupObserver) AbortedRecords(_ string, _ int32, n int) { o.Metrics.AbortedRecords(n) }

// Drained implements the Kafka adapter's Observer.
func (o groupObserver) Drained(d time.Duration) { o.DrainSeconds(d.Seconds()) }

// countMessages exports what a transaction of the consumer did.
func countMessages(m *observe.Metrics, now func() time.Time, src usecase.Source, c usecase.Counts) {
	m.Accepted(c.Accepted)
	m.Duplicates(c.Duplicates)
	m.Tombstones(c.Tombstones)
	m.Ignored(c.Ignored)
	m.Retried(c.Retries)
	m.EventsAhead(c.Ahead)
	for reason, n := range c.DeadLetters {
		m.DeadLetters(reason, n)
	}
	m.Batch(c.Messages(), c.Took)
	m.Progress(src.Topic, src.Partition)
	if !c.Now.IsZero() {
		m.ClockSkew(c.Now.Sub(now()))
	}
}
