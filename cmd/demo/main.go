// Command demo shows the whole system on one machine without Docker: PostgreSQL, Kafka, a payment provider
// that declines, is busy and loses answers, and two `billing serve` processes, one of which is killed in the
// middle. It ends in `billing audit` and in an audit of its own, from what the producer, the provider and the
// topics say.
//
// It exits with 0 when no order was charged twice and none was lost, 1 when anything disagrees, 2 for wrong
// usage and 130 when it was interrupted. However it ends, no process and no folder is left, except logs that
// were asked for or that explain a failure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes.
const (
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program: it returns its exit code.
func run(args []string, stdout *os.File, stderr io.Writer) int {
	o, err := parse(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "demo: %v\nSee demo --help.\n", err)
		return exitUsage
	}
	ctx, stop := interruptible()
	defer stop()
	ctx, unseen := context.WithCancel(ctx)
	defer unseen()
	return show(ctx, o, newScreen(stdout, unseen))
}

// interruptible is done at the first signal that asks the demo to end. Later ones change nothing: what it
// then does is clean up.
func interruptible() (context.Context, context.CancelFunc) {
	// A reader that left, as in `demo | head`, must not end the process before it has cleaned up: taken by
	// a channel that nobody reads, the signal becomes an error of the write.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // which nohup asks for
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(context.Background(), signals...)
}

// show runs the demo and removes what it made.
func show(ctx context.Context, o options, out *screen) int {
	d := &demo{options: o, out: out}
	ok, err := d.run(ctx)
	interrupted := ctx.Err() != nil
	if err != nil && !interrupted {
		out.printf("%s: %v", out.bad("The demo failed"), err)
	}
	failed := (err != nil || !ok) && !interrupted || d.judged && !ok
	if interrupted {
		out.printf("interrupted, cleaning up")
	}
	if failed {
		d.showLogs()
	}
	if err := d.close(failed || o.keepLogs); err != nil {
		out.printf("%s: %v", out.bad("clean up"), err)
		failed = true
	}
	switch {
	case failed:
		return exitFailure
	case interrupted:
		return exitInterrupted
	}
	return 0
}
