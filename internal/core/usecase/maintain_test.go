package usecase_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"billing/internal/core/usecase"
)

// days is an inbox whose halves may fail.
type days struct {
	creating, dropping error
	old                []string
	created            int
}

func (d *days) CreatePartitions(context.Context, time.Duration, time.Duration) (int, error) {
	if d.creating != nil {
		return 0, d.creating
	}
	d.created++
	return 1, nil
}

func (d *days) DropPartition(context.Context, time.Duration) (string, error) {
	if d.dropping != nil || len(d.old) == 0 {
		return "", d.dropping
	}
	name := d.old[0]
	d.old = d.old[1:]
	return name, nil
}

func TestMaintainDoesOneHalfWhenTheOtherFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		days             *days
		created, dropped bool
	}{
		"creating fails": {&days{creating: broken, old: []string{"d1"}}, false, true},
		"dropping fails": {&days{dropping: broken, old: []string{"d1"}}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, busy, err := usecase.Maintain{Days: test.days, Timeout: time.Second}.Step(t.Context())
			if !errors.Is(err, broken) {
				t.Errorf("got %v, want the failure", err)
			}
			if (report.Created > 0) != test.created || (report.Dropped != "") != test.dropped || busy != test.dropped {
				t.Errorf("did %+v, busy %t", report, busy)
			}
		})
	}
}

func TestMaintainDropsOneDayAtATime(t *testing.T) {
	t.Parallel()
	m := usecase.Maintain{Days: &days{old: []string{"d1", "d2"}}, Timeout: time.Second}
	for _, want := range []string{"d1", "d2", ""} {
		report, busy, err := m.Step(t.Context())
		if err != nil || report.Dropped != want || busy != (want != "") {
			t.Fatalf("dropped %q, busy %t, %v; want %q", report.Dropped, busy, err, want)
		}
	}
}
