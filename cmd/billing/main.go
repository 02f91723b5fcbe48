// Command billing charges a customer once for each confirmed order. It is the only place where
// adapters and core meet; `billing --help` lists its verbs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes, contract §1.
const (
	exitFailure       = 1 // also: findings
	exitUsage         = 2
	exitConfiguration = 78
)

// exitError ends the process with a code. Without err nothing is printed: what there was to say, a
// command has said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func main() { os.Exit(run()) }

// run cancels the context at the first SIGTERM or SIGINT. Later ones are taken and ignored: stopping
// is bounded by BILLING_SHUTDOWN_TIMEOUT, and an impatient second signal must not cut off an answer
// of the provider. Only SIGKILL ends the process sooner.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return execute(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
}

// execute runs one command line, prints its error once to stderr and returns the exit code.
func execute(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	root := newRoot(environ)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return report(stderr, root.ExecuteContext(ctx))
}

// report says what went wrong. Errors of commands arrive as exitError or ConfigError (see adopt), so
// any other is cobra's own: a wrong command line.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	code := exitUsage
	if e, ok := errors.AsType[*exitError](err); ok {
		if code = e.code; e.err == nil {
			return code
		}
	} else if _, ok := errors.AsType[*ConfigError](err); ok {
		code = exitConfiguration
	}
	fmt.Fprintf(stderr, "billing: %v\n", err)
	if code == exitUsage {
		fmt.Fprintln(stderr, "Run billing --help for usage.")
	}
	return code
}

// newRoot builds the command tree. environ is the environment, in the form of os.Environ.
func newRoot(environ []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "billing",
		Short: "Charges a customer exactly once for each confirmed order",
		Long: `billing consumes order events from Kafka, deduplicates them in PostgreSQL, charges
through the payment provider and announces the results on Kafka.

It is configured by BILLING_ environment variables; billing config lists them.
Exit codes: 0 clean, 1 failure or findings, 2 usage, 78 configuration.
SIGTERM or SIGINT stops it gracefully; further ones are ignored.`,
		Example: `  billing config                     check and show the configuration
  billing migrate up                 bring the schema up to date
  billing serve                      run the roles of BILLING_ROLES
  billing audit                      prove that no order was charged twice or lost`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(
		newServeCommand(environ),
		newMigrateCommand(environ),
		newAuditCommand(environ),
		newStatusCommand(environ),
		newChargesCommand(environ),
		newDeadLettersCommand(environ),
		newPauseCommand(environ),
		newResumeCommand(environ),
		newHistoryCommand(environ),
		newPartitionsCommand(environ),
		newConfigCommand(environ),
		newVersionCommand(),
	)
	adopt(root)
	return root
}

// adopt gives every command below root what cobra leaves open: an argument too many is a usage error, a
// group without its verb too, and an error of a command that says no exit code is a failure.
func adopt(root *cobra.Command) {
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	for _, child := range root.Commands() {
		adoptChild(child)
	}
}

func adoptChild(cmd *cobra.Command) {
	if cmd.Args == nil {
		cmd.Args = cobra.NoArgs
	}
	inner := cmd.RunE
	if inner == nil && cmd.Run == nil {
		inner = func(cmd *cobra.Command, _ []string) error {
			return &exitError{exitUsage, fmt.Errorf("%s needs a verb", cmd.CommandPath())}
		}
	}
	if inner != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error { return asFailure(inner(cmd, args)) }
	}
	for _, child := range cmd.Commands() {
		adoptChild(child)
	}
}

func asFailure(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*exitError](err); ok {
		return err
	}
	if _, ok := errors.AsType[*ConfigError](err); ok {
		return err
	}
	return &exitError{exitFailure, err}
}

// outputFlag adds --output with the formats that a command knows, the first as default.
func outputFlag(cmd *cobra.Command, formats ...string) *choice {
	c := &choice{value: formats[0], words: formats}
	cmd.Flags().VarP(c, "output", "o", "format of the output: "+c.Type())
	return c
}
