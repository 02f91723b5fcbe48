package crash_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"billing/internal/paysim"
	"billing/internal/testkit"
)

// inPartition puts a record into one partition, whatever its key.
func inPartition(record *kgo.Record, partition int32) *kgo.Record {
	record.Partition = partition
	return record
}

// produceTo sends records to the partitions that they name.
func (r *rig) produceTo(t *testing.T, records ...*kgo.Record) {
	t.Helper()
	client := r.kafkaClient(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := client.ProduceSync(r.patient(t), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) kafkaClient(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(r.brokers...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func (r *rig) garbage(n int, partition int32) []*kgo.Record {
	records := make([]*kgo.Record, 0, n)
	for i := range n {
		records = append(records, &kgo.Record{Topic: r.topic, Partition: partition, Value: fmt.Appendf(nil, "garbage %d", i)})
	}
	return records
}

func (r *rig) accepted(t *testing.T) int {
	t.Helper()
	return r.db.Count(t, "SELECT count(*) FROM charge")
}

func (r *rig) halted(t *testing.T) int {
	t.Helper()
	return r.db.Count(t, "SELECT count(*) FROM consumer_position WHERE halted IS NOT NULL")
}

func TestATopicOfGarbageIsNotEmptiedIntoTheDeadLetters(t *testing.T) {
	t.Parallel()
	r := newApacheRig(t, paysim.Script{}, "BILLING_ROLES=consumer")
	r.produceTo(t, r.garbage(900, 1)...)
	r.produceTo(t, inPartition(r.confirm(time.Now()), 1), inPartition(r.confirm(time.Now()), 0))
	p := r.serve(t)
	r.await(t, "the partition halts, and shows it", func() bool {
		return r.halted(t) == 1 && r.metric(t, p, `billing_invariant_violations{rule="partition_halted"}`) == 1
	})
	r.await(t, "the other partition is read", func() bool { return r.accepted(t) == 1 })
	if n := r.db.Count(t, "SELECT count(*) FROM dead_letter"); n != 0 {
		t.Errorf("%d dead letters behind the brake", n)
	}
	if code := r.run(t, "partitions", "release", r.topic, "1", "--actor", "test", "--reason", "they are known", "--yes"); code != 0 {
		t.Fatalf("billing partitions release ended with %d", code)
	}
	r.await(t, "what was released passes", func() bool {
		return r.db.Count(t, "SELECT count(*) FROM dead_letter WHERE reason = 'invalid_json'") == 900 && r.accepted(t) == 2
	})
	if n := r.halted(t); n != 0 {
		t.Errorf("%d partitions halted again by what was released", n)
	}
	r.produceTo(t, r.garbage(150, 1)...)
	r.await(t, "new garbage halts again", func() bool { return r.halted(t) == 1 })
	stop(t, p)
}

func TestAUsualShareOfMalformedMessagesHaltsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, paysim.Script{}, "BILLING_ROLES=consumer")
	var records []*kgo.Record
	for i := range 2000 {
		if i%100 == 0 {
			records = append(records, r.garbage(1, 0)...)
		}
		records = append(records, inPartition(r.confirm(time.Now()), 0))
	}
	r.produceTo(t, records...)
	p := r.serve(t)
	r.await(t, "all are read", func() bool {
		return r.accepted(t) == 2000 && r.db.Count(t, "SELECT count(*) FROM dead_letter") == 20
	})
	if n := r.halted(t); n != 0 {
		t.Error("the partition halted for 1 % of malformed messages")
	}
	stop(t, p)
}

// refuse makes the database refuse one order for a reason that is no outage.
func (r *rig) refuse(t *testing.T, order string) {
	t.Helper()
	r.db.Exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN IF NEW.order_id = '`+order+`' THEN RAISE EXCEPTION 'refused' USING ERRCODE = '22000'; END IF; RETURN NEW; END $$`)
	r.db.Exec(t, "CREATE TRIGGER refuse BEFORE INSERT ON charge FOR EACH ROW EXECUTE FUNCTION refuse()")
}

func (r *rig) permit(t *testing.T) {
	t.Helper()
	r.db.Exec(t, "DROP TRIGGER refuse ON charge")
	r.db.Exec(t, "DROP FUNCTION refuse")
}

func TestAMessageThatKeepsFailingComesBackAndIsAccepted(t *testing.T) {
	t.Parallel()
	r := newApacheRig(t, paysim.Script{}, "BILLING_KAFKA_RETRY_DELAYS=3s,3s")
	r.refuse(t, "order-5")
	for range 9 {
		r.produceTo(t, inPartition(r.confirm(time.Now()), 2))
	}
	p := r.serve(t)
	r.await(t, "the others are accepted", func() bool { return r.accepted(t) == 8 })
	retries := r.topic + "." + r.group + ".retry"
	r.await(t, "it goes out", func() bool {
		return len(testkit.ReadTopic(t, r.brokers, retries, kgo.ReadCommitted())) == 1
	})
	r.permit(t)
	r.awaitSettled(t)
	r.audit(t)
	if n := r.db.Count(t, "SELECT count(*) FROM dead_letter"); n != 0 {
		t.Errorf("%d dead letters for a message that was accepted in the end", n)
	}
	stop(t, p)
}

// The list of delays is made shorter between two tries: nothing is lost, and the dead letter bears the coordinates at which
// its producer wrote it, the copy on Kafka too.
func TestAMessageThatFailsForGoodIsADeadLetterWithItsFirstCoordinates(t *testing.T) {
	t.Parallel()
	r := newApacheRig(t, paysim.Script{}, "BILLING_ROLES=consumer,relay")
	r.refuse(t, "order-2")
	for range 3 {
		record := inPartition(r.confirm(time.Now()), 1)
		record.Headers = []kgo.RecordHeader{{Key: "tenant", Value: []byte("a")}}
		r.produceTo(t, record)
	}
	retries := r.topic + "." + r.group + ".retry"
	p := r.serve(t, "BILLING_KAFKA_RETRY_DELAYS=300ms,6s,1h,1h")
	r.await(t, "it went out for the second time", func() bool {
		return r.db.Count(t, "SELECT count(*) FROM outbox WHERE event_type = 'Retry' AND topic = $1 AND run_at > clock_timestamp() + interval '1 second'", retries) == 1
	})
	stop(t, p)
	p = r.serve(t, "BILLING_KAFKA_RETRY_DELAYS=300ms")
	r.await(t, "it is a dead letter", func() bool { return r.db.Count(t, "SELECT count(*) FROM dead_letter") == 1 })
	n := r.db.Count(t, `SELECT count(*) FROM dead_letter WHERE topic = $1 AND partition = 1 AND "offset" = 1 AND reason = 'retries_exhausted' AND key = 'order-2'`, r.topic)
	if n != 1 || r.accepted(t) != 2 {
		t.Errorf("%d dead letters with the first coordinates, %d charges", n, r.accepted(t))
	}
	var letters []*kgo.Record
	r.await(t, "its copy is on Kafka", func() bool {
		letters = testkit.ReadTopic(t, r.brokers, r.letters, kgo.ReadCommitted())
		return len(letters) == 1
	})
	headers := map[string]string{}
	for _, h := range letters[0].Headers {
		headers[h.Key] = string(h.Value)
	}
	if headers["dlq-topic"] != r.topic || headers["dlq-partition"] != "1" || headers["dlq-offset"] != "1" || headers["tenant"] != "a" {
		t.Errorf("headers of the copy: %v", headers)
	}
	stop(t, p)
}

func TestAMissingRetryTopicDelaysOnlyItsOwnMessage(t *testing.T) {
	t.Parallel()
	r := newApacheRig(t, paysim.Script{}, "BILLING_KAFKA_RETRY_DELAYS=100ms")
	r.group += ".other" // whose retry topic nobody made
	r.refuse(t, "order-1")
	r.produce(t, 20, time.Now())
	p := r.serve(t)
	r.await(t, "all others are charged and announced", func() bool {
		return r.db.Count(t, "SELECT count(*) FROM charge WHERE status = 'succeeded'") == 19 &&
			r.db.Count(t, "SELECT count(*) FROM outbox WHERE event_type <> 'Retry'") == 0
	})
	r.permit(t)
	testkit.CreateTopic(t, r.brokers, r.topic+"."+r.group+".retry", 1, nil)
	r.awaitSettled(t)
	r.audit(t)
	stop(t, p)
}

// request sends an administrative request to the broker.
func (r *rig) request(t *testing.T, req kmsg.Request) {
	t.Helper()
	if _, err := r.kafkaClient(t).Request(r.patient(t), req); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) deleteTopic(t *testing.T) {
	t.Helper()
	name := kmsg.NewDeleteTopicsRequestTopic()
	name.Topic = &r.topic
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.TopicNames, req.Topics = 10_000, []string{r.topic}, []kmsg.DeleteTopicsRequestTopic{name}
	r.request(t, req)
}

func (r *rig) deleteRecords(t *testing.T, partition int32, before int64) {
	t.Helper()
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Partition, part.Offset = partition, before
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic, topic.Partitions = r.topic, []kmsg.DeleteRecordsRequestTopicPartition{part}
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis, req.Topics = 10_000, []kmsg.DeleteRecordsRequestTopic{topic}
	r.request(t, req)
}

// moveKafka sets the group's offset of partition 0 while nobody reads.
func (r *rig) moveKafka(t *testing.T, offset int64) {
	t.Helper()
	if offset < 0 {
		testkit.DeleteOffsets(t, r.brokers, r.group, r.topic, 0)
		return
	}
	testkit.SetOffset(t, r.brokers, r.group, r.topic, 0, offset)
}

// Wherever Kafka's offset stands, every order is charged once, and what was read before is a duplicate.
func TestAnyOffsetOfKafkaEndsInOneChargeForEachOrder(t *testing.T) {
	t.Parallel()
	for name, offset := range map[string]int64{"behind": 3, "at the start": 0, "none": -1, "ahead of the database": 24} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newApacheRig(t, paysim.Script{})
			for range 20 {
				r.produceTo(t, inPartition(r.confirm(time.Now()), 0))
			}
			p := r.serve(t)
			r.awaitSettled(t)
			r.await(t, "Kafka knows", func() bool { return testkit.CommittedOffset(t, r.brokers, r.group, r.topic, 0) == 20 })
			stop(t, p)
			for range 5 {
				r.produceTo(t, inPartition(r.confirm(time.Now()), 0))
			}
			r.moveKafka(t, offset)
			p = r.serve(t)
			r.awaitSettled(t)
			r.await(t, "the offset is at the end", func() bool { return testkit.CommittedOffset(t, r.brokers, r.group, r.topic, 0) == 25 })
			r.audit(t)
			if n := r.db.Count(t, "SELECT count(*) FROM dead_letter"); n != 0 {
				t.Errorf("%d dead letters", n)
			}
			stop(t, p)
		})
	}
}

func (r *rig) beyondLog(t *testing.T, p *testkit.Process) float64 {
	t.Helper()
	return r.metric(t, p, `billing_invariant_violations{rule="position_beyond_log"}`)
}

func TestRetentionThatPassedThePositionStopsThePartitionUntilTheGapIsAccepted(t *testing.T) {
	t.Parallel()
	r := newApacheRig(t, paysim.Script{})
	for range 10 {
		r.produceTo(t, inPartition(r.confirm(time.Now()), 0))
	}
	p := r.serve(t)
	r.awaitSettled(t)
	stop(t, p)
	lost := make([]string, 0, 3)
	for range 3 {
		r.produceTo(t, inPartition(r.confirm(time.Now()), 0))
		lost = append(lost, fmt.Sprintf("order-%d", r.n))
	}
	r.deleteRecords(t, 0, 13)
	for _, id := range lost { // nobody can charge them
		delete(r.orders, id)
	}
	r.produceTo(t, inPartition(r.confirm(time.Now()), 0), inPartition(r.confirm(time.Now()), 1))
	p = r.serve(t)
	r.await(t, "the gap shows", func() bool { return r.beyondLog(t, p) == 1 })
	r.await(t, "the other partition goes on", func() bool { return r.accepted(t) == 11 })
	if code := r.run(t, "partitions", "accept-gap", r.topic, "0", "--actor", "test", "--reason", "charged by hand", "--yes"); code != 0 {
		t.Fatalf("billing partitions accept-gap ended with %d", code)
	}
	r.awaitSettled(t)
	r.await(t, "the gap is gone", func() bool { return r.beyondLog(t, p) == 0 })
	r.audit(t)
	stop(t, p)
}

// Kafka forgets the group's offsets with the topic, so reading begins anew by itself; an operator learns of it all the same.
func TestATopicMadeAnewIsReadAndReportedUntilTheGapIsAccepted(t *testing.T) {
	t.Parallel()
	r := newApacheRig(t, paysim.Script{})
	for range 10 {
		r.produceTo(t, inPartition(r.confirm(time.Now()), 0))
	}
	p := r.serve(t)
	r.awaitSettled(t)
	stop(t, p)
	r.deleteTopic(t)
	r.await(t, "the topic is made anew", func() bool {
		req := kmsg.NewPtrCreateTopicsRequest()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = r.topic, 3, 1
		req.TimeoutMillis, req.Topics = 10_000, []kmsg.CreateTopicsRequestTopic{topic}
		answer, err := req.RequestWith(r.patient(t), r.kafkaClient(t))
		return err == nil && answer.Topics[0].ErrorCode == 0
	})
	r.await(t, "the old offset is forgotten", func() bool {
		return testkit.CommittedOffset(t, r.brokers, r.group, r.topic, 0) < 0
	})
	r.await(t, "the new topic takes orders", func() bool {
		record := inPartition(r.record(uuid.Must(uuid.NewV7()), order{id: "first", amount: 1}), 0)
		if r.kafkaClient(t, kgo.RecordPartitioner(kgo.ManualPartitioner())).ProduceSync(r.patient(t), record).FirstErr() != nil {
			return false
		}
		var read struct {
			EventID uuid.UUID `json:"event_id"`
		}
		_ = json.Unmarshal(record.Value, &read) // we have just written it
		r.orders["first"] = order{event: read.EventID, id: "first", amount: 1}
		return true
	})
	p = r.serve(t)
	r.awaitSettled(t)
	r.await(t, "the new log shows", func() bool { return r.beyondLog(t, p) == 1 })
	if code := r.run(t, "partitions", "accept-gap", r.topic, "0", "--actor", "test", "--reason", "made anew", "--yes"); code != 0 {
		t.Fatalf("billing partitions accept-gap ended with %d", code)
	}
	r.await(t, "the report ends", func() bool { return r.beyondLog(t, p) == 0 })
	r.audit(t)
	stop(t, p)
}

// logged counts the lines that hold a text.
func logged(p *testkit.Process, text string) int {
	n := 0
	for _, line := range p.Lines() {
		if strings.Contains(fmt.Sprint(line), text) {
			n++
		}
	}
	return n
}

func TestATopicThatOutlivesTheInboxIsNamedOnceAtTheStart(t *testing.T) {
	t.Parallel()
	r := newApacheRig(t, paysim.Script{}, "BILLING_ROLES=consumer", "BILLING_RETENTION=24h")
	p := r.serve(t)
	r.await(t, "every partition is read", func() bool {
		return r.db.Count(t, "SELECT count(*) FROM consumer_position WHERE topic = $1 AND topic_retention_ms > 0", r.topic) == 3
	})
	if n := logged(p, "the topic outlives the inbox"); n == 0 || n > 2 {
		t.Errorf("said %d times for two topics", n)
	}
	status := testkit.RunProcess(t, testkit.ProcessOptions{Path: r.binary, Args: []string{"status"}, Env: r.env()})
	if _, err := status.Wait(r.patient(t)); err != nil {
		t.Fatal(err)
	}
	if logged(status, "raise BILLING_RETENTION") == 0 {
		t.Errorf("billing status does not name it: %v", status.Lines())
	}
	stop(t, p)
}

// recovers is how long a consumer may need to read again once the broker answers.
const recovers = 15 * time.Second

// soon fails when ok is not reached in the time that a recovery may take.
func (r *rig) soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), recovers)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", recovers, what)
		case <-ticker.C:
		}
	}
}

func TestAKilledBrokerComesBackAndIsReadAgain(t *testing.T) {
	t.Parallel()
	kafka := testkit.NewApacheKafka(t, testkit.ApacheKafkaOptions{})
	r := assemble(t, kafka.Brokers(), paysim.Script{}, nil)
	r.produce(t, 20, time.Now())
	p := r.serve(t)
	r.awaitSettled(t)
	if err := kafka.Kill9(); err != nil {
		t.Fatal(err)
	}
	if status, body := r.get(t, p, "/livez"); status != 200 {
		t.Errorf("/livez is %d without a broker: %s", status, body)
	}
	if err := kafka.Restart(r.patient(t)); err != nil {
		t.Fatal(err)
	}
	r.produce(t, 20, time.Now())
	r.soon(t, "orders are accepted again", func() bool { return r.accepted(t) == 40 })
	r.awaitSettled(t)
	r.audit(t)
	stop(t, p)
}

// pass lets time go by in which something must, or must not, happen by itself.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// proxied is a listener that says it is to be reached through a proxy.
type proxied struct {
	net.Listener

	proxy *testkit.Proxy
}

// Addr is what the broker advertises.
func (l *proxied) Addr() net.Addr {
	addr, err := net.ResolveTCPAddr("tcp", l.proxy.Addr())
	if err != nil {
		return l.Listener.Addr()
	}
	return addr
}

// The network swallows the brokers' answers, or everything, for longer than the session lasts.
func TestWhatTheNetworkSwallowsIsRecoveredFromWithoutARestart(t *testing.T) {
	t.Parallel()
	for name, swallow := range map[string]func(*testkit.Proxy){"answers": (*testkit.Proxy).HoldAnswers, "everything": (*testkit.Proxy).BlackHole} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var proxy *testkit.Proxy
			kafka := testkit.NewKfake(t, nil, kfake.ListenFn(func(network, address string) (net.Listener, error) {
				inner, err := net.Listen(network, address)
				if err != nil {
					return nil, err
				}
				proxy = testkit.NewProxy(t, inner.Addr().String())
				return &proxied{inner, proxy}, nil
			}))
			r := assemble(t, kafka.Brokers(), paysim.Script{}, nil)
			r.produce(t, 20, time.Now())
			p := r.serve(t)
			r.awaitSettled(t)
			swallow(proxy)
			pass(t, 8*time.Second) // longer than the session
			if status, body := r.get(t, p, "/livez"); status != 200 {
				t.Errorf("/livez is %d: %s", status, body)
			}
			proxy.Cut()
			if err := proxy.Resume(); err != nil {
				t.Fatal(err)
			}
			r.produce(t, 20, time.Now())
			r.soon(t, "orders are accepted again", func() bool { return r.accepted(t) == 40 })
			r.awaitSettled(t)
			r.audit(t)
			stop(t, p)
		})
	}
}
