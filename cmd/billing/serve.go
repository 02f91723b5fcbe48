package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/pprof"
	"time"

	"github.com/spf13/cobra"

	"billing/internal/observe"
)

func newServeCommand(environ []string) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run the roles of BILLING_ROLES until SIGTERM",
		Long: `serve runs the loops named in BILLING_ROLES. It waits for what is missing at start, the
database, its schema, brokers and event topics, with one log line each time the reason changes.

SIGTERM: nothing new is fetched or claimed, what is in flight ends on its own deadline, outcomes
are settled, the group is left. Within BILLING_SHUTDOWN_TIMEOUT, or the process ends with code 1.`,
		Example: `  billing serve
  BILLING_ROLES=consumer,relay billing serve`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := LoadConfig(environ, PartsAll)
			if err != nil {
				return err
			}
			log, err := observe.NewLogger(cmd.OutOrStdout(), cfg.LogLevel, cfg.LogFormat)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), cfg, log, cmd.ErrOrStderr())
		},
	}
}

// serve runs the service until ctx is done, and then gives it ShutdownTimeout to stop.
func serve(ctx context.Context, cfg Config, log *slog.Logger, stderr io.Writer) error {
	s, err := newService(ctx, cfg, log)
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "starting", "version", buildInfo().Version, "roles", cfg.Roles)
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	log.InfoContext(ctx, "stopping", "limit", cfg.ShutdownTimeout.String())
	limit := time.NewTimer(cfg.ShutdownTimeout)
	defer limit.Stop()
	select {
	case err := <-done:
		if err == nil {
			log.InfoContext(ctx, "stopped")
		}
		return err
	case <-limit.C:
		if err := pprof.Lookup("goroutine").WriteTo(stderr, 1); err != nil {
			return fmt.Errorf("write the goroutine dump: %w", err)
		}
		return errors.New("not stopped within BILLING_SHUTDOWN_TIMEOUT; leases and positions are left to other processes")
	}
}
