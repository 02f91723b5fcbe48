package crash_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/paysim"
	"billing/internal/testkit"
)

// lossy is a provider that loses answers after it took the money, and is slow enough to be killed at.
func lossy() paysim.Script {
	return paysim.Script{
		Seed: 7, Latency: paysim.Range{Min: time.Millisecond, Max: 20 * time.Millisecond},
		Shares: []paysim.Share{
			{Of: 0.05, Fault: paysim.Fault{Kind: paysim.Drop, Phase: paysim.After}},
			{Of: 0.05, Fault: paysim.Fault{Kind: paysim.Drop, Phase: paysim.Before}},
			{Of: 0.02, Fault: paysim.Fault{Kind: paysim.Truncate}},
		},
	}
}

func TestKilledProcessChargesEachOrderOnce(t *testing.T) {
	t.Parallel()
	r := newApacheRig(t, lossy())
	r.produce(t, 600, time.Now())
	first := r.serve(t)
	for _, effects := range []int{150, 350} {
		if err := r.sim.WaitEffects(r.patient(t), effects); err != nil {
			t.Fatal(err)
		}
		if err := first.Kill(); err != nil {
			t.Fatal(err)
		}
		first = r.serve(t)
	}
	r.awaitSettled(t)
	r.audit(t)
	if n := r.db.Count(t, "SELECT count(*) FROM charge_attempt WHERE outcome = 'unknown'"); n == 0 {
		t.Error("no attempt ended unknown: the faults did nothing")
	}
	stop(t, first)
}

// stop ends a process by SIGTERM and checks that it ends cleanly.
func stop(t *testing.T, p *testkit.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	r := rig{}
	code, err := p.Wait(r.patient(t))
	if err != nil || code != 0 {
		t.Errorf("stopped with %d, %v", code, err)
	}
}

// A database that was restored to an earlier copy, with Kafka's offsets ahead of it or gone, charges
// nobody again, although the provider has forgotten every key: ids are older than half of the window.
func TestRestoredDatabaseChargesNobodyAgain(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]bool{"offsets ahead": false, "offsets gone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newApacheRig(t, paysim.Script{}, "BILLING_PROVIDER_KEY_WINDOW=60m")
			old := time.Now().Add(-2 * time.Hour)
			r.produce(t, 60, old)
			p := r.serve(t)
			r.awaitSettled(t)
			stop(t, p)
			copied := r.db.Snapshot(t)

			r.produce(t, 60, old)
			p = r.serve(t)
			r.awaitSettled(t)
			stop(t, p)
			r.audit(t)

			copied.Restore(t)
			r.restored = true
			if err := r.sim.ForgetKeys(); err != nil {
				t.Fatal(err)
			}
			if forget {
				testkit.DeleteOffsets(t, r.brokers, r.group, r.topic, 0, 1, 2)
			}
			r.produce(t, 60, time.Now())
			p = r.serve(t)
			r.awaitSettled(t)
			r.audit(t)
			stop(t, p)
		})
	}
}

func TestSameKeyAndSameBytesOnEveryAttemptAndAfterARestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, paysim.Script{Rules: []paysim.Rule{
		{Match: paysim.Match{Attempt: 1}, Fault: paysim.Fault{Kind: paysim.Drop, Phase: paysim.After}},
		{Match: paysim.Match{Attempt: 2}, Fault: paysim.Fault{Kind: paysim.Answer, Status: 503}},
	}})
	r.produce(t, 20, time.Now())
	p := r.serve(t)
	if err := r.sim.WaitRequests(r.patient(t), 30); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	p = r.serve(t)
	r.awaitSettled(t)
	r.audit(t) // no key with different bytes, no order charged twice
	for key, n := range r.sim.Journal().Audit().RequestsByKey {
		if n < 3 {
			t.Errorf("key %s came %d times, want at least 3", key, n)
		}
		if id, err := uuid.FromString(key); err != nil || id.String() != key {
			t.Errorf("key %s is not a canonical UUID", key)
		}
	}
	stop(t, p)
}

func TestNoTransactionIsOpenWhileTheProviderHangs(t *testing.T) {
	t.Parallel()
	r := newRig(t, paysim.Script{Rules: []paysim.Rule{{Fault: paysim.Fault{Kind: paysim.Hang}}}}, "BILLING_PROVIDER_TIMEOUT=10s", "BILLING_CHARGE_LEASE=30s")
	r.produce(t, 8, time.Now())
	p := r.serve(t)
	if err := r.sim.WaitHanging(r.patient(t), 8); err != nil {
		t.Fatal(err)
	}
	r.await(t, "no session of the service has a transaction while eight requests hang", func() bool {
		return r.db.Count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND application_name LIKE 'billing%' AND (xact_start IS NOT NULL OR state LIKE 'idle in%')`) == 0
	})
	if open := r.db.Count(t, "SELECT count(*) FROM charge_attempt WHERE outcome IS NULL"); open != 8 {
		t.Errorf("%d open attempt rows while 8 requests hang: the journal is written before the request", open)
	}
	r.sim.ClearRules()
	r.sim.ReleaseHangs()
	r.awaitSettled(t)
	r.audit(t)
	stop(t, p)
}

func TestReplayUnderARenamedGroupMakesNoDeadLetter(t *testing.T) {
	t.Parallel()
	r := newRig(t, paysim.Script{})
	r.produce(t, 100, time.Now())
	p := r.serve(t)
	r.awaitSettled(t)
	stop(t, p)
	r.group += "-renamed"
	p = r.serve(t)
	r.await(t, "the renamed group has read everything", func() bool {
		return r.db.Count(t, "SELECT coalesce(sum(next_offset), 0) FROM consumer_position WHERE consumer_group = $1", r.group) >= 130
	})
	if n := r.db.Count(t, "SELECT count(*) FROM dead_letter"); n != 0 {
		t.Errorf("%d dead letters", n)
	}
	r.audit(t)
	stop(t, p)
}

func TestSIGTERMWithRequestsInFlightLeavesNothingUnknown(t *testing.T) {
	t.Parallel()
	r := newRig(t, paysim.Script{Latency: paysim.Exactly(time.Second)})
	r.produce(t, 40, time.Now())
	p := r.serve(t)
	if err := r.sim.WaitRequests(r.patient(t), 8); err != nil {
		t.Fatal(err)
	}
	stop(t, p)
	if n := r.db.Count(t, "SELECT count(*) FROM charge_attempt WHERE outcome IS NULL OR outcome = 'unknown'"); n != 0 {
		t.Errorf("%d attempts without a known end after a clean stop", n)
	}
	if n := r.db.Count(t, "SELECT count(*) FROM outbox WHERE status = 'PUBLISHING' AND channel = 'provider'"); n != 0 {
		t.Errorf("%d charges are still leased after a clean stop", n)
	}
	p = r.serve(t)
	r.awaitSettled(t)
	r.audit(t)
	stop(t, p)
}
