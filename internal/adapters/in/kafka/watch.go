package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

// maxRetentionMS is the longest time that a duration can hold: topics without a limit may say the largest number.
const maxRetentionMS = math.MaxInt64 / int64(time.Millisecond)

// settle is how long a change must last: a broker tells of a new topic before all others know it.
const settle = 2 * time.Second

// topics is what the cluster says of the topics that this member wants.
type topics struct {
	clusterID  string
	joined     []string       // those that exist
	missing    []string       // event topics that do not
	compacted  []string       // topics that exist and are refused
	partitions map[string]int // of the existing ones
	retention  map[string]time.Duration
}

// find asks the cluster. The transport answers from its cache, which is at most its MetadataTTL old.
func (g *Group) find(ctx context.Context) (topics, error) {
	wanted := slices.Concat(g.Topics, g.RetryTopics)
	answer, err := g.client().Metadata(ctx, &kafka.MetadataRequest{Topics: wanted})
	if err != nil {
		return topics{}, err
	}
	found := topics{clusterID: answer.ClusterID, partitions: map[string]int{}}
	for _, t := range answer.Topics {
		switch {
		case t.Error == nil && len(t.Partitions) > 0:
			found.partitions[t.Name] = len(t.Partitions)
		case slices.Contains(g.Topics, t.Name):
			found.missing = append(found.missing, t.Name)
		}
	}
	g.configs(ctx, &found)
	for name := range found.partitions {
		if !slices.Contains(found.compacted, name) {
			found.joined = append(found.joined, name)
		}
	}
	slices.Sort(found.joined)
	return found, nil
}

// configs asks how the topics that exist are cleaned up. Where the broker does not tell, because of its rights, the topics
// are taken as they are.
func (g *Group) configs(ctx context.Context, found *topics) {
	found.retention = map[string]time.Duration{}
	request := &kafka.DescribeConfigsRequest{}
	for name := range found.partitions {
		request.Resources = append(request.Resources, kafka.DescribeConfigRequestResource{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: name, ConfigNames: []string{"cleanup.policy", "retention.ms"},
		})
	}
	if len(request.Resources) == 0 {
		return
	}
	answer, err := g.client().DescribeConfigs(ctx, request)
	if err != nil {
		g.Log.DebugContext(ctx, "configurations of topics cannot be read", "error", err)
		return
	}
	for _, resource := range answer.Resources {
		for _, entry := range resource.ConfigEntries {
			switch entry.ConfigName {
			case "cleanup.policy":
				if strings.Contains(entry.ConfigValue, "compact") {
					found.compacted = append(found.compacted, resource.ResourceName)
				}
			case "retention.ms":
				if ms, err := strconv.ParseInt(entry.ConfigValue, 10, 64); err == nil {
					found.retention[resource.ResourceName] = time.Duration(max(min(ms, maxRetentionMS), -1)) * time.Millisecond
				}
			}
		}
	}
	slices.Sort(found.compacted)
}

// awaitTopics waits until at least one event topic exists; a missing one does not hold up the others.
// It returns false when ctx ended first.
func (g *Group) awaitTopics(ctx context.Context, why *reason) (topics, bool) {
	for {
		found, err := g.find(ctx)
		switch {
		case ctx.Err() != nil:
			return topics{}, false
		case err != nil:
			why.warn("waiting for the brokers", g.cause(ctx, err))
		case len(found.compacted) > 0:
			why.warn("compacted topics are refused, since compaction removes orders: set cleanup.policy=delete", strings.Join(found.compacted, ","))
		case len(found.missing) > 0:
			why.warn("event topics are missing, or may not be described", strings.Join(found.missing, ","))
		default:
			why.over("all event topics exist")
		}
		if err == nil && slices.ContainsFunc(found.joined, func(name string) bool { return slices.Contains(g.Topics, name) }) {
			return found, true
		}
		if !g.Clock.Sleep(ctx, joinPause) {
			return topics{}, false
		}
	}
}

// cause finds the reason why the brokers do not answer. The transport hides it: a wrong password reads
// "broker not available" there, so it is asked for once more on a plain connection.
func (g *Group) cause(ctx context.Context, err error) string {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for _, broker := range g.Brokers {
		conn, dialErr := g.Dialer.DialContext(ctx, "tcp", broker)
		if dialErr != nil {
			err = dialErr
			continue
		}
		_ = conn.SetDeadline(g.Clock.Now().Add(requestTimeout)) // fails on a closed connection only, which the next line finds
		if _, askErr := conn.Controller(); askErr != nil {
			err = askErr
		}
		_ = conn.Close()
	}
	return explain(err)
}

// explain adds what an operator has to know to errors that say nothing.
func explain(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Sprintf("%v (the broker closed the connection: does its listener expect TLS or SASL?)", err)
	}
	return err.Error()
}

// watch looks for topics and partitions that nobody in the group reads, and leaves the group to make it
// assign anew. It compares with what the members really have, so nothing is missed when a broker that
// did not know the newest metadata was asked at the last assignment. It stays until the generation ends.
func (g *Group) watch(ctx context.Context, found topics, leave context.CancelCauseFunc) {
	trouble := &reason{log: g.Log}
	for g.Clock.Sleep(ctx, g.Watch) {
		change := g.change(ctx, found, trouble)
		if change == "" || !g.Clock.Sleep(ctx, settle) {
			continue
		}
		if change = g.change(ctx, found, trouble); change != "" {
			g.Log.InfoContext(ctx, "joining the group anew", "reason", change)
			leave(errTopicsChanged)
			<-ctx.Done()
		}
	}
}

// change describes what differs from the running assignment; it is empty when nothing does.
func (g *Group) change(ctx context.Context, joined topics, trouble *reason) string {
	now, err := g.find(ctx)
	if err != nil {
		trouble.warn("topics cannot be looked at", err.Error())
		return ""
	}
	if !slices.Equal(now.joined, joined.joined) {
		return fmt.Sprintf("topics were %v and are %v", joined.joined, now.joined)
	}
	idle, err := g.unassigned(ctx, now)
	if err != nil {
		trouble.warn("the group cannot be looked at", err.Error())
		return ""
	}
	trouble.over("topics and group can be looked at again")
	if len(idle) > 0 {
		return "nobody reads " + strings.Join(idle, ", ")
	}
	return ""
}

// unassigned lists the partitions that no member of the stable group has.
func (g *Group) unassigned(ctx context.Context, now topics) ([]string, error) {
	answer, err := g.client().DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{g.ID}})
	if err != nil {
		return nil, err
	}
	if len(answer.Groups) != 1 {
		return nil, errors.New("the answer is not about the group")
	}
	if err := answer.Groups[0].Error; err != nil {
		return nil, err
	}
	if answer.Groups[0].GroupState != "Stable" {
		return nil, nil // in a rebalance; the next look will tell
	}
	taken := map[string]map[int]bool{}
	for _, member := range answer.Groups[0].Members {
		for _, t := range member.MemberAssignments.Topics {
			if taken[t.Topic] == nil {
				taken[t.Topic] = map[int]bool{}
			}
			for _, p := range t.Partitions {
				taken[t.Topic][p] = true
			}
		}
	}
	var idle []string
	for _, topic := range now.joined {
		for p := range now.partitions[topic] {
			if !taken[topic][p] {
				idle = append(idle, fmt.Sprintf("%s/%d", topic, p))
			}
		}
	}
	return idle, nil
}

// reason logs a trouble once and again only when it changes.
type reason struct {
	log  *slog.Logger
	last string
}

func (r *reason) warn(message, why string) {
	if line := message + why; line != r.last {
		r.last = line
		r.log.Warn(message, "reason", why) //nolint:sloglint // the message is a constant of the caller
	}
}

// over logs that a trouble has passed, when there was one.
func (r *reason) over(message string) {
	if r.last != "" {
		r.last = ""
		r.log.Info(message) //nolint:sloglint // the message is a constant of the caller
	}
}
