package observe_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"billing/internal/core/domain"
	"billing/internal/observe"
)

func newMetrics() (*prometheus.Registry, *observe.Metrics) {
	reg := prometheus.NewRegistry()
	return reg, observe.New(reg, observe.BuildInfo{Version: "v1", Commit: "abc", GoVersion: "go1"}, "acme")
}

// contract lists §6 with the label values that exist from the start.
var contract = map[string]map[string][]string{
	"billing_events_total": {"outcome": {"accepted", "duplicate", "dead_letter", "retry", "tombstone", "ignored"}},
	"billing_charge_attempts_total": {
		"provider": {"acme"}, "outcome": {"succeeded", "declined", "pending", "rejected", "not_sent", "unknown"},
	},
	"billing_charges_settled_total": {"status": {"succeeded", "declined", "parked", "cancelled"}},
	"billing_charges": {
		"status":       {"requested", "succeeded", "declined", "parked", "cancelled"},
		"last_outcome": {"none", "succeeded", "declined", "pending", "rejected", "not_sent", "unknown"},
	},
	"billing_charge_oldest_timestamp_seconds":               {"status": {"requested", "parked"}},
	"billing_charge_nearest_key_deadline_timestamp_seconds": {},
	"billing_outbox_rows":                                   {"channel": {"provider", "kafka"}},
	"billing_outbox_oldest_timestamp_seconds":               {"channel": {"provider", "kafka"}},
	"billing_kafka_lag":                                     {"topic": {"orders"}, "partition": {"3"}},
	"billing_dead_letters_total": {"reason": {
		"invalid_json", "invalid_field", "missing_field", "unsupported_event_type", "invalid_event_id", "event_too_old",
		"event_from_future", "invalid_amount", "event_id_conflict", "order_already_charged", "retries_exhausted",
	}},
	"billing_leases_expired_total": {"channel": {"provider", "kafka"}},
	"billing_fenced_writes_total":  {},
	"billing_invariant_violations": {"rule": {"position_beyond_log", "partition_halted"}},
	"billing_charging_paused":      {},
	"billing_history_lost":         {},
	"billing_build_info":           {"version": {"v1"}, "revision": {"abc"}, "goversion": {"go1"}},
}

func TestContractMetricsExistFromTheStart(t *testing.T) {
	t.Parallel()
	reg, m := newMetrics()
	m.Assigned("orders", 3)
	scraped := gather(t, reg)
	for name, labels := range contract {
		family, ok := scraped[name]
		if !ok {
			t.Errorf("%s does not exist", name)
			continue
		}
		series := 1
		for _, values := range labels {
			series *= len(values)
		}
		if len(family.GetMetric()) != series {
			t.Errorf("%s has %d series, want %d", name, len(family.GetMetric()), series)
		}
		for _, metric := range family.GetMetric() {
			checkSeries(t, name, metric, labels)
		}
	}
}

func checkSeries(t *testing.T, name string, metric *dto.Metric, labels map[string][]string) {
	t.Helper()
	if len(metric.GetLabel()) != len(labels) {
		t.Errorf("%s has labels %v, want %v", name, metric.GetLabel(), labels)
	}
	for _, label := range metric.GetLabel() {
		if !slices.Contains(labels[label.GetName()], label.GetValue()) {
			t.Errorf("%s has label %s, want one of %v", name, label, labels)
		}
	}
	if value := metric.GetCounter().GetValue() + metric.GetGauge().GetValue(); value != 0 && name != "billing_build_info" {
		t.Errorf("%s starts at %v, want 0", name, value)
	}
}

func gather(t *testing.T, reg *prometheus.Registry) map[string]*dto.MetricFamily {
	t.Helper()
	list, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	families := make(map[string]*dto.MetricFamily)
	for _, family := range list {
		families[family.GetName()] = family
	}
	return families
}

func TestDescribeMatchesTheScrape(t *testing.T) {
	t.Parallel()
	reg, m := newMetrics()
	live := observe.NewLiveness(time.Now)
	live.Register("relay")
	reg.MustRegister(live)
	m.Assigned("orders", 3)
	m.Expect(observe.Names{Topics: []string{"results"}, Jobs: []string{"audit"}, Rules: []string{"some_rule"}})
	scraped := gather(t, reg)
	described := make(map[string]bool)
	for _, doc := range m.Describe() {
		described[doc.Name] = true
		family, ok := scraped[doc.Name]
		if !ok {
			t.Errorf("%s is described and does not exist", doc.Name)
			continue
		}
		if kind := strings.ToLower(family.GetType().String()); kind != doc.Type || family.GetHelp() != doc.Help {
			t.Errorf("%s is a %s %q, described as %s %q", doc.Name, kind, family.GetHelp(), doc.Type, doc.Help)
		}
		if got := len(family.GetMetric()[0].GetLabel()); got != len(doc.Labels) {
			t.Errorf("%s has %d labels, described %v", doc.Name, got, doc.Labels)
		}
	}
	for name := range scraped {
		if strings.HasPrefix(name, "billing_") && !described[name] {
			t.Errorf("%s exists and is not described", name)
		}
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}

func TestLagIsShownWhileAssigned(t *testing.T) {
	t.Parallel()
	reg, m := newMetrics()
	m.Assigned("orders", 0)
	m.Assigned("orders", 1)
	m.Lag("orders", 0, 7)
	m.Lag("orders", 1, 9)
	m.Progress("orders", 0)
	m.Revoked("orders", 1)
	m.Lag("orders", 1, 5) // a poll that comes too late
	m.Progress("orders", 1)
	compare(t, reg, `
# HELP billing_kafka_assigned_partitions Partitions assigned to this process.
# TYPE billing_kafka_assigned_partitions gauge
billing_kafka_assigned_partitions 1
# HELP billing_kafka_lag Messages behind the log's end, for partitions assigned to this process.
# TYPE billing_kafka_lag gauge
billing_kafka_lag{partition="0",topic="orders"} 7
`, "billing_kafka_lag", "billing_kafka_assigned_partitions")
	if got := len(gather(t, reg)["billing_kafka_last_progress_timestamp_seconds"].GetMetric()); got != 1 {
		t.Errorf("%d partitions have progress, want 1", got)
	}
}

func compare(t *testing.T, reg *prometheus.Registry, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

func TestBacklogShowsOneLookAtTheDatabase(t *testing.T) {
	t.Parallel()
	reg, m := newMetrics()
	state := observe.ChargeState{Status: domain.StatusParked}
	m.Backlog(observe.Backlog{
		Charges:            map[observe.ChargeState]int64{state: 4, {Status: domain.StatusRequested, LastOutcome: domain.Unknown}: 2},
		OldestCharge:       map[domain.Status]time.Time{domain.StatusRequested: time.UnixMilli(1500)},
		NearestKeyDeadline: time.Unix(99, 0),
		OutboxRows:         map[string]int64{"kafka": 8},
		OldestOutbox:       map[string]time.Time{"kafka": time.Unix(7, 0)},
	})
	value := func(name string, labels ...string) float64 { return read(t, reg, name, labels...) }
	for _, tc := range []struct {
		got, want float64
	}{
		{value("billing_charges", "parked", "none"), 4},
		{value("billing_charges", "requested", "unknown"), 2},
		{value("billing_charge_oldest_timestamp_seconds", "requested"), 1.5},
		{value("billing_charge_nearest_key_deadline_timestamp_seconds"), 99},
		{value("billing_outbox_rows", "kafka"), 8},
		{value("billing_outbox_oldest_timestamp_seconds", "kafka"), 7},
	} {
		if tc.got != tc.want {
			t.Errorf("got %v, want %v", tc.got, tc.want)
		}
	}
	m.Backlog(observe.Backlog{})
	if value("billing_charges", "parked", "none")+value("billing_outbox_oldest_timestamp_seconds", "kafka")+
		value("billing_charge_nearest_key_deadline_timestamp_seconds") != 0 {
		t.Error("what is gone from the database is still shown")
	}
}

// read returns the value of the one series that has all the label values.
func read(t *testing.T, reg *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	for _, metric := range gather(t, reg)[name].GetMetric() {
		found := 0
		for _, label := range metric.GetLabel() {
			if slices.Contains(labels, label.GetValue()) {
				found++
			}
		}
		if found == len(labels) {
			return metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	t.Errorf("no series %s %v", name, labels)
	return -1
}
