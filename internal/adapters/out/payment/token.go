package payment

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// TokenFile reads a bearer token from a file and notices when the file is replaced.
type TokenFile struct {
	path string

	mu      sync.Mutex
	token   string
	changed time.Time
	size    int64
}

// NewTokenFile reads the file once, so that a wrong path or content shows at start.
func NewTokenFile(path string) (*TokenFile, error) {
	f := &TokenFile{path: path}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refresh(); err != nil {
		return nil, fmt.Errorf("read provider token: %w", err)
	}
	return f, nil
}

// Token returns the file's content of this moment without surrounding white space. While the file is
// missing, empty or half written, it is the last good one.
func (f *TokenFile) Token() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.refresh() // a rotation that is under way; a token that stays wrong shows as 401
	return f.token
}

// refresh reads the file when its time or size changed. It remembers them only with a good token, so
// that a bad one is read again.
func (f *TokenFile) refresh() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return fmt.Errorf("look at file: %w", err)
	}
	if f.token != "" && info.ModTime().Equal(f.changed) && info.Size() == f.size {
		return nil
	}
	content, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("read file: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" || !headerSafe(token) {
		return errors.New("the file does not hold one line of printable ASCII")
	}
	f.token, f.changed, f.size = token, info.ModTime(), info.Size()
	return nil
}
