package testkit

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write golden files instead of comparing with them")

// Golden fails the test when got differs from the file; `go test -update` writes the file instead.
func Golden(tb testing.TB, path string, got []byte) {
	tb.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			tb.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		tb.Fatalf("%v (make it by go test -update)", err)
	}
	if !bytes.Equal(got, want) {
		tb.Errorf("%s differs (accept it by go test -update)\n--- want\n%s\n--- got\n%s", path, want, got)
	}
}
