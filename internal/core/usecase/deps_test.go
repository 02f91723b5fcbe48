package usecase_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The core must run in a simulation and under any adapter: it knows the standard library and the UUID
// package, nothing else.
func TestCoreDependsOnTheStandardLibraryAndUUIDOnly(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "billing/internal/core/...")
	out, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if !strings.HasPrefix(path, "billing/internal/core/") && path != "github.com/gofrs/uuid/v5" {
			t.Errorf("the core depends on %s", path)
		}
	}
}
