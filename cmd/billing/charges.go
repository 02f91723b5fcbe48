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
	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

func newChargesCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "charges",
		Short: "List charges, and decide about those that wait for a person",
		Example: `  billing charges list --status parked
  billing charges show 0198c2d4-7a51-7c9e-8f7a-3f7c2c1f0a11`,
	}
	cmd.AddCommand(
		newChargesListCommand(environ), newChargesShowCommand(environ),
		newChargesRetryCommand(environ), newChargesResolveCommand(environ), newChargesCancelCommand(environ),
		newChargesRepublishCommand(environ),
	)
	return cmd
}

func newChargesListCommand(environ []string) *cobra.Command {
	var f usecase.ChargeFilter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List charges, the newest first",
		Example: `  billing charges list --status parked
  billing charges list --order o-17 --output json`,
	}
	output := outputFlag(cmd, "table", "json")
	status := &choice{}
	for _, s := range domain.Statuses() {
		status.words = append(status.words, string(s))
	}
	cmd.Flags().Var(status, "status", "only this status")
	cmd.Flags().StringVar(&f.OrderID, "order", "", "only this order")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "at most this many")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.Limit < 1 {
			return &exitError{exitUsage, errors.New("--limit wants at least 1")}
		}
		f.Status = domain.Status(status.value)
		return withStore(cmd.Context(), environ, PartDatabase, func(_ Config, store *postgres.Store) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), dbTimeout)
			defer cancel()
			list, err := store.ListCharges(ctx, f)
			return show(cmd, output, list, err, writeChargeList)
		})
	}
	return cmd
}

func writeChargeList(w io.Writer, list []usecase.ChargeRecord) error {
	t := newTable(w, "CHARGE", "ORDER", "AMOUNT", "STATUS", "LAST OUTCOME", "REASON", "ATTEMPTS", "CREATED", "CHANGED")
	for _, c := range list {
		t.row(c.EventID, c.OrderID, amountOf(c), c.Status, c.LastOutcome, c.Reason, c.Attempts, c.CreatedAt, c.UpdatedAt)
	}
	return t.Flush()
}

func amountOf(c usecase.ChargeRecord) string {
	return domain.FormatDecimal(domain.Money{Minor: c.AmountMinor, Currency: c.Currency}) + " " + c.Currency
}

func newChargesShowCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show CHARGE",
		Short:   "Show one charge with its attempts and its history",
		Example: `  billing charges show 0198c2d4-7a51-7c9e-8f7a-3f7c2c1f0a11`,
		Args:    usageArgs(1),
	}
	output := outputFlag(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := chargeID(args[0])
		if err != nil {
			return err
		}
		return withStore(cmd.Context(), environ, PartDatabase, func(_ Config, store *postgres.Store) error {
			d, err := dossier(cmd.Context(), store, id)
			if err != nil {
				return err
			}
			if output.value == "json" {
				return writeJSON(cmd.OutOrStdout(), d)
			}
			return writeDossier(cmd.OutOrStdout(), d)
		})
	}
	return cmd
}

func chargeID(arg string) (uuid.UUID, error) {
	id, err := uuid.FromString(arg)
	if err != nil {
		return id, &exitError{exitUsage, errors.New("the id of a charge is a UUID")}
	}
	return id, nil
}

func dossier(ctx context.Context, store *postgres.Store, id uuid.UUID) (usecase.ChargeDossier, error) {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	return store.Dossier(ctx, id)
}

func writeDossier(w io.Writer, d usecase.ChargeDossier) error {
	c := d.Charge
	t := newTable(w)
	for _, line := range [][2]any{
		{"charge", c.EventID},
		{"order", c.OrderID},
		{"customer", c.CustomerID},
		{"amount", amountOf(c)},
		{"source", c.Source},
		{"status", c.Status},
		{"last outcome", c.LastOutcome},
		{"reason", c.Reason},
		{"provider account", c.Account},
		{"provider ref", c.ProviderRef},
		{"first sent", c.FirstSentAt},
		{"created", c.CreatedAt},
		{"changed", c.UpdatedAt},
	} {
		t.row(line[0], line[1])
	}
	fmt.Fprintln(t, "\nATTEMPT\tSTARTED\tFINISHED\tOUTCOME\tHTTP\tCODE\tDETAIL")
	for _, a := range d.Attempts {
		t.row(a.Attempt, a.StartedAt, a.FinishedAt, a.Outcome, a.HTTPStatus, a.Code, a.Detail)
	}
	fmt.Fprintln(t, "\nMOVE\tAT\tFROM\tTO\tBY\tREASON\tVERSION\tPUBLISHED")
	for _, m := range d.History {
		t.row(m.Type, m.At, m.From, m.To, m.Actor, m.Reason, m.Version, m.PublishedAt)
	}
	return t.Flush()
}

func newChargesRetryCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry CHARGE",
		Short: "Send a parked charge again, with its old key in a new window",
		Long: `retry is refused when the provider has the charge, or does not say whether it has it: then
resolve is the way. Without look-up (BILLING_PROVIDER_LOOKUP=false) make sure yourself that the
provider does not have it: a provider that forgot the key would take the money again.`,
		Example: `  billing charges retry 0198c2d4-7a51-7c9e-8f7a-3f7c2c1f0a11 --reason "not in the provider's report"`,
	}
	return moveCommand(cmd, environ, PartProvider, "Send again", func(ctx context.Context, cfg Config, o usecase.Operate, id uuid.UUID, by usecase.By) error {
		o.Account = cfg.ProviderAccount
		if bool(cfg.ProviderLookup) {
			if cfg.ProviderURL == "" {
				return &ConfigError{[]Fault{{"BILLING_PROVIDER_URL", "is required to look the charge up"}}}
			}
			provider, err := newProvider(cfg, time.Now)
			if err != nil {
				return err
			}
			defer provider.Close()
			o.Provider = provider
		}
		return o.Retry(ctx, id, by)
	})
}

func newChargesResolveCommand(environ []string) *cobra.Command {
	var ref string
	cmd := &cobra.Command{
		Use:   "resolve CHARGE",
		Short: "Settle a parked charge by a person's word, and announce it",
		Example: `  billing charges resolve 0198c2d4-7a51-7c9e-8f7a-3f7c2c1f0a11 --as succeeded --provider-ref p-17 \
    --reason "in the provider's report of May 3"`,
	}
	as := &choice{words: []string{string(domain.StatusSucceeded), string(domain.StatusDeclined)}}
	cmd.Flags().Var(as, "as", "what became of it")
	cmd.Flags().StringVar(&ref, "provider-ref", "", "the provider's id of the charge")
	_ = cmd.MarkFlagRequired("as") // fails only for an unknown flag
	return moveCommand(cmd, environ, 0, "Settle for good", func(ctx context.Context, _ Config, o usecase.Operate, id uuid.UUID, by usecase.By) error {
		known := &ref
		if ref == "" {
			known = nil
		}
		return o.Resolve(ctx, id, domain.Status(as.value), known, by)
	})
}

func newChargesCancelCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "cancel CHARGE",
		Short:   "Give up a charge that was never sent, and announce it",
		Example: `  billing charges cancel 0198c2d4-7a51-7c9e-8f7a-3f7c2c1f0a11 --reason "order withdrawn"`,
	}
	return moveCommand(cmd, environ, 0, "Cancel", func(ctx context.Context, _ Config, o usecase.Operate, id uuid.UUID, by usecase.By) error {
		return o.Cancel(ctx, id, by)
	})
}

// move is one of usecase.Operate's.
type move func(ctx context.Context, cfg Config, o usecase.Operate, id uuid.UUID, by usecase.By) error

// moveCommand makes cmd move one charge. The topic of results is needed for the announcement.
func moveCommand(cmd *cobra.Command, environ []string, parts Parts, verb string, do move) *cobra.Command {
	cmd.Args = usageArgs(1)
	f := addByFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := chargeID(args[0])
		if err != nil {
			return err
		}
		return withStore(cmd.Context(), environ, PartDatabase|PartKafka|parts, func(cfg Config, store *postgres.Store) error {
			d, err := dossier(cmd.Context(), store, id)
			if err != nil {
				return err
			}
			c := d.Charge
			question := fmt.Sprintf("%s: charge %s of order %s, %s, %s, last outcome %s, %d attempts?",
				verb, c.EventID, printable(c.OrderID), amountOf(c), c.Status, text(c.LastOutcome), c.Attempts)
			return f.act(cmd, store, question, func(ctx context.Context, by usecase.By) error {
				o := usecase.Operate{Desk: store, IDs: newID, Codec: codec{kafkaout.Messages{ResultsTopic: cfg.KafkaResultsTopic}}}
				if err := do(ctx, cfg, o, id, by); err != nil {
					return err
				}
				if d, err = dossier(ctx, store, id); err != nil {
					return err
				}
				return writeChargeList(cmd.OutOrStdout(), []usecase.ChargeRecord{d.Charge})
			})
		})
	}
	return cmd
}
