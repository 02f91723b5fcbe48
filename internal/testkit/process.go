package testkit

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ProcessOptions say what to run.
type ProcessOptions struct {
	// Path is the binary, see BuildBinary.
	Path string
	Args []string
	// Env are NAME=value pairs on top of this process's environment, of which no BILLING_ variable is passed on.
	Env []string
	// Dir is the working directory, this process's when empty.
	Dir string
	// Output gets a copy of everything that the process writes; nil for none.
	Output io.Writer
}

// Process is a running binary whose output is read line by line. It dies with this process.
type Process struct {
	child  *child
	output *logLines
}

// RunProcess starts a binary that is killed at the end of the test. A failed test shows its last lines, and a data race that
// it reported fails the test.
func RunProcess(tb testing.TB, options ProcessOptions) *Process {
	tb.Helper()
	process, err := StartProcess(options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := process.Kill(); err != nil {
			tb.Error(err)
		}
		if strings.Contains(process.output.last(len(process.Lines())), "WARNING: DATA RACE") {
			tb.Error("the process has a data race")
		}
		if tb.Failed() {
			tb.Logf("last lines of %s:\n%s", options.Path, process.output.last(60))
		}
	})
	return process
}

// StartProcess starts a binary.
func StartProcess(options ProcessOptions) (*Process, error) {
	output := newLogLines(options.Output)
	cmd := exec.Command(options.Path, options.Args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = options.Dir, output, output
	// A grandchild that keeps the output open must not keep Wait from returning.
	cmd.WaitDelay = 5 * time.Second
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "BILLING_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, options.Env...)
	child, err := startChild(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, err
	}
	return &Process{child: child, output: output}, nil
}

// Pid is its process id.
func (p *Process) Pid() int { return p.child.cmd.Process.Pid }

// WaitLog returns the first line of JSON, from the start of the process on, that matches. It fails when the process ends or
// ctx does, and then shows the last lines.
func (p *Process) WaitLog(ctx context.Context, match func(map[string]any) bool) (map[string]any, error) {
	return p.WaitLogAfter(ctx, 0, match)
}

// WaitLogAfter is WaitLog that passes over the first lines, for example those that Lines has returned.
func (p *Process) WaitLogAfter(ctx context.Context, lines int, match func(map[string]any) bool) (map[string]any, error) {
	for {
		ended := p.child.exited()
		line, seen, changed := p.output.find(lines, match)
		if line != nil {
			return line, nil
		}
		lines = seen
		if ended {
			return nil, fmt.Errorf("wait for a log line: process ended: %v\n%s", p.child.cmd.ProcessState, p.output.last(20))
		}
		select {
		case <-changed:
		case <-p.child.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a log line: %w\n%s", ctx.Err(), p.output.last(20))
		}
	}
}

// WaitListening is the address that the process has announced for a listener ("api", "ops").
func (p *Process) WaitListening(ctx context.Context, listener string) (string, error) {
	line, err := p.WaitLog(ctx, func(line map[string]any) bool { return line["msg"] == "listening" && line["listener"] == listener })
	if err != nil {
		return "", err
	}
	return fmt.Sprint(line["addr"]), nil
}

// Lines are the lines so far: those of JSON as they were, any other as {"text": line}.
func (p *Process) Lines() []map[string]any { return p.output.all() }

// Signal sends a signal; a process that has ended is no error.
func (p *Process) Signal(sig os.Signal) error { return p.child.signal(sig) }

// Kill ends the process by SIGKILL and returns when it is gone.
func (p *Process) Kill() error { return p.child.stop(0) }

// Done is closed when the process has ended and its output is read.
func (p *Process) Done() <-chan struct{} { return p.child.done }

// Wait returns the exit code when the process ends, -1 when a signal ended it.
func (p *Process) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.child.done:
		return p.child.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for the process to end: %w\n%s", ctx.Err(), p.output.last(20))
	}
}
