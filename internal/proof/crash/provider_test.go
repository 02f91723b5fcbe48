package crash_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"billing/internal/core/domain"
	"billing/internal/paysim"
	"billing/internal/testkit"
)

// faultCase is one way in which a provider answers the first request of a charge, and what has to come of it.
type faultCase struct {
	id       string // of the fault matrix
	fault    paysim.Fault
	outcome  domain.Outcome // of the first attempt
	http     int            // its status, 0 for none
	status   domain.Status  // of the charge in the end
	reason   string
	attempts int // 0: as many as it takes
	effects  int // that took money
}

// again is a fault after which the same key is sent again, and then charged once.
func again(id string, fault paysim.Fault, http int) faultCase {
	return faultCase{id: id, fault: fault, outcome: domain.Unknown, http: http, status: domain.StatusSucceeded, attempts: 2, effects: 1}
}

func answer(status int, body string) paysim.Fault {
	return paysim.Fault{Kind: paysim.Answer, Status: status, Body: body}
}

// unclear are the faults that tell nothing of the charge: H2 to H5, H7, H8, H12 and H16.
func unclear() map[string]faultCase {
	late := paysim.Fault{Kind: paysim.Hang, Phase: paysim.After}
	cases := map[string]faultCase{
		"reset before the effect":         again("H2", paysim.Fault{Kind: paysim.Drop, Phase: paysim.Before}, 0),
		"reset after the effect":          again("H2", paysim.Fault{Kind: paysim.Drop, Phase: paysim.After}, 0),
		"no answer, effect done":          again("H2", late, 0),
		"no answer, no effect":            again("H2", paysim.Fault{Kind: paysim.Hang, Phase: paysim.Before}, 0),
		"cut body":                        again("H3", paysim.Fault{Kind: paysim.Truncate}, 201),
		"broken JSON":                     again("H3", answer(200, `{"id":"x","status":`), 200),
		"page of HTML":                    again("H3", answer(200, "<html>sorry</html>"), 200),
		"empty body":                      again("H3", paysim.Fault{Kind: paysim.Answer, Phase: paysim.After, Status: 200, Body: " "}, 200),
		"unknown word":                    again("H3", answer(200, `{"id":"x","status":"maybe"}`), 200),
		"1 MiB":                           again("H4", paysim.Fault{Kind: paysim.Oversize}, 201),
		"gzip bomb":                       again("H4", paysim.Fault{Kind: paysim.GzipBomb, Size: 1 << 20}, 201),
		"dripping body":                   again("H4", paysim.Fault{Kind: paysim.Drip}, 201),
		"dripping header":                 again("H4", paysim.Fault{Kind: paysim.DripHeader}, 0),
		"endless informational":           again("H4", paysim.Fault{Kind: paysim.Informational, Phase: paysim.After}, 0),
		"in progress":                     again("H5", paysim.Conflict("in_progress"), 409),
		"conflict with an unknown code":   again("H5", paysim.Conflict("locked"), 409),
		"request timeout":                 again("H7", answer(408, "{}"), 408),
		"too early":                       again("H7", answer(425, "{}"), 425),
		"throttled without a hint":        again("H7", answer(429, "{}"), 429),
		"throttled, hint in the past":     again("H7", paysim.Fault{Kind: paysim.Answer, Status: 429, RetryAfter: "-5"}, 429),
		"unavailable after the effect":    again("H7", paysim.Fault{Kind: paysim.Answer, Phase: paysim.After, Status: 503}, 503),
		"server error before the effect":  again("H8", answer(500, "{}"), 500),
		"slow, just in time":              {id: "H16", fault: paysim.Fault{Latency: paysim.Exactly(time.Second)}, outcome: domain.Succeeded, http: 201, status: domain.StatusSucceeded, attempts: 1, effects: 1},
		"processed before, effect is new": {id: "H5", fault: paysim.Fault{Kind: paysim.Answer, Phase: paysim.After, Status: 409}, outcome: domain.Succeeded, http: 409, status: domain.StatusSucceeded, attempts: 1, effects: 1},
		"processed before, none known":    again("H5", paysim.Conflict("already_processed"), 409),
	}
	for _, status := range []int{301, 302, 303, 307, 308} {
		f := paysim.Redirect("/charges")
		f.Status = status
		cases[fmt.Sprint("redirect ", status)] = again("H12", f, status)
	}
	return cases
}

// words are the provider's own words on a charge: H3, H6, H9 and H11. Rejections stay below five in a row.
func words() map[string]faultCase {
	end := func(id string, fault paysim.Fault, outcome domain.Outcome, status domain.Status, reason string) faultCase {
		return faultCase{id: id, fault: fault, outcome: outcome, http: fault.Status, status: status, reason: reason, attempts: 1}
	}
	declined := func(id string, fault paysim.Fault, reason string) faultCase {
		return end(id, fault, domain.Declined, domain.StatusDeclined, reason)
	}
	parked := func(id string, fault paysim.Fault, reason domain.Cause) faultCase {
		return end(id, fault, domain.Rejected, domain.StatusParked, string(reason))
	}
	return map[string]faultCase{
		"declined with 402":           declined("H11", answer(402, `{"status":"declined","code":"card_declined"}`), "card_declined"),
		"declined with 200":           declined("H11", answer(200, `{"id":"x","status":"declined","code":"no_funds"}`), "no_funds"),
		"declined with 422":           declined("H11", answer(422, `{"status":"declined","code":"expired"}`), "expired"),
		"declined, and not kept":      declined("H9", paysim.Fault{Kind: paysim.Answer, Status: 402, Body: "{}", NotStored: true}, ""),
		"other bytes under the key":   parked("H6", paysim.Conflict("key_reused"), domain.CauseKeyReused),
		"another order in the answer": parked("H3", answer(200, `{"id":"x","status":"succeeded","order_id":"someone else's"}`), domain.CauseEchoMismatch),
		"another sum in the answer":   parked("H3", answer(200, `{"id":"x","status":"succeeded","amount":1}`), domain.CauseEchoMismatch),
		"other parameters, with 422":  parked("H6", answer(422, `{"code":"param_mismatch"}`), domain.CauseInvalidRequest),
	}
}

// A kept connection that dies under a request brings an unknown attempt, never a second request for it: H15.
func TestADeadConnectionIsNoSecondRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t, paysim.Script{Rules: []paysim.Rule{{Match: paysim.Match{Attempt: 1}, Fault: paysim.Fault{Kind: paysim.ResetOnReuse}}}}, "BILLING_PROVIDER_CONCURRENCY=1")
	r.produce(t, 6, time.Now())
	p := r.serve(t)
	r.awaitSettled(t)
	r.audit(t)
	requests := r.sim.Journal().Audit().RequestsByKey
	for _, o := range r.orders {
		rows := r.db.Count(t, "SELECT count(*) FROM charge_attempt WHERE event_id = $1 AND outcome <> 'not_sent'", o.event)
		reset := r.db.Count(t, "SELECT count(*) FROM charge_attempt WHERE event_id = $1 AND outcome = 'unknown' AND http_status IS NULL", o.event)
		if wire := requests[o.event.String()]; wire != rows-reset { // a reset request was never read
			t.Errorf("order %s: %d requests on the wire for %d attempts, %d of them reset", o.id, wire, rows, reset)
		}
	}
	if n := r.db.Count(t, "SELECT count(*) FROM charge_attempt WHERE outcome = 'unknown'"); n == 0 {
		t.Error("no connection died: the fault did nothing")
	}
	r.metrics(t, p)
	stop(t, p)
}

// place makes one order for each case, with its fault on the first request.
func (r *rig) place(t *testing.T, cases map[string]faultCase) map[string]order {
	t.Helper()
	placed := map[string]order{}
	var records []*kgo.Record
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		records = append(records, r.confirm(time.Now()))
		o := r.orders[fmt.Sprintf("order-%d", r.n)]
		placed[name] = o
		if err := r.sim.AddRules(paysim.Rule{Match: paysim.Match{OrderID: o.id, Attempt: 1}, Fault: cases[name].fault}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	testkit.Produce(t, r.brokers, records...)
	return placed
}

// check compares row, journal, wire and effects of one case.
func (r *rig) check(t *testing.T, c faultCase, o order, journal paysim.Audit) {
	t.Helper()
	got := testkit.Value[string](t, r.db, `SELECT concat_ws(' ', status, coalesce(reason, '-')) FROM charge WHERE event_id = $1`, o.event)
	want := string(c.status) + " " + map[bool]string{true: "-", false: c.reason}[c.reason == ""]
	if got != want {
		t.Errorf("%s: the charge is %s, want %s", c.id, got, want)
	}
	first := testkit.Value[string](t, r.db, `SELECT concat_ws(' ', outcome, coalesce(http_status, 0)) FROM charge_attempt WHERE event_id = $1 ORDER BY attempt LIMIT 1`, o.event)
	if want := fmt.Sprintf("%s %d", c.outcome, c.http); first != want {
		t.Errorf("%s: the first attempt is %s, want %s", c.id, first, want)
	}
	rows := r.db.Count(t, `SELECT count(*) FROM charge_attempt WHERE event_id = $1 AND outcome <> 'not_sent'`, o.event)
	if c.attempts != 0 && rows != c.attempts {
		t.Errorf("%s: %d attempts, want %d", c.id, rows, c.attempts)
	}
	if wire := journal.RequestsByKey[o.event.String()]; wire != rows {
		t.Errorf("%s: %d requests on the wire for %d attempts", c.id, wire, rows)
	}
	effects := 0
	for _, e := range journal.EffectsByOrder[o.id] {
		if e.Status == paysim.Succeeded {
			effects++
		}
	}
	if effects != c.effects {
		t.Errorf("%s: money was taken %d times, want %d", c.id, effects, c.effects)
	}
}

// metrics compares what one process counted with what the tables say.
func (r *rig) metrics(t *testing.T, p *testkit.Process) {
	t.Helper()
	for _, outcome := range domain.Outcomes() {
		want := r.db.Count(t, "SELECT count(*) FROM charge_attempt WHERE outcome = $1", string(outcome))
		series := fmt.Sprintf("billing_charge_attempts_total{outcome=%q,provider=\"default\"}", outcome)
		if got := r.metric(t, p, series); int(got) != want {
			t.Errorf("%s is %v, want %d", series, got, want)
		}
	}
	for _, status := range []domain.Status{domain.StatusSucceeded, domain.StatusDeclined, domain.StatusParked} {
		want := r.db.Count(t, "SELECT count(*) FROM charge_event WHERE to_status = $1 AND version IS NOT NULL", string(status))
		series := fmt.Sprintf("billing_charges_settled_total{status=%q}", status)
		if got := r.metric(t, p, series); int(got) != want {
			t.Errorf("%s is %v, want %d", series, got, want)
		}
	}
}

func TestEveryAnswerOfAProviderHasItsOutcomeRowAndMetric(t *testing.T) {
	t.Parallel()
	for group, cases := range map[string]map[string]faultCase{"unclear": unclear(), "words": words()} {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, paysim.Script{})
			placed := r.place(t, cases)
			p := r.serve(t)
			r.awaitSettled(t)
			journal := r.sim.Journal().Audit()
			for name, c := range cases {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					r.check(t, c, placed[name], journal)
				})
			}
			if doubles, reused := journal.DoubleCharged(), journal.ReusedKeys(); len(doubles)+len(reused) > 0 {
				t.Errorf("charged twice %v, keys with different bytes %v", doubles, reused)
			}
			r.metrics(t, p)
			if code := r.run(t, "audit", "--provider"); code != 0 {
				t.Errorf("billing audit --provider ended with %d", code)
			}
			stop(t, p)
		})
	}
}

// Past half of the key window a charge is only looked up: H8, H13 and H14. The first send is set back in the
// database, whose clock decides.
func TestPastTheKeyWindowChargesAreOnlyLookedUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		id     string
		fault  paysim.Fault
		lookup bool
		status domain.Status
		reason string
		effect int
	}{
		"an error kept under the key": {"H8", paysim.Fault{Kind: paysim.Answer, Status: 500, Store: true}, true, domain.StatusParked, "outcome_unknown", 0},
		"charged, key forgotten":      {"H13", paysim.Fault{Kind: paysim.Drop, Phase: paysim.After}, true, domain.StatusSucceeded, "", 1},
		"charged, nobody to ask":      {"H13", paysim.Fault{Kind: paysim.Drop, Phase: paysim.After}, false, domain.StatusParked, "outcome_unknown", 1},
		"effect after the look-up":    {"H14", paysim.Fault{Latency: paysim.Exactly(5 * time.Second)}, true, domain.StatusParked, "outcome_unknown", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, always(c.fault), "BILLING_PROVIDER_KEY_WINDOW=24h", fmt.Sprintf("BILLING_PROVIDER_LOOKUP=%v", c.lookup))
			if err := r.sim.SetScript(paysim.Script{Rules: []paysim.Rule{{Match: paysim.Match{On: paysim.Charges}, Fault: c.fault}}}); err != nil {
				t.Fatal(err)
			}
			r.produce(t, 1, time.Now())
			p := r.serve(t)
			r.await(t, "an attempt ended unknown", func() bool {
				return r.db.Count(t, "SELECT count(*) FROM charge WHERE last_outcome = 'unknown'") == 1
			})
			before := r.setBack(t, "13 hours")
			r.awaitSettled(t)
			o := r.orders["order-1"]
			if got := testkit.Value[string](t, r.db, "SELECT concat_ws(' ', status, coalesce(reason, '')) FROM charge"); strings.TrimSpace(got) != strings.TrimSpace(string(c.status)+" "+c.reason) {
				t.Errorf("%s: %s, want %s %s", c.id, got, c.status, c.reason)
			}
			if err := r.sim.WaitEffects(r.patient(t), c.effect); err != nil {
				t.Fatal(err)
			}
			journal := r.sim.Journal().Audit()
			if got := len(journal.EffectsByOrder[o.id]); got != c.effect {
				t.Errorf("%s: %d effects, want %d", c.id, got, c.effect)
			}
			if after := journal.RequestsByKey[o.event.String()]; after > before {
				t.Errorf("%s: %d requests after the window, %d before", c.id, after, before)
			}
			r.metrics(t, p)
			if series := `billing_charges_settled_total{status="parked"}`; r.metric(t, p, series) != float64(r.db.Count(t, "SELECT count(*) FROM charge WHERE status = 'parked'")) {
				t.Errorf("%s: %s did not move", c.id, series)
			}
			if c.id == "H14" { // the money was taken after all: a new window is refused
				if code := r.run(t, "charges", "retry", o.event.String(), "--actor", "test", "--reason", "ask again", "--yes"); code == 0 {
					t.Error("a retry was accepted although look-up finds the charge")
				}
				if code := r.run(t, "charges", "resolve", o.event.String(), "--as", "succeeded", "--actor", "test", "--reason", "found by look-up", "--yes"); code != 0 {
					t.Errorf("resolve ended with %d", code)
				}
			}
			stop(t, p)
		})
	}
}

// setBack makes every stamp older and every key forgotten while no request is under way, and returns how many requests of the one
// charge were sent until then.
func (r *rig) setBack(t *testing.T, by string) int {
	t.Helper()
	if code := r.run(t, "pause", "--actor", "test", "--reason", "set the clock", "--yes"); code != 0 {
		t.Fatalf("billing pause ended with %d", code)
	}
	r.await(t, "nothing is under way", func() bool {
		return r.db.Count(t, "SELECT count(*) FROM outbox WHERE channel = 'provider' AND status = 'PUBLISHING'") == 0
	})
	r.db.Exec(t, "UPDATE charge SET first_sent_at = first_sent_at - $1::text::interval", by)
	if err := r.sim.ForgetKeys(); err != nil {
		t.Fatal(err)
	}
	n := r.sim.Journal().Audit().RequestsByKey[r.orders["order-1"].event.String()]
	if code := r.run(t, "resume", "--actor", "test", "--reason", "set the clock", "--yes"); code != 0 {
		t.Fatalf("billing resume ended with %d", code)
	}
	return n
}

// Faults that are about the provider as a whole close the gate, which shows in a metric, in /readyz and in
// `billing status`: H1, H7 and H16. H10 and a wrong URL have tests of their own.
func TestAFaultOfTheWholeProviderClosesTheGate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		id, gate string
		script   paysim.Script
		env      []string
		heals    bool
	}{
		"no such host":          {"H1", "breaker", paysim.Script{}, []string{"BILLING_PROVIDER_URL=http://provider.invalid:1", "BILLING_PROVIDER_ALLOW_HTTP=true"}, false},
		"no TLS":                {"H1", "breaker", paysim.Script{}, nil, false},
		"come back in seconds":  {"H7", "retry_after", always(paysim.Fault{Kind: paysim.Answer, Status: 429, RetryAfter: "3"}), nil, true},
		"come back at a time":   {"H7", "retry_after", always(paysim.Fault{Kind: paysim.Answer, Status: 503, Header: map[string]string{"Retry-After": time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}}), nil, false},
		"come back next decade": {"H7", "retry_after", always(paysim.Fault{Kind: paysim.Answer, Status: 503, RetryAfter: "315360000"}), nil, false},
		"brown-out":             {"H16", "breaker", always(paysim.Fault{Kind: paysim.Answer, Status: 502}), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.script)
			env := c.env
			if name == "no TLS" {
				env = []string{"BILLING_PROVIDER_URL=" + strings.Replace(r.simURL, "http://", "https://", 1)}
			}
			r.produce(t, 40, time.Now())
			p := r.serve(t, env...)
			r.await(t, "the gate closes", func() bool { return r.metric(t, p, fmt.Sprintf("billing_gate_closed{reason=%q}", c.gate)) == 1 })
			if status, body := r.get(t, p, "/readyz"); status != http.StatusOK || !strings.Contains(body, c.gate) {
				t.Errorf("/readyz is %d and says %s", status, body)
			}
			r.await(t, "status shows the gate", func() bool {
				return r.db.Count(t, "SELECT count(*) FROM process WHERE gate = $1 AND gate_since IS NOT NULL AND roles LIKE '%charger%'", c.gate) == 1
			})
			if n := r.db.Count(t, "SELECT count(*) FROM charge WHERE status <> 'requested'"); n != 0 {
				t.Errorf("%s moved %d charges", c.id, n)
			}
			if c.id == "H1" {
				r.await(t, "nothing counts as sent but a probe", func() bool { return r.db.Count(t, "SELECT count(*) FROM charge WHERE first_sent_at IS NOT NULL") <= 4 })
				if n := r.db.Count(t, "SELECT count(*) FROM charge_attempt WHERE outcome NOT IN ('not_sent')"); n != 0 {
					t.Errorf("%d attempts without a connection count as sent", n)
				}
			}
			if c.gate == "retry_after" && !c.heals {
				if n := r.db.Count(t, "SELECT count(*) FROM outbox WHERE channel = 'provider' AND run_at > now() + interval '16 minutes'"); n != 0 {
					t.Errorf("%d charges wait longer than the longest hint that is believed", n)
				}
			}
			if !c.heals {
				stop(t, p)
				return
			}
			r.sim.ClearRules()
			r.awaitSettled(t)
			r.audit(t)
			stop(t, p)
		})
	}
}
