package usecase

import (
	"context"
	"fmt"
	"time"
)

// Result is one message of the topic of results, as a consumer reads it.
type Result struct {
	Partition  int32
	Offset     int64
	EventID    string
	Type       string
	Source     string // the id of the charge
	OrderID    string
	CustomerID string
	Amount     int64
	Currency   string
	Version    int32
	Fault      string // why it is no result; the other members then say nothing
}

// ResultReader is the topic of results.
type ResultReader interface {
	// ReadResults hands over everything that is on the topic now, in pieces, and returns since when the topic is
	// whole: the zero time when nothing was ever removed. An error of each ends the reading.
	ReadResults(ctx context.Context, each func(results []Result) error) (since time.Time, err error)
}

// ResultStore is the topic of results next to our tables, for the time of one audit. It belongs to one session and none
// of the service's tables is written.
type ResultStore interface {
	// PutResults adds a piece of the topic.
	PutResults(ctx context.Context, results []Result) error
	// Whole says since when the topic is whole. It is called behind the last piece.
	Whole(since time.Time)
	// AuditPage is AuditStore's, for the walks that compare with the topic.
	AuditPage(ctx context.Context, walk Walk, after string, n int, limits AuditLimits) (AuditPage, error)
	// Close forgets the topic.
	Close(ctx context.Context) error
}

// compareResults brings the topic of results next to our tables and walks through both.
func (a Audit) compareResults(ctx context.Context, report *AuditReport) (err error) {
	store, err := a.Store.OpenResults(ctx)
	if err != nil {
		return fmt.Errorf("compare with the results: %w", err)
	}
	defer func() {
		if closing := store.Close(context.WithoutCancel(ctx)); err == nil && closing != nil {
			err = fmt.Errorf("compare with the results: %w", closing)
		}
	}()
	var rows int64
	since, err := a.Results.ReadResults(ctx, func(results []Result) error {
		put, cancel := context.WithTimeout(ctx, a.Timeout)
		defer cancel()
		rows += int64(len(results))
		a.progress("results_topic", rows)
		return store.PutResults(put, results) //nolint:wrapcheck // the caller wraps it
	})
	if err != nil {
		return fmt.Errorf("compare with the results: %w", err)
	}
	store.Whole(since)
	for _, walk := range []Walk{WalkResults, WalkPublished} {
		if err := a.walk(ctx, walk, store.AuditPage, report); err != nil {
			return err
		}
	}
	return nil
}
