package crash_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"billing/internal/paysim"
	"billing/internal/testkit"
)

// opsAddr waits until a process listens for its operators.
func (r *rig) opsAddr(t *testing.T, p *testkit.Process) string {
	t.Helper()
	addr, err := p.WaitListening(r.patient(t), "ops")
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// get asks the operations port of a process.
func (r *rig) get(t *testing.T, p *testkit.Process, path string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(r.patient(t), http.MethodGet, "http://"+r.opsAddr(t, p)+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// metric returns the value of one series of a process, such as `billing_gate_closed{reason="paused"}`.
func (r *rig) metric(t *testing.T, p *testkit.Process, series string) float64 {
	t.Helper()
	_, text := r.get(t, p, "/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
	}
	t.Fatalf("no series %s", series)
	return 0
}

func always(fault paysim.Fault) paysim.Script {
	return paysim.Script{Rules: []paysim.Rule{{Match: paysim.Match{On: paysim.Anything}, Fault: fault}}}
}

func TestAChargeSentForOneAccountIsNeverSentForAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t, always(paysim.Fault{Kind: paysim.Drop, Phase: paysim.Before}), "BILLING_PROVIDER_ACCOUNT=first")
	r.produce(t, 10, time.Now())
	p := r.serve(t)
	if err := r.sim.WaitRequests(r.patient(t), 20); err != nil {
		t.Fatal(err)
	}
	r.await(t, "every charge was sent", func() bool {
		return r.db.Count(t, "SELECT count(*) FROM charge WHERE first_sent_at IS NOT NULL") == 10
	})
	stop(t, p)

	second, err := paysim.New(paysim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := second.Listen(context.WithoutCancel(t.Context()), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	r.produce(t, 10, time.Now())
	p = r.serve(t, "BILLING_PROVIDER_ACCOUNT=second", "BILLING_PROVIDER_URL="+listener.URL)
	r.awaitSettled(t)
	if n := r.db.Count(t, "SELECT count(*) FROM charge WHERE status = 'parked' AND reason = 'provider_changed'"); n != 10 {
		t.Errorf("%d charges parked, want the 10 that were sent for the first account", n)
	}
	if n := len(second.Effects()); n != 10 {
		t.Errorf("%d effects at the second provider, want 10", n)
	}
	for _, e := range second.Effects() {
		if o := r.orders[e.OrderID]; r.db.Count(t, "SELECT count(*) FROM charge WHERE event_id = $1 AND status = 'succeeded'", o.event) != 1 {
			t.Errorf("order %s of the first account was charged by the second", e.OrderID)
		}
	}
	stop(t, p)
}

func TestAWrongBaseURLParksAtMostFiveCharges(t *testing.T) {
	t.Parallel()
	r := newRig(t, paysim.Script{Rules: []paysim.Rule{paysim.WrongURL()}})
	r.produce(t, 40, time.Now())
	p := r.serve(t)
	r.await(t, "the gate closes", func() bool {
		return r.metric(t, p, `billing_gate_closed{reason="rejected"}`) == 1
	})
	r.await(t, "those in flight come back", func() bool {
		return r.db.Count(t, "SELECT count(*) FROM outbox WHERE status = 'PUBLISHING' AND channel = 'provider'") == 0
	})
	parked := r.db.Count(t, "SELECT count(*) FROM charge WHERE status = 'parked'")
	if parked == 0 || parked > 5 {
		t.Errorf("%d charges parked for a wrong URL, want 1 to 5", parked)
	}
	if _, body := r.get(t, p, "/readyz"); !strings.Contains(body, "rejected") {
		t.Errorf("/readyz does not say why the gate is closed: %s", body)
	}
	r.sim.ClearRules()
	r.await(t, "all others are charged", func() bool {
		return r.db.Count(t, "SELECT count(*) FROM charge WHERE status = 'succeeded'") == 40-parked
	})
	if now := r.db.Count(t, "SELECT count(*) FROM charge WHERE status = 'parked'"); now != parked {
		t.Errorf("%d parked in the end, %d when the gate closed", now, parked)
	}
	stop(t, p)
}

func TestARefusedTokenTouchesNothingUntilItIsTakenAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, always(paysim.Fault{Kind: paysim.Answer, Status: http.StatusUnauthorized}))
	r.produce(t, 40, time.Now())
	p := r.serve(t)
	r.await(t, "the gate closes", func() bool {
		return r.metric(t, p, `billing_gate_closed{reason="unauthorized"}`) == 1
	})
	if n := r.db.Count(t, "SELECT count(*) FROM charge WHERE status <> 'requested'"); n != 0 {
		t.Errorf("%d charges were moved by a refused token", n)
	}
	r.sim.ClearRules()
	r.awaitSettled(t)
	r.audit(t)
	// 16 were in flight when the gate closed; after that there were only probes.
	if n := r.db.Count(t, "SELECT count(*) FROM charge_attempt WHERE outcome = 'not_sent' AND http_status = 401"); n > 32 {
		t.Errorf("%d requests were sent with a refused token", n)
	}
	stop(t, p)
}

// A process that stands still beyond its lease wakes up: another one has charged meanwhile under the
// same key, the money was taken once, and the late answer changes nothing.
func TestAProcessThatSleptBeyondItsLeaseIsFenced(t *testing.T) {
	t.Parallel()
	r := newRig(t, paysim.Script{Rules: []paysim.Rule{
		{Match: paysim.Match{Attempt: 1}, Fault: paysim.Fault{Kind: paysim.Hang, Phase: paysim.After}},
	}})
	r.produce(t, 6, time.Now())
	sleeper := r.serve(t)
	if err := r.sim.WaitHanging(r.patient(t), 6); err != nil {
		t.Fatal(err)
	}
	if err := sleeper.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	other := r.serve(t, "BILLING_ROLES=charger,relay")
	r.awaitSettled(t)
	if err := sleeper.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.await(t, "the sleeper's outcomes are fenced", func() bool {
		return r.metric(t, sleeper, "billing_fenced_writes_total") >= 6
	})
	r.audit(t)
	if n := r.db.Count(t, "SELECT count(*) FROM charge WHERE version <> 1"); n != 0 {
		t.Errorf("%d charges were announced more than once", n)
	}
	stop(t, sleeper)
	stop(t, other)
}

func TestAPauseStopsEveryProcessAndAResumeStartsThem(t *testing.T) {
	t.Parallel()
	r := newRig(t, paysim.Script{})
	first, second := r.serve(t), r.serve(t)
	if code := r.run(t, "pause", "--actor", "test", "--reason", "the provider asked for it", "--yes"); code != 0 {
		t.Fatalf("billing pause ended with %d", code)
	}
	for _, p := range []*testkit.Process{first, second} {
		r.await(t, "the pause shows", func() bool { return r.metric(t, p, "billing_charging_paused") == 1 })
	}
	r.produce(t, 20, time.Now())
	r.await(t, "events are still consumed", func() bool { return r.db.Count(t, "SELECT count(*) FROM charge") == 20 })
	if n := len(r.sim.Requests()); n != 0 {
		t.Errorf("%d requests during a pause", n)
	}
	if n := r.db.Count(t, "SELECT count(*) FROM outbox WHERE attempt > 0 AND channel = 'provider'"); n != 0 {
		t.Errorf("a closed gate touched %d rows", n)
	}
	if code := r.run(t, "resume", "--actor", "test", "--reason", "done", "--yes"); code != 0 {
		t.Fatalf("billing resume ended with %d", code)
	}
	r.awaitSettled(t)
	r.audit(t)
	stop(t, first)
	stop(t, second)
}

// An endpoint that refuses connections takes nothing from a charge, however long it lasts.
func TestAnEndpointThatRefusesConnectionsParksNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, paysim.Script{}, "BILLING_PROVIDER_KEY_WINDOW=30s")
	proxy := testkit.NewProxy(t, strings.TrimPrefix(r.simURL, "http://"))
	proxy.Refuse()
	r.produce(t, 5, time.Now())
	p := r.serve(t, "BILLING_PROVIDER_URL=http://"+proxy.Addr())
	r.await(t, "many tries", func() bool {
		return r.db.Count(t, "SELECT count(*) FROM charge_attempt WHERE outcome = 'not_sent'") >= 20
	})
	// A claim sets the stamp with its attempt, and settling takes both back together: only probes under way have it.
	if n := r.db.Count(t, `SELECT count(*) FROM charge c WHERE first_sent_at IS NOT NULL
		AND NOT EXISTS (SELECT FROM charge_attempt a WHERE a.event_id = c.event_id AND a.outcome IS NULL)`); n > 0 {
		t.Errorf("%d charges count as sent", n)
	}
	if err := proxy.Resume(); err != nil {
		t.Fatal(err)
	}
	r.awaitSettled(t)
	r.audit(t)
	stop(t, p)
}

// While the database is away nothing is lost, nothing is moved aside and nobody restarts the process.
func TestADatabaseOutageIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t, paysim.Script{})
	proxy := testkit.NewProxy(t, r.db.Addr())
	r.produce(t, 30, time.Now())
	p := r.serve(t, "BILLING_DATABASE_URL="+as(r.login, r.db.URLVia(proxy.Addr())))
	r.awaitSettled(t)
	proxy.Refuse()
	r.produce(t, 30, time.Now())
	r.await(t, "readiness is lost", func() bool {
		status, _ := r.get(t, p, "/readyz")
		return status == http.StatusServiceUnavailable
	})
	if status, body := r.get(t, p, "/livez"); status != http.StatusOK {
		t.Errorf("/livez is %d during an outage: %s", status, body)
	}
	if _, body := r.get(t, p, "/readyz"); !strings.Contains(body, "brokers reachable") {
		t.Errorf("/readyz does not show Kafka: %s", body)
	}
	if err := proxy.Resume(); err != nil {
		t.Fatal(err)
	}
	r.awaitSettled(t)
	r.audit(t)
	if n := r.db.Count(t, "SELECT count(*) FROM dead_letter"); n != 0 {
		t.Errorf("%d dead letters for an outage", n)
	}
	stop(t, p)
}

func TestSIGTERMDuringAnOutageEndsInTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, paysim.Script{}, "BILLING_SHUTDOWN_TIMEOUT=25s")
	proxy := testkit.NewProxy(t, r.db.Addr())
	r.produce(t, 5, time.Now())
	p := r.serve(t, "BILLING_DATABASE_URL="+as(r.login, r.db.URLVia(proxy.Addr())))
	r.awaitSettled(t)
	proxy.BlackHole()
	r.produce(t, 5, time.Now())
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 27*time.Second)
	defer cancel()
	code, err := p.Wait(ctx)
	if err != nil || code > 1 {
		t.Errorf("ended with %d, %v; want 0 or 1 within the shutdown timeout", code, err)
	}
	if err := proxy.Resume(); err != nil {
		t.Fatal(err)
	}
	p = r.serve(t)
	r.awaitSettled(t)
	r.audit(t)
	stop(t, p)
}

func TestServeWaitsForWhatIsMissingAtStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, paysim.Script{})
	r.topic += ".late"
	proxy := testkit.NewProxy(t, r.db.Addr())
	proxy.Refuse()
	p := r.serve(t, "BILLING_DATABASE_URL="+as(r.login, r.db.URLVia(proxy.Addr())))
	waiting := func(word string) func(map[string]any) bool {
		return func(line map[string]any) bool { return strings.Contains(fmt.Sprint(line["msg"]), word) }
	}
	if _, err := p.WaitLog(r.patient(t), waiting("waiting for the database")); err != nil {
		t.Fatal(err)
	}
	if status, _ := r.get(t, p, "/livez"); status != http.StatusOK {
		t.Errorf("/livez is %d while waiting", status)
	}
	if status, _ := r.get(t, p, "/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz is %d without a database", status)
	}
	if err := proxy.Resume(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.WaitLog(r.patient(t), waiting("waiting for")); err != nil {
		t.Fatal(err)
	}
	testkit.CreateTopic(t, r.brokers, r.topic, 3, nil)
	r.produce(t, 10, time.Now())
	r.awaitSettled(t)
	r.audit(t)
	stop(t, p)
}
