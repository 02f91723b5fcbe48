package testkit_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"billing/internal/testkit"
)

// verdict notes what a helper says about the test that it is given.
type verdict struct {
	testing.TB
	failed bool
}

func (v *verdict) Helper()               {}
func (v *verdict) Errorf(string, ...any) { v.failed = true }

func TestGoldenComparesBytes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.golden")
	if err := os.WriteFile(file, []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for got, differs := range map[string]bool{"a\n": false, "a": true} {
		v := &verdict{TB: t}
		testkit.Golden(v, file, []byte(got))
		if v.failed != differs {
			t.Errorf("%q: failed = %t", got, v.failed)
		}
	}
}

func TestClockMovesOnlyWhenTold(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := testkit.NewClock(start)
	clock.Advance(time.Hour)
	if got := clock.Now(); !got.Equal(start.Add(time.Hour)) {
		t.Errorf("after advancing: %s", got)
	}
	clock.Set(start)
	if got := clock.Now(); !got.Equal(start) {
		t.Errorf("after setting: %s", got)
	}
}
