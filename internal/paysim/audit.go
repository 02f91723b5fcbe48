package paysim

import (
	"maps"
	"slices"
)

// Audit is a journal sorted by order and by key, to be compared with what the client
// believes.
type Audit struct {
	// EffectsByOrder and EffectsByKey hold every effect, declined ones too.
	EffectsByOrder map[string][]Effect
	EffectsByKey   map[string][]Effect
	// BodiesByKey counts the requests to charge of a key by the hash of their body.
	BodiesByKey map[string]map[string]int
	// RequestsByKey counts the requests to charge of a key.
	RequestsByKey map[string]int
}

// Audit sorts the journal.
func (j Journal) Audit() Audit {
	a := Audit{
		EffectsByOrder: map[string][]Effect{},
		EffectsByKey:   map[string][]Effect{},
		BodiesByKey:    map[string]map[string]int{},
		RequestsByKey:  map[string]int{},
	}
	for _, e := range j.Effects {
		a.EffectsByOrder[e.OrderID] = append(a.EffectsByOrder[e.OrderID], e)
		a.EffectsByKey[e.Key] = append(a.EffectsByKey[e.Key], e)
	}
	for _, r := range j.Requests {
		if r.Call != Charges {
			continue
		}
		if a.BodiesByKey[r.Key] == nil {
			a.BodiesByKey[r.Key] = map[string]int{}
		}
		a.BodiesByKey[r.Key][r.BodySHA256]++
		a.RequestsByKey[r.Key]++
	}
	return a
}

// DoubleCharged lists the orders for which money was taken more than once, sorted.
func (a Audit) DoubleCharged() []string {
	return pick(a.EffectsByOrder, func(effects []Effect) bool { return succeeded(effects) > 1 })
}

// Charged lists the orders for which money was taken, sorted.
func (a Audit) Charged() []string {
	return pick(a.EffectsByOrder, func(effects []Effect) bool { return succeeded(effects) > 0 })
}

// ReusedKeys lists the keys that came with more than one body, sorted.
func (a Audit) ReusedKeys() []string {
	return pick(a.BodiesByKey, func(bodies map[string]int) bool { return len(bodies) > 1 })
}

func succeeded(effects []Effect) int {
	n := 0
	for _, e := range effects {
		if e.Status == Succeeded {
			n++
		}
	}
	return n
}

func pick[V any](m map[string]V, want func(V) bool) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if want(m[name]) {
			found = append(found, name)
		}
	}
	return found
}
