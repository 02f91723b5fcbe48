package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"billing/internal/adapters/out/postgres"
	"billing/internal/core/usecase"
)

const (
	// commandConns is enough for a command: one at work, and one for the audit's copy of the provider's list.
	commandConns = 2
	// actTimeout bounds one change, the look-up at the provider that may be part of it included.
	actTimeout = 2 * time.Minute
)

// withStore reads the configuration and opens the database for one command.
func withStore(ctx context.Context, environ []string, parts Parts, do func(cfg Config, store *postgres.Store) error) error {
	cfg, err := LoadConfig(environ, parts)
	if err != nil {
		return err
	}
	pool, err := postgres.NewPool(ctx, string(cfg.DatabaseURL), postgres.PoolOptions{MaxConns: commandConns, ApplicationName: "billing-command"})
	if err != nil {
		return err
	}
	defer pool.Close()
	store := postgres.NewStore(pool)
	ping, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	if err := store.Ping(ping); err != nil {
		return errors.New(postgres.Describe(err)) // the cause may name users and hosts
	}
	return do(cfg, store)
}

// byFlags are the flags of every command that changes something.
type byFlags struct {
	actor, reason string
	yes           bool
}

func addByFlags(cmd *cobra.Command) *byFlags {
	f := &byFlags{}
	cmd.Flags().StringVar(&f.actor, "actor", "", "who does this (default the database user)")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for the record")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	_ = cmd.MarkFlagRequired("reason") // fails only for an unknown flag
	return f
}

// act asks for confirmation and does something in somebody's name.
func (f *byFlags) act(cmd *cobra.Command, store *postgres.Store, question string, do func(ctx context.Context, by usecase.By) error) error {
	if strings.TrimSpace(f.reason) == "" {
		return &exitError{exitUsage, errors.New("the reason is empty")}
	}
	if !f.yes {
		if err := confirm(cmd, question); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), actTimeout)
	defer cancel()
	by := usecase.By{Actor: f.actor, Reason: f.reason}
	if by.Actor == "" {
		var err error
		if by.Actor, err = store.User(ctx); err != nil {
			return err
		}
	}
	err := do(ctx, by)
	if refused, ok := errors.AsType[*usecase.RefusedError](err); ok {
		return refused
	}
	return err
}

// confirm reads a yes from the terminal. Without one there is no consent.
func confirm(cmd *cobra.Command, question string) error {
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	switch answer := strings.ToLower(strings.TrimSpace(line)); {
	case answer == "y" || answer == "yes":
		return nil
	case err != nil && answer == "":
		return &exitError{exitUsage, errors.New("nobody answered; --yes does not ask")}
	}
	return errors.New("not confirmed, nothing was done")
}

// writeJSON prints v for programs.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}

// show prints a list in the chosen format.
func show[T any](cmd *cobra.Command, output *choice, list []T, err error, table func(w io.Writer, list []T) error) error {
	switch {
	case err != nil:
		return err
	case output.value == "json":
		if list == nil {
			list = []T{}
		}
		return writeJSON(cmd.OutOrStdout(), list)
	}
	return table(cmd.OutOrStdout(), list)
}

// table collects rows of cells; errors show at Flush.
type table struct{ *tabwriter.Writer }

func newTable(w io.Writer, heads ...string) table {
	t := table{tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)}
	if len(heads) > 0 {
		fmt.Fprintln(t, strings.Join(heads, "\t"))
	}
	return t
}

// row writes one row. What came from outside keeps its line, and the terminal its mode.
func (t table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = printable(text(cell))
	}
	fmt.Fprintln(t, strings.Join(texts, "\t"))
}

func text(cell any) string {
	switch v := cell.(type) {
	case time.Time:
		if v.IsZero() {
			return "-"
		}
		return v.UTC().Format("2006-01-02T15:04:05Z")
	case *time.Time:
		if v == nil {
			return "-"
		}
		return text(*v)
	case *string:
		if v == nil {
			return "-"
		}
		return text(*v)
	case *int32:
		if v == nil {
			return "-"
		}
		return strconv.Itoa(int(*v))
	}
	if s := fmt.Sprint(cell); s != "" {
		return s
	}
	return "-"
}
