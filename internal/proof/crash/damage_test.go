package crash_test

import (
	"testing"
	"time"

	"billing/internal/paysim"
	"billing/internal/testkit"
)

// A damaged batch is neither passed over nor asked for without end; an operator passes over it for good, whatever owner comes
// later and from wherever it reads.
func TestADamagedBatchHaltsItsPartitionUntilAnOperatorSkipsIt(t *testing.T) {
	t.Parallel()
	kafka := testkit.NewApacheKafka(t, testkit.ApacheKafkaOptions{})
	r := assemble(t, kafka.Brokers(), paysim.Script{}, nil)
	for range 3 { // each a batch of its own
		r.produceTo(t, inPartition(r.confirm(time.Now()), 0))
	}
	if err := kafka.Damage(r.topic, 0, 1); err != nil {
		t.Fatal(err)
	}
	delete(r.orders, "order-2") // nobody can charge it
	r.produceTo(t, inPartition(r.confirm(time.Now()), 1))
	p := r.serve(t)
	r.await(t, "the partition halts", func() bool {
		return r.halted(t) == 1 && r.accepted(t) == 2 && r.metric(t, p, `billing_invariant_violations{rule="partition_halted"}`) == 1
	})
	if r.db.Count(t, "SELECT count(*) FROM consumer_position WHERE strpos(halted, $1) > 0", "at offset 1, said to end at 1,") != 1 {
		t.Error("the reason does not name the damage")
	}
	if code := r.run(t, "partitions", "skip", r.topic, "0", "--to", "2", "--actor", "test", "--reason", "disk damage", "--yes"); code != 0 {
		t.Fatalf("billing partitions skip ended with %d", code)
	}
	r.awaitSettled(t)
	r.await(t, "the offset is at the end", func() bool { return testkit.CommittedOffset(t, r.brokers, r.group, r.topic, 0) == 3 })
	stop(t, p)
	r.moveKafka(t, 0)
	r.produceTo(t, inPartition(r.confirm(time.Now()), 0))
	p = r.serve(t)
	r.awaitSettled(t)
	r.await(t, "the offset is at the end again", func() bool { return testkit.CommittedOffset(t, r.brokers, r.group, r.topic, 0) == 4 })
	if n := r.halted(t); n != 0 {
		t.Error("the partition halted again")
	}
	r.audit(t)
	stop(t, p)
}
