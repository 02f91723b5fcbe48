// Command cmd runs the proof: one long run of the service under every fault, or each mutant in a short one.
//
//	go run ./internal/proof/harness/cmd -duration 8m -kafka apache
//	go run ./internal/proof/harness/cmd -mutants
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"billing/internal/proof/harness"
	"billing/internal/proof/mutants"
)

func main() { os.Exit(run()) }

func run() int {
	o := harness.Options{Out: os.Stdout}
	flag.DurationVar(&o.Duration, "duration", 8*time.Minute, "how long things are broken; healing and audits come after it")
	flag.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "decides what is broken when")
	flag.StringVar(&o.Kafka, "kafka", "apache", "apache or kfake")
	flag.IntVar(&o.Rate, "rate", 260, "events each second")
	flag.IntVar(&o.Calm, "calm", 1, "how much longer than usual processes live and dependencies stay whole")
	flag.BoolVar(&o.Idle, "idle", false, "inject nothing: the run has to fail")
	flag.BoolVar(&o.Quick, "quick", false, "the short form that each mutant gets, for the service as it is")
	flag.StringVar(&o.Logs, "logs", "", "an existing folder for the logs of all processes")
	all := flag.Bool("mutants", false, "run each mutant in the short form: each has to fail")
	only := flag.String("only", "", "of the mutants only these, comma-separated")
	side := flag.Int("parallel", 2, "mutants at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal ends the process
	var err error
	if *all {
		err = runMutants(ctx, o, *only, *side)
	} else {
		err = runOnce(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runOnce(ctx context.Context, o harness.Options) (err error) {
	binary, remove, err := harness.Build(ctx, false)
	if err != nil {
		return err
	}
	defer remove()
	server, err := harness.StartServer(ctx, true, o.Kafka, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	fmt.Fprintf(o.Out, "seed %d, %s of %s, %d events a second\n", o.Seed, o.Duration, o.Kafka, o.Rate)
	v, err := harness.Run(ctx, server, binary, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "\n%s", v.Report)
	if len(v.Reasons) > 0 {
		return fmt.Errorf("RED, seed %d:\n  %s", o.Seed, strings.Join(v.Reasons, "\n  "))
	}
	fmt.Fprintf(o.Out, "GREEN, seed %d\n", o.Seed)
	return nil
}

// tries is how many seeds a mutant gets to be noticed: what it does wrong needs its moment, and a drill is short.
const tries = 5

// line is one line of the table of mutants.
type line struct {
	name    string
	options harness.Options
	red     bool // what it has to be
}

// table lists the service as it is, which has to be green, a run that injects nothing, which has to be red, and the mutants, which
// have to be red, too. only names some of them.
func table(o harness.Options, only string) (lines []line) {
	idle := o
	idle.Idle = true
	lines = append(lines, line{"none", o, false}, line{"idle", idle, true})
	for _, m := range mutants.All() {
		mutated := o
		mutated.Mutant = m.Name
		lines = append(lines, line{m.Name, mutated, true})
	}
	return slices.DeleteFunc(lines, func(l line) bool { return only != "" && !strings.Contains(","+only+",", ","+l.name+",") })
}

// runMutants runs the table, several lines at once.
func runMutants(ctx context.Context, o harness.Options, only string, side int) (err error) {
	binary, remove, err := harness.Build(ctx, true)
	if err != nil {
		return err
	}
	defer remove()
	server, err := harness.StartServer(ctx, false, o.Kafka, side)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	o.Quick, o.Rate, o.Out = true, 150, io.Discard
	var all score
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(side)
	for _, l := range table(o, only) {
		group.Go(func() error {
			start := time.Now()
			reasons, runs, err := l.try(ctx, server, binary)
			if err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			all.note(l, reasons, runs, time.Since(start))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Printf("%d of %d mutants are red\n", all.red, all.mutants)
	if len(all.wrong) > 0 {
		return errors.New("the proof does not hold: " + strings.Join(all.wrong, "\n"))
	}
	return nil
}

// score is what the lines of the table came to.
type score struct {
	mu           sync.Mutex
	red, mutants int
	wrong        []string // lines that are not what they have to be
}

// note prints a line's end and counts it.
func (s *score) note(l line, reasons []string, runs int, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	colour, why := "green", ""
	if len(reasons) > 0 {
		colour, why = "red", reasons[0]
	}
	if l.options.Mutant != "" {
		s.mutants++
		s.red += min(len(reasons), 1)
	}
	if (colour == "red") != l.red {
		s.wrong = append(s.wrong, l.name+" is "+colour+"\n    "+strings.Join(reasons, "\n    "))
	}
	fmt.Printf("%-28s %-5s %5.1fs in %d runs  %s\n", l.name, colour, took.Seconds(), runs, why)
}

// try runs a line until it is red, a mutant with several seeds and the service as it is with one, and returns why it is red.
func (l line) try(ctx context.Context, server *harness.Server, binary string) (reasons []string, runs int, err error) {
	o := l.options
	for len(reasons) == 0 && (runs == 0 || l.red && runs < tries) {
		v, err := harness.Run(ctx, server, binary, o)
		if err != nil {
			return nil, runs, err
		}
		reasons = v.Reasons
		runs++
		o.Seed++
	}
	return reasons, runs, nil
}
