package observe

import (
	"slices"
	"strconv"
	"time"

	"billing/internal/core/domain"
)

// Accepted counts events that became charges.
func (m *Metrics) Accepted(n int) { m.event("accepted", n) }

// Duplicates counts events that were known already.
func (m *Metrics) Duplicates(n int) { m.event("duplicate", n) }

// DeadLetters counts messages refused for a reason.
func (m *Metrics) DeadLetters(reason domain.Reason, n int) {
	m.event("dead_letter", n)
	m.deadLetters.WithLabelValues(string(reason)).Add(float64(n))
}

// Retried counts messages sent to the retry topic.
func (m *Metrics) Retried(n int) { m.event("retry", n) }

// Tombstones counts messages without value, which are skipped.
func (m *Metrics) Tombstones(n int) { m.event("tombstone", n) }

// Ignored counts events of types that the service is told to ignore.
func (m *Metrics) Ignored(n int) { m.event("ignored", n) }

func (m *Metrics) event(outcome string, n int) { m.events.WithLabelValues(outcome).Add(float64(n)) }

// EventsAhead counts accepted events more than 10 minutes ahead of the database's clock.
func (m *Metrics) EventsAhead(n int) { m.eventsAhead.Add(float64(n)) }

// Batch records one accepted batch.
func (m *Metrics) Batch(messages int, took time.Duration) {
	m.batchSize.Observe(float64(messages))
	m.batchSeconds.Observe(took.Seconds())
}

// Attempted counts attempts by outcome.
func (m *Metrics) Attempted(outcome domain.Outcome, n int) {
	m.attempts.WithLabelValues(m.provider, string(outcome)).Add(float64(n))
}

// Settled counts charges that reached a status.
func (m *Metrics) Settled(status domain.Status, n int) {
	m.settled.WithLabelValues(string(status)).Add(float64(n))
}

// RequestStarted counts a provider request as in flight until the returned function is called with
// its outcome and duration. lookup tells a look-up from a charge.
func (m *Metrics) RequestStarted(lookup bool) (done func(outcome domain.Outcome, took time.Duration)) {
	m.inflight.Inc()
	operation := "charge"
	if lookup {
		operation = "lookup"
	}
	return func(outcome domain.Outcome, took time.Duration) {
		m.inflight.Dec()
		m.requestSeconds.WithLabelValues(m.provider, operation, string(outcome)).Observe(took.Seconds())
	}
}

// Gate shows why the gate is closed; empty or open says that it is not. A reason without a series of
// its own is shown as other.
func (m *Metrics) Gate(reason string) {
	if reason != "" && reason != "open" && !slices.Contains(gateReasons, reason) {
		reason = "other"
	}
	for _, r := range gateReasons {
		m.gate.WithLabelValues(r).Set(flag(r == reason))
	}
}

// Claimed records one claiming statement of a channel (provider or kafka) and how many of its rows
// another owner had held before.
func (m *Metrics) Claimed(channel string, took time.Duration, reclaimed int) {
	m.claimSeconds.WithLabelValues(channel).Observe(took.Seconds())
	m.leasesExpired.WithLabelValues(channel).Add(float64(reclaimed))
}

// Wrote records one settling or acknowledging statement of a channel and how many of its rows were fenced.
func (m *Metrics) Wrote(channel string, took time.Duration, fenced int) {
	m.settleSeconds.WithLabelValues(channel).Observe(took.Seconds())
	m.Fenced(fenced)
}

// Fenced counts writes refused because the owner was no longer the owner.
func (m *Metrics) Fenced(n int) { m.fencedWrites.Add(float64(n)) }

// Published counts messages of a topic by the broker's answer.
func (m *Metrics) Published(topic string, acknowledged, failed int) {
	m.published.WithLabelValues(topic).Add(float64(acknowledged))
	m.publishErrors.WithLabelValues(topic).Add(float64(failed))
}

// Assigned makes the series of a partition exist.
func (m *Metrics) Assigned(topic string, partition int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.assigned[partitionKey{topic, partition}] = true
	m.partitions.Set(float64(len(m.assigned)))
	m.lag.WithLabelValues(topic, number(partition)).Set(0)
	m.heldBack.WithLabelValues(topic, number(partition)).Set(0)
	m.lastProgress.WithLabelValues(topic, number(partition)).SetToCurrentTime()
}

// Revoked ends the series of a partition: its lag is another process's to show.
func (m *Metrics) Revoked(topic string, partition int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.assigned, partitionKey{topic, partition})
	m.partitions.Set(float64(len(m.assigned)))
	m.lag.DeleteLabelValues(topic, number(partition))
	m.heldBack.DeleteLabelValues(topic, number(partition))
	m.lastProgress.DeleteLabelValues(topic, number(partition))
}

// Lag sets how many messages a partition is behind. A late word on a revoked one is dropped.
func (m *Metrics) Lag(topic string, partition int32, messages int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.assigned[partitionKey{topic, partition}] {
		m.lag.WithLabelValues(topic, number(partition)).Set(float64(max(messages, 0)))
	}
}

// HeldBack sets how many offsets of a partition an open transaction holds back.
func (m *Metrics) HeldBack(topic string, partition int32, offsets int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.assigned[partitionKey{topic, partition}] {
		m.heldBack.WithLabelValues(topic, number(partition)).Set(float64(max(offsets, 0)))
	}
}

// Progress marks that the position of a partition has moved.
func (m *Metrics) Progress(topic string, partition int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.assigned[partitionKey{topic, partition}] {
		m.lastProgress.WithLabelValues(topic, number(partition)).SetToCurrentTime()
	}
}

// Rebalanced counts a generation that this process joined.
func (m *Metrics) Rebalanced() { m.rebalances.Inc() }

// AbortedRecords counts filtered records of aborted transactions.
func (m *Metrics) AbortedRecords(n int) { m.abortedRecords.Add(float64(n)) }

// DrainSeconds records how long a revocation took.
func (m *Metrics) DrainSeconds(seconds float64) { m.drainSeconds.Observe(seconds) }

// CommitFailed counts a failed offset commit by the broker's error code; 0 when no answer came.
func (m *Metrics) CommitFailed(code int) { m.commitFailures.WithLabelValues(commitCode(code)).Inc() }

// Request records one API request. A route without a series of its own is shown as other.
func (m *Metrics) Request(route string, status int, took time.Duration) {
	if !slices.Contains(httpRoutes, route) {
		route = "other"
	}
	class := strconv.Itoa(min(max(status/100, 2), 5)) + "xx"
	m.httpRequests.WithLabelValues(route, class).Inc()
	m.httpSeconds.WithLabelValues(route).Observe(took.Seconds())
}

// Violations sets how many findings a rule has; 0 when it holds.
func (m *Metrics) Violations(rule string, n int) {
	m.invariants.WithLabelValues(rule).Set(float64(n))
}

// HistoryLost shows that the database was restored to an earlier point and nobody cleared it yet.
func (m *Metrics) HistoryLost(lost bool) { m.historyLost.Set(flag(lost)) }

// ChargingPaused shows the operator's switch.
func (m *Metrics) ChargingPaused(paused bool) { m.chargingPaused.Set(flag(paused)) }

// JobSucceeded marks the last success of a job.
func (m *Metrics) JobSucceeded(job string, at time.Time) {
	m.jobSuccess.WithLabelValues(job).Set(unixSeconds(at))
}

// Purged counts rows that were deleted because their retention was over.
func (m *Metrics) Purged(kind string, n int) { m.purged.WithLabelValues(kind).Add(float64(n)) }

// ClockSkew shows the database's clock minus this process's.
func (m *Metrics) ClockSkew(d time.Duration) { m.clockSkew.Set(d.Seconds()) }

func number(partition int32) string { return strconv.Itoa(int(partition)) }

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
