// Command withservices runs a command, such as go test ./..., with one PostgreSQL and one Apache Kafka for all the processes
// that it starts, and stops them afterwards:
//
//	go run ./internal/testkit/withservices go test -race ./...
//
// What the environment names already is not started.
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

	"golang.org/x/sync/errgroup"

	"billing/internal/testkit"
)

const usage = 2

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: withservices command [argument ...]")
		os.Exit(usage)
	}
	// The command gets Ctrl-C as well; this process has to outlive it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "withservices:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(ctx context.Context, command []string) (code int, err error) {
	var postgres *testkit.PostgresServer
	var kafka *testkit.ApacheKafka
	defer func() {
		if postgres != nil {
			err = errors.Join(err, postgres.Close())
		}
		if kafka != nil {
			err = errors.Join(err, kafka.Close())
		}
	}()
	start, startCtx := errgroup.WithContext(ctx)
	if os.Getenv("BILLING_TEST_POSTGRES_URL") == "" {
		start.Go(func() (err error) {
			postgres, err = testkit.StartPostgres(startCtx, testkit.PostgresOptions{MaxConnections: 500})
			return err
		})
	}
	if os.Getenv("BILLING_TEST_KAFKA_BROKERS") == "" {
		start.Go(func() (err error) {
			kafka, err = testkit.StartApacheKafka(startCtx, testkit.ApacheKafkaOptions{})
			return err
		})
	}
	if err := start.Wait(); err != nil {
		return 1, err
	}
	env := os.Environ()
	if postgres != nil {
		env = append(env, "BILLING_TEST_POSTGRES_URL="+postgres.URL("postgres"))
	}
	if kafka != nil {
		env = append(env, "BILLING_TEST_KAFKA_BROKERS="+strings.Join(kafka.Brokers(), ","))
	}
	return execute(ctx, env, command)
}

// execute passes an end by signal on to the command and waits for it.
func execute(ctx context.Context, env, command []string) (int, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	if err != nil {
		return 1, fmt.Errorf("run %s: %w", command[0], err)
	}
	return 0, nil
}
