package payment

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestReplacedTokenIsUsedAndABrokenOneIsNot(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	write := func(content string) {
		t.Helper()
		at = at.Add(time.Second)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write("  first\n")
	f, err := NewTokenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ content, want string }{
		{"first", "first"},
		{"other", "other"}, // of the same size
		{"", "other"},
		{"\n", "other"},
		{"a\nb", "other"},
		{"third", "third"},
	} {
		write(step.content)
		if got := f.Token(); got != step.want {
			t.Errorf("after %q: got %q, want %q", step.content, got, step.want)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := f.Token(); got != "third" {
		t.Errorf("without a file: got %q", got)
	}
}

func TestTokenFileWithoutATokenStopsTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"empty": "", "two lines": canaryToken + "\n" + canaryToken, "binary": canaryToken + "\x00"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := NewTokenFile(path)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		checkNoSecret(t, err.Error())
	}
	if _, err := NewTokenFile(filepath.Join(dir, "missing")); err == nil {
		t.Error("missing: accepted")
	}
}
