package observe

import (
	"time"

	"billing/internal/core/domain"
)

// Backlog is what one look at the database found waiting.
type Backlog struct {
	Charges            map[ChargeState]int64
	OldestCharge       map[domain.Status]time.Time // by creation; of requested and parked ones
	NearestKeyDeadline time.Time                   // zero when no charge has one
	OutboxRows         map[string]int64            // by channel, without rows of parked charges
	OldestOutbox       map[string]time.Time        // by channel, likewise
}

// ChargeState is one series of billing_charges. An empty LastOutcome is shown as none.
type ChargeState struct {
	Status      domain.Status
	LastOutcome domain.Outcome
}

// Backlog shows b. Whatever b does not name becomes 0.
func (m *Metrics) Backlog(b Backlog) {
	for _, status := range domain.Statuses() {
		for _, outcome := range append(domain.Outcomes(), "") {
			m.charges.WithLabelValues(string(status), orNone(outcome)).Set(float64(b.Charges[ChargeState{status, outcome}]))
		}
	}
	for _, status := range waitingIn {
		m.oldestCharge.WithLabelValues(status).Set(unixSeconds(b.OldestCharge[domain.Status(status)]))
	}
	m.keyDeadline.Set(unixSeconds(b.NearestKeyDeadline))
	for _, channel := range channels {
		m.outboxRows.WithLabelValues(channel).Set(float64(b.OutboxRows[channel]))
		m.oldestOutbox.WithLabelValues(channel).Set(unixSeconds(b.OldestOutbox[channel]))
	}
}

func orNone(outcome domain.Outcome) string {
	if outcome == "" {
		return outcomeNone
	}
	return string(outcome)
}

// commitCodes are the label values of failed commits: the codes that a broker gives for them.
func commitCodes() []string {
	return []string{
		"none", "coordinator_load_in_progress", "coordinator_not_available", "not_coordinator",
		"illegal_generation", "unknown_member_id", "rebalance_in_progress", "fenced_instance_id", "other",
	}
}

func commitCode(code int) string {
	switch code {
	case 0:
		return "none"
	case 14:
		return "coordinator_load_in_progress"
	case 15:
		return "coordinator_not_available"
	case 16:
		return "not_coordinator"
	case 22:
		return "illegal_generation"
	case 25:
		return "unknown_member_id"
	case 27:
		return "rebalance_in_progress"
	case 82:
		return "fenced_instance_id"
	default:
		return "other"
	}
}
