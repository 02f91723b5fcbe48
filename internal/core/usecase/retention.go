package usecase

import (
	"context"
	"fmt"
	"time"
)

// Remains is a kind of rows that are of no use any more after a while.
type Remains string

// The remains. Each is deleted only when it is over: of charges that are final, of announcements that were published, of
// dead letters that somebody resolved. A charge itself is never deleted.
const (
	RemainsAttempts    Remains = "attempts"
	RemainsHistory     Remains = "history"
	RemainsDeadLetters Remains = "dead_letters"
)

// AllRemains lists every kind, for metrics that must exist from the start.
func AllRemains() []Remains { return []Remains{RemainsAttempts, RemainsHistory, RemainsDeadLetters} }

// PurgePage is one look at a page of rows.
type PurgePage struct {
	Deleted int
	Next    string // where the next page begins, empty behind the last one
	Busy    bool   // another session is at it, nothing was looked at
}

// RetentionStore deletes what is over, page by page.
type RetentionStore interface {
	// Purge looks at the next n rows of a kind and deletes those that ended longer ago than period, in one short
	// transaction. The first page begins at the empty string.
	Purge(ctx context.Context, kind Remains, period time.Duration, after string, n int) (PurgePage, error)
}

// Retention deletes what is over. A period of 0 keeps a kind for ever.
type Retention struct {
	Store   RetentionStore
	Periods map[Remains]time.Duration
	Rows    int           // of a page
	Pause   time.Duration // between two pages, so that nobody notices
	Timeout time.Duration // of one page
	Clock   Clock
	// Report is called after each page with what was deleted.
	Report func(kind Remains, deleted int)
}

// Sweep goes once through everything that has a period. It ends early, without error, when ctx is done, and leaves a
// kind to another session that is at it.
func (r Retention) Sweep(ctx context.Context) error {
	for _, kind := range AllRemains() {
		if r.Periods[kind] == 0 {
			continue
		}
		if err := r.sweep(ctx, kind); err != nil {
			return fmt.Errorf("delete old %s: %w", kind, err)
		}
	}
	return nil
}

func (r Retention) sweep(ctx context.Context, kind Remains) error {
	for after, last := "", false; !last && ctx.Err() == nil; {
		page, err := r.page(ctx, kind, after)
		if err != nil {
			return err
		}
		if page.Busy {
			return nil
		}
		r.Report(kind, page.Deleted)
		if after, last = page.Next, page.Next == ""; !last {
			r.Clock.Sleep(ctx, r.Pause)
		}
	}
	return nil
}

func (r Retention) page(ctx context.Context, kind Remains, after string) (PurgePage, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	return r.Store.Purge(ctx, kind, r.Periods[kind], after, r.Rows) //nolint:wrapcheck // Sweep says what was being done
}
