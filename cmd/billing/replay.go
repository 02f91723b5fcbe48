package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	kafkain "billing/internal/adapters/in/kafka"
	kafkaout "billing/internal/adapters/out/kafka"
	"billing/internal/adapters/out/postgres"
	"billing/internal/core/usecase"
)

// lettersRun changes a pinned set of dead letters, one transaction each.
type lettersRun struct {
	filter *letterFlags
	output *choice

	actor, because string
	yes, dryRun    bool
	canary         int
	verb           string
	do             func(ctx context.Context, replay usecase.Replay, id int64, by usecase.By) (usecase.ReplayResult, error)
	good           func(r usecase.ReplayResult) bool
	acceptOld      bool
}

func addLettersRun(cmd *cobra.Command, verb string) *lettersRun {
	f := &lettersRun{filter: addLetterFlags(cmd, 100), output: outputFlag(cmd, "table", "json"), verb: verb}
	cmd.Flags().StringVar(&f.actor, "actor", "", "who does this (default the database user)")
	cmd.Flags().StringVar(&f.because, "because", "", "why, for the record")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would become of each and change nothing")
	return f
}

func newLettersReplayCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Let dead letters try again to become charges",
		Long: `replay reads the stored bytes anew and lets them through the same door as messages from Kafka, one
transaction for each letter: it becomes a charge and the letter replayed, or nothing changes, the letter stays
open and the output says why. Known events and orders that have a charge are never charged again, so replay may be
run twice, in several places at once, and be interrupted.

The set of letters is pinned at the start: those that come meanwhile are left for the next run.
An event older than BILLING_RETENTION needs --accept-old: the inbox does not remember whether it was counted as a
duplicate once, only its charge and that of its order keep it from being charged twice.

Exit code 0: every letter of the set was accepted, or there was none. 1: some stay open.`,
		Example: `  billing deadletters replay --reason unsupported_event_type --dry-run
  billing deadletters replay --reason unsupported_event_type --since 24h --canary 1
  billing deadletters replay --id 17 --accept-old --because "ticket 17" --yes`,
	}
	f := addLettersRun(cmd, "replay")
	f.do = func(ctx context.Context, r usecase.Replay, id int64, by usecase.By) (usecase.ReplayResult, error) {
		return r.Do(ctx, id, by)
	}
	f.good = func(r usecase.ReplayResult) bool { return r.Accepted || r.Status != usecase.LetterOpen }
	cmd.Flags().IntVar(&f.canary, "canary", 0, "first only this many; go on only when all of them are accepted")
	cmd.Flags().BoolVar(&f.acceptOld, "accept-old", false, "also charge events that are older than the inbox remembers")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.because == "" {
			f.because = "replay"
		}
		return f.run(cmd, environ)
	}
	return cmd
}

func newLettersDiscardCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "discard",
		Short: "End dead letters without a charge",
		Long: `discard says that somebody looked at a dead letter and that there is no charge to be made of it. It stays
in the database, with who decided and why, until BILLING_RETENTION_DEAD_LETTERS is over.`,
		Example: `  billing deadletters discard --id 17 --because "test order"
  billing deadletters discard --reason invalid_json --topic orders --because "ticket 17" --yes`,
	}
	f := addLettersRun(cmd, "discard")
	f.do = func(ctx context.Context, r usecase.Replay, id int64, by usecase.By) (usecase.ReplayResult, error) {
		return r.Discard(ctx, id, by)
	}
	f.good = func(usecase.ReplayResult) bool { return true }
	_ = cmd.MarkFlagRequired("because") // fails only for an unknown flag
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return f.run(cmd, environ) }
	return cmd
}

func (f *lettersRun) run(cmd *cobra.Command, environ []string) error {
	filter, err := f.filter.read()
	if err != nil {
		return err
	}
	if strings.TrimSpace(f.because) == "" || f.canary < 0 {
		return &exitError{exitUsage, errors.New("--because wants words, --canary a number")}
	}
	return withStore(cmd.Context(), environ, PartDatabase|PartKafka|PartEvents, func(cfg Config, store *postgres.Store) error {
		by, ids, err := f.prepare(cmd, store, filter)
		if err != nil || len(ids) == 0 {
			return err
		}
		replay := newReplay(cfg, store)
		replay.DryRun, replay.AcceptOld = f.dryRun, f.acceptOld
		return f.each(cmd, replay, ids, by)
	})
}

func newReplay(cfg Config, store *postgres.Store) usecase.Replay {
	decoder := kafkain.Decoder{
		DefaultCurrency: cfg.DefaultCurrency, MaxAmountMinor: cfg.MaxAmountMinor, IgnoreEventTypes: cfg.KafkaIgnoreEventTypes,
	}
	return usecase.Replay{
		Desk: store, Decode: decoder.Decode, Timeout: dbTimeout,
		Codec:  codec{kafkaout.Messages{ResultsTopic: cfg.KafkaResultsTopic, DeadLetterTopic: cfg.KafkaDeadLetterTopic}},
		Limits: usecase.Limits{Retention: cfg.Retention, Skew: cfg.ClockSkew},
	}
}

// prepare pins the set, asks for consent, and finds out who acts.
func (f *lettersRun) prepare(cmd *cobra.Command, store *postgres.Store, filter usecase.LetterFilter) (usecase.By, []int64, error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), dbTimeout)
	defer cancel()
	by := usecase.By{Actor: f.actor, Reason: f.because}
	ids, total, err := store.OpenLetters(ctx, filter)
	if err != nil {
		return by, nil, err
	}
	if by.Actor == "" {
		if by.Actor, err = store.User(ctx); err != nil {
			return by, nil, err
		}
	}
	if len(ids) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "no open dead letter matches, nothing to do")
		return by, nil, f.write(cmd.OutOrStdout(), nil)
	}
	if f.yes || f.dryRun {
		return by, ids, nil
	}
	return by, ids, confirm(cmd, fmt.Sprintf("%s %d of %d open dead letters, %d to %d, as %s?", f.verb, len(ids), total, ids[0], ids[len(ids)-1], printable(by.Actor)))
}

// each works through the set. What was done before an interruption is done, and is printed.
func (f *lettersRun) each(cmd *cobra.Command, replay usecase.Replay, ids []int64, by usecase.By) error {
	results := make([]usecase.ReplayResult, 0, len(ids))
	var failed error
	bad := 0
	for i, id := range ids {
		if f.canary > 0 && i == f.canary && bad > 0 {
			failed = fmt.Errorf("%d of the first %d were not accepted, the other %d were not tried", bad, f.canary, len(ids)-i)
			break
		}
		if cmd.Context().Err() != nil {
			failed = fmt.Errorf("interrupted, %d of %d were not tried", len(ids)-i, len(ids))
			break
		}
		result, err := f.do(cmd.Context(), replay, id, by)
		if errors.Is(err, usecase.ErrNoLetter) {
			continue // discarded and deleted meanwhile
		}
		if err != nil {
			failed = fmt.Errorf("%w; %d of %d were not tried", err, len(ids)-i-1, len(ids))
			break
		}
		if !f.good(result) {
			bad++
		}
		results = append(results, result)
	}
	if err := f.write(cmd.OutOrStdout(), results); err != nil {
		return err
	}
	if failed == nil && bad > 0 {
		return &exitError{code: exitFailure} // the output says which and why
	}
	return failed
}

func (f *lettersRun) write(w io.Writer, results []usecase.ReplayResult) error {
	if f.output.value == "json" {
		if results == nil {
			results = []usecase.ReplayResult{}
		}
		return writeJSON(w, results)
	}
	if len(results) == 0 {
		return nil
	}
	t := newTable(w, "DEAD LETTER", "STATUS", "CHARGE", "WHY")
	accepted := 0
	for _, r := range results {
		t.row(r.ID, r.Status, idText(r.Charge.Valid, r.Charge.UUID), r.Why)
		if r.Accepted {
			accepted++
		}
	}
	if f.verb == "replay" {
		fmt.Fprintf(t, "\n%d accepted, %d not\n", accepted, len(results)-accepted)
	}
	return t.Flush()
}
