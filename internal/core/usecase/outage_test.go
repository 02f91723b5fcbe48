package usecase_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// bubbleClock is the clock of a synctest bubble: time passes when all wait.
type bubbleClock struct{}

func (bubbleClock) Now() time.Time { return time.Now() }

func (bubbleClock) Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// A quarter of an hour without a database: the loop turns all the time, which is what /livez and with it every restart looks
// at, nothing is set aside, and when the database is back everything is accepted at once.
func TestAQuarterOfAnHourWithoutDatabaseIsTurnedThrough(t *testing.T) {
	t.Parallel()
	const outage = 15 * time.Minute
	for name, hang := range map[string]time.Duration{"it refuses": 0, "it hangs": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				b, log := newInbox(), newLog(confirmed(0, 1), confirmed(1, 2), confirmed(2, 3))
				away := awayInbox{inbox: b, until: begin.Add(outage), hang: hang}
				var last time.Time
				var longest time.Duration
				turn := func() {
					if now := time.Now(); !last.IsZero() {
						longest = max(longest, now.Sub(last))
					}
					last = time.Now()
				}
				counts, troubles, err := run(t, b, log, func(p *usecase.Partition) {
					p.Accept.Inbox, p.Clock, p.WriteTimeout, p.Turn = away, bubbleClock{}, 10*time.Second, turn
					p.Backoff = domain.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second}
				})
				if err != nil || counts.Accepted != 3 || len(b.letters)+len(b.retries) != 0 || len(troubles) == 0 {
					t.Errorf("accepted %d, %d set aside, %d troubles, %v", counts.Accepted, len(b.letters)+len(b.retries), len(troubles), err)
				}
				if longest > 2*time.Minute {
					t.Errorf("the loop stood still for %s", longest)
				}
				if took := time.Since(begin); took < outage || took > outage+time.Minute {
					t.Errorf("accepted after %s of an outage of %s", took, outage)
				}
			})
		})
	}
}

// awayInbox is a database that is away until a time: it refuses at once, or hangs until the caller's deadline.
type awayInbox struct {
	*inbox

	until time.Time
	hang  time.Duration
}

func (a awayInbox) AcceptChunk(ctx context.Context, c usecase.Chunk, limits usecase.Limits) (usecase.Accepted, error) {
	if time.Now().Before(a.until) {
		bubbleClock{}.Sleep(ctx, a.hang)
		return usecase.Accepted{}, errors.Join(domain.ErrOutage, ctx.Err())
	}
	return a.inbox.AcceptChunk(ctx, c, limits)
}
