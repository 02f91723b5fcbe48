package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"billing/internal/testkit"
)

// The tests here look for processes in /proc, so they need Linux.

// started is a demo in a session of its own, whose temporary folders are in a folder of its own.
type started struct {
	cmd   *exec.Cmd
	dir   string
	lines chan string // what it writes
	text  strings.Builder
}

// start runs the demo; a test that ends kills it.
func start(t *testing.T, dir string, args ...string) *started {
	t.Helper()
	// The server's user, which is not root, has to get to its data.
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755)); err != nil {
		t.Fatal(err)
	}
	s := &started{cmd: exec.Command(testkit.BuildBinary(t, "./cmd/demo"), args...), dir: dir, lines: make(chan string, 10_000)}
	s.cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stderr = s.cmd.Stdout
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	go s.read(out)
	return s
}

func (s *started) read(out io.Reader) {
	defer close(s.lines)
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		s.lines <- scanner.Text()
	}
}

// await returns when the demo writes a line that holds the text.
func (s *started) await(ctx context.Context, t *testing.T, text string) {
	t.Helper()
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				t.Fatalf("ended before it said %q:\n%s", text, s.text.String())
			}
			s.text.WriteString(line + "\n")
			if strings.Contains(line, text) {
				return
			}
		case <-ctx.Done():
			t.Fatalf("did not say %q:\n%s", text, s.text.String())
		}
	}
}

// end returns the exit code and what was written.
func (s *started) end(ctx context.Context, t *testing.T) (int, string) {
	t.Helper()
	for open := true; open; {
		var line string
		select {
		case line, open = <-s.lines:
			s.text.WriteString(line + "\n")
		case <-ctx.Done():
			t.Fatalf("did not end:\n%s", s.text.String())
		}
	}
	_ = s.cmd.Wait() // the exit code says it all
	return s.cmd.ProcessState.ExitCode(), s.text.String()
}

// processes lists what is left of the demo: of its session, or with its folder as environment, argument or
// working directory, because PostgreSQL's processes have sessions of their own.
func (s *started) processes() (left []string) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return []string{err.Error()}
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has just ended
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(after) // state, parent, group, session
		if fields[0] == "Z" {
			continue
		}
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		arguments, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		folder, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		ours := strings.Contains(string(environ)+string(arguments)+folder, s.dir)
		if ours || fields[3] == strconv.Itoa(s.cmd.Process.Pid) {
			left = append(left, fmt.Sprintf("%d %s", pid, strings.ReplaceAll(string(arguments), "\x00", " ")))
		}
	}
	return left
}

// leavesNoProcess waits for those that were killed to be gone.
func (s *started) leavesNoProcess(t *testing.T) {
	t.Helper()
	for limit := time.Now().Add(5 * time.Second); ; pause(t, 20*time.Millisecond) {
		left := s.processes()
		if len(left) == 0 {
			return
		}
		if time.Now().After(limit) {
			t.Errorf("left running:\n%s", strings.Join(left, "\n"))
			return
		}
	}
}

func (s *started) leavesNoFolder(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(s.dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

func limit(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestDemoSmall(t *testing.T) {
	t.Parallel()
	s := start(t, filepath.Join(t.TempDir(), "tmp"), "--events", "100")
	code, text := s.end(limit(t), t)
	if code != 0 {
		t.Errorf("ended with %d", code)
	}
	words := strings.Join(strings.Fields(text), " ")
	for _, want := range []string{"orders confirmed 100 ", "doubles 0 ", "lost 0 ", "processes killed 1 ", "billing audit --provider passed"} {
		if !strings.Contains(words, want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if strings.ContainsAny(text, "\x1b\r") {
		t.Error("escape codes in a pipe")
	}
	s.leavesNoProcess(t)
	s.leavesNoFolder(t)
	if t.Failed() {
		t.Log(text)
	}
}

// The demo is interrupted in every phase, at a random moment after the line that begins it.
func TestInterruptLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i, phase := range []string{
		"", "billing demo", "Kafka", "PostgreSQL", "billing built", "migrate up", "billing-2 serves", "of 40 settled", "kill -9", "Still running",
	} {
		sig := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}[i%2]
		wait := time.Duration(random.Int64N(int64(600 * time.Millisecond)))
		t.Run(fmt.Sprintf("%d %s", i, phase), func(t *testing.T) {
			t.Parallel()
			s := start(t, filepath.Join(dir, strconv.Itoa(i)), "--events", "40", "--stay")
			ctx := limit(t)
			if phase != "" {
				s.await(ctx, t, phase)
			}
			pause(t, wait)
			if err := s.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			// In the first milliseconds of a process nothing has been made and the signal is not yet taken.
			code, text := s.end(ctx, t)
			if code != exitInterrupted && (text != "\n" || code != -1) {
				t.Errorf("%s %s after %q: ended with %d:\n%s", sig, wait, phase, code, text)
			}
			s.leavesNoProcess(t)
			s.leavesNoFolder(t)
		})
	}
}

func TestKilledDemoTakesItsProcessesAlong(t *testing.T) {
	t.Parallel()
	s := start(t, filepath.Join(t.TempDir(), "tmp"), "--events", "40", "--stay")
	ctx := limit(t)
	s.await(ctx, t, "of 40 settled")
	if len(s.processes()) < 4 {
		t.Errorf("found only %v: not the demo, two services and PostgreSQL", s.processes())
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.end(ctx, t)
	s.leavesNoProcess(t)
}
