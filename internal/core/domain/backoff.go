package domain

import "time"

// Backoff spreads repeated tries: exponential between Min and Max with full jitter.
type Backoff struct {
	Min, Max time.Duration
}

// Delay returns how long to wait after the n-th failure (n from 1). random is uniform in [0, 1); the
// result lies in [Min/2, ceiling], where the ceiling doubles from Min up to Max.
func (b Backoff) Delay(n int, random float64) time.Duration {
	ceiling := b.Min
	for i := 1; i < n && ceiling < b.Max; i++ {
		ceiling *= 2
	}
	ceiling = min(ceiling, b.Max)
	return max(time.Duration(random*float64(ceiling)), b.Min/2)
}
