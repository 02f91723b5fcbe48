package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"billing/migrations"
)

func newMigrateCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database schema up to date",
		Long: `migrate needs only BILLING_DATABASE_URL. It may run in several places at once and again:
one session applies each file, the others wait for it.`,
		Example: `  billing migrate up
  billing migrate status`,
	}
	cmd.AddCommand(newMigrateUpCommand(environ), newMigrateStatusCommand(environ))
	return cmd
}

func newMigrateUpCommand(environ []string) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Apply what is missing, make the inbox's partitions, and give the roles their rights",
		Long: `up also makes the roles billing_app and billing_readonly, where the user may create roles, and gives
them their rights in this database. They cannot log in: grant them to the users of the service and of its auditors. Roles that
an administrator makes later get their rights at the next run.`,
		Example: `  billing migrate up
  BILLING_DATABASE_URL=postgres://owner@db/billing billing migrate up`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := LoadConfig(environ, PartDatabase)
			if err != nil {
				return err
			}
			applied, err := migrations.Apply(cmd.Context(), string(cfg.DatabaseURL), cfg.Retention, cfg.ClockSkew)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			for _, a := range applied {
				fmt.Fprintf(out, "applied %s in %s\n", a.Name, a.Duration.Round(time.Millisecond))
			}
			version, err := migrations.Required()
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "schema is at version %d\n", version)
			return nil
		},
	}
}

func newMigrateStatusCommand(environ []string) *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "List migrations, applied and pending",
		Example: `  billing migrate status`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := LoadConfig(environ, PartDatabase)
			if err != nil {
				return err
			}
			states, err := migrations.Status(cmd.Context(), string(cfg.DatabaseURL))
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "VERSION\tMIGRATION\tAPPLIED")
			for _, s := range states {
				applied := "pending"
				if !s.AppliedAt.IsZero() {
					applied = s.AppliedAt.UTC().Format(time.RFC3339)
				}
				fmt.Fprintf(w, "%d\t%s\t%s\n", s.Version, s.Name, applied)
			}
			return w.Flush()
		},
	}
}
