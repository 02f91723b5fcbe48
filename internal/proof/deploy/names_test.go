package deploy_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"billing/internal/observe"
	"billing/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// root is the top of the repository, seen from this folder.
const root = "../../.."

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// deployed is every text below deploy, by path. The developer's Kafka is not deployed.
func deployed(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(filepath.Join(root, "deploy")), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == "dev":
			return fs.SkipDir
		case !entry.IsDir():
			files[path] = read(t, filepath.Join("deploy", path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// run runs the real binary to its end and returns what it printed.
func run(t *testing.T, env []string, args ...string) (code int, output string) {
	t.Helper()
	var out bytes.Buffer
	process := testkit.RunProcess(t, testkit.ProcessOptions{
		Path: testkit.BuildBinary(t, "./cmd/billing"), Args: args, Env: env, Output: &out,
	})
	code, err := process.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return code, out.String()
}

// settings is every variable that the service knows, with those that name a secret's file.
func settings(t *testing.T) map[string]bool {
	t.Helper()
	_, output := run(t, nil, "config", "--output", "json")
	var list []struct {
		Name string `json:"name"`
		File string `json:"file_variable"`
	}
	if err := json.NewDecoder(strings.NewReader(output)).Decode(&list); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, s := range list {
		known[s.Name], known[s.File] = true, true
	}
	return known
}

func TestEveryVariableExists(t *testing.T) {
	t.Parallel()
	known, found := settings(t), 0
	name := regexp.MustCompile(`\bBILLING_[A-Z_]*[A-Z]\b`)
	for path, text := range deployed(t) {
		for _, variable := range name.FindAllString(text, -1) {
			found++
			if !known[variable] {
				t.Errorf("deploy/%s names %s, which the service does not know", path, variable)
			}
		}
	}
	if found == 0 {
		t.Error("no variable was found: the test looks at the wrong files")
	}
}

// metricLabels is every series name of the service with the labels it may have.
func metricLabels() map[string][]string {
	series := map[string][]string{"up": nil, "go_goroutines": nil, "process_resident_memory_bytes": nil, "process_cpu_seconds_total": nil}
	for _, m := range observe.New(prometheus.NewRegistry(), observe.BuildInfo{}, "p").Describe() {
		labels := slices.Clone(m.Labels)
		if i := slices.Index(labels, "job"); i >= 0 {
			labels[i] = "exported_job" // the scraped target has a label of this name
		}
		series[m.Name] = labels
		if m.Type == "histogram" {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				series[m.Name+part] = append([]string{"le"}, labels...)
			}
		}
	}
	return series
}

// targetLabels come with every scraped series.
var targetLabels = []string{"job", "instance"}

func checkExpression(t *testing.T, where, expr string) {
	t.Helper()
	known := metricLabels()
	selector := regexp.MustCompile(`\b((?:billing|go|process)_[a-z_]+|up)\b(?:\{([^}]*)\})?`)
	label := regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	groups := regexp.MustCompile(`\b(?:by|on|ignoring)\s*\(([^)]*)\)`)
	all := slices.Clone(targetLabels)
	for _, match := range selector.FindAllStringSubmatch(expr, -1) {
		labels, ok := known[match[1]]
		if !ok {
			t.Errorf("%s: there is no metric %s", where, match[1])
			continue
		}
		all = append(all, labels...)
		for _, l := range label.FindAllStringSubmatch(match[2], -1) {
			if !slices.Contains(labels, l[1]) && !slices.Contains(targetLabels, l[1]) {
				t.Errorf("%s: metric %s has no label %s", where, match[1], l[1])
			}
		}
	}
	for _, group := range groups.FindAllStringSubmatch(expr, -1) {
		for name := range strings.SplitSeq(group[1], ",") {
			if name = strings.TrimSpace(name); name != "" && !slices.Contains(all, name) {
				t.Errorf("%s: no metric in %q has the label %s", where, expr, name)
			}
		}
	}
}

// expressions are those of the alerts, by what they are called.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	rule := regexp.MustCompile(`(?m)^      - (?:alert|record): (\S+)\n        expr: (\|\n(?:          .*\n)+|.*\n)`)
	for _, match := range rule.FindAllStringSubmatch(read(t, "deploy/alerts/billing.rules.yaml"), -1) {
		found[match[1]] = match[2]
	}
	return found
}

func TestAlertsUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	found := expressions(t)
	if want := strings.Count(read(t, "deploy/alerts/billing.rules.yaml"), "expr:"); len(found) != want {
		t.Errorf("read %d of %d rules", len(found), want)
	}
	for name, expr := range found {
		// A recorded series is no metric of the service; its own expression is looked at.
		checkExpression(t, name, regexp.MustCompile(`billing:\S+`).ReplaceAllString(expr, ""))
	}
}

// What an alert is about can be seen on the dashboard.
func TestDashboardUsesMetricsThatExist(t *testing.T) {
	t.Parallel()
	var board struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal([]byte(read(t, "deploy/grafana/billing.json")), &board); err != nil {
		t.Fatal(err)
	}
	var exprs []string
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			checkExpression(t, "panel "+panel.Title, target.Expr)
			exprs = append(exprs, target.Expr)
		}
	}
	shown := strings.Join(exprs, "\n")
	for _, expr := range expressions(t) {
		for _, name := range regexp.MustCompile(`\bbilling_[a-z_]+`).FindAllString(expr, -1) {
			if !strings.Contains(shown, name) {
				t.Errorf("an alert uses %s and no panel shows it", name)
			}
		}
	}
}
