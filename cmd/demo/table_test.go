package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestTableShowsWhatDecides(t *testing.T) {
	t.Parallel()
	s := summary{verdict: judge(world()), produced: 5, kills: 1, audit: "no findings", auditOK: true, settling: 2 * time.Second}
	text := shown(s)
	for _, want := range []string{
		`orders confirmed +2 `, `charged exactly once +1\n`, `declined +1\n`, `messages redelivered +1 `, `dead letters +2 `,
		`  invalid_json +1\n`, `  order_already_charged +1\n`, `answers lost after charge +1 `, `processes killed +1 `,
		`events/s +2 `, `doubles +0 `, `lost +0 `, `billing audit --provider +passed `,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("colour without a terminal: %q", text)
	}
	if !s.ok() {
		t.Error("a clean run is not ok")
	}
}

func TestTableNamesWhatFailed(t *testing.T) {
	t.Parallel()
	f := world()
	f.journal.Effects = f.journal.Effects[:1]
	text := shown(summary{verdict: judge(f), auditOK: true})
	if !strings.Contains(text, "order o-2: the provider never heard of it") {
		t.Errorf("the lost order is not named:\n%s", text)
	}
}

func TestOnlyACleanRunWithAPassedAuditIsOK(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]summary{
		"double":         {verdict: verdict{doubles: []string{"o-1"}}, auditOK: true},
		"lost":           {verdict: verdict{lost: []string{"o-1"}}, auditOK: true},
		"contradiction":  {verdict: verdict{wrong: []string{"o-1"}}, auditOK: true},
		"audit findings": {},
	} {
		if s.ok() {
			t.Errorf("%s: it is ok", name)
		}
	}
}

func shown(s summary) string {
	var out bytes.Buffer
	s.table(&screen{out: &out, begun: time.Now()})
	return out.String()
}

func TestProgressIsOneLineOnATerminalAndFewElsewhere(t *testing.T) {
	t.Parallel()
	var live, plain bytes.Buffer
	terminal := &screen{out: &live, live: true, begun: time.Now()}
	pipe := &screen{out: &plain, begun: time.Now()}
	for _, s := range []*screen{terminal, pipe} {
		s.progress("one")
		s.progress("two")
		s.printf("done")
	}
	if got, want := live.String(), "one\r\x1b[Ktwo\r\x1b[Kdone\n"; got != want {
		t.Errorf("terminal: got %q, want %q", got, want)
	}
	if got, want := plain.String(), "one\ndone\n"; got != want {
		t.Errorf("pipe: got %q, want %q", got, want)
	}
}

func TestNumbersAreGrouped(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", 100000: "100,000"} {
		if got := grouped(n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
