package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args   []string
		code   int
		stderr string // its beginning; empty = nothing is printed
	}{
		"no arguments":      {nil, 0, ""},
		"help":              {[]string{"--help"}, 0, ""},
		"help of a verb":    {[]string{"config", "--help"}, 0, ""},
		"version":           {[]string{"version"}, 0, ""},
		"unknown verb":      {[]string{"chrage"}, exitUsage, `billing: unknown command "chrage" for "billing"`},
		"unknown flag":      {[]string{"version", "--loud"}, exitUsage, "billing: unknown flag: --loud"},
		"unknown format":    {[]string{"version", "--output", "xml"}, exitUsage, "billing: invalid argument"},
		"argument too many": {[]string{"version", "now"}, exitUsage, `billing: unknown command "now" for "billing version"`},
		"configuration":     {[]string{"config"}, exitConfiguration, "billing: configuration has 3 faults:\n  BILLING_DATABASE_URL"},
		"documentation":     {[]string{"config", "--output", "markdown"}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := billing(t, nil, tc.args...)
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if !strings.HasPrefix(stderr, tc.stderr) || (tc.stderr == "") != (stderr == "") {
				t.Errorf("stderr %q, want %q", stderr, tc.stderr)
			}
			if code == 0 && stdout == "" {
				t.Error("nothing was printed")
			}
		})
	}
}

func TestErrorsOfCommandsHaveExitCodes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args   []string
		err    error
		code   int
		stderr string
	}{
		"clean":            {[]string{"group", "verb"}, nil, 0, ""},
		"failure":          {[]string{"group", "verb"}, errTest, exitFailure, "billing: the test failed\n"},
		"findings":         {[]string{"group", "verb"}, &exitError{code: exitFailure}, exitFailure, ""},
		"usage":            {[]string{"group", "verb"}, &exitError{exitUsage, errTest}, exitUsage, "billing: the test failed\nRun billing --help for usage.\n"},
		"configuration":    {[]string{"group", "verb"}, &ConfigError{[]Fault{{"A", "is b"}}}, exitConfiguration, "billing: configuration has 1 fault:\n  A: is b\n"},
		"group alone":      {[]string{"group"}, nil, exitUsage, "billing: billing group needs a verb\nRun billing --help for usage.\n"},
		"group with other": {[]string{"group", "other"}, nil, exitUsage, "billing: unknown command \"other\" for \"billing group\"\nRun billing --help for usage.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := newRoot(nil)
			group := &cobra.Command{Use: "group"}
			group.AddCommand(&cobra.Command{Use: "verb", RunE: func(*cobra.Command, []string) error { return tc.err }})
			adoptChild(group)
			root.AddCommand(group)
			root.SetArgs(tc.args)
			var stderr strings.Builder
			if code := report(&stderr, root.ExecuteContext(t.Context())); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if stderr.String() != tc.stderr {
				t.Errorf("stderr %q, want %q", stderr.String(), tc.stderr)
			}
		})
	}
}

type testError string

func (e testError) Error() string { return string(e) }

const errTest = testError("the test failed")

func TestVersionTellsTheSchema(t *testing.T) {
	t.Parallel()
	_, stdout, _ := billing(t, nil, "version", "--output", "json")
	var got struct {
		Version, Commit, Go string
		Schema              int64
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	if got.Version == "" || got.Commit == "" || !strings.HasPrefix(got.Go, "go") || got.Schema < 1 {
		t.Errorf("got %+v", got)
	}
}

func TestConfigShowsEveryVariableWithoutSecrets(t *testing.T) {
	t.Parallel()
	env := goodEnv(t)
	env["BILLING_KAFKA_SASL_MECHANISM"], env["BILLING_KAFKA_SASL_USERNAME"] = "PLAIN", "billing"
	env["BILLING_KAFKA_SASL_PASSWORD_FILE"] = write(t, canary)
	for _, format := range []string{"table", "json", "markdown"} {
		code, stdout, stderr := billing(t, env, "config", "--output", format)
		if code != 0 || stderr != "" {
			t.Errorf("%s: exit code %d, %s", format, code, stderr)
		}
		checkNoCanary(t, stdout)
		for _, v := range variables() {
			if !strings.Contains(stdout, v.name) || !strings.Contains(stdout, v.desc) {
				t.Errorf("%s: %s is not shown with its meaning", format, v.name)
			}
		}
	}
	_, stdout, _ := billing(t, env, "config", "--output", "json")
	var settings []setting
	if err := json.Unmarshal([]byte(stdout), &settings); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]setting)
	for _, s := range settings {
		got[s.Name] = s
	}
	if s := got["BILLING_KAFKA_SASL_PASSWORD"]; s.Value != mask || !s.Set || !s.Secret {
		t.Errorf("a secret from a file is shown as %+v", s)
	}
	if s := got["BILLING_ROLES"]; s.Value != env["BILLING_ROLES"] || !s.Set {
		t.Errorf("roles are shown as %+v", s)
	}
	if s := got["BILLING_KAFKA_TLS"]; s.Value != "off" || s.Set {
		t.Errorf("a default is shown as %+v", s)
	}
}

func TestConfigMasksPasswordsInAddresses(t *testing.T) {
	t.Parallel()
	env := goodEnv(t)
	env["BILLING_PROVIDER_URL"] = "https://u:" + canary + "@pay.example.com"
	for _, format := range []string{"table", "json"} {
		_, stdout, stderr := billing(t, env, "config", "--output", format)
		checkNoCanary(t, stdout, stderr)
	}
}

func TestBuiltBinaryRefusesBadConfigurationAtOnce(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "billing")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-X main.version=v9.9.9", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), binary, "config")
	cmd.Env = []string{"BILLING_DATABASE_URL=postgres://u:" + canary + "@db:port/x", "BILLING_PROVIDER_TIMEOUT=10"}
	began := time.Now()
	out, _ := cmd.CombinedOutput()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %s, want at most 2s", took)
	}
	if code := cmd.ProcessState.ExitCode(); code != exitConfiguration {
		t.Errorf("exit code %d, want %d", code, exitConfiguration)
	}
	checkNoCanary(t, string(out))
	if !strings.Contains(string(out), "BILLING_DATABASE_URL: is not a PostgreSQL URL") {
		t.Errorf("got %s", out)
	}
	printed, err := exec.CommandContext(t.Context(), binary, "version").Output()
	if err != nil || !strings.HasPrefix(string(printed), "billing v9.9.9\n") {
		t.Errorf("version printed %q, %v", printed, err)
	}
}
