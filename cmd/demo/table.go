package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// shownFaults is how many of the doubles, the losses and the contradictions are named.
const shownFaults = 10

// summary is everything that the table shows.
type summary struct {
	verdict

	produced int
	kills    int
	audit    string // what billing audit said, in one line
	auditOK  bool
	settling time.Duration // from the first message to the last result
	busiest  int64
	total    time.Duration
}

func (s summary) ok() bool { return s.clean() && s.auditOK }

// table writes the summary.
func (s summary) table(out *screen) {
	rows := &strings.Builder{}
	row := func(name, value, note string) {
		text := fmt.Sprintf("  %-28s %10s", name, value)
		if note != "" {
			text += "   " + out.dim(note)
		}
		rows.WriteString(text + "\n")
	}
	row("orders confirmed", grouped(s.confirmed), grouped(s.produced)+" messages")
	row("charged exactly once", grouped(s.charged), "")
	row("declined", grouped(s.declined), "")
	row("messages redelivered", grouped(s.redelivered), fmt.Sprintf("and %d second EventIDs", s.seconds))
	letters := 0
	for _, n := range s.letters {
		letters += n
	}
	row("dead letters", grouped(letters), fmt.Sprintf("%d malformed messages", s.malformed))
	for _, reason := range slices.Sorted(maps.Keys(s.letters)) {
		row("  "+reason, grouped(s.letters[reason]), "")
	}
	row("answers lost after charge", grouped(s.answersLost), fmt.Sprintf("and %d times 503 with Retry-After", s.busy))
	row("processes killed", grouped(s.kills), "kill -9 half-way")
	row("time", fmt.Sprintf("%.1f s", s.total.Seconds()), fmt.Sprintf("%.1f s from the first order to the last result", s.settling.Seconds()))
	row("events/s", grouped(int(float64(s.produced)/max(s.settling.Seconds(), 0.001))), grouped(s.busiest)+" charges in the busiest second")
	out.printf("\n%s\n%s", out.bold("  Result"), strings.TrimSuffix(rows.String(), "\n"))
	s.judgement(out)
}

// judgement writes the lines that decide.
func (s summary) judgement(out *screen) {
	line := func(name, value, note string, good bool) {
		paint := out.good
		if !good {
			paint = out.bad
		}
		out.printf("  %s %s   %s", paint(fmt.Sprintf("%-28s", name)), paint(fmt.Sprintf("%10s", value)), out.dim(note))
	}
	line("doubles", grouped(len(s.doubles)), "orders whose money was taken more than once", len(s.doubles) == 0)
	line("lost", grouped(len(s.lost)), "orders, results or messages without an end", len(s.lost) == 0)
	if len(s.wrong) > 0 {
		line("contradictions", grouped(len(s.wrong)), "between producer, provider and topics", false)
	}
	passed := "passed"
	if !s.auditOK {
		passed = "FAILED"
	}
	line("billing audit --provider", passed, s.audit, s.auditOK)
	for _, faults := range []struct {
		name string
		list []string
	}{{"charged twice: order ", s.doubles}, {"lost: ", s.lost}, {"contradiction: ", s.wrong}} {
		for _, fault := range faults.list[:min(len(faults.list), shownFaults)] {
			out.printf("  %s%s", out.bad(faults.name), fault)
		}
	}
	out.printf("")
}
