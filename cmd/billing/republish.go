package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/spf13/cobra"

	kafkaout "billing/internal/adapters/out/kafka"
	"billing/internal/adapters/out/postgres"
	"billing/internal/core/usecase"
)

// maxRepublished bounds one run, and the ids that it keeps in memory.
const maxRepublished = 100_000

type republishFlags struct {
	ids           []string
	since         string
	limit         int
	actor, reason string
	yes           bool
	output        *choice
}

func newChargesRepublishCommand(environ []string) *cobra.Command {
	f := &republishFlags{}
	cmd := &cobra.Command{
		Use:   "republish",
		Short: "Send results to Kafka again, under their old event ids",
		Long: `republish orders the last announcement of each charge to be published again: the same event id, the same
version, for consumers that lost messages. Those that kept them see a duplicate. What waits to be published already is
left alone, so republish may be repeated.`,
		Example: `  billing charges republish --id 0198c2d4-7a51-7c9e-8f7a-3f7c2c1f0a11
  billing charges republish --since 2h --reason "consumer lost its store" --yes`,
	}
	f.output = outputFlag(cmd, "table", "json")
	cmd.Flags().StringSliceVar(&f.ids, "id", nil, "this charge; may be repeated")
	cmd.Flags().StringVar(&f.since, "since", "", "all that were settled or parked since: a duration such as 24h, or a time in RFC 3339")
	cmd.Flags().IntVar(&f.limit, "limit", 1000, "refuse when --since means more")
	cmd.Flags().StringVar(&f.actor, "actor", "", "who does this (default the database user)")
	cmd.Flags().StringVar(&f.reason, "reason", "republish", "why, for the record")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	cmd.MarkFlagsMutuallyExclusive("id", "since")
	cmd.MarkFlagsOneRequired("id", "since")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return f.run(cmd, environ) }
	return cmd
}

func (f *republishFlags) run(cmd *cobra.Command, environ []string) error {
	if f.limit < 1 || f.limit > maxRepublished {
		return &exitError{exitUsage, fmt.Errorf("--limit wants 1 to %d", maxRepublished)}
	}
	at, err := sinceFlag(f.since)
	if err != nil {
		return err
	}
	ids := make([]uuid.UUID, len(f.ids))
	for i, text := range f.ids {
		if ids[i], err = chargeID(text); err != nil {
			return err
		}
	}
	return withStore(cmd.Context(), environ, PartDatabase|PartKafka, func(cfg Config, store *postgres.Store) error {
		if len(ids) == 0 {
			if ids, err = f.settledSince(cmd.Context(), store, at); err != nil {
				return err
			}
		}
		by, err := f.by(cmd, store, len(ids))
		if err != nil {
			return err
		}
		republish := usecase.Republish{Desk: store, Codec: codec{kafkaout.Messages{ResultsTopic: cfg.KafkaResultsTopic}}, Timeout: dbTimeout}
		return f.each(cmd, republish, ids, by)
	})
}

// settledSince pins the set before anybody is asked.
func (f *republishFlags) settledSince(ctx context.Context, store *postgres.Store, at time.Time) ([]uuid.UUID, error) {
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	ids, err := store.AnnouncedSince(ctx, at, f.limit+1)
	if err == nil && len(ids) > f.limit {
		err = fmt.Errorf("more than %d charges were settled since then: nothing was done, raise --limit or come closer", f.limit)
	}
	return ids, err
}

func (f *republishFlags) by(cmd *cobra.Command, store *postgres.Store, n int) (usecase.By, error) {
	by := usecase.By{Actor: f.actor, Reason: f.reason}
	if by.Actor == "" {
		ctx, cancel := context.WithTimeout(cmd.Context(), dbTimeout)
		defer cancel()
		var err error
		if by.Actor, err = store.User(ctx); err != nil {
			return by, err
		}
	}
	if f.yes || n == 0 {
		return by, nil
	}
	return by, confirm(cmd, fmt.Sprintf("publish the results of %d charges again, as %s?", n, printable(by.Actor)))
}

func (f *republishFlags) each(cmd *cobra.Command, republish usecase.Republish, ids []uuid.UUID, by usecase.By) error {
	results := make([]usecase.RepublishResult, 0, len(ids))
	var failed error
	for i, id := range ids {
		result, err := republish.Do(cmd.Context(), id, by)
		if err != nil {
			failed = fmt.Errorf("%w; %d of %d were not tried", err, len(ids)-i-1, len(ids))
			break
		}
		results = append(results, result)
	}
	return errors.Join(f.write(cmd.OutOrStdout(), results), failed)
}

func (f *republishFlags) write(w io.Writer, results []usecase.RepublishResult) error {
	if f.output.value == "json" {
		return writeJSON(w, results)
	}
	t := newTable(w, "CHARGE", "EVENT ID", "VERSION", "WHY")
	ordered := 0
	for _, r := range results {
		t.row(r.Charge, r.EventID, r.Version, r.Why)
		if r.Ordered {
			ordered++
		}
	}
	fmt.Fprintf(t, "\n%d ordered again, %d not\n", ordered, len(results)-ordered)
	return t.Flush()
}
