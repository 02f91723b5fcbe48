package testkit

import (
	"sync"
	"time"
)

// Clock stands still until it is told to move. It may be used by several goroutines.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock shows start.
func NewClock(start time.Time) *Clock { return &Clock{now: start} }

// Now is the time it shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves it, back when d is negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Set lets it show t.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}
