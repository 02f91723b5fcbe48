package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	kafkaout "billing/internal/adapters/out/kafka"
	"billing/internal/adapters/out/payment"
	"billing/internal/adapters/out/postgres"
	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/paysim"
	"billing/internal/testkit"
	"billing/internal/worker"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// shop is a database and a provider, and the environment of the commands that work on them.
type shop struct {
	db    *testkit.DB
	sim   *paysim.Server
	url   string
	env   map[string]string
	store *postgres.Store
	send  usecase.Send
	next  int64
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{db: testkit.NewDB(t)}
	s.store = postgres.NewStore(s.db.Pool(t))
	var err error
	if s.sim, err = paysim.New(paysim.Options{Now: time.Now}); err != nil {
		t.Fatal(err)
	}
	listener, err := s.sim.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	s.url = listener.URL
	s.env = map[string]string{"BILLING_DATABASE_URL": s.db.URL(), "BILLING_PROVIDER_URL": s.url}
	cfg, err := LoadConfig(environ(s.env), PartDatabase|PartProvider)
	if err != nil {
		t.Fatal(err)
	}
	provider, err := newProvider(cfg, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(provider.Close)
	clock := worker.Clock{}
	s.send = usecase.Send{
		Provider: provider, Gate: &usecase.Gate{Clock: clock, Random: rand.Float64}, Clock: clock, Random: rand.Float64, IDs: newID,
		Backoff: domain.Backoff{Min: time.Hour, Max: time.Hour}, Lease: cfg.ChargeLease, Timeout: cfg.ProviderTimeout, PendingMax: cfg.PendingMax,
	}
	if err := s.store.PutPosition(t.Context(), shopSource(), usecase.Position{}); err != nil {
		t.Fatal(err)
	}
	return s
}

func shopSource() usecase.Source {
	return usecase.Source{ClusterID: "k", Group: "g", Topic: "orders", Partition: 3}
}

// order confirms an order and returns the id of its charge.
func (s *shop) order(t *testing.T, id string) uuid.UUID {
	t.Helper()
	e := domain.OrderConfirmed{EventID: newID(), Order: domain.Order{
		OrderID: id, CustomerID: "c", Amount: domain.Money{Minor: 150000, Currency: "RUB"},
	}}
	request, err := payment.Request(e.Order)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.store.AcceptChunk(t.Context(), usecase.Chunk{
		Source: shopSource(), From: s.next, Next: s.next + 1, Events: []usecase.Acceptance{{Event: e, Request: request, Traceparent: "t"}},
	}, usecase.Limits{Retention: time.Hour, Skew: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	s.next++
	return e.EventID
}

// work charges whatever is due.
func (s *shop) work(t *testing.T) {
	t.Helper()
	codec := codec{kafkaout.Messages{ResultsTopic: "results"}}
	claimed := time.Now()
	claims, err := s.store.ClaimCharges(t.Context(), 100, usecase.ClaimRules{Account: "default", Lease: s.send.Lease, KeyWindow: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims {
		c.ClaimedAt = claimed
		settle := usecase.Settle{Queue: s.store, Codec: codec, IDs: newID}
		if _, err := settle.Do(t.Context(), []usecase.Settlement{s.send.Do(t.Context(), c)}); err != nil {
			t.Fatal(err)
		}
	}
}

// parked is a charge whose request the provider answered in a way that a person has to look at.
func (s *shop) parked(t *testing.T, order string, fault paysim.Fault) uuid.UUID {
	t.Helper()
	if err := s.sim.AddRules(paysim.Rule{Match: paysim.Match{OrderID: order}, Fault: fault}); err != nil {
		t.Fatal(err)
	}
	id := s.order(t, order)
	s.work(t)
	if got := s.status(t, id); got != "parked" {
		t.Fatalf("the charge is %s, want parked", got)
	}
	return id
}

func (s *shop) status(t *testing.T, id uuid.UUID) string {
	t.Helper()
	return testkit.Value[string](t, s.db, `SELECT status FROM charge WHERE event_id = $1`, id)
}

// run is one command, with what somebody types.
func (s *shop) run(t *testing.T, typed string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	root := newRoot(environ(s.env))
	var out, errs bytes.Buffer
	root.SetArgs(args)
	root.SetIn(strings.NewReader(typed))
	root.SetOut(&out)
	root.SetErr(&errs)
	code = report(&errs, root.ExecuteContext(t.Context()))
	return code, out.String(), errs.String()
}

func (s *shop) want(t *testing.T, code int, text string, args ...string) string {
	t.Helper()
	got, stdout, stderr := s.run(t, "", args...)
	if got != code || !strings.Contains(stdout+stderr, text) {
		t.Fatalf("%v: exit code %d, want %d with %q\n%s%s", args, got, code, text, stdout, stderr)
	}
	return stdout
}

// post takes money at the provider behind the service's back.
func (s *shop) post(t *testing.T, key, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/charges", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if answer.StatusCode/100 != 2 {
		t.Fatalf("the provider answered %d", answer.StatusCode)
	}
}

func TestAuditComparesWithTheProvider(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, order := range []string{"o-1", "o-2", "o-3"} {
		s.order(t, order)
	}
	s.work(t)
	clean := []string{"audit", "--provider", "--grace", "0s"}
	s.want(t, 0, "0 findings in 3 charges", clean...)

	key := newID().String()
	s.post(t, key, `{"order_id":"o-1","customer_id":"c","amount":150000,"currency":"RUB"}`)
	s.want(t, exitFailure, "2 findings in 3 charges", clean...)
	var got struct {
		Findings int64
		Results  []usecase.RuleResult
	}
	if err := json.Unmarshal([]byte(s.want(t, exitFailure, "", "audit", "--provider", "--grace", "0s", "--output", "json")), &got); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, r := range got.Results {
		for _, f := range r.Findings {
			found[r.Name] += f.Subject
		}
	}
	if len(found) != 2 || found["effect_charge"] != key || found["effect_once"] != key {
		t.Errorf("findings %v, want effect_charge and effect_once of key %s", found, key)
	}
	s.want(t, 0, "0 findings", "audit", "--grace", "0s") // our own tables are sound
}

func TestAuditThatCannotBeCompletedFails(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.env["BILLING_PROVIDER_TOKEN"] = canary
	if err := s.sim.AddRules(paysim.Rule{Match: paysim.Match{On: paysim.Lists}, Fault: paysim.Fault{Kind: paysim.Answer, Status: http.StatusForbidden}}); err != nil {
		t.Fatal(err)
	}
	s.want(t, exitFailure, "proves nothing", "audit", "--provider")
	delete(s.env, "BILLING_PROVIDER_URL")
	s.want(t, exitConfiguration, "BILLING_PROVIDER_URL: is required with --provider", "audit", "--provider")
}

func TestRulesAreListed(t *testing.T) {
	t.Parallel()
	var rules []struct{ ID, Name, SQL string }
	_, stdout, _ := billing(t, nil, "audit", "--rules", "--output", "json")
	if err := json.Unmarshal([]byte(stdout), &rules); err != nil || len(rules) != len(usecase.Rules()) {
		t.Fatalf("%d rules: %v", len(rules), err)
	}
	for _, r := range rules {
		if !strings.Contains(r.SQL, "-- "+r.ID+": ") {
			t.Errorf("the SQL of %s %s does not say what it is", r.ID, r.Name)
		}
	}
}

func TestPersonDecidesAboutParkedCharges(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	refusing := paysim.Fault{Kind: paysim.Answer, Status: http.StatusUnprocessableEntity}
	again, taken := s.parked(t, "o-again", refusing), s.parked(t, "o-taken", refusing)
	s.sim.ClearRules()
	s.post(t, taken.String(), `{"order_id":"o-taken","customer_id":"c","amount":150000,"currency":"RUB"}`)

	s.want(t, 0, "billing charges list --status parked", "status")
	s.want(t, 0, again.String(), "charges", "list", "--status", "parked")
	s.want(t, 0, "ChargeParked", "charges", "show", again.String())
	s.want(t, exitFailure, "use billing charges resolve", "charges", "retry", taken.String(), "--reason", "r", "--yes")
	s.want(t, 0, "succeeded", "charges", "resolve", taken.String(), "--as", "succeeded", "--reason", "in the report", "--yes")
	s.want(t, 0, "requested", "charges", "retry", again.String(), "--reason", "not in the report", "--yes")
	s.work(t)
	if got := s.status(t, again); got != "succeeded" {
		t.Errorf("the retried charge is %s", got)
	}
	s.want(t, 0, "0 findings", "audit", "--provider", "--grace", "0s")
	if n := s.db.Count(t, `SELECT count(*) FROM charge_event WHERE actor = session_user`); n != 2 {
		t.Errorf("%d moves bear the database user's name, want 2", n)
	}
}

func TestNothingChangesWithoutConsentAndReason(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	id := s.order(t, "o-1").String()
	s.want(t, exitUsage, "reason", "charges", "cancel", id, "--yes")
	s.want(t, exitUsage, "reason", "charges", "cancel", id, "--yes", "--reason", " ")
	s.want(t, exitUsage, "UUID", "charges", "cancel", "17", "--yes", "--reason", "r")
	for typed, want := range map[string]int{"": exitUsage, "n\n": exitFailure, "nonsense\n": exitFailure} {
		if code, _, _ := s.run(t, typed, "charges", "cancel", id, "--reason", "r"); code != want {
			t.Errorf("typed %q: exit code %d, want %d", typed, code, want)
		}
	}
	if n := s.db.Count(t, `SELECT count(*) FROM charge WHERE status = 'requested'`); n != 1 {
		t.Fatal("the charge was cancelled without consent")
	}
	code, _, stderr := s.run(t, "yes\n", "charges", "cancel", id, "--reason", "r", "--actor", "ann")
	if code != 0 || !strings.Contains(stderr, "order o-1, 1500.00 RUB, requested") {
		t.Fatalf("exit code %d, asked %q", code, stderr)
	}
	if n := s.db.Count(t, `SELECT count(*) FROM charge_event WHERE type = 'ChargeCancelled' AND actor = 'ann'`); n != 1 {
		t.Error("the move does not bear the actor's name")
	}
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	id := s.order(t, "o-1")
	s.want(t, 0, "charging is paused", "pause", "--reason", "r", "--yes")
	s.want(t, 0, "was paused already", "pause", "--reason", "r", "--yes")
	s.want(t, 0, "billing resume", "status")
	s.work(t)
	if got := s.status(t, id); got != "requested" {
		t.Fatalf("charged while paused: %s", got)
	}
	s.want(t, 0, "charging goes on", "resume", "--reason", "r", "--yes")
	s.work(t)
	if got := s.status(t, id); got != "succeeded" {
		t.Fatalf("not charged after resume: %s", got)
	}
	s.want(t, 0, "history is lost", "history", "lost", "--reason", "restored to 12:00", "--yes")
	s.want(t, 0, "restored to 12:00", "status")
	if err := s.store.MarkHistoryLost(context.Background(), "restored"); err != nil { // what a consumer does
		t.Fatal(err)
	}
	s.want(t, 0, "history was lost already", "history", "lost", "--reason", "r", "--yes")
	s.want(t, 0, "history is whole", "history", "clear", "--reason", "r", "--yes")
}

func TestPartitionsAreMovedOneByOne(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.want(t, 0, "orders", "partitions", "list")
	s.want(t, exitFailure, "not halted", "partitions", "release", "orders", "3", "--reason", "r", "--yes")
	s.want(t, exitFailure, "no such partition", "partitions", "release", "orders", "4", "--reason", "r", "--yes")
	s.want(t, exitUsage, "accepts 2 arg", "partitions", "release", "orders", "--reason", "r")
	s.db.Exec(t, `UPDATE consumer_position SET halted = 'flood'`)
	s.want(t, 0, "billing partitions release orders 3 --group g --cluster k", "status")
	s.want(t, 0, "orders", "partitions", "release", "orders", "3", "--group", "g", "--cluster", "k", "--reason", "r", "--yes")
	if n := s.db.Count(t, `SELECT count(*) FROM consumer_position WHERE halted IS NULL`); n != 1 {
		t.Error("the partition is still halted")
	}
	s.want(t, exitUsage, "--to", "partitions", "skip", "orders", "3", "--reason", "r", "--yes")
	s.want(t, exitFailure, "not halted", "partitions", "skip", "orders", "3", "--to", "9", "--reason", "r", "--yes")
	s.db.Exec(t, `UPDATE consumer_position SET halted = 'corrupt records: at offset 7', next_offset = 7`)
	s.want(t, 0, "billing partitions skip orders 3 --to ... --group g", "status")
	s.want(t, exitFailure, "not behind 7", "partitions", "skip", "orders", "3", "--to", "7", "--reason", "r", "--yes")
	s.want(t, 0, "7-8", "partitions", "skip", "orders", "3", "--to", "9", "--reason", "r", "--yes")
	s.want(t, 0, `"skips"`, "partitions", "list", "--output", "json")
	other := shopSource()
	other.Group = "h"
	if err := s.store.PutPosition(t.Context(), other, usecase.Position{Halted: "x"}); err != nil {
		t.Fatal(err)
	}
	s.want(t, exitFailure, "2 positions are meant", "partitions", "release", "orders", "3", "--reason", "r", "--yes")
}

func TestStatusIsReadableForPrograms(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.order(t, "o-1")
	s.work(t)
	var got usecase.Overview
	if err := json.Unmarshal([]byte(s.want(t, 0, "", "status", "--all", "--output", "json")), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Charges) != 1 || got.Charges[0].Status != domain.StatusSucceeded || got.SchemaVersion != got.SchemaRequired || len(got.Partitions) != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestCommandsNeverShowTheDatabaseURL(t *testing.T) {
	t.Parallel()
	env := map[string]string{"BILLING_DATABASE_URL": "postgres://somebody:" + canary + "@127.0.0.1:1/" + canary}
	for _, args := range [][]string{{"status"}, {"audit"}, {"charges", "list"}, {"partitions", "list"}} {
		code, stdout, stderr := billing(t, env, args...)
		if code != exitFailure || strings.Contains(stderr, "somebody") {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
		checkNoCanary(t, stdout, stderr)
	}
}
