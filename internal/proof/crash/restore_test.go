package crash_test

import (
	"fmt"
	"testing"
	"time"

	"billing/internal/paysim"
	"billing/internal/testkit"
)

// An older copy of the database comes back; Kafka's offsets are ahead of it or gone, the provider answers look-ups
// or does not, ids are older than half of the key window and their keys forgotten, or young and remembered.
// Charges wait unsent in the copy, others it has never heard of, and some were POSTed: nobody pays twice.
func TestARestoredCopyTakesNoMoneyTwice(t *testing.T) {
	t.Parallel()
	for _, offsets := range []string{"ahead", "gone"} {
		for _, lookup := range []bool{true, false} {
			for _, ids := range []string{"old", "young"} {
				if offsets == "gone" && !lookup && ids == "old" {
					continue // nothing is left that could tell: neither offset nor look-up nor key
				}
				t.Run(fmt.Sprintf("offsets %s, look-up %v, ids %s", offsets, lookup, ids), func(t *testing.T) {
					t.Parallel()
					r := newRig(t, paysim.Script{}, "BILLING_PROVIDER_KEY_WINDOW=60m", fmt.Sprintf("BILLING_PROVIDER_LOOKUP=%v", lookup))
					r.restore(t, offsets == "gone", lookup, ids == "old")
				})
			}
		}
	}
}

func (r *rig) restore(t *testing.T, offsetsGone, lookup, old bool) {
	t.Helper()
	at := time.Now()
	if old {
		at = at.Add(-2 * time.Hour)
	}
	r.produce(t, 20, at)
	p := r.serve(t)
	r.awaitSettled(t)
	r.switchCharging(t, "pause")
	r.produce(t, 20, at) // of these the copy says that they were never sent
	r.posted(t, 5, old)
	r.await(t, "all wait", func() bool { return r.db.Count(t, "SELECT count(*) FROM charge WHERE status = 'requested'") == 25 })
	stop(t, p)
	copied := r.db.Snapshot(t)

	r.produce(t, 20, at) // of these it knows nothing
	r.switchCharging(t, "resume")
	p = r.serve(t)
	r.await(t, "all are charged", func() bool { return r.db.Count(t, "SELECT count(*) FROM charge WHERE status = 'succeeded'") == 65 })
	r.awaitSettled(t)
	stop(t, p)
	before := len(r.sim.Effects())

	copied.Restore(t)
	r.restored = true
	r.switchCharging(t, "resume")
	if old {
		if err := r.sim.ForgetKeys(); err != nil {
			t.Fatal(err)
		}
	}
	if offsetsGone {
		testkit.DeleteOffsets(t, r.brokers, r.group, r.topic, 0, 1, 2)
	}
	p = r.serve(t)
	r.await(t, "everything is known again and nothing waits", func() bool {
		return r.db.Count(t, "SELECT count(*) FROM charge WHERE status <> 'requested'") == 65 && r.db.Count(t, "SELECT count(*) FROM outbox WHERE run_at < 'infinity'") == 0
	})
	if doubles := r.sim.Journal().Audit().DoubleCharged(); len(doubles) > 0 {
		t.Errorf("charged twice: %v", doubles)
	}
	if after := len(r.sim.Effects()); after != before {
		t.Errorf("%d effects, %d before the restore", after, before)
	}
	if lookup || !old { // POSTed ones without look-up are left to a person once the restore has shown
		if n := r.db.Count(t, "SELECT count(*) FROM charge WHERE status <> 'succeeded' AND ($1 OR source <> 'api')", lookup); n != 0 {
			t.Errorf("%d charges are not settled by what the provider has", n)
		}
	} else if n := r.db.Count(t, "SELECT count(*) FROM charge WHERE status NOT IN ('succeeded', 'parked')"); n != 0 {
		t.Errorf("%d charges wait for nobody", n)
	}
	r.produce(t, 10, time.Now()) // life goes on
	r.await(t, "new orders are charged", func() bool {
		return r.db.Count(t, "SELECT count(*) FROM charge WHERE status <> 'requested'") == 75
	})
	if after := len(r.sim.Effects()); after != before+10 {
		t.Errorf("%d effects, want %d", after, before+10)
	}
	stop(t, p)
}

func (r *rig) switchCharging(t *testing.T, verb string) {
	t.Helper()
	if code := r.run(t, verb, "--actor", "test", "--reason", "restore", "--yes"); code != 0 {
		t.Fatalf("billing %s ended with %d", verb, code)
	}
}

// posted makes charges as the API does: their ids carry no time, only their rows are old or young.
func (r *rig) posted(t *testing.T, n int, old bool) {
	t.Helper()
	age := "0 seconds"
	if old {
		age = "2 hours"
	}
	r.db.Exec(t, `WITH made AS (
			INSERT INTO charge (event_id, order_id, customer_id, amount_minor, currency, source, client, created_at)
			SELECT gen_random_uuid(), 'posted-' || g, 'c', 100, 'RUB', 'api', 'shop', clock_timestamp() - $2::text::interval FROM generate_series(1, $1::int) g
			RETURNING event_id, order_id)
		INSERT INTO outbox (channel, event_type, event_id, payload, headers)
		SELECT 'provider', 'ChargeRequested', event_id,
		       convert_to(format('{"order_id":"%s","customer_id":"c","amount":100,"currency":"RUB"}', order_id), 'UTF8'),
		       ARRAY['traceparent'::bytea, convert_to('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'UTF8')]
		  FROM made`, n, age)
}
