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

// runMutants runs the service as it is, which has to be green, one run that injects nothing, which has to
// be red, and every mutant, which has to be red, too.
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
	var (
		mu    sync.Mutex
		wrong []string
		red   int
	)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(side)
	try := func(o harness.Options, name string, wantRed bool) {
		group.Go(func() error {
			start := time.Now()
			v, err := harness.Run(ctx, server, binary, o)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			colour, why := "green", ""
			if len(v.Reasons) > 0 {
				colour, why = "red", v.Reasons[0]
			}
			if (colour == "red") != wantRed {
				wrong = append(wrong, name+" is "+colour+"\n    "+strings.Join(v.Reasons, "\n    "))
			} else if wantRed && o.Mutant != "" {
				red++
			}
			fmt.Printf("%-28s %-5s %5.1fs  %s\n", name, colour, time.Since(start).Seconds(), why)
			return nil
		})
	}
	wanted := func(name string) bool { return only == "" || strings.Contains(","+only+",", ","+name+",") }
	if wanted("none") {
		try(o, "none", false)
	}
	idle := o
	idle.Idle = true
	if wanted("idle") {
		try(idle, "idle", true)
	}
	count := 0
	for _, m := range mutants.All() {
		if wanted(m.Name) {
			count++
			mutated := o
			mutated.Mutant = m.Name
			try(mutated, m.Name, true)
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Printf("%d of %d mutants are red\n", red, count)
	if len(wrong) > 0 {
		return errors.New("the proof does not hold: " + strings.Join(wrong, "\n"))
	}
	return nil
}
