package harness

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

func TestAnInterruptedRunIsAuditedAndRed(t *testing.T) {
	t.Parallel()
	binary, remove, err := Build(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	server, err := StartServer(t.Context(), false, "kfake", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &firstWord{word: "events acknowledged", then: interrupt}
	v, err := Run(ctx, server, binary, Options{Duration: time.Minute, Seed: 1, Kafka: "kfake", Rate: 50, Idle: true, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Reasons) != 1 || !strings.HasPrefix(v.Reasons[0], "interrupted after ") {
		t.Errorf("reasons %q, want that it was interrupted and nothing else", v.Reasons)
	}
	if strings.Contains(v.Report, "events acknowledged      0 ") || !strings.HasSuffix(v.Report, "findings                 none\n") {
		t.Errorf("events were not audited, or something was found:\n%s", v.Report)
	}
}

// firstWord calls then when the word is written.
type firstWord struct {
	word string
	then func()
}

func (w *firstWord) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.word) {
		w.then()
	}
	return len(p), nil
}

func TestTheSeriesHasALineForEachTenth(t *testing.T) {
	t.Parallel()
	b := newBook(io.Discard)
	for i := range 100 {
		b.usage = append(b.usage, usage{rssMiB: float64(i), files: i, goroutines: i})
		if i%5 == 0 {
			b.sizes = append(b.sizes, sizes{perRow: map[string]float64{"charge": float64(i)}, outbox: 1 << 20})
		}
	}
	lines := b.series()
	if len(lines) != 11 {
		t.Fatalf("%d lines, want a head and ten:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	if got := strings.Fields(lines[10])[:5]; strings.Join(got, " ") != "10 99 99 99 1.0" {
		t.Errorf("the last line is %q", lines[10])
	}
}
