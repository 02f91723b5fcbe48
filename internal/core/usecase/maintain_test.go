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
	missing            int
}

func (d *days) CreatePartition(context.Context, time.Duration, time.Duration) (bool, error) {
	if d.creating != nil || d.missing == 0 {
		return false, d.creating
	}
	d.missing--
	return true, nil
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
		"dropping fails": {&days{dropping: broken, old: []string{"d1"}, missing: 1}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, busy, err := usecase.Maintain{Days: test.days, Timeout: time.Second}.Step(t.Context())
			if !errors.Is(err, broken) {
				t.Errorf("got %v, want the failure", err)
			}
			if report.Created != test.created || (report.Dropped != "") != test.dropped || !busy {
				t.Errorf("did %+v, busy %t", report, busy)
			}
		})
	}
}

func TestMaintainMakesAndDropsOneDayAtATime(t *testing.T) {
	t.Parallel()
	m := usecase.Maintain{Days: &days{old: []string{"d1", "d2"}, missing: 3}, Timeout: time.Second}
	for _, want := range []usecase.MaintainReport{{Created: true, Dropped: "d1"}, {Created: true, Dropped: "d2"}, {Created: true}, {}} {
		report, busy, err := m.Step(t.Context())
		if err != nil || report != want || busy != (want != usecase.MaintainReport{}) {
			t.Fatalf("%+v, busy %t, %v; want %+v", report, busy, err, want)
		}
	}
}
