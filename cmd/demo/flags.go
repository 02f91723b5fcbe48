package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

const usage = `demo runs billing on this machine: PostgreSQL, Kafka, a payment provider with faults, and two
billing serve processes. It confirms orders, kills one process in the middle, and proves at
the end that every order was charged exactly once. It needs Go only, and Java and Maven with
--kafka apache. Ctrl-C ends it at any moment and leaves nothing behind.

  demo                         2,000 orders, about a quarter of a minute
  demo --kafka apache          the same on Apache Kafka
  demo --stay                  keep it running afterwards, to look around

Exit codes: 0 no order charged twice and none lost, 1 anything else, 2 usage, 130 interrupted.

Flags:
`

// The brokers that --kafka knows.
const (
	kafkaEmbedded = "kfake"
	kafkaApache   = "apache"
)

// options are the command line.
type options struct {
	events   int
	kafka    string
	stay     bool
	seed     uint64
	keepLogs bool
}

// parse reads the command line; flag.ErrHelp means that help was asked for and written.
func parse(args []string, help io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are returned, help is written below
	flags.Usage = func() {}
	flags.IntVar(&o.events, "events", 2000, "orders to confirm, 10 to 1000000")
	flags.StringVar(&o.kafka, "kafka", kafkaEmbedded, "broker: kfake, inside the demo, or apache")
	flags.BoolVar(&o.stay, "stay", false, "keep running after the table, with new orders now and then, until Ctrl-C")
	flags.Uint64Var(&o.seed, "seed", 1, "decides amounts, redeliveries, what is malformed, and the provider's faults")
	flags.BoolVar(&o.keepLogs, "keep-logs", false, "keep the log files and the provider's journal")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(help, usage)
			flags.SetOutput(help)
			flags.PrintDefaults()
		}
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.events < 10 || o.events > 1_000_000:
		return o, fmt.Errorf("--events is %d, want 10 to 1000000", o.events)
	case o.kafka != kafkaEmbedded && o.kafka != kafkaApache:
		return o, fmt.Errorf("--kafka is %q, want %s or %s", o.kafka, kafkaEmbedded, kafkaApache)
	}
	return o, nil
}
