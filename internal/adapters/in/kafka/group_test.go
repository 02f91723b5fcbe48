package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/testkit"
)

// service stands for the database behind the handlers: all members share it.
type service struct {
	work time.Duration // of one chunk

	mu       sync.Mutex
	seen     map[string]int // by topic, partition and offset
	running  map[string]int // handlers by partition
	overlaps int
	rewinds  int
	next     map[string]int64
	sources  map[usecase.Source]bool
	errs     []error
}

func newService() *service {
	return &service{
		seen: map[string]int{}, running: map[string]int{}, next: map[string]int64{}, sources: map[usecase.Source]bool{},
	}
}

func (s *service) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *service) count() (n, twice int) {
	s.do(func() {
		for _, times := range s.seen {
			n++
			if times > 1 {
				twice++
			}
		}
	})
	return n, twice
}

// handle starts at Kafka's offset and, like the real use case, finishes and commits what is under way when
// the partition is revoked.
func (s *service) handle(ctx context.Context, src usecase.Source, log usecase.PartitionLog, committed int64) error {
	place := name(src.Topic, src.Partition)
	s.do(func() {
		s.sources[src] = true
		if s.running[place]++; s.running[place] > 1 {
			s.overlaps++
		}
		if committed >= 0 && committed < s.next[place] {
			s.rewinds++
		}
	})
	defer s.do(func() { s.running[place]-- })
	next := committed
	if committed < 0 {
		bounds, err := log.Bounds(ctx)
		if err != nil {
			return err
		}
		next = bounds.Start
	}
	for ctx.Err() == nil {
		fetched, err := log.Fetch(ctx, next)
		if err != nil || fetched.Next == next {
			if err != nil && ctx.Err() == nil {
				return err
			}
			continue
		}
		clock{}.Sleep(context.WithoutCancel(ctx), s.work)
		next = fetched.Next
		s.do(func() {
			for _, d := range fetched.Deliveries {
				s.seen[fmt.Sprintf("%s@%d", place, d.Message.Offset)]++
			}
			s.next[place] = max(s.next[place], next)
		})
		if err := log.Commit(context.WithoutCancel(ctx), next); err != nil {
			s.do(func() { s.errs = append(s.errs, err) })
			return err
		}
	}
	return nil
}

// process is one member of the group.
type process struct {
	*observed
	group *Group
	log   *lockedBuffer
	stop  func() error
}

func newMember(t *testing.T, brokers []string, id string, handle Handler, topics ...string) *process {
	t.Helper()
	m := &process{observed: newObserved(), log: new(lockedBuffer)}
	m.group = &Group{
		Brokers: brokers, ID: id, Topics: topics,
		Session: 6 * time.Second, Watch: 300 * time.Millisecond, LagEvery: 200 * time.Millisecond,
		Dialer: &kafka.Dialer{ClientID: "billing-test", Timeout: 3 * time.Second}, Transport: newTransport(t),
		Decode: undecoded, Handle: handle, Observer: m.observed, Clock: clock{}, Log: slog.New(slog.NewTextHandler(m.log, nil)),
	}
	return m
}

// start runs the member until stop or the test's end.
func (m *process) start(t *testing.T) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- m.group.Run(ctx) }()
	m.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		if err := m.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if t.Failed() {
			t.Logf("log of a member:\n%s", m.log)
		}
	})
	return m
}

// owns counts the partitions of the member.
func (m *process) owns() (n int) {
	m.do(func() {
		for _, times := range m.owned {
			n += times
		}
	})
	return n
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// onEachKafka runs a test on the broker in this process and on Apache Kafka.
func onEachKafka(t *testing.T, test func(t *testing.T, brokers []string)) {
	t.Helper()
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		test(t, newCluster(t, kfake.NumBrokers(3)).ListenAddrs())
	})
	t.Run("apache", func(t *testing.T) {
		t.Parallel()
		test(t, testkit.SharedApacheKafka(t).Brokers())
	})
}

func newTopic(t *testing.T, brokers []string, partitions int32) string {
	t.Helper()
	topic := testkit.UniqueName("orders")
	testkit.CreateTopic(t, brokers, topic, partitions, nil)
	return topic
}

func numbered(topic string, partitions int32, n int) []*kgo.Record {
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: topic, Partition: int32(i) % partitions, Value: []byte(strconv.Itoa(i))}
	}
	return records
}

func TestChurnOfMembersRepeatsNothingAndNeverOverlaps(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, brokers []string) {
		t.Helper()
		const partitions, rounds, each = 6, 4, 300
		topic, id := newTopic(t, brokers, partitions), testkit.UniqueName("group")
		s := newService()
		s.work = 20 * time.Millisecond
		client := newProducer(t, brokers)
		newMember(t, brokers, id, s.handle, topic).start(t)
		newMember(t, brokers, id, s.handle, topic).start(t)
		for range rounds {
			third := newMember(t, brokers, id, s.handle, topic).start(t)
			for range 3 {
				produce(t, client, numbered(topic, partitions, each/3)...)
				clock{}.Sleep(t.Context(), 100*time.Millisecond)
			}
			eventually(t, 20*time.Second, "the third member has partitions", func() bool { return third.owns() > 0 })
			if err := third.stop(); err != nil {
				t.Fatalf("stop the third member: %v", err)
			}
		}
		eventually(t, 30*time.Second, "everything is read", func() bool { n, _ := s.count(); return n >= rounds*each })
		n, twice := s.count()
		if n != rounds*each || twice != 0 || s.overlaps != 0 || s.rewinds != 0 || len(s.errs) != 0 {
			t.Fatalf("%d of %d records, %d twice, %d overlaps, %d rewinds, errors %v", n, rounds*each, twice, s.overlaps, s.rewinds, s.errs)
		}
		for p := range int32(partitions) {
			place := name(topic, p)
			if got := testkit.CommittedOffset(t, brokers, id, topic, p); got != s.next[place] {
				t.Errorf("%s: committed %d, read up to %d", place, got, s.next[place])
			}
		}
	})
}

func TestTheLastMessageOfAnIdlePartitionIsCommitted(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, brokers []string) {
		t.Helper()
		topic, id := newTopic(t, brokers, 1), testkit.UniqueName("group")
		s := newService()
		m := newMember(t, brokers, id, s.handle, topic).start(t)
		testkit.Produce(t, brokers, numbered(topic, 1, 3)...)
		eventually(t, 15*time.Second, "the offset behind the last message is committed", func() bool {
			return testkit.CommittedOffset(t, brokers, id, topic, 0) == 3
		})
		eventually(t, 5*time.Second, "lag is polled down to zero", func() bool {
			lag, known := int64(-1), false
			m.do(func() { lag, known = m.lag[name(topic, 0)] })
			return known && lag == 0
		})
		if err := m.stop(); err != nil {
			t.Fatal(err)
		}
		again := newMember(t, brokers, id, s.handle, topic).start(t)
		testkit.Produce(t, brokers, numbered(topic, 1, 1)...)
		eventually(t, 15*time.Second, "the next member goes on", func() bool { n, _ := s.count(); return n == 4 })
		if _, twice := s.count(); twice != 0 {
			t.Fatalf("%d records came twice after a restart", twice)
		}
		for src := range s.sources {
			if src.ClusterID == "" || src.Group != id {
				t.Errorf("source %+v lacks cluster or group", src)
			}
		}
		m.do(func() {
			if m.owned[name(topic, 0)] != 0 || len(m.drains) == 0 {
				t.Errorf("after the stop: owned %v, drains %v", m.owned, m.drains)
			}
		})
		_ = again
	})
}

func TestATopicMadeLaterAndPartitionsAddedAreRead(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, brokers []string) {
		t.Helper()
		here, later, id := newTopic(t, brokers, 1), testkit.UniqueName("orders"), testkit.UniqueName("group")
		retry := here + "." + id + ".retry"
		s := newService()
		for range 2 { // leader and follower
			m := newMember(t, brokers, id, s.handle, here, later)
			m.group.RetryTopics = []string{retry}
			m.start(t)
		}
		seen := func(n int) func() bool { return func() bool { got, _ := s.count(); return got == n } }
		testkit.Produce(t, brokers, numbered(here, 1, 1)...)
		eventually(t, 15*time.Second, "the topic that exists is read", seen(1))

		testkit.CreateTopic(t, brokers, later, 2, nil)
		testkit.Produce(t, brokers, numbered(later, 2, 2)...)
		eventually(t, 20*time.Second, "the topic that was made later is read", seen(3))

		testkit.CreateTopic(t, brokers, retry, 1, nil)
		testkit.Produce(t, brokers, numbered(retry, 1, 1)...)
		eventually(t, 20*time.Second, "the retry topic that was made later is read", seen(4))

		addPartitions(t, brokers, here, 4)
		testkit.Produce(t, brokers, numbered(here, 4, 4)...)
		eventually(t, 20*time.Second, "the added partitions are read", seen(9)) // with the probe
		if _, twice := s.count(); twice != 0 {
			t.Fatalf("%d records came twice", twice)
		}
	})
}

func addPartitions(t *testing.T, brokers []string, topic string, n int32) {
	t.Helper()
	client := newProducer(t, brokers)
	req := kmsg.NewPtrCreatePartitionsRequest()
	item := kmsg.NewCreatePartitionsRequestTopic()
	item.Topic, item.Count = topic, n
	req.Topics, req.TimeoutMillis = append(req.Topics, item), 5000
	answer, err := req.RequestWith(t.Context(), client)
	if err == nil {
		err = kerr.ErrorForCode(answer.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("add partitions: %v", err)
	}
	eventually(t, 5*time.Second, "the new partitions take a probe", func() bool {
		return client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: n - 1, Key: []byte("probe")}).FirstErr() == nil
	})
}

func TestACommitOfARevokedGenerationIsFencedAndRewindsNothing(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, brokers []string) {
		t.Helper()
		topic, id := newTopic(t, brokers, 1), testkit.UniqueName("group")
		testkit.Produce(t, brokers, numbered(topic, 1, 10)...)
		old := make(chan usecase.PartitionLog, 1)
		first := newMember(t, brokers, id, func(ctx context.Context, _ usecase.Source, log usecase.PartitionLog, _ int64) error {
			select {
			case old <- log:
			default:
			}
			<-ctx.Done()
			return nil
		}, topic).start(t)
		stale := <-old
		if err := stale.Commit(t.Context(), 3); err != nil {
			t.Fatalf("commit while it is the owner: %v", err)
		}
		if err := first.stop(); err != nil {
			t.Fatal(err)
		}
		s := newService()
		newMember(t, brokers, id, s.handle, topic).start(t)
		eventually(t, 15*time.Second, "the new owner has read on", func() bool {
			return testkit.CommittedOffset(t, brokers, id, topic, 0) == 10
		})
		if err := stale.Commit(t.Context(), 4); !errors.Is(err, domain.ErrFenced) {
			t.Fatalf("commit by the old owner: %v", err)
		}
		if got := testkit.CommittedOffset(t, brokers, id, topic, 0); got != 10 {
			t.Fatalf("the offset moved to %d", got)
		}
	})
}

func TestCommitErrorsAreFencingOrWorthAnotherTry(t *testing.T) {
	t.Parallel()
	tests := map[*kerr.Error]bool{
		kerr.IllegalGeneration: true, kerr.UnknownMemberID: true, kerr.RebalanceInProgress: true, kerr.NotCoordinator: true,
		kerr.CoordinatorNotAvailable: false, kerr.CoordinatorLoadInProgress: false, kerr.RequestTimedOut: false, kerr.GroupAuthorizationFailed: false,
	}
	for code, fenced := range tests {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, kfake.SeedTopics(1, "orders"))
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: code})
			result := make(chan error, 10)
			m := newMember(t, c.ListenAddrs(), "g", func(ctx context.Context, _ usecase.Source, log usecase.PartitionLog, _ int64) error {
				err := log.Commit(ctx, 0)
				result <- err
				if err == nil {
					<-ctx.Done()
				}
				return err
			}, "orders").start(t)
			if err := <-result; err == nil || errors.Is(err, domain.ErrFenced) != fenced {
				t.Fatalf("first commit: %v", err)
			}
			if err := <-result; err != nil {
				t.Fatalf("second commit: %v", err)
			}
			m.do(func() {
				if want := map[bool]int{true: 2, false: 1}[fenced]; m.joins != want || len(m.failures) != 1 || m.failures[0] != int(code.Code) {
					t.Errorf("%d generations, want %d; failures %v", m.joins, want, m.failures)
				}
			})
		})
	}
}

func TestAFailingHandlerIsRunAgainAndDisturbsNoOther(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.SeedTopics(2, "orders"))
	s := newService()
	var tries atomic.Int32
	m := newMember(t, c.ListenAddrs(), "g", func(ctx context.Context, src usecase.Source, log usecase.PartitionLog, committed int64) error {
		if src.Partition == 0 && tries.Add(1) < 3 {
			return errors.New("no luck")
		}
		return s.handle(ctx, src, log, committed)
	}, "orders").start(t)
	testkit.Produce(t, c.ListenAddrs(), numbered("orders", 2, 10)...)
	eventually(t, 15*time.Second, "both partitions are read", func() bool { n, _ := s.count(); return n == 10 })
	m.do(func() {
		if m.joins != 1 {
			t.Errorf("%d generations, want 1", m.joins)
		}
	})
}

func TestAHandlerThatRunsAgainIsToldWhatItCommitted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.SeedTopics(1, "orders"))
	testkit.Produce(t, c.ListenAddrs(), numbered("orders", 1, 10)...)
	told := make(chan int64, 10)
	newMember(t, c.ListenAddrs(), "g", func(ctx context.Context, _ usecase.Source, log usecase.PartitionLog, committed int64) error {
		told <- committed
		if committed >= 0 {
			<-ctx.Done()
			return nil
		}
		return errors.Join(log.Commit(ctx, 7), errors.New("no luck afterwards"))
	}, "orders").start(t)
	if first, second := <-told, <-told; first != -1 || second != 7 {
		t.Fatalf("told %d and then %d, want -1 and 7", first, second)
	}
}

func TestADeadConnectionFencesAndASlowAnswerDoesNot(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err    error
		ended  bool // the assignment
		fenced bool
	}{
		"closed":                    {net.ErrClosed, false, true},
		"end of stream":             {io.EOF, false, true},
		"slow":                      {os.ErrDeadlineExceeded, false, false},
		"slow after the assignment": {os.ErrDeadlineExceeded, true, true},
		"try later":                 {kafka.GroupCoordinatorNotAvailable, true, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newTestLog(t, []string{"127.0.0.1:1"}, "orders", defaultMaxBytes)
			l.commit = func(map[string]map[int]int64) error { return fmt.Errorf("commit: %w", tt.err) }
			if tt.ended {
				l.stop()
			}
			if err := l.Commit(t.Context(), 1); errors.Is(err, domain.ErrFenced) != tt.fenced || !errors.Is(err, tt.err) {
				t.Fatalf("%v", err)
			}
		})
	}
}

func TestMissingTopicsAreWaitedForWithoutJoining(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	joins := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Observe: true, Count: -1})
	m := newMember(t, c.ListenAddrs(), "g", newService().handle, "a", "b").start(t)
	clock{}.Sleep(t.Context(), 2500*time.Millisecond)
	if n := joins.Hits(); n != 0 {
		t.Fatalf("joined %d times", n)
	}
	if n := strings.Count(m.log.String(), "event topics are missing"); n != 1 {
		t.Fatalf("said %d times what it waits for:\n%s", n, m.log)
	}
}

// Compaction removes all but the last message of a key: an order would be gone before anybody read it.
func TestACompactedTopicIsRefusedAndDisturbsNoOther(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, brokers []string) {
		t.Helper()
		topic, compacted := newTopic(t, brokers, 1), testkit.UniqueName("compacted")
		testkit.CreateTopic(t, brokers, compacted, 1, map[string]string{"cleanup.policy": "compact,delete"})
		testkit.Produce(t, brokers, numbered(topic, 1, 3)...)
		s := newService()
		m := newMember(t, brokers, testkit.UniqueName("group"), s.handle, topic, compacted).start(t)
		eventually(t, 15*time.Second, "the other topic is read", func() bool { n, _ := s.count(); return n == 3 })
		s.do(func() {
			if len(s.sources) != 1 {
				t.Errorf("read %v", s.sources)
			}
		})
		if n := strings.Count(m.log.String(), "compacted topics are refused"); n != 1 {
			t.Errorf("said %d times that a compacted topic is refused:\n%s", n, m.log)
		}
	})
}

func TestTheRetentionOfATopicIsKnownWithItsBounds(t *testing.T) {
	t.Parallel()
	onEachKafka(t, func(t *testing.T, brokers []string) {
		t.Helper()
		for ms, want := range map[string]time.Duration{"3600000": time.Hour, "-1": -time.Millisecond, "9223372036854775807": time.Duration(maxRetentionMS) * time.Millisecond} {
			topic, kept := testkit.UniqueName("kept"), make(chan time.Duration, 1)
			testkit.CreateTopic(t, brokers, topic, 1, map[string]string{"retention.ms": ms})
			handle := func(ctx context.Context, _ usecase.Source, log usecase.PartitionLog, _ int64) error {
				bounds, err := log.Bounds(ctx)
				if err == nil {
					kept <- bounds.Retention
				}
				<-ctx.Done()
				return err
			}
			newMember(t, brokers, testkit.UniqueName("group"), handle, topic).start(t)
			if got := <-kept; got != want {
				t.Errorf("retention.ms=%s is %s, want %s", ms, got, want)
			}
		}
	})
}

func TestTroubleWithTheGroupIsNoStormAndSaidOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.SeedTopics(1, "orders"))
	fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.CoordinatorNotAvailable, Count: -1})
	m := newMember(t, c.ListenAddrs(), "g", newService().handle, "orders").start(t)
	clock{}.Sleep(t.Context(), 3*time.Second)
	if n := fault.Hits(); n == 0 || n > 4 {
		t.Fatalf("joined %d times in 3 seconds", n)
	}
	if n := strings.Count(m.log.String(), "the group cannot be joined"); n != 1 {
		t.Fatalf("said %d times:\n%s", n, m.log)
	}
	fault.Remove()
	eventually(t, 5*time.Second, "the group is joined", func() bool { joins := 0; m.do(func() { joins = m.joins }); return joins == 1 })
}

func TestADeletedTopicDoesNotTakeTheOthersAway(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.SeedTopics(1, "a", "b"))
	s := newService()
	newMember(t, c.ListenAddrs(), "g", s.handle, "a", "b").start(t)
	eventually(t, 10*time.Second, "both are read", func() bool { n := 0; s.do(func() { n = len(s.sources) }); return n == 2 })
	if err := c.DeleteTopic("b"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the group is joined for the other alone", func() bool {
		info := c.GroupInfo("g")
		return info != nil && len(info.Members) == 1 && len(info.Members[0].Assignment) == 1
	})
	testkit.Produce(t, c.ListenAddrs(), numbered("a", 1, 1)...)
	eventually(t, 10*time.Second, "the other is read", func() bool { n, _ := s.count(); return n == 1 })
}

func TestATopicMadeAnewIsReadFromItsStart(t *testing.T) {
	t.Parallel()
	for name, atOnce := range map[string]bool{"at once": true, "later": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachKafka(t, func(t *testing.T, brokers []string) {
				t.Helper()
				topic, other, id := newTopic(t, brokers, 1), newTopic(t, brokers, 1), testkit.UniqueName("group")
				s := newService()
				m := newMember(t, brokers, id, s.handle, topic, other).start(t)
				testkit.Produce(t, brokers, numbered(topic, 1, 5)...)
				eventually(t, 15*time.Second, "the first topic is read", func() bool {
					return testkit.CommittedOffset(t, brokers, id, topic, 0) == 5
				})
				deleteTopic(t, brokers, topic)
				if !atOnce {
					eventually(t, 10*time.Second, "the topic is given up", func() bool { return m.owns() == 1 })
				}
				testkit.CreateTopic(t, brokers, topic, 1, nil)
				testkit.Produce(t, brokers, numbered(topic, 1, 10)...)
				eventually(t, 30*time.Second, "the new topic is read from its start", func() bool {
					n, twice := s.count()
					return n == 10 && twice == 5
				})
			})
		})
	}
}

func deleteTopic(t *testing.T, brokers []string, topic string) {
	t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames, req.TimeoutMillis = []string{topic}, 5000
	item := kmsg.NewDeleteTopicsRequestTopic()
	item.Topic = &topic
	req.Topics = append(req.Topics, item)
	answer, err := req.RequestWith(t.Context(), newProducer(t, brokers))
	if err == nil {
		err = kerr.ErrorForCode(answer.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("delete topic: %v", err)
	}
}

func TestTheRealCauseOfRefusedConnectionsIsSaid(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "user", "right"))
	wrong := plain.Mechanism{Username: "user", Password: "wrong"}
	tests := map[string]struct {
		mechanism bool
		want      string
	}{
		"wrong password": {true, "SASL Authentication Failed"},
		"no sasl at all": {false, "does its listener expect TLS or SASL"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMember(t, c.ListenAddrs(), "g", newService().handle, "orders")
			if tt.mechanism {
				m.group.Dialer.SASLMechanism, m.group.Transport.SASL = wrong, wrong
			}
			m.start(t)
			eventually(t, 15*time.Second, "the cause is logged", func() bool { return strings.Contains(m.log.String(), tt.want) })
		})
	}
}

func TestStopEndsWhileTheBrokersAreGone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.SeedTopics(1, "orders"))
	m := newMember(t, c.ListenAddrs(), "g", newService().handle, "orders").start(t)
	eventually(t, 10*time.Second, "the partition is read", func() bool { return m.owns() == 1 })
	c.Close()
	eventually(t, 15*time.Second, "the loss is noticed", func() bool { return strings.Contains(m.log.String(), "cannot be joined") })
	start := time.Now()
	if err := m.stop(); err != nil || time.Since(start) > 10*time.Second {
		t.Fatalf("took %s: %v", time.Since(start), err)
	}
}

func TestAHandlerThatDoesNotEndBoundsTheStop(t *testing.T) {
	t.Parallel()
	c := newCluster(t, kfake.SeedTopics(1, "orders"))
	release, running := make(chan struct{}), make(chan struct{}, 1)
	m := newMember(t, c.ListenAddrs(), "g", func(context.Context, usecase.Source, usecase.PartitionLog, int64) error {
		running <- struct{}{}
		<-release
		return nil
	}, "orders")
	m.group.Session = 2500 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.group.Run(ctx) }()
	<-running
	cancel()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "handlers still run") {
		t.Fatalf("stop: %v", err)
	}
	close(release)
	eventually(t, 10*time.Second, "the handler ends", func() bool { n := 1; m.do(func() { n = m.owned[name("orders", 0)] }); return n == 0 })
}

func TestFetchEqualsTheReferenceReaderOnApacheKafka(t *testing.T) {
	t.Parallel()
	brokers := testkit.SharedApacheKafka(t).Brokers()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			checkAgainstReference(t, brokers, newTopic(t, brokers, 1), seed, 150)
		})
	}
}
