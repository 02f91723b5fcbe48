package testkit

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"sync"
)

// logLines takes a process's output apart into lines, and tells those who wait for one.
type logLines struct {
	forward io.Writer

	mu      sync.Mutex
	partial []byte
	raw     []string
	parsed  []map[string]any
	changed chan struct{} // closed and replaced when lines were added
}

func newLogLines(forward io.Writer) *logLines {
	return &logLines{forward: forward, changed: make(chan struct{})}
}

// Write takes the next bytes; the last line may be complete only later.
func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.forward != nil {
		if _, err := l.forward.Write(p); err != nil {
			return 0, err
		}
	}
	l.partial = append(l.partial, p...)
	for {
		line, rest, complete := bytes.Cut(l.partial, []byte("\n"))
		if !complete {
			break
		}
		l.add(string(line))
		l.partial = rest
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return len(p), nil
}

func (l *logLines) add(line string) {
	var fields map[string]any
	if json.Unmarshal([]byte(line), &fields) != nil || fields == nil {
		fields = map[string]any{"text": line}
	}
	l.raw = append(l.raw, line)
	l.parsed = append(l.parsed, fields)
}

// find looks for a line after the first ones; changed is closed when there are more lines than it has seen.
func (l *logLines) find(after int, match func(map[string]any) bool) (found map[string]any, seen int, changed <-chan struct{}) {
	l.mu.Lock()
	lines, changed := l.parsed[min(after, len(l.parsed)):], l.changed
	seen = max(after, len(l.parsed))
	l.mu.Unlock()
	for _, line := range lines {
		if match(line) {
			return line, seen, changed
		}
	}
	return nil, seen, changed
}

func (l *logLines) all() []map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.parsed)
}

// last is the text of the last n lines, with one that has no end yet.
func (l *logLines) last(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.raw
	if len(l.partial) > 0 {
		lines = append(slices.Clone(lines), string(l.partial))
	}
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
