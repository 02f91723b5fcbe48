package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// child is a process that this one started; it dies with it.
type child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and its output is read
}

// startChild starts cmd in a process group of its own, so that Ctrl-C reaches it only through its parent. deathSignal is what
// Linux sends to it when this process dies without stopping it.
func startChild(cmd *exec.Cmd, deathSignal syscall.Signal) (*child, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	setDeathSignal(cmd.SysProcAttr, deathSignal)

	c := &child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The death signal is sent when the *thread* that forked ends, so this thread has to stay as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(c.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			// How it ended is asked from ProcessState.
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return c, nil
}

// exited reports whether the process has ended.
func (c *child) exited() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// signal sends sig; a process that has ended is no error.
func (c *child) signal(sig os.Signal) error {
	if err := c.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", c.cmd.Path, err)
	}
	return nil
}

// stop sends the signals one after the other, waiting up to patience after each, and then SIGKILL.
func (c *child) stop(patience time.Duration, signals ...os.Signal) error {
	for _, sig := range signals {
		if err := c.signal(sig); err != nil {
			return err
		}
		select {
		case <-c.done:
			return nil
		case <-time.After(patience):
		}
	}
	if err := c.signal(os.Kill); err != nil {
		return err
	}
	<-c.done
	return nil
}
