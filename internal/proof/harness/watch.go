package harness

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"billing/internal/testkit"
)

// scrape reads the counters of a process until it ends, and what it takes of the machine.
func (r *rig) scrape(number int, process *testkit.Process, p *pod) {
	r.wait.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		if p.consumer && r.tokens != "" {
			if addr, err := process.WaitListening(ctx, "api"); err == nil {
				p.api.Store(addr)
			}
		}
		addr, err := process.WaitListening(ctx, "ops")
		cancel()
		if err != nil {
			return // it died young, or its start was held up
		}
		client := &http.Client{Timeout: 800 * time.Millisecond}
		defer client.CloseIdleConnections()
		ticker := time.NewTicker(700 * time.Millisecond)
		defer ticker.Stop()
		for {
			if values, err := metrics(client, addr); err == nil {
				r.book.scraped(number, values)
				r.book.took(usage{rssMiB: rss(process.Pid()), files: openFiles(process.Pid()), goroutines: int(values["go_goroutines"])})
			}
			select {
			case <-process.Done():
				return
			case <-ticker.C:
			}
		}
	})
}

func (b *book) took(u usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.usage = append(b.usage, u)
}

func metrics(client *http.Client, addr string) (map[string]float64, error) {
	answer, err := client.Get("http://" + addr + "/metrics")
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	values := map[string]float64{}
	for scanner := bufio.NewScanner(answer.Body); scanner.Scan(); {
		name, value, ok := strings.Cut(scanner.Text(), " ")
		if !ok || strings.HasPrefix(name, "#") || strings.Contains(name, "_bucket") {
			continue
		}
		if f, err := strconv.ParseFloat(value, 64); err == nil && (f != 0 || name == "go_goroutines") {
			values[name] = f
		}
	}
	return values, nil
}

func rss(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	if fields := strings.Fields(string(text)); len(fields) > 1 {
		pages, _ := strconv.Atoi(fields[1])
		return float64(pages*os.Getpagesize()) / (1 << 20)
	}
	return 0
}

func openFiles(pid int) int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0
	}
	return len(entries)
}

// watch looks at the invariants that hold at every moment, until ctx ends.
func (r *rig) watch(ctx context.Context) {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for n := 0; ; n++ {
		r.look(ctx, n)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (r *rig) look(ctx context.Context, n int) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	r.lookAtPositions(ctx)
	if back, err := r.count(ctx, "SELECT count(*) FROM proof.moved_back"); err == nil && back > 0 {
		r.book.violate("a position moved back")
	}
	if lost, err := r.count(ctx, "SELECT count(*) FROM control WHERE name = 'history_lost'"); err == nil && lost > 0 && !r.restored.Load() {
		r.book.violate("the service says that history was lost, and nobody restored the database")
	}
	if n%20 == 0 {
		r.lookAtEffects()
	}
}

// lookAtPositions asks Kafka first: an offset that is committed must be durable in the database already.
func (r *rig) lookAtPositions(ctx context.Context) {
	committed, err := committedOffsets(ctx, r.admin, r.group, r.topic)
	if err != nil || r.restored.Load() {
		return // the broker is away
	}
	rows, err := r.pool.Query(ctx, "SELECT partition, next_offset FROM consumer_position WHERE topic = $1", r.topic)
	if err != nil {
		return
	}
	defer rows.Close()
	stored := map[int32]int64{}
	for rows.Next() {
		var p int32
		var next int64
		if rows.Scan(&p, &next) != nil {
			return
		}
		stored[p] = next
	}
	if rows.Err() != nil {
		return
	}
	for p, offset := range committed {
		if offset > stored[p] {
			r.book.violate("partition %d: an offset was committed before the database had what lies below it", p)
		}
	}
	r.looks.Add(1)
}

// lookAtEffects counts money that was taken twice among the latest effects.
func (r *rig) lookAtEffects() {
	r.mu.Lock()
	defer r.mu.Unlock()
	effects := r.sim.Effects()
	for _, e := range effects[min(r.seenEffects, len(effects)):] {
		if e.Status != "succeeded" {
			continue
		}
		if r.charged[e.OrderID]++; r.charged[e.OrderID] > 1 {
			r.book.violate("order %s was charged %d times", e.OrderID, r.charged[e.OrderID])
		}
	}
	r.seenEffects = len(effects)
}
