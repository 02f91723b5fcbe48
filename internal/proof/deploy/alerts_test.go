package deploy_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"billing/internal/testkit"
)

const (
	rulesFile = "deploy/alerts/billing.rules.yaml"
	testsFile = "deploy/alerts/billing.rules.test.yaml"
)

func submatches(pattern, text string) []string {
	matches := regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
	found := make([]string, len(matches))
	for i, match := range matches {
		found[i] = match[1]
	}
	return found
}

func TestEveryAlertHasASectionInTheRunbook(t *testing.T) {
	t.Parallel()
	rules, runbook := read(t, rulesFile), read(t, "deploy/RUNBOOK.md")
	alerts := submatches(`(?m)- alert: (\S+)$`, rules)
	sections := submatches(`(?m)^## (Billing\S+)$`, runbook)
	links := submatches(`runbook_url: "deploy/RUNBOOK.md#(\S+)"`, rules)
	if len(alerts) == 0 || len(links) != len(alerts) {
		t.Fatalf("%d alerts have %d links", len(alerts), len(links))
	}
	for i, alert := range alerts {
		if !slices.Contains(sections, alert) {
			t.Errorf("the runbook has no section %s", alert)
		}
		if links[i] != strings.ToLower(alert) {
			t.Errorf("%s links to section %s", alert, links[i])
		}
	}
	for _, section := range sections {
		if !slices.Contains(alerts, section) {
			t.Errorf("the runbook has a section of no alert: %s", section)
		}
	}
	for _, anchor := range submatches(`\]\(#([^)]*)\)`, runbook) {
		if !slices.ContainsFunc(sections, func(s string) bool { return strings.ToLower(s) == anchor }) {
			t.Errorf("the runbook links to a section %s that it has not", anchor)
		}
	}
}

func TestEveryAlertPagesOrMakesATicket(t *testing.T) {
	t.Parallel()
	rules := read(t, rulesFile)
	severities := submatches(`labels: \{severity: (page|ticket)\}`, rules)
	if alerts := strings.Count(rules, "- alert: "); len(severities) != alerts {
		t.Errorf("%d of %d alerts say page or ticket", len(severities), alerts)
	}
}

// The tests compare whole sets of alerts, so an alert that a test expects was seen to fire.
func TestEveryAlertIsSeenToFire(t *testing.T) {
	t.Parallel()
	seen := read(t, testsFile)
	for _, alert := range submatches(`(?m)- alert: (\S+)$`, read(t, rulesFile)) {
		expected := []string{`{alertname="` + alert + `"`, "alertname: " + alert + "\n", `alertname="` + alert + `"}`}
		if !slices.ContainsFunc(expected, func(text string) bool { return strings.Contains(seen, text) }) {
			t.Errorf("%s has no test that expects it", alert)
		}
	}
}

// The operator's resource is the rules file under a head, so that both ways of deploying alert alike.
func TestPrometheusRuleHoldsTheAlerts(t *testing.T) {
	t.Parallel()
	const head = `# Made of deploy/alerts/billing.rules.yaml: go test ./internal/proof/deploy -update
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: billing
  labels:
    app.kubernetes.io/name: billing
spec:
`
	var body strings.Builder
	for line := range strings.Lines(read(t, rulesFile)) {
		if strings.TrimSpace(line) != "" {
			line = "  " + line
		}
		body.WriteString(line)
	}
	testkit.Golden(t, root+"/deploy/k8s/base/prometheusrule.yaml", []byte(head+body.String()))
}
