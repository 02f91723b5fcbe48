package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"billing/internal/adapters/out/postgres"
	"billing/internal/core/usecase"
)

func newPauseCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Stop charging in every process; events are still consumed",
		Long: `pause stops new claims in every process at once. Requests in flight end, events are
accepted and results published. resume goes on where it stopped.`,
		Example: `  billing pause --reason "provider maintenance until 14:00"`,
	}
	return switchCommand(cmd, environ, "Stop charging in every process?", "charging is paused", "charging was paused already",
		(*postgres.Store).TurnOn, usecase.ChargingPaused)
}

func newResumeCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resume",
		Short:   "Charge again after a pause",
		Example: `  billing resume --reason "maintenance is over"`,
	}
	return switchCommand(cmd, environ, "Charge again?", "charging goes on", "charging was not paused", (*postgres.Store).TurnOff, usecase.ChargingPaused)
}

func newHistoryCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Begin or end the caution after a restored database",
		Example: `  billing history lost --reason "restored to 12:00"
  billing history clear --reason "every charge since the backup was compared"`,
	}
	lost := &cobra.Command{
		Use:   "lost",
		Short: "Say that the database was restored to an earlier point",
		Long: `lost makes every process look up a POSTed charge before its first request, until history clear. A
process with the role consumer finds out by itself, because Kafka's offsets are ahead of the database. Nobody
does where charges come by POST only, or where the offsets were deleted as well: then say it before the
processes are started.`,
		Example: `  billing history lost --reason "restored to 12:00, ticket 17"`,
	}
	restored := &cobra.Command{
		Use:   "clear",
		Short: "Say that what the database lost was checked",
		Long: `clear ends the state that a restored database is in: until then a POSTed charge is looked up
before its first request. Run billing audit --provider before.`,
		Example: `  billing history clear --reason "audit is clean, ticket 17"`,
	}
	cmd.AddCommand(switchCommand(lost, environ, "Was the database restored to an earlier point?", "history is lost: look-ups come first", "history was lost already",
		(*postgres.Store).TurnOn, usecase.HistoryWasLost))
	cmd.AddCommand(switchCommand(restored, environ, "Was everything checked that the database lost?", "history is whole", "history was not lost",
		(*postgres.Store).TurnOff, usecase.HistoryWasLost))
	return cmd
}

// turn is Store.TurnOn or Store.TurnOff.
type turn func(s *postgres.Store, ctx context.Context, name usecase.Switch, by usecase.By) (bool, error)

// switchCommand makes cmd turn a switch.
func switchCommand(cmd *cobra.Command, environ []string, question, done, before string, turn turn, name usecase.Switch) *cobra.Command {
	f := addByFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return withStore(cmd.Context(), environ, PartDatabase, func(_ Config, store *postgres.Store) error {
			return f.act(cmd, store, question, func(ctx context.Context, by usecase.By) error {
				turned, err := turn(store, ctx, name, by)
				if err != nil {
					return err
				}
				if !turned {
					done = before
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), done)
				return err
			})
		})
	}
	return cmd
}
