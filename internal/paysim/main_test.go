package paysim_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"billing/internal/paysim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a simulator on the network with a client of its own.
type bench struct {
	*paysim.Server

	stop     func() error // closes the server
	url      string
	client   *http.Client
	listener *paysim.Listener
}

func start(t *testing.T, o paysim.Options) *bench {
	t.Helper()
	server, err := paysim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Server: server, stop: sync.OnceValue(server.Close), client: &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 100},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       20 * time.Second,
	}}
	b.listen(t, "127.0.0.1:0")
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { b.unlisten(t) })
	return b
}

func (b *bench) listen(t *testing.T, addr string) {
	t.Helper()
	listener, err := b.Listen(context.WithoutCancel(t.Context()), addr)
	if err != nil {
		t.Fatal(err)
	}
	b.listener, b.url = listener, listener.URL
}

func (b *bench) unlisten(t *testing.T) {
	t.Helper()
	b.client.CloseIdleConnections()
	if err := b.listener.Close(); err != nil {
		t.Error(err)
	}
}

// result is an answer read to its end, or what went wrong with it.
type result struct {
	status int
	header http.Header
	body   string
	err    error
}

func (b *bench) do(ctx context.Context, method, path, key, body string) result {
	req, err := http.NewRequestWithContext(ctx, method, b.url+path, strings.NewReader(body))
	if err != nil {
		return result{err: err}
	}
	req.GetBody = nil // or the transport would send a POST with a key again by itself
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return result{err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return result{status: resp.StatusCode, header: resp.Header, body: string(text), err: err}
}

func (b *bench) post(ctx context.Context, key, body string) result {
	return b.do(ctx, http.MethodPost, "/charges", key, body)
}

func (b *bench) lookup(ctx context.Context, key string) result {
	return b.do(ctx, http.MethodGet, "/charges?idempotency_key="+key, "", "")
}

func orderBody(order string) string {
	return fmt.Sprintf(`{"order_id":%q,"customer_id":"c-1","amount":1500,"currency":"RUB"}`, order)
}

func scripted(f paysim.Fault) paysim.Script {
	return paysim.Script{Rules: []paysim.Rule{{Fault: f, Max: 1}}}
}

func (r result) check(t *testing.T, status int, parts ...string) {
	t.Helper()
	if r.err != nil || r.status != status {
		t.Fatalf("got status %d, body %q, error %v; want status %d", r.status, r.body, r.err, status)
	}
	for _, part := range parts {
		if !strings.Contains(r.body, part) {
			t.Fatalf("got body %s, want it to contain %s", r.body, part)
		}
	}
}

func (b *bench) checkEffects(t *testing.T, want int) {
	t.Helper()
	if got := len(b.Effects()); got != want {
		t.Fatalf("got %d effects, want %d", got, want)
	}
}

func journalPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "journal.jsonl")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func lines(text []byte) [][]byte { return bytes.Split(bytes.TrimSpace(text), []byte("\n")) }
