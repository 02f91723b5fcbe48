// Command ingest measures the way in from Kafka: events on a topic of six partitions, 10 % of them redelivered, to committed
// rows. In each round it runs, one after the other, the service itself (role consumer, everything on), the loop of the
// requirement documents with one reader and with six, and COPY of 1000 rows into the same tables by one and by four
// connections, which deduplicates nothing and reads no Kafka. It prints medians, ratios and the CPU time of both sides. At the end it
// measures how long inserts wait while days of the inbox are made and dropped.
//
//	EVENTS=1000000 ROUNDS=3 go run ./internal/proof/bench/ingest
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"billing/internal/proof/bench"
)

func main() {
	os.Exit(bench.Main("ingest", func(ctx context.Context) error {
		return measure(ctx, bench.Number("EVENTS", 200_000), bench.Number("ROUNDS", 3), os.Stdout)
	}))
}

// result is one variant in one round.
type result struct {
	rate           float64 // messages a second, known ones included
	client, server float64 // µs of CPU a message
	rssEarly, rss  float64 // MiB in the second tenth and in the last one; 0 where it is not watched
}

// variant is one way to bring events into the tables.
type variant struct {
	name string
	run  func(ctx context.Context, b *stand, database string) (result, error)
}

var variants = []variant{
	{"a  this consumer", service},
	{"b1 documents' loop, one reader", documents(1)},
	{"b6 documents' loop, six readers", documents(6)},
	{"c1 COPY of 1000, one connection", copies(1)},
	{"c4 COPY of 1000, four connections", copies(4)},
}

func measure(ctx context.Context, events, rounds int, out io.Writer) (err error) {
	b, err := newStand(ctx, events)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	results := map[string][]result{}
	for round := range rounds {
		for _, v := range variants {
			r, err := b.round(ctx, v, round)
			if err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
			results[v.name] = append(results[v.name], r)
			fmt.Fprintf(out, "round %d  %-34s %9.0f/s  client %6.1f µs  PostgreSQL %6.1f µs\n", round+1, v.name, r.rate, r.client, r.server)
		}
	}
	report(out, events, rounds, results)
	return b.stalls(ctx, out)
}

// round gives the variant an empty database, so that no order of variants favours one.
func (b *stand) round(ctx context.Context, v variant, round int) (result, error) {
	name := fmt.Sprintf("round_%d_%s", round, v.name[:2])
	name = map[bool]string{true: name[:len(name)-1], false: name}[name[len(name)-1] == ' ']
	if err := b.postgres.CreateDatabase(ctx, name); err != nil {
		return result{}, err
	}
	limit, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	r, err := v.run(limit, b, name)
	return r, errors.Join(err, b.drop(ctx, name))
}

func report(out io.Writer, events, rounds int, results map[string][]result) {
	fmt.Fprintf(out, "\n%d messages (one in ten redelivered) of about %d bytes, 6 partitions, fsync on; medians of %d interleaved rounds\n",
		events, messageSize, rounds)
	rate := map[string]float64{}
	for _, v := range variants {
		r := results[v.name]
		rate[v.name[:2]] = median(r, func(r result) float64 { return r.rate })
		fmt.Fprintf(out, "%-34s %9.0f/s  client %6.1f µs  PostgreSQL %6.1f µs", v.name, rate[v.name[:2]],
			median(r, func(r result) float64 { return r.client }), median(r, func(r result) float64 { return r.server }))
		if rss := median(r, func(r result) float64 { return r.rss }); rss > 0 {
			fmt.Fprintf(out, "  RSS %.1f MiB in the second tenth, %.1f MiB in the last", median(r, func(r result) float64 { return r.rssEarly }), rss)
		}
		fmt.Fprintln(out)
	}
	a := rate["a "]
	fmt.Fprintf(out, "a/b1 %.1f (goal 60)   a/b6 %.1f (goal 20)   a/c1 %.2f (goal 0.95)   a/c4 %.2f (goal 0.65)\n",
		a/rate["b1"], a/rate["b6"], a/rate["c1"], a/rate["c4"])
}

func median(results []result, of func(result) float64) float64 {
	values := make([]float64, 0, len(results))
	for _, r := range results {
		values = append(values, of(r))
	}
	return bench.Median(values)
}
