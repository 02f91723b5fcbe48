package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"billing/internal/paysim"
)

const usage = `paysim simulates a payment provider: it keeps state, honours idempotency keys, and
misbehaves as told. Every flag can also be set in the environment: --key-window is
PAYSIM_KEY_WINDOW. Rates are parts of the requests, from 0 to 1, decided by the seed.

Examples:
  paysim --addr 127.0.0.1:8081 --journal pay.jsonl
  paysim --decline-rate 0.03 --lose-answer-rate 0.02 --latency 5ms..20ms --seed 7
  paysim --script faults.json          {"rules":[{"match":{"order_prefix":"o-9","attempt":1},
                                        "fault":{"kind":"drop","phase":"after"}}]}
  curl -X POST localhost:8081/_sim/clock -d '{"advance":"25h"}'
  curl -X POST localhost:8081/_sim/rules -d '{"rules":[{"fault":{"kind":"answer","status":503}}]}'
  curl localhost:8081/_sim/stats       also: script, forget, release

Flags:
`

// rates are the faults that have a flag of their own; anything else takes a script.
var rates = []struct {
	flag, help string
	fault      paysim.Fault
}{
	{"lose-answer-rate", "reset the connection after the effect", paysim.Fault{Kind: paysim.Drop, Phase: paysim.After}},
	{"drop-before-rate", "reset the connection before the effect", paysim.Fault{Kind: paysim.Drop, Phase: paysim.Before}},
	{"error-rate", "500 without an effect", paysim.Fault{Kind: paysim.Answer, Status: http.StatusInternalServerError}},
	{"late-error-rate", "502 after the effect", paysim.Fault{Kind: paysim.Answer, Phase: paysim.After, Status: http.StatusBadGateway}},
	{"throttle-rate", "429 with Retry-After: 1", paysim.Fault{Kind: paysim.Answer, Status: http.StatusTooManyRequests, RetryAfter: "1"}},
	{"hang-rate", "take the money, then hang until the client leaves", paysim.Fault{Kind: paysim.Hang, Phase: paysim.After}},
	{"truncate-rate", "cut the answer short after the effect", paysim.Fault{Kind: paysim.Truncate}},
}

// parse reads flags, environment and script file; the flags add to the file.
func parse(args, environ []string, help io.Writer) (paysim.Options, string, error) {
	var o paysim.Options
	fs := flag.NewFlagSet("paysim", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are returned, help is written below
	addr := fs.String("addr", "127.0.0.1:0", "address to listen on; port 0 picks a free one, the log tells which")
	fs.StringVar(&o.Journal, "journal", "", "append requests and effects to this file, and continue on it")
	fs.BoolVar(&o.Fsync, "fsync", false, "make every effect durable before its answer")
	fs.StringVar(&o.Token, "token", "", "bearer token to ask for")
	fs.DurationVar(&o.KeyWindow, "key-window", 24*time.Hour, "how long a key is remembered; negative: for ever")
	fs.IntVar(&o.ReuseStatus, "reuse-status", http.StatusConflict, "status for a key with another body")
	file := fs.String("script", "", "JSON file with the fault script")
	seed := fs.Uint64("seed", 0, "seed of all rates")
	var latency paysim.Range
	fs.TextVar(&latency, "latency", paysim.Range{}, "added to every request, such as 20ms or 5ms..20ms")
	decline := fs.Float64("decline-rate", 0, "part of the keys that is declined")
	pending := fs.Float64("pending-rate", 0, "part of the keys that is accepted first and final later")
	shares := make([]float64, len(rates))
	for i, r := range rates {
		fs.Float64Var(&shares[i], r.flag, 0, r.help)
	}
	if err := parseFlags(fs, args, environ); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			writeHelp(fs, help)
		}
		return o, "", err
	}
	if *file != "" {
		var err error
		if o.Script, err = readFile(*file); err != nil {
			return o, "", err
		}
	}
	set := given(fs)
	override(set["seed"], &o.Script.Seed, *seed)
	override(set["latency"], &o.Script.Latency, latency)
	override(set["decline-rate"], &o.Script.DeclineShare, *decline)
	override(set["pending-rate"], &o.Script.PendingShare, *pending)
	for i, r := range rates {
		if set[r.flag] {
			o.Script.Shares = append(o.Script.Shares, paysim.Share{Of: shares[i], Fault: r.fault})
		}
	}
	return o, *addr, o.Script.Validate()
}

func writeHelp(fs *flag.FlagSet, out io.Writer) {
	fmt.Fprint(out, usage)
	fs.SetOutput(out)
	fs.PrintDefaults()
}

// parseFlags takes from the environment what the command line does not say.
func parseFlags(fs *flag.FlagSet, args, environ []string) error {
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	set := given(fs)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		name, ours := strings.CutPrefix(name, "PAYSIM_")
		name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
		if !ours || set[name] {
			continue
		}
		if fs.Lookup(name) == nil {
			return fmt.Errorf("no flag belongs to %s", entry[:strings.Index(entry, "=")])
		}
		if err := fs.Set(name, value); err != nil {
			return fmt.Errorf("set %s from the environment: %w", name, err)
		}
	}
	return nil
}

func given(fs *flag.FlagSet) map[string]bool {
	set := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { set[f.Name] = true })
	return set
}

func override[T any](set bool, where *T, value T) {
	if set {
		*where = value
	}
}

func readFile(path string) (paysim.Script, error) {
	f, err := os.Open(path)
	if err != nil {
		return paysim.Script{}, fmt.Errorf("open script: %w", err)
	}
	defer f.Close()
	return paysim.ReadScript(f)
}
