package testkit

import (
	"testing"
	"time"
)

const eventuallyTimeout = 15 * time.Second

// Eventually returns when the condition holds, asking every 5 ms, and fails the test when it does not within 15 s. It is for
// what has no event to wait for, such as a row that another process writes.
func Eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	limit := time.NewTimer(eventuallyTimeout)
	defer limit.Stop()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-limit.C:
			tb.Fatalf("not within %s: %s", eventuallyTimeout, what)
		case <-ticker.C:
		}
	}
}
