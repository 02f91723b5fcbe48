package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"billing/internal/observe"
	"billing/internal/testkit"
)

const readmePath = "../../README.md"

// The two tables of the README are made from the code, so that they cannot say something else than it does.
func TestReadmeTablesAreFresh(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(readmePath)
	if err != nil {
		t.Fatal(err)
	}
	var environment bytes.Buffer
	if code := execute(t.Context(), []string{"config", "--output", "markdown"}, nil, &environment, &environment); code != 0 {
		t.Fatalf("billing config ended with %d: %s", code, environment.String())
	}
	fresh := replaceTable(t, string(readme), "env table", environment.String())
	fresh = replaceTable(t, fresh, "metrics table", metricsTable())
	testkit.Golden(t, readmePath, []byte(fresh))
}

// replaceTable puts a table between its two markers.
func replaceTable(t *testing.T, text, name, table string) string {
	t.Helper()
	before, rest, ok := strings.Cut(text, "<!-- "+name+":")
	comment, rest, ok2 := strings.Cut(rest, "-->\n")
	_, after, ok3 := strings.Cut(rest, "<!-- "+name+" end -->")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("the README has no place for the %s", name)
	}
	return before + "<!-- " + name + ":" + comment + "-->\n" + strings.TrimSpace(table) + "\n<!-- " + name + " end -->" + after
}

func metricsTable() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, d := range observe.New(prometheus.NewRegistry(), observe.BuildInfo{}, "default").Describe() {
		labels := "–"
		if len(d.Labels) > 0 {
			labels = "`" + strings.Join(d.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name, d.Type, labels, d.Help)
	}
	return b.String()
}
