package testkit

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// raceEnv asks for binaries with the race detector where the test itself has none.
const raceEnv = "BILLING_TEST_RACE"

// binaries are the commands built by this process.
var binaries struct {
	mu    sync.Mutex
	dir   *workDir
	built map[string]string
}

// BuildBinary builds a command of this repository, such as "./cmd/billing", once per process and returns its path. It has the
// race detector when the test has it or BILLING_TEST_RACE is 1.
func BuildBinary(tb testing.TB, pkg string) string {
	tb.Helper()
	path, err := Build(tb.Context(), pkg)
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Build is BuildBinary outside a test; Close removes what it built.
func Build(ctx context.Context, pkg string) (string, error) {
	binaries.mu.Lock()
	defer binaries.mu.Unlock()
	if path, ok := binaries.built[pkg]; ok {
		return path, nil
	}
	root, err := repoRoot()
	if err != nil {
		return "", err
	}
	if binaries.dir == nil {
		if binaries.dir, err = newWorkDir(); err != nil {
			return "", err
		}
		binaries.built = map[string]string{}
	}
	path := binaries.dir.join(strings.ReplaceAll(filepath.Clean(pkg), string(filepath.Separator), "-"))
	args := []string{"build", "-o", path}
	if raceEnabled || os.Getenv(raceEnv) == "1" {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	binaries.built[pkg] = path
	return path, nil
}

func removeBinaries() error {
	binaries.mu.Lock()
	defer binaries.mu.Unlock()
	if binaries.dir == nil {
		return nil
	}
	err := binaries.dir.close()
	binaries.dir, binaries.built = nil, nil
	return err
}
