package http

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Scope is one thing that a client may do.
type Scope string

// The scopes of the tokens file, contract §5.
const (
	ScopeWrite    Scope = "charges:write"
	ScopeRead     Scope = "charges:read"
	ScopeOperator Scope = "operator" // reads every charge
)

const (
	maxTokensFile = 1 << 20
	// recheck is how long a change of the tokens file may stay unseen.
	recheck = time.Second
)

// caller is who a request comes from.
type caller struct {
	name   string
	scopes []Scope
}

func (c caller) has(any ...Scope) bool {
	return slices.ContainsFunc(any, func(s Scope) bool { return slices.Contains(c.scopes, s) })
}

// token is one entry of the tokens file. A client may have several, so that one can be replaced by another.
type token struct {
	caller
	hash    [sha256.Size]byte
	expires time.Time // zero: never
}

// Tokens knows the clients of the API from a file, which is read again when it changes. A file that cannot
// be read or understood changes nothing: the last good one stays. It may be used by many goroutines.
type Tokens struct {
	path string
	now  func() time.Time
	log  *slog.Logger

	mu      sync.Mutex
	list    []token
	seen    [sha256.Size]byte // of the content that was read last, good or bad
	problem string            // why the file could not be read last time
	checked time.Time
}

// OpenTokens reads the file for the first time. Its error names no content of the file.
func OpenTokens(path string, now func() time.Time, log *slog.Logger) (*Tokens, error) {
	content, err := readTokens(path)
	if err != nil {
		return nil, err
	}
	list, err := parseTokens(content)
	if err != nil {
		return nil, err
	}
	return &Tokens{path: path, now: now, log: log, list: list, seen: sha256.Sum256(content), checked: now()}, nil
}

// current returns the entries, read again when the last look is a while ago.
func (t *Tokens) current(ctx context.Context) []token {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if since := now.Sub(t.checked); since >= 0 && since < recheck {
		return t.list
	}
	t.checked = now
	content, err := readTokens(t.path)
	if err != nil {
		if t.problem != err.Error() { // one line each time the reason changes
			t.problem = err.Error()
			t.log.ErrorContext(ctx, "tokens file cannot be read, the last one stays in use", "error", err)
		}
		return t.list
	}
	t.problem = ""
	sum := sha256.Sum256(content)
	if sum == t.seen {
		return t.list
	}
	t.seen = sum
	list, err := parseTokens(content)
	if err != nil {
		t.log.ErrorContext(ctx, "tokens file is not valid, the last good one stays in use", "error", err)
		return t.list
	}
	t.list = list
	t.log.InfoContext(ctx, "tokens file read", "tokens", len(list))
	return t.list
}

// find returns who a token belongs to. It compares with every entry, so that the time it takes tells
// nothing of which one it was near to.
func (t *Tokens) find(ctx context.Context, secret string) (caller, bool) {
	hash := sha256.Sum256([]byte(secret))
	list := t.current(ctx)
	at := -1
	for i := range list {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(hash[:], list[i].hash[:]), i, at)
	}
	if at < 0 || (!list[at].expires.IsZero() && !t.now().Before(list[at].expires)) {
		return caller{}, false
	}
	return list[at].caller, true
}

// authenticate returns who sent a request, or the problem of one that nobody answers for.
func (t *Tokens) authenticate(r *http.Request) (caller, error) {
	headers := r.Header.Values("Authorization")
	if len(headers) == 0 {
		return caller{}, unauthorized(`Bearer realm="billing"`, "A bearer token is required.")
	}
	scheme, secret, _ := strings.Cut(headers[0], " ")
	if len(headers) == 1 && strings.EqualFold(scheme, "Bearer") && secret != "" {
		if c, ok := t.find(r.Context(), secret); ok {
			return c, nil
		}
	}
	return caller{}, unauthorized(`Bearer realm="billing", error="invalid_token"`, "The token is unknown or expired.")
}

func unauthorized(challenge, detail string) *problem {
	return newProblem(http.StatusUnauthorized, "UNAUTHORIZED", detail).with("WWW-Authenticate", challenge)
}

func readTokens(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, withoutPath(err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxTokensFile+1))
	if err != nil {
		return nil, withoutPath(err)
	}
	if len(content) > maxTokensFile {
		return nil, fmt.Errorf("larger than %d bytes", maxTokensFile)
	}
	return content, nil
}

func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// tokensFile is the file as it is written, contract §1. Members that are not known are refused: with a
// misspelt expires_at a token would live for ever.
type tokensFile struct {
	Clients []struct {
		Name        string     `json:"name"`
		TokenSHA256 string     `json:"token_sha256"`
		Scopes      []Scope    `json:"scopes"`
		ExpiresAt   *time.Time `json:"expires_at"`
	} `json:"clients"`
}

var clientName = regexp.MustCompile(`^[!-~]{1,64}$`)

// parseTokens reads the content of a tokens file. No clients at all is a valid list: everybody is locked out.
func parseTokens(content []byte) ([]token, error) {
	if refusal := strict(content); refusal != nil {
		return nil, errors.New(refusal.Detail)
	}
	var file tokensFile
	d := json.NewDecoder(strings.NewReader(string(content)))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, errors.New("a member is unknown or of the wrong type, want name, token_sha256, scopes, expires_at")
	}
	if file.Clients == nil {
		return nil, errors.New("there is no list of clients")
	}
	list := make([]token, 0, len(file.Clients))
	for i, c := range file.Clients {
		hash, err := hex.DecodeString(c.TokenSHA256)
		switch {
		case !clientName.MatchString(c.Name):
			return nil, fmt.Errorf("client %d: the name is not 1 to 64 visible ASCII characters", i+1)
		case err != nil || len(hash) != sha256.Size:
			return nil, fmt.Errorf("client %d: token_sha256 is not 64 hex digits", i+1)
		case len(c.Scopes) == 0:
			return nil, fmt.Errorf("client %d: there are no scopes", i+1)
		}
		t := token{caller: caller{name: c.Name, scopes: c.Scopes}, hash: [sha256.Size]byte(hash)}
		for _, scope := range c.Scopes {
			if scope != ScopeWrite && scope != ScopeRead && scope != ScopeOperator {
				return nil, fmt.Errorf("client %d: a scope is unknown, want charges:write, charges:read or operator", i+1)
			}
		}
		if slices.ContainsFunc(list, func(other token) bool { return other.hash == t.hash }) {
			return nil, fmt.Errorf("client %d: the same token stands there twice", i+1)
		}
		if c.ExpiresAt != nil {
			t.expires = *c.ExpiresAt
		}
		list = append(list, t)
	}
	return list, nil
}
