package usecase

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Days are the partitions of the inbox, one for each day inside the ids.
type Days interface {
	// CreatePartition makes the first missing day that the limits need and reports whether it did; none while
	// another session is at it.
	CreatePartition(ctx context.Context, retention, skew time.Duration) (bool, error)
	// DropPartition drops the oldest day that is past its retention and returns its name, empty when
	// there is none or another session is at it.
	DropPartition(ctx context.Context, retention time.Duration) (string, error)
}

// Maintain keeps the days of the inbox ahead and drops old ones.
type Maintain struct {
	Days    Days
	Limits  Limits
	Timeout time.Duration // of each of the two statements
}

// MaintainReport says what one step did.
type MaintainReport struct {
	Created bool   // a day was made
	Dropped string // the day that was dropped, empty when none
}

// Step makes at most one missing day and drops at most one old day. It reports whether there may be more to
// do. A failure of one half does not keep the other from its work: without days ahead no event can be
// accepted, without dropping the disk fills up.
func (m Maintain) Step(ctx context.Context) (report MaintainReport, busy bool, err error) {
	var creating, dropping error
	report.Created, creating = m.create(ctx)
	report.Dropped, dropping = m.drop(ctx)
	return report, report.Created || report.Dropped != "", errors.Join(creating, dropping)
}

func (m Maintain) create(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, m.Timeout)
	defer cancel()
	made, err := m.Days.CreatePartition(ctx, m.Limits.Retention, m.Limits.Skew)
	if err != nil {
		return false, fmt.Errorf("keep the days of the inbox ahead: %w", err)
	}
	return made, nil
}

func (m Maintain) drop(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, m.Timeout)
	defer cancel()
	name, err := m.Days.DropPartition(ctx, m.Limits.Retention)
	if err != nil {
		return "", fmt.Errorf("drop an old day of the inbox: %w", err)
	}
	return name, nil
}
