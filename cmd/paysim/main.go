// Command paysim runs the payment provider simulator as a server.
//
// It exits with 0 after a clean stop, 1 when it cannot run, and 2 for wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"billing/internal/paysim"
)

// stopTimeout is how long requests in flight may still get their answers.
const stopTimeout = 2 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program: it returns its exit code.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	log := slog.New(slog.NewJSONHandler(stdout, nil))
	options, addr, err := parse(args, environ, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "paysim: %v\nSee paysim --help.\n", err)
		return 2
	}
	options.Now = time.Now
	options.Log = log
	if err := serve(ctx, options, addr, log); err != nil {
		log.ErrorContext(ctx, "paysim stopped", "error", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, options paysim.Options, addr string, log *slog.Logger) error {
	server, err := paysim.New(options)
	if err != nil {
		return err
	}
	unsignalled := context.WithoutCancel(ctx)
	listener, err := server.Listen(unsignalled, addr)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	log.InfoContext(ctx, "listening", "addr", listener.Addr, "url", listener.URL)
	<-ctx.Done()
	grace, cancel := context.WithTimeout(unsignalled, stopTimeout)
	defer cancel()
	err = errors.Join(listener.Shutdown(grace), server.Close())
	stats := server.Stats()
	log.InfoContext(ctx, "stopped", "received", stats.Received, "effects", stats.Effects, "succeeded", stats.Succeeded)
	return err
}
