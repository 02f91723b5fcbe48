package crash_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"billing/internal/paysim"
	"billing/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const patience = 90 * time.Second

// rig is one system: a database, topics, a provider, and what its producer was acknowledged.
type rig struct {
	db      *testkit.DB
	login   *url.Userinfo // of the service: it has the rights of billing_app, no more
	brokers []string
	topic   string
	group   string
	results string
	letters string
	sim     *paysim.Server
	simURL  string
	binary  string
	more    []string // environment of every process
	orders  map[string]order
	n       int
	// restored says that the database was put back: a charge is then announced again from version 1,
	// under an identity of its own (contract §4).
	restored bool
}

// order is what a producer confirmed.
type order struct {
	event  uuid.UUID
	id     string
	amount int64
}

// newApacheRig is a system on Apache Kafka, newRig one on an in-process broker.
func newApacheRig(t *testing.T, script paysim.Script, env ...string) *rig {
	t.Helper()
	return assemble(t, testkit.SharedApacheKafka(t).Brokers(), script, env)
}

func newRig(t *testing.T, script paysim.Script, env ...string) *rig {
	t.Helper()
	return assemble(t, testkit.NewKfake(t, nil).Brokers(), script, env)
}

func assemble(t *testing.T, brokers []string, script paysim.Script, env []string) *rig {
	t.Helper()
	name := testkit.UniqueName("proof")
	r := &rig{
		db: testkit.NewDB(t), brokers: brokers, topic: name + ".orders", group: name, results: name + ".results",
		letters: name + ".dlq", binary: testkit.BuildBinary(t, "./cmd/billing"), more: env, orders: map[string]order{},
	}
	r.login = r.member(t, "billing_app")
	for _, topic := range []string{r.topic, r.results, r.letters, r.topic + "." + r.group + ".retry"} {
		testkit.CreateTopic(t, brokers, topic, 3, nil)
	}
	var err error
	if r.sim, err = paysim.New(paysim.Options{Script: script, KeyWindow: -1}); err != nil {
		t.Fatal(err)
	}
	listener, err := r.sim.Listen(context.WithoutCancel(t.Context()), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	})
	r.simURL = listener.URL
	return r
}

func (r *rig) env(more ...string) []string {
	return slices.Concat([]string{
		"BILLING_DATABASE_URL=" + as(r.login, r.db.URL()),
		"BILLING_KAFKA_BROKERS=" + strings.Join(r.brokers, ","),
		"BILLING_KAFKA_TOPICS=" + r.topic,
		"BILLING_KAFKA_GROUP=" + r.group,
		"BILLING_KAFKA_RESULTS_TOPIC=" + r.results,
		"BILLING_KAFKA_DEAD_LETTER_TOPIC=" + r.letters,
		"BILLING_KAFKA_SESSION_TIMEOUT=6s",
		"BILLING_PROVIDER_URL=" + r.simURL,
		"BILLING_PROVIDER_TIMEOUT=2s",
		"BILLING_PROVIDER_CONCURRENCY=16",
		"BILLING_CHARGE_LEASE=9s",
		"BILLING_RETRY_MIN=20ms",
		"BILLING_RETRY_MAX=500ms",
		"BILLING_RELAY_LEASE=10s",
		"BILLING_OPS_ADDR=127.0.0.1:0",
	}, r.more, more)
}

// serve starts one process.
func (r *rig) serve(t *testing.T, more ...string) *testkit.Process {
	t.Helper()
	return testkit.RunProcess(t, testkit.ProcessOptions{Path: r.binary, Args: []string{"serve"}, Env: r.env(more...)})
}

// run runs a verb to its end and returns its exit code and last lines.
func (r *rig) run(t *testing.T, args ...string) int {
	t.Helper()
	p := testkit.RunProcess(t, testkit.ProcessOptions{Path: r.binary, Args: args, Env: r.env()})
	code, err := p.Wait(r.patient(t))
	if err != nil {
		t.Fatalf("billing %s: %v", strings.Join(args, " "), err)
	}
	return code
}

func (r *rig) patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// confirm makes an order and returns its record.
func (r *rig) confirm(at time.Time) *kgo.Record {
	r.n++
	o := order{event: uuid.Must(uuid.NewV7AtTime(at)), id: fmt.Sprintf("order-%d", r.n), amount: int64(100 + r.n)}
	r.orders[o.id] = o
	return r.record(o.event, o)
}

// record is an event for an order, under whatever id.
func (r *rig) record(event uuid.UUID, o order) *kgo.Record {
	value, _ := json.Marshal(map[string]any{
		"event_id": event.String(), "event_type": "OrderConfirmed", "occurred_at": "2026-01-02T03:04:05Z",
		"order_id": o.id, "customer_id": "customer-" + o.id, "total_amount": o.amount,
	})
	return &kgo.Record{Topic: r.topic, Key: []byte(o.id), Value: value}
}

// produce sends n new orders, every fifth of them twice, every tenth again under another id.
func (r *rig) produce(t *testing.T, n int, at time.Time) {
	t.Helper()
	var records []*kgo.Record
	for i := range n {
		first := r.confirm(at)
		records = append(records, first)
		o := r.orders[fmt.Sprintf("order-%d", r.n)]
		if i%5 == 0 {
			records = append(records, r.record(o.event, o))
		}
		if i%10 == 0 {
			records = append(records, r.record(uuid.Must(uuid.NewV7AtTime(at)), o))
		}
	}
	testkit.Produce(t, r.brokers, records...)
}

// awaitSettled waits until every order has its charge settled and announced.
func (r *rig) awaitSettled(t *testing.T) {
	t.Helper()
	r.await(t, "every order is charged and nothing waits", func() bool {
		return r.db.Count(t, "SELECT count(*) FROM charge WHERE status <> 'requested'") >= len(r.orders) &&
			r.db.Count(t, "SELECT count(*) FROM outbox WHERE run_at < 'infinity'") == 0
	})
}

func (r *rig) await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-limit.C:
			t.Fatalf("not within %s: %s", patience, what)
		case <-ticker.C:
		}
	}
}

// result is what the world was told of a charge.
type result struct {
	EventID string `json:"event_id"`
	Type    string `json:"event_type"`
	OrderID string `json:"order_id"`
	Source  string `json:"source_event_id"`
	Amount  int64  `json:"amount"`
	Version int    `json:"version"`
}

// audit compares the producer's journal, the provider's journal and the results topic.
func (r *rig) audit(t *testing.T) {
	t.Helper()
	journal := r.sim.Journal().Audit()
	if doubles := journal.DoubleCharged(); len(doubles) > 0 {
		t.Errorf("%d orders were charged twice: %v", len(doubles), doubles[:min(len(doubles), 5)])
	}
	if reused := journal.ReusedKeys(); len(reused) > 0 {
		t.Errorf("%d keys came with different bytes: %v", len(reused), reused[:min(len(reused), 5)])
	}
	announced := r.announced(t)
	lost := 0
	for id, o := range r.orders {
		effects := journal.EffectsByOrder[id]
		if len(effects) == 0 || effects[0].Amount != o.amount {
			lost++
			continue
		}
		if got, ok := announced[id]; !ok || got.Type != "ChargeSucceeded" || got.Amount != o.amount || got.Source != effects[0].Key {
			t.Errorf("order %s was announced as %+v", id, got)
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d orders were lost", lost, len(r.orders))
	}
	if charged := len(journal.Charged()); charged != len(r.orders) {
		t.Errorf("%d orders were charged, %d were confirmed", charged, len(r.orders))
	}
	if code := r.run(t, "audit", "--provider"); code != 0 {
		t.Errorf("billing audit --provider ended with %d", code)
	}
}

// announced reads the results topic; one identity may come again, two identities of one version may not.
func (r *rig) announced(t *testing.T) map[string]result {
	t.Helper()
	byOrder := map[string]result{}
	for _, record := range testkit.ReadTopic(t, r.brokers, r.results, kgo.ReadCommitted()) {
		var got result
		if err := json.Unmarshal(record.Value, &got); err != nil {
			t.Fatalf("result %s: %v", record.Value, err)
		}
		if before, ok := byOrder[got.OrderID]; ok && !r.restored && before.Version == got.Version && before.EventID != got.EventID {
			t.Errorf("version %d of order %s was announced as %s and as %s", got.Version, got.OrderID, before.EventID, got.EventID)
		}
		byOrder[got.OrderID] = got
	}
	return byOrder
}
