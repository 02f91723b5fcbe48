package harness

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Growth is judged in runs that are long enough to show it.
const (
	growthFrom  = 20 * time.Minute
	growthLimit = 1.3 // the last third of a run against the first
)

// usage is what one process took at one moment.
type usage struct {
	rssMiB     float64
	files      int
	goroutines int
}

// grown are the tables that keep a row for each event or charge, and get none that is ever taken away in a run.
var grown = []string{"processed_event", "charge", "charge_attempt", "charge_event"}

// sizes are bytes a row, indexes included, of the tables that grow, and the bytes of the queue.
type sizes struct {
	perRow map[string]float64
	outbox float64
}

// measure takes the sizes of the tables now and then until ctx ends.
func (r *rig) measure(ctx context.Context) {
	for ctx.Err() == nil {
		sleep(ctx, max(15*time.Second, r.o.Duration/60))
		if s, err := r.sizesNow(ctx); err == nil { // the server is away now and then
			r.book.mu.Lock()
			r.book.sizes = append(r.book.sizes, s)
			r.book.mu.Unlock()
		}
	}
}

func (r *rig) sizesNow(ctx context.Context) (sizes, error) {
	s := sizes{perRow: map[string]float64{}}
	for _, table := range grown {
		rows, err := r.count(ctx, "SELECT count(*) FROM "+table)
		if err != nil {
			return s, err
		}
		size, err := r.count(ctx, "SELECT coalesce((SELECT sum(pg_total_relation_size(relid))::bigint FROM pg_partition_tree($1::regclass)), pg_total_relation_size($1::regclass))", table)
		if err != nil {
			return s, err
		}
		s.perRow[table] = float64(size) / float64(max(rows, 1))
	}
	queue, err := r.count(ctx, "SELECT pg_total_relation_size('outbox')")
	s.outbox = float64(queue)
	return s, err
}

// most is the largest of each figure.
func most(all []usage) (m usage) {
	for _, u := range all {
		m.rssMiB, m.files, m.goroutines = max(m.rssMiB, u.rssMiB), max(m.files, u.files), max(m.goroutines, u.goroutines)
	}
	return m
}

// series is what a run took over its time: a line for each tenth, with its largest process and the sizes at its end.
func (b *book) series() (lines []string) {
	const parts = 10
	if len(b.usage) < 3*parts || len(b.sizes) < parts {
		return nil
	}
	lines = append(lines, fmt.Sprintf("%-8s %6s %6s %10s %12s", "tenth", "MiB", "files", "goroutines", "outbox MiB")+"   bytes a row: "+strings.Join(grown, ", "))
	for i := range parts {
		largest := most(b.usage[i*len(b.usage)/parts : (i+1)*len(b.usage)/parts])
		at := b.sizes[(i+1)*len(b.sizes)/parts-1]
		rows := make([]string, 0, len(grown))
		for _, table := range grown {
			rows = append(rows, fmt.Sprintf("%.0f", at.perRow[table]))
		}
		lines = append(lines, fmt.Sprintf("%-8d %6.0f %6d %10d %12.1f   %s", i+1, largest.rssMiB, largest.files, largest.goroutines, at.outbox/(1<<20), strings.Join(rows, ", ")))
	}
	return lines
}

// growth compares the first with the last third of the run: the largest process, and bytes a row in the middle of each third.
// It returns lines for the report and what has grown too much.
func (b *book) growth() (lines, reasons []string) {
	if len(b.usage) < 30 || len(b.sizes) < 6 {
		return []string{"memory, files, tables    too few samples"}, nil
	}
	first, last := most(b.usage[:len(b.usage)/3]), most(b.usage[len(b.usage)-len(b.usage)/3:])
	lines = append(lines, fmt.Sprintf("largest process          first third %.0f MiB, %d files, %d goroutines; last third %.0f MiB, %d files, %d goroutines",
		first.rssMiB, first.files, first.goroutines, last.rssMiB, last.files, last.goroutines))
	grew := func(what string, was, is float64) {
		if is > growthLimit*was {
			reasons = append(reasons, fmt.Sprintf("%s grew from %.0f to %.0f", what, was, is))
		}
	}
	grew("memory of a process in MiB", first.rssMiB, last.rssMiB)
	grew("open files of a process", float64(first.files), float64(last.files))
	grew("goroutines of a process", float64(first.goroutines), float64(last.goroutines))
	early, late := b.sizes[len(b.sizes)/6], b.sizes[len(b.sizes)*5/6]
	parts := make([]string, 0, len(grown))
	for _, table := range grown {
		parts = append(parts, fmt.Sprintf("%s %.0f to %.0f", table, early.perRow[table], late.perRow[table]))
		grew("bytes a row of "+table, early.perRow[table], late.perRow[table])
	}
	queue := 0.0
	for _, s := range b.sizes {
		queue = max(queue, s.outbox)
	}
	lines = append(lines, fmt.Sprintf("bytes a row with indexes %s; outbox at most %.0f MiB", strings.Join(parts, ", "), queue/(1<<20)))
	return lines, reasons
}
