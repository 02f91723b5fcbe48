package usecase_test

import (
	"testing"
	"time"

	"billing/internal/core/usecase"
)

func TestARetryIsNoLargerThanABrokerTakes(t *testing.T) {
	t.Parallel()
	plan := usecase.RetryPlan{Delays: []time.Duration{time.Minute}}
	for name, tc := range map[string]struct {
		value, header, headers int
		ok                     bool
	}{
		"small":                 {100, 0, 0, true},
		"large":                 {990_000, 0, 0, true},
		"too large":             {1_048_000, 0, 0, false},
		"large by headers":      {500_000, 540_000, 1, false},
		"large by many headers": {960_000, 0, 30_000, false},
	} {
		d := confirmed(0, 1)
		d.Message.Value = make([]byte, tc.value)
		for range tc.headers {
			d.Message.Headers = append(d.Message.Headers, usecase.Header{Key: "n", Value: make([]byte, tc.header)})
		}
		if _, ok := plan.Message(d, "g"); ok != tc.ok {
			t.Errorf("%s: to be retried %t, want %t", name, ok, tc.ok)
		}
	}
}
