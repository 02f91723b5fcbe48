package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"billing/internal/adapters/out/postgres"
	"billing/internal/core/usecase"
)

func newPartitionsCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "partitions",
		Short: "Show positions and let partitions go on",
		Example: `  billing partitions list
  billing partitions release order-service.order.confirmed 3 --reason "ticket 17"
  billing partitions skip order-service.order.confirmed 3 --to 1042 --reason "disk damage, ticket 18"`,
	}
	cmd.AddCommand(
		newPartitionsListCommand(environ),
		newPartitionActionCommand(environ, usecase.AcceptGap, "Accept that position and log do not meet",
			`accept-gap lets a partition go on whose position lies outside the log: at the log's start, since
known events are only duplicates. Orders that the log no longer holds must come another way.`),
		newPartitionActionCommand(environ, usecase.ReleasePartition, "Let a halted partition go on where it stands",
			`release lets a partition go on that was halted, such as by the dead-letter brake.`),
		newPartitionActionCommand(environ, usecase.SkipRecords, "Pass over records that cannot be read",
			`skip lets a partition go on that was halted by records that cannot be read: a damaged batch, or a
compression that this version does not know. The reason of the halt names the offset at which the batch
ends; --to is the offset behind it. What is passed over is not read again after a rebalance or a restart,
as long as the group keeps its offset: the orders in it must come another way. The topic's own tools
(kafka-dump-log, another consumer) can tell what is in it.`),
	)
	return cmd
}

// sourceFlags name a partition among those of several clusters and groups.
type sourceFlags struct{ cluster, group string }

func addSourceFlags(cmd *cobra.Command) *sourceFlags {
	f := &sourceFlags{}
	cmd.Flags().StringVar(&f.cluster, "cluster", "", "id of the Kafka cluster, when there are several")
	cmd.Flags().StringVar(&f.group, "group", "", "consumer group, when there are several")
	return f
}

func newPartitionsListCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List positions",
		Example: `  billing partitions list`,
	}
	f, output := addSourceFlags(cmd), outputFlag(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return withStore(cmd.Context(), environ, PartDatabase, func(_ Config, store *postgres.Store) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), dbTimeout)
			defer cancel()
			list, err := store.Partitions(ctx, usecase.Source{ClusterID: f.cluster, Group: f.group, Partition: -1})
			return show(cmd, output, list, err, writePartitions)
		})
	}
	return cmd
}

func writePartitions(w io.Writer, list []usecase.PartitionState) error {
	t := newTable(w, "TOPIC", "PARTITION", "CLUSTER", "GROUP", "NEXT", "REREAD BELOW", "GAP", "ACCEPTED", "HALTED", "SKIPPED", "MOVED")
	for _, p := range list {
		t.row(p.Topic, p.Partition, p.ClusterID, p.Group, p.Next, p.RereadBelow, p.Gap, p.GapAccepted, p.Halted, spansText(p.Skips), p.UpdatedAt)
	}
	return t.Flush()
}

// spansText writes spans as they were passed over, both ends included.
func spansText(spans []usecase.Span) string {
	parts := make([]string, 0, len(spans))
	for _, s := range spans {
		parts = append(parts, fmt.Sprintf("%d-%d", s.From, s.To-1))
	}
	return strings.Join(parts, " ")
}

// noOffset stands for a flag that was not given.
const noOffset int64 = -1

func newPartitionActionCommand(environ []string, action usecase.PartitionAction, short, long string) *cobra.Command {
	extra := ""
	if action == usecase.SkipRecords {
		extra = " --to 1042"
	}
	cmd := &cobra.Command{
		Use:     string(action) + " TOPIC PARTITION",
		Short:   short,
		Long:    long,
		Example: fmt.Sprintf("  billing partitions %s order-service.order.confirmed 3%s --reason \"ticket 17\"", action, extra),
		Args:    usageArgs(2),
	}
	f, by := addSourceFlags(cmd), addByFlags(cmd)
	to := noOffset
	if action == usecase.SkipRecords {
		cmd.Flags().Int64Var(&to, "to", noOffset, "first offset that is read again (required)")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		number, err := strconv.ParseInt(args[1], 10, 32)
		if err != nil || number < 0 {
			return &exitError{exitUsage, errors.New("the partition is not a number")}
		}
		if action == usecase.SkipRecords && to < 0 {
			return &exitError{exitUsage, errors.New("name the first offset that is read again by --to")}
		}
		src := usecase.Source{ClusterID: f.cluster, Group: f.group, Topic: args[0], Partition: int32(number)}
		return withStore(cmd.Context(), environ, PartDatabase, func(_ Config, store *postgres.Store) error { return actOnPartition(cmd, store, src, action, to, by) })
	}
	return cmd
}

func actOnPartition(cmd *cobra.Command, store *postgres.Store, src usecase.Source, action usecase.PartitionAction, to int64, f *byFlags) error {
	p, err := onePartition(cmd.Context(), store, src)
	if err != nil {
		return err
	}
	src = usecase.Source{ClusterID: p.ClusterID, Group: p.Group, Topic: p.Topic, Partition: p.Partition}
	question := fmt.Sprintf("%s for partition %s/%d of group %s at offset %d (halted: %s, gap: %s)?",
		action, p.Topic, p.Partition, p.Group, p.Next, text(printable(p.Halted)), text(printable(p.Gap)))
	if action == usecase.SkipRecords {
		question = fmt.Sprintf("pass over %d offsets of partition %s/%d of group %s, %d to %d, for good (halted: %s)?",
			to-p.Next, p.Topic, p.Partition, p.Group, p.Next, to-1, text(printable(p.Halted)))
	}
	return f.act(cmd, store, question, func(ctx context.Context, by usecase.By) error {
		_, is, err := store.ActOnPartition(ctx, src, action, to, by)
		if err != nil {
			return err
		}
		return writePartitions(cmd.OutOrStdout(), []usecase.PartitionState{is})
	})
}

// onePartition finds the one row that is meant: an action on several at once is never meant.
func onePartition(ctx context.Context, store *postgres.Store, src usecase.Source) (usecase.PartitionState, error) {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	list, err := store.Partitions(ctx, src)
	switch {
	case err != nil:
		return usecase.PartitionState{}, err
	case len(list) == 0:
		return usecase.PartitionState{}, errors.New("no such partition has a position, see billing partitions list")
	case len(list) > 1:
		return usecase.PartitionState{}, fmt.Errorf("%d positions are meant: name --cluster and --group, see billing partitions list", len(list))
	}
	return list[0], nil
}

// usageArgs wants exactly n arguments.
func usageArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := cobra.ExactArgs(n)(cmd, args); err != nil {
			return &exitError{exitUsage, err}
		}
		return nil
	}
}
