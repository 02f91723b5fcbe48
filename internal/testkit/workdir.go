package testkit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

const workDirPrefix = "billing-testkit-"

// sweepOnce removes, once per process, what killed processes have left behind.
var sweepOnce sync.Once

// workDir is a private temporary folder. Its lock file is held while its process lives, so that a later process can tell an
// abandoned folder from one in use, even across process namespaces.
type workDir struct {
	path string
	lock *os.File
}

func newWorkDir() (*workDir, error) {
	sweepOnce.Do(sweepWorkDirs)
	path, err := os.MkdirTemp("", workDirPrefix)
	if err != nil {
		return nil, fmt.Errorf("create work folder: %w", err)
	}
	lock, err := lockWorkDir(path)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &workDir{path: path, lock: lock}, nil
}

// lockWorkDir locks the file before it gets the name that a sweep looks for.
func lockWorkDir(path string) (*os.File, error) {
	fresh := filepath.Join(path, "lock.new")
	lock, err := os.Create(fresh)
	if err != nil {
		return nil, fmt.Errorf("create lock: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock work folder: %w", err), lock.Close())
	}
	if err := os.Rename(fresh, filepath.Join(path, "lock")); err != nil {
		return nil, errors.Join(fmt.Errorf("name lock: %w", err), lock.Close())
	}
	return lock, nil
}

// close removes the folder; it may be repeated.
func (d *workDir) close() error {
	err := os.RemoveAll(d.path)
	if closeErr := d.lock.Close(); !errors.Is(closeErr, os.ErrClosed) {
		err = errors.Join(err, closeErr)
	}
	return err
}

// join names a file in the folder.
func (d *workDir) join(elem ...string) string {
	return filepath.Join(append([]string{d.path}, elem...)...)
}

func sweepWorkDirs() {
	locks, err := filepath.Glob(filepath.Join(os.TempDir(), workDirPrefix+"*", "lock"))
	if err != nil {
		return
	}
	for _, name := range locks {
		lock, err := os.Open(name)
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			// A folder that cannot be removed belongs to another user: it is theirs to sweep.
			_ = os.RemoveAll(filepath.Dir(name))
		}
		_ = lock.Close()
	}
}
