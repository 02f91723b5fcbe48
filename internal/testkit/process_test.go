package testkit_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"billing/internal/testkit"
)

func waitContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func hasMsg(msg string) func(map[string]any) bool {
	return func(line map[string]any) bool { return line["msg"] == msg }
}

func TestProcessIsFollowedByItsLogLines(t *testing.T) {
	t.Setenv("BILLING_SECRET", "of the developer")
	ctx := waitContext(t)
	process := testkit.RunProcess(t, testkit.ProcessOptions{
		Path: testkit.BuildBinary(t, "./internal/testkit/testdata/echo"), Env: []string{"BILLING_ROLES=api"},
	})
	addr, err := process.WaitListening(ctx, "api")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if err := process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := process.WaitLog(ctx, hasMsg("stopped")); err != nil {
		t.Error(err)
	}
	if code, err := process.Wait(ctx); code != 3 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	if _, err := process.WaitLog(ctx, hasMsg("never said")); err == nil {
		t.Error("found a line that was not written")
	}
	pairs, texts := 0, 0
	for _, line := range process.Lines() {
		if line["pair"] != nil && line["pair"] != "BILLING_ROLES=api" {
			t.Errorf("passed on: %v", line["pair"])
		}
		if line["pair"] != nil {
			pairs++
		}
		if line["text"] == "no json" {
			texts++
		}
	}
	if pairs != 1 || texts != 1 {
		t.Errorf("%d variables and %d lines of text in %v", pairs, texts, process.Lines())
	}
}

func TestChildDiesWithItsParent(t *testing.T) {
	t.Parallel()
	ctx := waitContext(t)
	parent := testkit.RunProcess(t, testkit.ProcessOptions{
		Path: testkit.BuildBinary(t, "./internal/testkit/testdata/echo"), Args: []string{"parent"},
	})
	addr, err := parent.WaitListening(ctx, "api")
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Kill(); err != nil {
		t.Fatal(err)
	}
	if code, err := parent.Wait(ctx); code != -1 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	testkit.Eventually(t, "the child's port is closed", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
}
