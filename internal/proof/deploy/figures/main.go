// Command figures prints what a platform engineer asks first: how large the image is, how long a process takes from its start
// to ready, and how much memory it holds idle. The argument is the binary as the image has it:
//
//	figures bin/billing
//
// It exits with 1 when a figure misses its goal.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"billing/internal/testkit"
)

// The goals: an image of 25 MB, ready within a second, 40 MiB resident when idle.
const (
	maxImage = 25_000_000
	maxReady = time.Second
	maxIdle  = 40 << 20

	starts = 5                // of which the median counts
	idle   = 10 * time.Second // before memory is read
	limit  = 3 * time.Minute

	// authorities is the size of the certificates that the image has beside the binary.
	authorities = "/etc/ssl/certs/ca-certificates.crt"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ctx, cancel := context.WithTimeout(ctx, limit)
	missed, err := run(ctx, os.Args[1:])
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
	}
	if err != nil || missed {
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (missed bool, err error) {
	if len(args) != 1 {
		return false, fmt.Errorf("want the path of the binary, got %d arguments", len(args))
	}
	size, err := sizeOf(args[0], authorities)
	if err != nil {
		return false, err
	}
	env, closeAll, err := dependencies(ctx, args[0])
	if err != nil {
		return false, err
	}
	defer closeAll()
	times := make([]time.Duration, starts)
	for i := range times {
		if times[i], _, err = start(ctx, args[0], env, 0); err != nil {
			return false, err
		}
	}
	slices.Sort(times)
	_, resident, err := start(ctx, args[0], env, idle)
	if err != nil {
		return false, err
	}
	ready := times[starts/2]
	fmt.Printf("image           %6.1f MB   (goal %.0f)\n", float64(size)/1e6, maxImage/1e6)
	fmt.Printf("start to ready  %6.0f ms   (goal %d; median of %d, slowest %.0f)\n", milliseconds(ready), maxReady.Milliseconds(), starts, milliseconds(times[starts-1]))
	fmt.Printf("resident, idle  %6.1f MiB  (goal %d; all roles but api)\n", float64(resident)/(1<<20), maxIdle>>20)
	return size > maxImage || ready > maxReady || resident > maxIdle, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func sizeOf(paths ...string) (total int64, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return 0, err
		}
		total += info.Size()
	}
	return total, nil
}

// dependencies starts a migrated PostgreSQL and a broker with the topics, and returns the environment of a process.
func dependencies(ctx context.Context, binary string) (env []string, closeAll func(), err error) {
	postgres, err := testkit.StartPostgres(ctx, testkit.PostgresOptions{})
	if err != nil {
		return nil, nil, err
	}
	broker, err := testkit.StartKfake(map[string]int32{
		"order-service.order.confirmed": 6, "order-service.order.confirmed.billing-order-confirmed.retry": 6,
		"billing.charge-results": 6, "billing.order-confirmed.dlq": 6,
	})
	if err != nil {
		return nil, nil, errors.Join(err, postgres.Close())
	}
	closeAll = func() {
		broker.Close()
		if err := postgres.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "figures:", err)
		}
	}
	env = []string{
		"BILLING_DATABASE_URL=" + postgres.URL("postgres"),
		"BILLING_KAFKA_BROKERS=" + strings.Join(broker.Brokers(), ","),
		"BILLING_PROVIDER_URL=http://127.0.0.1:9", // idle: nobody is asked
		"BILLING_OPS_ADDR=127.0.0.1:0",
	}
	if err := migrate(ctx, binary, env); err != nil {
		closeAll()
		return nil, nil, err
	}
	return env, closeAll, nil
}

func migrate(ctx context.Context, binary string, env []string) error {
	process, err := testkit.StartProcess(testkit.ProcessOptions{Path: binary, Args: []string{"migrate", "up"}, Env: env, Output: os.Stderr})
	if err != nil {
		return err
	}
	code, err := process.Wait(ctx)
	if err == nil && code != 0 {
		err = fmt.Errorf("billing migrate up ended with %d", code)
	}
	return err
}

// start runs one process until it is ready, and reads its memory after a while.
func start(ctx context.Context, binary string, env []string, rest time.Duration) (ready time.Duration, resident int64, err error) {
	began := time.Now()
	process, err := testkit.StartProcess(testkit.ProcessOptions{Path: binary, Args: []string{"serve"}, Env: env})
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = process.Kill() }() // it has nothing to lose
	addr, err := process.WaitListening(ctx, "ops")
	if err != nil {
		return 0, 0, err
	}
	if err := awaitReady(ctx, "http://"+addr+"/readyz"); err != nil {
		return 0, 0, err
	}
	ready = time.Since(began)
	select {
	case <-time.After(rest):
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	resident, err = residentOf(process.Pid())
	return ready, resident, err
}

func awaitReady(ctx context.Context, url string) error {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close() // only the status counts
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for ready: %w", ctx.Err())
		}
	}
}

// residentOf reads the resident memory of a process in bytes.
func residentOf(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read resident memory: %w", err)
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("process %d shows no resident memory", pid)
}
