package worker

import (
	"context"
	"time"
)

// Clock is the pod's clock as usecase.Clock wants it.
type Clock struct{}

// Now implements usecase.Clock.
func (Clock) Now() time.Time {
	return time.Now() //nolint:forbidigo // this is the clock that everything else is given
}

// Sleep implements usecase.Clock.
func (Clock) Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
