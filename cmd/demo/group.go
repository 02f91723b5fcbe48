package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	ordersGroup = "billing-order-confirmed"
	joinTimeout = 60 * time.Second
)

// awaitGroup returns when both processes share the partitions. To kill one that is still joining would show
// nothing, and kfake never misses a member that dies while it waits to be let in.
func (d *demo) awaitGroup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(d.brokers...))
	if err != nil {
		return fmt.Errorf("ask for the group: %w", err)
	}
	defer client.Close()
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for {
		members, err := sharing(ctx, client)
		if err == nil && members == len(d.processes) {
			d.out.step("both share the %d partitions of the orders", partitions)
			return nil
		}
		if err := d.ended(); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%d processes of %d have partitions: %w (%v)", members, len(d.processes), ctx.Err(), err) //nolint:errorlint // the time-out is the cause
		}
	}
}

// sharing counts the members that have partitions in a group that is stable.
func sharing(ctx context.Context, client *kgo.Client) (int, error) {
	request := kmsg.NewDescribeGroupsRequest()
	request.Groups = []string{ordersGroup}
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return 0, fmt.Errorf("describe group: %w", err)
	}
	members := 0
	for _, group := range response.Groups {
		if err := kerr.ErrorForCode(group.ErrorCode); err != nil {
			return 0, fmt.Errorf("describe group: %w", err)
		}
		if group.State != "Stable" {
			continue
		}
		for _, member := range group.Members {
			if len(member.MemberAssignment) > 0 {
				members++
			}
		}
	}
	return members, nil
}
