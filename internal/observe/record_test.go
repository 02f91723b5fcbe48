package observe_test

import (
	"testing"
	"time"

	"billing/internal/core/domain"
)

func TestEachMethodMovesItsMetric(t *testing.T) {
	t.Parallel()
	reg, m := newMetrics()
	m.Accepted(2)
	m.Duplicates(3)
	m.DeadLetters(domain.ReasonInvalidJSON, 4)
	m.Retried(5)
	m.Tombstones(6)
	m.Ignored(7)
	m.EventsAhead(8)
	m.Batch(500, time.Second)
	m.Attempted(domain.NotSent, 9)
	m.Settled(domain.StatusDeclined, 10)
	m.RequestStarted(true)(domain.Succeeded, time.Second)
	m.RequestStarted(false)
	m.Gate("breaker")
	m.Claimed("provider", time.Second, 11)
	m.Wrote("kafka", time.Second, 12)
	m.Fenced(1)
	m.Published("results", 14, 15)
	m.Rebalanced()
	m.AbortedRecords(16)
	m.DrainSeconds(1)
	m.CommitFailed(22)
	m.CommitFailed(0)
	m.CommitFailed(9999)
	m.Request("POST /v1/charges", 202, time.Second)
	m.Request("/secret/path", 404, time.Second)
	m.Violations("some_rule", 17)
	m.ChargingPaused(true)
	m.HistoryLost(true)
	m.JobSucceeded("audit", time.Unix(18, 0))
	m.ClockSkew(-19 * time.Second)
	for _, tc := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{2, "billing_events_total", []string{"accepted"}},
		{3, "billing_events_total", []string{"duplicate"}},
		{4, "billing_events_total", []string{"dead_letter"}},
		{4, "billing_dead_letters_total", []string{"invalid_json"}},
		{5, "billing_events_total", []string{"retry"}},
		{6, "billing_events_total", []string{"tombstone"}},
		{7, "billing_events_total", []string{"ignored"}},
		{8, "billing_events_ahead_total", nil},
		{1, "billing_accept_batch_messages", nil},
		{1, "billing_accept_duration_seconds", nil},
		{9, "billing_charge_attempts_total", []string{"acme", "not_sent"}},
		{10, "billing_charges_settled_total", []string{"declined"}},
		{1, "billing_provider_request_duration_seconds", []string{"acme", "lookup", "succeeded"}},
		{1, "billing_provider_inflight", []string{"acme"}},
		{1, "billing_gate_closed", []string{"breaker"}},
		{0, "billing_gate_closed", []string{"other"}},
		{1, "billing_claim_duration_seconds", []string{"provider"}},
		{11, "billing_leases_expired_total", []string{"provider"}},
		{1, "billing_settle_duration_seconds", []string{"kafka"}},
		{13, "billing_fenced_writes_total", nil},
		{14, "billing_messages_published_total", []string{"results"}},
		{15, "billing_publish_errors_total", []string{"results"}},
		{1, "billing_kafka_rebalances_total", nil},
		{16, "billing_kafka_aborted_records_total", nil},
		{1, "billing_kafka_drain_duration_seconds", nil},
		{1, "billing_kafka_commit_failures_total", []string{"illegal_generation"}},
		{1, "billing_kafka_commit_failures_total", []string{"none"}},
		{1, "billing_kafka_commit_failures_total", []string{"other"}},
		{1, "billing_http_requests_total", []string{"POST /v1/charges", "2xx"}},
		{1, "billing_http_requests_total", []string{"other", "4xx"}},
		{1, "billing_http_request_duration_seconds", []string{"other"}},
		{17, "billing_invariant_violations", []string{"some_rule"}},
		{1, "billing_charging_paused", nil},
		{1, "billing_history_lost", nil},
		{18, "billing_job_last_success_timestamp_seconds", []string{"audit"}},
		{-19, "billing_database_clock_skew_seconds", nil},
	} {
		if got := read(t, reg, tc.name, tc.labels...); got != tc.want {
			t.Errorf("%s %v is %v, want %v", tc.name, tc.labels, got, tc.want)
		}
	}
	m.Gate("something new")
	if read(t, reg, "billing_gate_closed", "other") != 1 || read(t, reg, "billing_gate_closed", "breaker") != 0 {
		t.Error("an unnamed reason of the gate is not shown as other")
	}
	m.Gate("open")
	if read(t, reg, "billing_gate_closed", "other") != 0 {
		t.Error("an open gate is shown as closed")
	}
}
