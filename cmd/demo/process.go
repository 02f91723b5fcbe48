package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"billing/internal/testkit"
)

const (
	readyTimeout = 30 * time.Second
	stopTimeout  = 30 * time.Second // the service stops within 25 s
	askEvery     = 20 * time.Millisecond
	concurrency  = 16 // requests in flight of one process
)

// process is one `billing serve` that can be killed and started again.
type process struct {
	name    string
	log     string // file
	running *testkit.Process
	file    *os.File
	ops     string // address of metrics and health
}

// start runs the binary; its output is appended to the log file.
func (p *process) start(binary string, env []string) error {
	file, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	running, err := testkit.StartProcess(testkit.ProcessOptions{Path: binary, Args: []string{"serve"}, Env: env, Output: file})
	if err != nil {
		return errors.Join(err, file.Close())
	}
	p.running, p.file = running, file
	return nil
}

// awaitReady returns when the process says that it is ready.
func (p *process) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var err error
	if p.ops, err = p.running.WaitListening(ctx, "ops"); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for {
		if ready(ctx, p.ops) {
			return nil
		}
		select {
		case <-ticker.C:
		case <-p.running.Done():
			return p.ended()
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", p.name, ctx.Err())
		}
	}
}

func ready(ctx context.Context, addr string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close() // only the status matters
	return response.StatusCode == http.StatusOK
}

// ended is the error of a process that nobody ended, nil while it runs.
func (p *process) ended() error {
	select {
	case <-p.running.Done():
		return fmt.Errorf("%s ended by itself", p.name)
	default:
		return nil
	}
}

// ended is the error of the first process that nobody ended.
func (d *demo) ended() error {
	for _, p := range d.processes {
		if err := p.ended(); err != nil {
			return err
		}
	}
	return nil
}

// kill ends the process by SIGKILL, if it was ever started.
func (p *process) kill() error {
	if p.running == nil {
		return nil
	}
	if err := p.running.Kill(); err != nil {
		return err
	}
	if p.file != nil {
		err := p.file.Close()
		p.file = nil
		return err
	}
	return nil
}

func (p *process) terminate() error { return p.running.Signal(syscall.SIGTERM) }

// awaitEnd returns when the process has ended, with an error when it did not end well.
func (p *process) awaitEnd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	code, err := p.running.Wait(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	if code != 0 {
		return fmt.Errorf("%s ended with code %d on SIGTERM", p.name, code)
	}
	return nil
}

// build compiles the service into the private folder, where its temporary files are, too.
func (d *demo) build(ctx context.Context) error {
	begun := time.Now()
	temporary := d.file("build")
	if err := os.Mkdir(temporary, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	d.binary = d.file("billing")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", d.binary, "billing/cmd/billing")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOTMPDIR="+temporary)
	// The compilers that it starts end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build billing: %w\n%s", err, out)
	}
	d.out.step("billing built in %.1f s", time.Since(begun).Seconds())
	return nil
}

// env is the configuration of every process. Leases are short, so that the work of a killed process is
// taken over while one watches.
func (d *demo) env(more ...string) []string {
	return append([]string{
		"BILLING_DATABASE_URL=" + d.database,
		"BILLING_KAFKA_BROKERS=" + strings.Join(d.brokers, ","),
		"BILLING_KAFKA_SESSION_TIMEOUT=6s",
		"BILLING_PROVIDER_URL=" + d.simURL,
		"BILLING_PROVIDER_TIMEOUT=2s",
		"BILLING_PROVIDER_CONCURRENCY=" + strconv.Itoa(concurrency),
		"BILLING_CHARGE_LEASE=9s",
		"BILLING_RETRY_MIN=50ms",
		"BILLING_RETRY_MAX=1s",
		"BILLING_RELAY_LEASE=10s",
		"BILLING_OPS_ADDR=127.0.0.1:0",
		"BILLING_HTTP_ADDR=127.0.0.1:0",
	}, more...)
}

// verb runs a command of the service to its end and returns its exit code and output.
func (d *demo) verb(ctx context.Context, args ...string) (int, string, error) {
	var output strings.Builder
	running, err := testkit.StartProcess(testkit.ProcessOptions{Path: d.binary, Args: args, Env: d.env(), Output: &output})
	if err != nil {
		return 0, "", err
	}
	code, err := running.Wait(ctx)
	if err != nil {
		return 0, "", errors.Join(fmt.Errorf("billing %s: %w", strings.Join(args, " "), err), running.Kill())
	}
	return code, strings.TrimSpace(output.String()), nil
}

// migrate makes the schema as its owner. From then on everything runs with the rights of billing_app, as it should where it is
// deployed.
func (d *demo) migrate(ctx context.Context) error {
	code, output, err := d.verb(ctx, "migrate", "up")
	if err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("billing migrate up: exit code %d\n%s", code, output)
	}
	lines := strings.Split(output, "\n")
	if _, err := d.watching.Exec(ctx, "CREATE ROLE billing_service LOGIN IN ROLE billing_app"); err != nil {
		return fmt.Errorf("create the service's login: %w", err)
	}
	service, err := url.Parse(d.database)
	if err != nil {
		return fmt.Errorf("parse the database's URL: %w", err)
	}
	service.User = url.User("billing_service")
	d.database = service.String()
	d.out.step("billing migrate up: %s; the service runs with the rights of billing_app", lines[len(lines)-1])
	return nil
}

// showLogs writes the last lines of both processes.
func (d *demo) showLogs() {
	for _, p := range d.processes {
		content, err := os.ReadFile(p.log)
		if err != nil {
			continue // it never started
		}
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		d.out.printf("%s\n%s", d.out.bold("Last lines of "+p.name), strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
}
