package observe

import (
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"billing/internal/core/domain"
)

// BuildInfo names the running binary.
type BuildInfo struct {
	Version   string
	Commit    string
	GoVersion string
}

// Closed sets of label values that are not words of the domain.
var (
	eventOutcomes = []string{"accepted", "duplicate", "dead_letter", "retry", "tombstone", "ignored"}
	channels      = []string{"provider", "kafka"}
	operations    = []string{"charge", "lookup"}
	gateReasons   = []string{"paused", "unauthorized", "rejected", "breaker", "retry_after", "other"}
	httpRoutes    = []string{"POST /v1/charges", "GET /v1/charges", "GET /v1/charges/{event_id}", "other"}
	httpClasses   = []string{"2xx", "3xx", "4xx", "5xx"}
	settledTo     = []string{
		string(domain.StatusSucceeded), string(domain.StatusDeclined), string(domain.StatusParked), string(domain.StatusCancelled),
	}
	purgedKinds = []string{"attempts", "history", "dead_letters", "keys"}
	waitingIn   = []string{string(domain.StatusRequested), string(domain.StatusParked)}

	lastTurn = MetricDoc{
		Name: "billing_worker_last_turn_timestamp_seconds", Type: "gauge", Labels: []string{"loop"},
		Help: "When each running loop turned last.",
	}
)

// RulePositionBeyondLog is the invariant of a partition whose position and log do not meet, contract §6.
const RulePositionBeyondLog = "position_beyond_log"

// RulePartitionHalted is that of a partition that waits for an operator's release, such as behind the dead-letter brake.
const RulePartitionHalted = "partition_halted"

// outcomeNone is the label of a charge without last_outcome, contract §6.
const outcomeNone = "none"

// Metrics is every metric of the service. Its methods may be called by any goroutine.
type Metrics struct {
	docs     []MetricDoc
	provider string

	events, deadLetters                     *prometheus.CounterVec
	eventsAhead                             prometheus.Counter
	batchSize, batchSeconds                 prometheus.Observer
	attempts, settled                       *prometheus.CounterVec
	charges, oldestCharge                   *prometheus.GaugeVec
	keyDeadline                             prometheus.Gauge
	requestSeconds                          *prometheus.HistogramVec
	inflight                                prometheus.Gauge
	gate                                    *prometheus.GaugeVec
	outboxRows, oldestOutbox                *prometheus.GaugeVec
	leasesExpired, published, publishErrors *prometheus.CounterVec
	fencedWrites                            prometheus.Counter
	claimSeconds, settleSeconds             *prometheus.HistogramVec
	lag, lastProgress, heldBack             *prometheus.GaugeVec
	partitions                              prometheus.Gauge
	rebalances, abortedRecords              prometheus.Counter
	drainSeconds                            prometheus.Observer
	commitFailures, httpRequests            *prometheus.CounterVec
	httpSeconds                             *prometheus.HistogramVec
	invariants, jobSuccess                  *prometheus.GaugeVec
	purged                                  *prometheus.CounterVec
	chargingPaused, historyLost, clockSkew  prometheus.Gauge

	mu       sync.Mutex // guards assigned
	assigned map[partitionKey]bool
}

type partitionKey struct {
	topic     string
	partition int32
}

// New registers every metric with reg, each series of a closed set at 0. provider is the account's
// name. It panics when reg already has one of them.
func New(reg prometheus.Registerer, build BuildInfo, provider string) *Metrics {
	c := &catalog{reg: reg}
	m := &Metrics{provider: provider, assigned: make(map[partitionKey]bool)}
	m.addEvents(c)
	m.addCharges(c)
	m.addOutbox(c)
	m.addKafka(c)
	m.addHTTP(c)
	m.addService(c, build)
	m.docs = append(c.docs, lastTurn)
	slices.SortFunc(m.docs, func(a, b MetricDoc) int { return strings.Compare(a.Name, b.Name) })
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Describe lists every metric by name, for the table in the README.
func (m *Metrics) Describe() []MetricDoc { return slices.Clone(m.docs) }

// Names are label values that only the wiring knows.
type Names struct {
	Topics []string // that the relay publishes to
	Jobs   []string // whose last success is shown
	Rules  []string // of the invariants that are checked
}

// Expect makes the series of names exist at 0.
func (m *Metrics) Expect(names Names) {
	zeroCounters(m.published, names.Topics)
	zeroCounters(m.publishErrors, names.Topics)
	zeroGauges(m.jobSuccess, names.Jobs)
	zeroGauges(m.invariants, names.Rules)
}

func (m *Metrics) addEvents(c *catalog) {
	m.events = zeroCounters(c.counter("billing_events_total",
		"Kafka messages by what became of them, counted after the commit.", "outcome"), eventOutcomes)
	m.deadLetters = zeroCounters(c.counter("billing_dead_letters_total",
		"Messages refused for good, by reason.", "reason"), words(domain.Reasons()))
	m.eventsAhead = c.counter("billing_events_ahead_total",
		"Accepted events whose id is more than 10 minutes ahead of the database's clock.").WithLabelValues()
	m.batchSize = c.histogram("billing_accept_batch_messages",
		"Messages of one accepted batch.", prometheus.ExponentialBuckets(1, 2, 10)).WithLabelValues()
	m.batchSeconds = c.histogram("billing_accept_duration_seconds",
		"Time to accept one batch in the database.", shortBuckets()).WithLabelValues()
}

func (m *Metrics) addCharges(c *catalog) {
	account, outcomes := []string{m.provider}, words(domain.Outcomes())
	m.attempts = zeroCounters(c.counter("billing_charge_attempts_total",
		"Attempts to charge, by outcome.", "provider", "outcome"), account, outcomes)
	m.settled = zeroCounters(c.counter("billing_charges_settled_total",
		"Charges that reached a status, counted after the commit.", "status"), settledTo)
	m.charges = zeroGauges(c.gauge("billing_charges",
		"Charges in the database by status and last outcome.", "status", "last_outcome"), words(domain.Statuses()), append(outcomes, outcomeNone))
	m.oldestCharge = zeroGauges(c.gauge("billing_charge_oldest_timestamp_seconds",
		"When the oldest charge that waits in a status was created; 0 = none.", "status"), waitingIn)
	m.keyDeadline = c.gauge("billing_charge_nearest_key_deadline_timestamp_seconds",
		"When the first unsettled charge may no longer be sent (half of its key window is over); 0 = none.").WithLabelValues()
	m.requestSeconds = zeroHistograms(c.histogram("billing_provider_request_duration_seconds",
		"Time of one provider request until its answer was read.", longBuckets(), "provider", "operation", "outcome"),
		account, operations, outcomes)
	m.inflight = c.gauge("billing_provider_inflight",
		"Provider requests in flight.", "provider").WithLabelValues(m.provider)
	m.gate = zeroGauges(c.gauge("billing_gate_closed",
		"1 while the gate claims no charge, by reason.", "reason"), gateReasons)
}

func (m *Metrics) addOutbox(c *catalog) {
	m.outboxRows = zeroGauges(c.gauge("billing_outbox_rows",
		"Outbox rows without those of parked charges.", "channel"), channels)
	m.oldestOutbox = zeroGauges(c.gauge("billing_outbox_oldest_timestamp_seconds",
		"When the oldest outbox row was created, without those of parked charges; 0 = none.", "channel"), channels)
	m.leasesExpired = zeroCounters(c.counter("billing_leases_expired_total",
		"Claims of rows whose former owner's lease had run out.", "channel"), channels)
	m.fencedWrites = c.counter("billing_fenced_writes_total",
		"Writes refused because the owner was no longer the owner.").WithLabelValues()
	m.claimSeconds = zeroHistograms(c.histogram("billing_claim_duration_seconds",
		"Time of one claiming statement.", shortBuckets(), "channel"), channels)
	m.settleSeconds = zeroHistograms(c.histogram("billing_settle_duration_seconds",
		"Time of one statement that settles charges or acknowledges messages.", shortBuckets(), "channel"), channels)
	m.published = c.counter("billing_messages_published_total",
		"Messages that the broker acknowledged.", "topic")
	m.publishErrors = c.counter("billing_publish_errors_total",
		"Messages that the broker did not acknowledge; each is published again.", "topic")
}

func (m *Metrics) addKafka(c *catalog) {
	m.lag = c.gauge("billing_kafka_lag",
		"Messages behind the log's end, for partitions assigned to this process.", "topic", "partition")
	m.heldBack = c.gauge("billing_kafka_held_back_records",
		"Offsets behind the last stable one, held back by an open transaction of a producer.", "topic", "partition")
	m.lastProgress = c.gauge("billing_kafka_last_progress_timestamp_seconds",
		"When the position last moved, or the partition was assigned.", "topic", "partition")
	m.partitions = c.gauge("billing_kafka_assigned_partitions",
		"Partitions assigned to this process.").WithLabelValues()
	m.rebalances = c.counter("billing_kafka_rebalances_total",
		"Generations of the consumer group that this process joined.").WithLabelValues()
	m.abortedRecords = c.counter("billing_kafka_aborted_records_total",
		"Records of aborted transactions that were filtered.").WithLabelValues()
	m.drainSeconds = c.histogram("billing_kafka_drain_duration_seconds",
		"Time from a revocation until its partitions were let go.", longBuckets()).WithLabelValues()
	m.commitFailures = zeroCounters(c.counter("billing_kafka_commit_failures_total",
		"Offset commits that failed, by the broker's code; none = no answer.", "code"), commitCodes())
}

func (m *Metrics) addHTTP(c *catalog) {
	m.httpRequests = zeroCounters(c.counter("billing_http_requests_total",
		"API requests by route and class of status.", "route", "class"), httpRoutes, httpClasses)
	m.httpSeconds = zeroHistograms(c.histogram("billing_http_request_duration_seconds",
		"Time of one API request.", shortBuckets(), "route"), httpRoutes)
}

func (m *Metrics) addService(c *catalog, build BuildInfo) {
	m.invariants = zeroGauges(c.gauge("billing_invariant_violations",
		"Findings of the checks that must find nothing, by rule.", "rule"), []string{RulePositionBeyondLog, RulePartitionHalted})
	m.historyLost = c.gauge("billing_history_lost",
		"1 since the database was found to be restored to an earlier point, until an operator clears it.").WithLabelValues()
	m.chargingPaused = c.gauge("billing_charging_paused",
		"1 while an operator has stopped charging.").WithLabelValues()
	m.jobSuccess = c.gauge("billing_job_last_success_timestamp_seconds",
		"When each job last succeeded; 0 = not since the start.", "task")
	m.purged = zeroCounters(c.counter("billing_purged_rows_total",
		"Rows deleted because their retention was over, by kind.", "kind"), purgedKinds)
	m.clockSkew = c.gauge("billing_database_clock_skew_seconds",
		"The database's clock minus this process's clock.").WithLabelValues()
	c.gauge("billing_build_info", "1, labelled by the running binary.", "version", "revision", "goversion").
		WithLabelValues(build.Version, build.Commit, build.GoVersion).Set(1)
}

func shortBuckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}

func longBuckets() []float64 {
	return []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 30, 60}
}

func words[T ~string](values []T) []string {
	s := make([]string, len(values))
	for i, v := range values {
		s[i] = string(v)
	}
	return s
}
