package main

import (
	"slices"
	"testing"
	"time"
)

func TestPlanHoldsEveryKindInItsShare(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		orders int
		want   map[kind]int
	}{
		{2000, map[kind]int{confirmation: 2000, redelivery: 200, secondID: 40, otherSum: 20, malformed: 20}},
		{10, map[kind]int{confirmation: 10, redelivery: 1, secondID: 1, otherSum: 1, malformed: 1}},
	} {
		got := map[kind]int{}
		for _, m := range newPlanner(1, time.Now()).plan(tc.orders) {
			got[m.kind]++
		}
		for k, want := range tc.want {
			if got[k] != want {
				t.Errorf("%d orders: got %d of kind %s, want %d", tc.orders, got[k], k, want)
			}
		}
	}
}

func TestWhatComesAgainComesLater(t *testing.T) {
	t.Parallel()
	confirmed := map[string]bool{}
	for _, m := range newPlanner(3, time.Now()).plan(500) {
		switch {
		case m.kind == confirmation:
			confirmed[m.order.id] = true
		case m.kind == malformed && m.reason != "event_id_conflict": // an order of its own
		case !confirmed[m.order.id]:
			t.Errorf("%s of order %s comes before its confirmation", m.kind, m.order.id)
		}
	}
}

func TestSameSeedPlansTheSame(t *testing.T) {
	t.Parallel()
	shape := func(seed uint64) (all []order) {
		for _, m := range newPlanner(seed, time.Now()).plan(200) {
			all = append(all, m.order)
		}
		return all
	}
	if !slices.Equal(shape(7), shape(7)) {
		t.Error("two plans of one seed differ")
	}
	if slices.Equal(shape(7), shape(8)) {
		t.Error("two seeds plan the same")
	}
}
