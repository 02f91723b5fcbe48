package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"billing/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestArgumentsAreChecked(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"help":             {args: []string{"--help"}, code: 0, says: "--kafka apache"},
		"unknown flag":     {args: []string{"--nonsense"}, code: exitUsage, says: "nonsense"},
		"argument":         {args: []string{"now"}, code: exitUsage, says: `"now"`},
		"too few orders":   {args: []string{"--events", "9"}, code: exitUsage, says: "10 to 1000000"},
		"too many orders":  {args: []string{"--events", "1000001"}, code: exitUsage, says: "10 to 1000000"},
		"another broker":   {args: []string{"--kafka", "rabbit"}, code: exitUsage, says: "kfake or apache"},
		"seed not to read": {args: []string{"--seed", "-1"}, code: exitUsage, says: "seed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := os.Create(t.TempDir() + "/out")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = out.Close() }()
			var failure bytes.Buffer
			if code := run(tc.args, out, &failure); code != tc.code {
				t.Errorf("got exit code %d, want %d", code, tc.code)
			}
			help, err := os.ReadFile(out.Name())
			if err != nil {
				t.Fatal(err)
			}
			if text := string(help) + failure.String(); !strings.Contains(text, tc.says) {
				t.Errorf("got %q, want it to mention %q", text, tc.says)
			}
		})
	}
}

func TestDefaultsAreTheDemoOfTheREADME(t *testing.T) {
	t.Parallel()
	got, err := parse(nil, nil)
	if want := (options{events: 2000, kafka: kafkaEmbedded, seed: 1}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}
