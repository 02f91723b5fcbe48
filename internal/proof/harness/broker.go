package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"billing/internal/testkit"
)

// broker is a Kafka that the processes reach by a proxy only, while the harness itself goes straight.
type broker struct {
	proxy  *testkit.Proxy
	direct []string
	apache *testkit.ApacheKafka // nil for kfake
	close  func() error
}

// startApache starts a broker with one more listener for each run at a time, whose address in the metadata
// is that of a proxy.
func startApache(ctx context.Context, runs int) (_ []*broker, closeAll func() error, err error) {
	kafka, err := testkit.StartApacheKafka(ctx, testkit.ApacheKafkaOptions{})
	if err != nil {
		return nil, nil, err
	}
	var brokers []*broker
	closeAll = func() error {
		for _, b := range brokers {
			b.proxy.Close()
		}
		return kafka.Close()
	}
	var behind []string
	for range runs {
		addr, err := freeAddr()
		if err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
		proxy, err := testkit.StartProxy(addr)
		if err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
		behind = append(behind, addr)
		brokers = append(brokers, &broker{proxy: proxy, direct: kafka.Brokers(), apache: kafka, close: func() error { return nil }})
	}
	if err := moreListeners(filepath.Join(filepath.Dir(kafka.LogFile()), "server.properties"), behind, brokers); err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	if err := kafka.Restart(ctx); err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	return brokers, closeAll, nil
}

// freeAddr is an address that nobody listens at now.
func freeAddr() (string, error) {
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	addr := port.Addr().String()
	if err := port.Close(); err != nil {
		return "", fmt.Errorf("release the port: %w", err)
	}
	return addr, nil
}

func moreListeners(file string, behind []string, brokers []*broker) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the broker's configuration: %w", err)
	}
	value := func(name string) (found []string) {
		for line := range strings.Lines(string(text)) {
			if v, ok := strings.CutPrefix(line, name+"="); ok {
				found = []string{strings.TrimSpace(v)}
			}
		}
		return found
	}
	listeners, advertised, protocols := value("listeners"), value("advertised.listeners"), value("listener.security.protocol.map")
	for i := range behind {
		name := "PROXY" + strconv.Itoa(i)
		listeners = append(listeners, name+"://"+behind[i])
		advertised = append(advertised, name+"://"+brokers[i].proxy.Addr())
		protocols = append(protocols, name+":PLAINTEXT")
	}
	more := fmt.Sprintf("listeners=%s\nadvertised.listeners=%s\nlistener.security.protocol.map=%s\n",
		strings.Join(listeners, ","), strings.Join(advertised, ","), strings.Join(protocols, ","))
	if err := os.WriteFile(file, append(text, more...), 0o644); err != nil {
		return fmt.Errorf("write the broker's configuration: %w", err)
	}
	return nil
}

// namedListener says that it listens at the proxy, which is what kfake puts into its metadata.
type namedListener struct {
	net.Listener
	addr net.Addr
}

func (l namedListener) Addr() net.Addr { return l.addr }

func startFake() (*broker, error) {
	var proxy *testkit.Proxy
	listen := func(network, address string) (net.Listener, error) {
		listener, err := net.Listen(network, address)
		if err != nil || proxy != nil {
			return listener, err
		}
		if proxy, err = testkit.StartProxy(listener.Addr().String()); err != nil {
			return nil, errors.Join(err, listener.Close())
		}
		addr, err := net.ResolveTCPAddr("tcp", proxy.Addr())
		return namedListener{listener, addr}, err
	}
	kafka, err := testkit.StartKfake(nil, kfake.ListenFn(listen))
	if err != nil {
		return nil, err
	}
	return &broker{proxy: proxy, direct: kafka.Brokers(), close: func() error { proxy.Close(); kafka.Close(); return nil }}, nil
}

func (b *broker) client(options ...kgo.Opt) (*kgo.Client, error) {
	// The next version of this request names topics by id only.
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.OffsetFetch), 9)
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.direct...), kgo.MaxVersions(versions)}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("make a Kafka client: %w", err)
	}
	return client, nil
}

func createTopics(ctx context.Context, client *kgo.Client, names ...string) error {
	request := kmsg.NewCreateTopicsRequest()
	request.TimeoutMillis = 30_000
	for _, name := range names {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
		request.Topics = append(request.Topics, topic)
	}
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	for _, t := range response.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("create topic %s: %w", t.Topic, err)
		}
	}
	return nil
}

// bury ends the membership of a process of a kfake's group with its session, as a broker does by itself: kfake keeps a member that
// died while it joined for as long as a rebalance may take.
func (r *rig) bury(process *testkit.Process, clientID string) {
	select {
	case <-process.Done():
	case <-r.ended:
		return
	}
	select {
	case <-time.After(r.t.session):
	case <-r.ended:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	describe := kmsg.NewDescribeGroupsRequest()
	describe.Groups = []string{r.group}
	groups, err := describe.RequestWith(ctx, r.admin)
	if err != nil || len(groups.Groups) == 0 {
		return // the rebalance gives it up
	}
	leave := kmsg.NewLeaveGroupRequest()
	leave.Group = r.group
	for _, m := range groups.Groups[0].Members {
		if m.ClientID == clientID {
			member := kmsg.NewLeaveGroupRequestMember()
			member.MemberID = m.MemberID
			leave.Members = append(leave.Members, member)
		}
	}
	if len(leave.Members) > 0 {
		_, _ = leave.RequestWith(ctx, r.admin)
	}
}

// committedOffsets asks for the group's offsets of a topic, by partition.
func committedOffsets(ctx context.Context, client *kgo.Client, group, topic string) (map[int32]int64, error) {
	request := kmsg.NewOffsetFetchRequest()
	// The client sends the version of one group, whose fields are these.
	request.Group = group
	of := kmsg.NewOffsetFetchRequestTopic()
	of.Topic = topic
	for p := range int32(partitions) {
		of.Partitions = append(of.Partitions, p)
	}
	request.Topics = append(request.Topics, of)
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	gt := kmsg.NewOffsetFetchRequestGroupTopic()
	gt.Topic, gt.Partitions = topic, of.Partitions
	g.Topics = append(g.Topics, gt)
	request.Groups = append(request.Groups, g)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("fetch offsets: %w", err)
	}
	offsets := map[int32]int64{}
	for _, g := range response.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 {
					offsets[p.Partition] = p.Offset
				}
			}
		}
	}
	return offsets, nil
}

// readTopic reads everything from the start of each partition to its end at the time of the call.
func readTopic(ctx context.Context, b *broker, topic string, use func(*kgo.Record)) error {
	client, err := b.client()
	if err != nil {
		return err
	}
	defer client.Close()
	ends, err := endOffsets(ctx, client, topic)
	if err != nil {
		return err
	}
	from := map[int32]kgo.Offset{}
	left := 0
	for p, end := range ends {
		if end > 0 {
			from[p] = kgo.NewOffset().At(0)
			left++
		}
	}
	if left == 0 {
		return nil
	}
	reader, err := b.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	defer reader.Close()
	for left > 0 {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read %s: %w", topic, err)
		}
		for _, r := range fetches.Records() {
			if r.Offset < ends[r.Partition] && !r.Attrs.IsControl() {
				use(r)
			}
			if r.Offset == ends[r.Partition]-1 {
				left--
			}
		}
	}
	return nil
}

func endOffsets(ctx context.Context, client *kgo.Client, topic string) (map[int32]int64, error) {
	request := kmsg.NewListOffsetsRequest()
	request.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for p := range int32(partitions) {
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition, part.Timestamp = p, -1
		t.Partitions = append(t.Partitions, part)
	}
	request.Topics = append(request.Topics, t)
	ends := map[int32]int64{}
	// One broker leads every partition, so one answer has them all.
	for _, shard := range client.RequestSharded(ctx, &request) {
		if shard.Err != nil {
			return nil, fmt.Errorf("list offsets of %s: %w", topic, shard.Err)
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("list offsets of %s: %w", topic, err)
				}
				ends[p.Partition] = p.Offset
			}
		}
	}
	return ends, nil
}
