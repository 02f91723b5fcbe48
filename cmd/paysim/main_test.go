package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"billing/internal/paysim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServesUntilItIsToldToStop(t *testing.T) {
	t.Parallel()
	journal := filepath.Join(t.TempDir(), "journal.jsonl")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, in := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"--journal", journal, "--seed", "7"}, []string{"PAYSIM_DECLINE_RATE=1"}, in, io.Discard)
		_ = in.Close()
	}()
	log := bufio.NewScanner(out)
	log.Scan()
	var listening struct{ Msg, Addr string }
	if err := json.Unmarshal(log.Bytes(), &listening); err != nil || listening.Msg != "listening" {
		t.Fatalf("got %q first, want the address", log.Text())
	}

	body := `{"order_id":"o-1","customer_id":"c-1","amount":1,"currency":"RUB"}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+listening.Addr+"/charges", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "k-1")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusPaymentRequired {
		t.Errorf("got %d, want the decline from the environment", resp.StatusCode)
	}

	stop()
	for log.Scan() { // to the end, or the writer would block
	}
	if got := <-code; got != 0 {
		t.Errorf("got exit code %d, want 0", got)
	}
	j, err := paysim.ReadJournal(journal)
	if err != nil || len(j.Effects) != 1 || len(j.Requests) != 1 {
		t.Errorf("got journal %+v %v, want one request and one effect", j, err)
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() }) // after the parallel subtests
	broken := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(broken, []byte(`{"rules":[{"fault":{"kind":"explode"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args, env []string
		code      int
		says      string
	}{
		"help":                {args: []string{"--help"}, code: 0, says: "Examples:"},
		"unknown flag":        {args: []string{"--nonsense"}, code: 2, says: "nonsense"},
		"argument":            {args: []string{"serve"}, code: 2, says: `"serve"`},
		"unknown variable":    {env: []string{"PAYSIM_NONSENSE=1"}, code: 2, says: "PAYSIM_NONSENSE"},
		"bad variable":        {env: []string{"PAYSIM_LATENCY=x"}, code: 2, says: "latency"},
		"rates over one":      {args: []string{"--error-rate=0.6", "--hang-rate=0.6"}, code: 2, says: "more than 1"},
		"no script file":      {args: []string{"--script=/nonexistent"}, code: 2, says: "script"},
		"broken script":       {args: []string{"--script=" + broken}, code: 2, says: "explode"},
		"address taken":       {args: []string{"--addr=" + taken.Addr().String()}, code: 1, says: "in use"},
		"journal not to open": {args: []string{"--journal=/nonexistent/journal"}, code: 1, says: "journal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			var out bytes.Buffer
			if got := run(ctx, tc.args, tc.env, &out, &out); got != tc.code {
				t.Errorf("got exit code %d, want %d", got, tc.code)
			}
			if !strings.Contains(out.String(), tc.says) {
				t.Errorf("got %q, want it to mention %q", out.String(), tc.says)
			}
		})
	}
}

func TestFlagsAddToTheScriptFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "script.json")
	text := `{"seed":1,"decline_share":0.5,"latency":"1s","shares":[{"of":0.1,"fault":{"kind":"hang"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--script", file, "--latency", "5ms..20ms", "--lose-answer-rate", "0.02", "--seed", "9"}
	o, addr, err := parse(args, []string{"PAYSIM_ADDR=127.0.0.1:1", "PAYSIM_SEED=3", "HOME=/"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s := o.Script
	if addr != "127.0.0.1:1" || s.Seed != 9 || s.DeclineShare != 0.5 || len(s.Shares) != 2 || s.Shares[1].Of != 0.02 {
		t.Errorf("got address %s, script %+v", addr, s)
	}
	if want := (paysim.Range{Min: 5 * time.Millisecond, Max: 20 * time.Millisecond}); s.Latency != want {
		t.Errorf("got latency %v, want %v", s.Latency, want)
	}
}
