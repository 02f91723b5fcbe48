// Command with starts the services that tests share, PostgreSQL and Apache Kafka, runs a command with
// their addresses in its environment, and stops them, whatever the command did:
//
//	go run ./internal/testkit/with -- go test ./...
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"billing/internal/testkit"
)

func main() { os.Exit(run()) }

func run() int {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: with -- command [argument…]")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	code, err := with(ctx, args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "with:", err)
	}
	return code
}

func with(ctx context.Context, args []string) (code int, err error) {
	postgres, err := testkit.StartPostgres(ctx, testkit.PostgresOptions{})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, postgres.Close()) }()
	kafka, err := testkit.StartApacheKafka(ctx, testkit.ApacheKafkaOptions{})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, kafka.Close()) }()

	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(
		os.Environ(),
		"BILLING_TEST_POSTGRES_URL="+postgres.URL("postgres"),
		"BILLING_TEST_KAFKA_BROKERS="+strings.Join(kafka.Brokers(), ","),
	)
	if err := cmd.Run(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exit.ExitCode(), nil
		}
		return 1, fmt.Errorf("run %s: %w", args[0], err)
	}
	return 0, nil
}
