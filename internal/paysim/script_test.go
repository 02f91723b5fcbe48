package paysim_test

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"billing/internal/paysim"
)

func TestFirstMatchingRuleWinsAndIsUsedUp(t *testing.T) {
	t.Parallel()
	answer := func(status int) paysim.Fault { return paysim.Fault{Kind: paysim.Answer, Status: status} }
	b := start(t, paysim.Options{Script: paysim.Script{
		Rules: []paysim.Rule{
			{Match: paysim.Match{OrderID: "o-1"}, Fault: answer(501), Max: 1},
			{Match: paysim.Match{OrderPrefix: "o-", Attempt: 2}, Fault: answer(502)},
			{Match: paysim.Match{Key: "k-3"}, Fault: answer(503)},
			{Match: paysim.Match{Amount: 1500, OrderPrefix: "p-"}, Fault: answer(504)},
			{Match: paysim.Match{Amount: 1501}, Fault: answer(505)},
		},
	}})
	for i, want := range []struct {
		key, order string
		status     int
	}{
		{"k-1", "o-1", 501},
		{"k-1", "o-1", 502},
		{"k-1", "o-1", 201},
		{"k-2", "o-2", 201},
		{"k-2", "o-2", 502},
		{"k-3", "q-3", 503},
		{"k-4", "p-4", 504},
		{"k-5", "q-5", 201},
	} {
		if r := b.post(t.Context(), want.key, orderBody(want.order)); r.status != want.status {
			t.Errorf("request %d: got %d %v, want %d", i+1, r.status, r.err, want.status)
		}
	}
}

// outcomes sends each key its attempts and notes what the script did.
func outcomes(t *testing.T, seed uint64, keys []string) map[string]int {
	t.Helper()
	b := start(t, paysim.Options{Script: paysim.Script{
		Seed: seed, DeclineShare: 0.2, PendingShare: 0.1,
		Shares: []paysim.Share{
			{Of: 0.2, Fault: paysim.Fault{Kind: paysim.Answer, Status: 500}},
			{Of: 0.1, Fault: paysim.Fault{Kind: paysim.Answer, Status: 502, Phase: paysim.After}},
		},
	}})
	seen := map[string]int{}
	for _, key := range keys {
		for attempt := range 3 {
			r := b.post(t.Context(), key, orderBody(key))
			if r.err != nil {
				t.Fatal(r.err)
			}
			seen[fmt.Sprint(key, attempt)] = r.status
		}
	}
	return seen
}

func TestSharesComeFromTheSeedAndNotFromTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	keys := make([]string, 300)
	for i := range keys {
		keys[i] = fmt.Sprintf("0198c1d2-0000-7000-8000-%012d", i)
	}
	first := outcomes(t, 7, keys)
	slices.Reverse(keys)
	if second := outcomes(t, 7, keys); !maps.Equal(first, second) {
		t.Error("the same seed gave other faults in another order")
	}
	if other := outcomes(t, 8, keys); maps.Equal(first, other) {
		t.Error("another seed gave the same faults")
	}
	count := map[int]float64{}
	for _, status := range first {
		count[status]++
	}
	for status, want := range map[int]float64{500: 0.2, 502: 0.1, 402: 0.7 * 0.2, 202: 0.7 * 0.1, 201: 0.7 * 0.7} {
		if got := count[status] / float64(len(first)); math.Abs(got-want) > 0.06 {
			t.Errorf("got a share of %.3f with status %d, want %.3f", got, status, want)
		}
	}
}

func TestUnusableScriptIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"syntax":            `{`,
		"unknown member":    `{"rule":[]}`,
		"unknown kind":      `{"rules":[{"fault":{"kind":"explode"}}]}`,
		"unknown phase":     `{"rules":[{"fault":{"kind":"drop","phase":"during"}}]}`,
		"unknown outcome":   `{"rules":[{"fault":{"outcome":"maybe"}}]}`,
		"unknown call":      `{"rules":[{"match":{"on":"refund"}}]}`,
		"answer no status":  `{"rules":[{"fault":{"kind":"answer"}}]}`,
		"truncate before":   `{"rules":[{"fault":{"kind":"truncate","phase":"before"}}]}`,
		"stored drop":       `{"rules":[{"fault":{"kind":"drop","store":true}}]}`,
		"negative limit":    `{"rules":[{"fault":{"kind":"hang","limit":"-1s"}}]}`,
		"negative attempt":  `{"rules":[{"match":{"attempt":-1}}]}`,
		"number as time":    `{"rules":[{"fault":{"kind":"hang","limit":5}}]}`,
		"reversed latency":  `{"latency":"20ms..5ms"}`,
		"final is pending":  `{"hold":{"final":"pending"}}`,
		"negative hold":     `{"hold":{"lookups":-1}}`,
		"shares over one":   `{"shares":[{"of":0.6,"fault":{"kind":"drop"}},{"of":0.6,"fault":{"kind":"hang"}}]}`,
		"negative share":    `{"shares":[{"of":-0.1,"fault":{"kind":"drop"}}]}`,
		"outcomes over one": `{"decline_share":0.6,"pending_share":0.6}`,
	} {
		if s, err := paysim.ReadScript(strings.NewReader(text)); err == nil {
			t.Errorf("%s: got %+v, want an error", name, s)
		}
	}
}

func TestControlCallsSteerTheServer(t *testing.T) {
	t.Parallel()
	b := start(t, paysim.Options{Token: "secret", KeyWindow: time.Hour})
	do := func(method, path, body string) result { return b.do(t.Context(), method, "/_sim/"+path, "", body) }

	const script = `{"seed":7,"latency":"1ms..2ms","hold":{"after":"1h0m0s"},"rules":[{"fault":{"kind":"hang","limit":"1s"},"max":2}]}`
	do(http.MethodPut, "script", script).check(t, http.StatusOK)
	if got := do(http.MethodGet, "script", ""); got.body != strings.Replace(script, `"rules":[{`, `"rules":[{"match":{},`, 1) && got.body != script {
		t.Errorf("got script %s, want %s", got.body, script)
	}
	do(http.MethodPost, "rules", `{"rules":[{"fault":{"kind":"answer","status":503}}]}`).check(t, http.StatusOK)
	if got := len(b.Script().Rules); got != 2 {
		t.Errorf("got %d rules, want 2", got)
	}
	do(http.MethodDelete, "rules", "").check(t, http.StatusOK)
	if got := len(b.Script().Rules); got != 0 {
		t.Errorf("got %d rules, want 0", got)
	}
	do(http.MethodPost, "clock", `{"advance":"25h"}`).check(t, http.StatusOK, `"now":"2026-01-02T01:00:00Z"`)
	do(http.MethodPost, "forget", "").check(t, http.StatusOK)
	do(http.MethodPost, "release", "").check(t, http.StatusOK)
	do(http.MethodGet, "stats", "").check(t, http.StatusOK, `"received":0`)
	for path, body := range map[string]string{"clock": `{"advance":"-1s"}`, "rules": `{"rules":[{"max":-1}]}`} {
		do(http.MethodPost, path, body).check(t, http.StatusBadRequest)
	}
	do(http.MethodGet, "nothing", "").check(t, http.StatusNotFound)
}
