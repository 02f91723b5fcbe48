package harness

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// book counts what was done to the system and what it said about it. A fault that moved nothing was not
// injected.
type book struct {
	out   io.Writer
	start time.Time

	mu         sync.Mutex
	done       map[string]int // faults by kind
	moved      map[string]int // of them, those whose sign was seen
	points     map[string]int // deaths at crash points
	logs       map[string]int // lines of the processes, by message
	kills      int            // SIGKILL from outside and at points
	stops      []time.Duration
	violations []string // found while it ran
	badStops   []string
	counters   map[string]float64 // of processes that are gone
	live       map[int]map[string]float64
	usage      []usage
	sizes      []sizes
}

func newBook(out io.Writer) *book {
	return &book{
		out: out, start: time.Now(), done: map[string]int{}, moved: map[string]int{}, points: map[string]int{}, logs: map[string]int{},
		counters: map[string]float64{}, live: map[int]map[string]float64{},
	}
}

func (b *book) say(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, _ = fmt.Fprintf(b.out, "%7.1fs  %s\n", time.Since(b.start).Seconds(), fmt.Sprintf(format, args...))
}

func (b *book) note(kind string, moved bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done[kind]++
	if moved {
		b.moved[kind]++
	}
}

func (b *book) killed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kills++
}

func (b *book) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	b.mu.Lock()
	known := slices.Contains(b.violations, text)
	if !known {
		b.violations = append(b.violations, text)
	}
	b.mu.Unlock()
	if !known {
		b.say("VIOLATION: %s", text)
	}
}

func (b *book) violated() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.violations)
}

func (b *book) stopped(took time.Duration, code int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stops = append(b.stops, took)
	if err != nil || code != 0 {
		b.badStops = append(b.badStops, fmt.Sprintf("after %s with code %d: %v", took.Round(time.Millisecond), code, err))
	}
}

// said is how often the processes have logged one of the messages.
func (b *book) said(messages ...string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range messages {
		n += b.logs[m]
	}
	return n
}

// scraped keeps the counters of a process as they were last seen.
func (b *book) scraped(process int, values map[string]float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live[process] = values
}

// counter is the sum of a counter over all processes that ever were, as far as they were seen.
func (b *book) counter(prefix string) (sum float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, values := range b.live {
		for name, v := range values {
			if strings.HasPrefix(name, prefix) {
				sum += v
			}
		}
	}
	return sum
}

// lines reads what one process writes.
type lines struct {
	book *book
	rest []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := strings.Cut(string(l.rest), "\n")
		if !ok {
			return len(p), nil
		}
		l.rest = []byte(rest)
		l.book.line(line)
	}
}

func (b *book) line(text string) {
	var line struct {
		Msg   string `json:"msg"`
		Point string `json:"point"`
		Step  string `json:"step"`
	}
	if json.Unmarshal([]byte(text), &line) != nil {
		line.Msg = "text"
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.logs[line.Msg]++
	if line.Point != "" {
		b.points[line.Point]++
	}
	if strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic:") {
		b.violations = append(b.violations, "a process said: "+text)
	}
}

func sorted(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }
