package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main is a TestMain: it runs the tests, stops what the kit started, and then fails the run when a goroutine was left behind.
// Without it the servers still die with the process, but their folders stay until the next run.
func Main(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(suite{m, options}, options...)
}

type suite struct {
	m       *testing.M
	options []goleak.Option
}

// quietTries of about a second each: a request that was given up ends with its answer or its deadline, and a busy machine takes
// its time. What really leaks is still there afterwards.
const quietTries = 10

func awaitQuiet(options []goleak.Option) {
	for range quietTries {
		if goleak.Find(options...) == nil {
			return
		}
	}
}

// Run makes suite a goleak.TestingM whose tests end with the kit closed.
func (s suite) Run() int {
	code := s.m.Run()
	if err := Close(); err != nil {
		fmt.Fprintln(os.Stderr, "close the test kit:", err)
		return 1
	}
	awaitQuiet(s.options)
	return code
}

// Close stops and removes everything that tests of this process share. It is for a TestMain that is not Main.
func Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), databaseTimeout)
	defer cancel()
	return errors.Join(shared.close(ctx), closeSharedKafka(), removeBinaries())
}
