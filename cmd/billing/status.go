package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"billing/internal/adapters/out/postgres"
	"billing/internal/core/usecase"
	"billing/migrations"
)

func newStatusCommand(environ []string) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what is stuck, why, since when, and the next command",
		Long: `status reads the database. Running processes write their gate there every few seconds; it is
also in their /readyz and in the metric billing_gate_closed.`,
		Example: `  billing status
  billing status --output json`,
	}
	output := outputFlag(cmd, "table", "json")
	cmd.Flags().BoolVar(&all, "all", false, "also count finished charges, which reads the whole table")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return withStore(cmd.Context(), environ, PartDatabase|PartProvider, func(cfg Config, store *postgres.Store) error {
			o, err := readOverview(cmd.Context(), cfg, store, all)
			if err != nil {
				return err
			}
			if output.value == "json" {
				return writeJSON(cmd.OutOrStdout(), o)
			}
			return writeOverview(cmd.OutOrStdout(), o)
		})
	}
	return cmd
}

func readOverview(ctx context.Context, cfg Config, store *postgres.Store, all bool) (usecase.Overview, error) {
	need, err := migrations.Required()
	if err != nil {
		return usecase.Overview{}, fmt.Errorf("read the required schema version: %w", err)
	}
	read, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	have, err := store.SchemaVersion(read)
	if err != nil {
		return usecase.Overview{}, err
	}
	if have < need { // its tables may not be there
		return usecase.Overview{}, fmt.Errorf("the schema is at version %d, this binary needs %d: run billing migrate up", have, need)
	}
	o, err := store.Overview(read, cfg.ProviderKeyWindow)
	if err != nil {
		return o, err
	}
	o.SchemaRequired, o.Retention = need, cfg.Retention
	o.Stuck = o.FindTrouble()
	if all {
		finished, err := store.Finished(ctx)
		if err != nil {
			return o, err
		}
		o.Charges = append(o.Charges, finished...)
	}
	return o, nil
}

func writeOverview(w io.Writer, o usecase.Overview) error {
	if len(o.Stuck) == 0 {
		fmt.Fprintln(w, "nothing is stuck")
	} else {
		t := newTable(w, "STUCK", "WHY", "SINCE", "NEXT")
		for _, s := range o.Stuck {
			t.row(s.What, s.Why, s.Since, s.Next)
		}
		if err := t.Flush(); err != nil {
			return fmt.Errorf("print the status: %w", err)
		}
	}
	for _, part := range []func(io.Writer, usecase.Overview) error{writeProcesses, writeCharges, writeOutbox, writePositions, writeRest} {
		fmt.Fprintln(w)
		if err := part(w, o); err != nil {
			return fmt.Errorf("print the status: %w", err)
		}
	}
	return nil
}

func writeCharges(w io.Writer, o usecase.Overview) error {
	t := newTable(w, "CHARGES", "LAST OUTCOME", "NUMBER", "OLDEST")
	for _, c := range o.Charges {
		t.row(c.Status, c.LastOutcome, c.N, c.Oldest)
	}
	t.row("nearest key deadline", "", "", o.NearestDeadline)
	return t.Flush()
}

func writeOutbox(w io.Writer, o usecase.Overview) error {
	t := newTable(w, "OUTBOX", "STATUS", "ROWS", "EXPIRED LEASES", "OLDEST", "OLDEST DUE")
	for _, c := range o.Outbox {
		t.row(c.Channel, c.Status, c.N, c.Expired, c.Oldest, c.OldestDue)
	}
	return t.Flush()
}

func writePositions(w io.Writer, o usecase.Overview) error {
	t := newTable(w, "PARTITION", "CLUSTER", "GROUP", "NEXT", "GAP", "HALTED", "MOVED")
	for _, p := range o.Partitions {
		t.row(fmt.Sprintf("%s/%d", p.Topic, p.Partition), p.ClusterID, p.Group, p.Next, p.Gap, p.Halted, p.UpdatedAt)
	}
	return t.Flush()
}

func writeRest(w io.Writer, o usecase.Overview) error {
	t := newTable(w, "OTHER", "", "")
	for _, s := range o.Switches {
		t.row(s.Name, "since "+text(s.Since), fmt.Sprintf("%s: %s", s.Actor, s.Reason))
	}
	for _, d := range o.DeadLetters {
		t.row("dead letters open", d.N, fmt.Sprintf("%s, oldest %s", d.Reason, text(d.Oldest)))
	}
	t.row("inbox days", o.Inbox.N, fmt.Sprintf("%s to %s", text(o.Inbox.Oldest), text(o.Inbox.Newest)))
	t.row("schema", o.SchemaVersion, fmt.Sprintf("this binary needs %d", o.SchemaRequired))
	t.row("database clock", text(o.Now), "")
	return t.Flush()
}
