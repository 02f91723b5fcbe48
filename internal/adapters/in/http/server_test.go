package http_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	httpin "billing/internal/adapters/in/http"
	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/testkit"
)

func getWith(t *testing.T, h http.Handler, path, token string) (status int, body string) {
	t.Helper()
	in := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	in.Header.Set("Authorization", "Bearer "+token)
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, in)
	return answer.Code, answer.Body.String()
}

func TestNoLimitOfAServerIsLeftOpen(t *testing.T) {
	t.Parallel()
	srv := &http.Server{WriteTimeout: 20 * time.Second}
	httpin.Limit(srv)
	for name, d := range map[string]time.Duration{
		"header": srv.ReadHeaderTimeout, "read": srv.ReadTimeout, "write": srv.WriteTimeout, "idle": srv.IdleTimeout,
	} {
		if d <= 0 || d > time.Minute {
			t.Errorf("%s timeout is %s", name, d)
		}
	}
	if srv.MaxHeaderBytes != 16<<10 {
		t.Errorf("headers of up to %d bytes", srv.MaxHeaderBytes)
	}
}

func TestConnectionsBeyondTheLimitWait(t *testing.T) {
	t.Parallel()
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := httpin.LimitConns(inner, 2)
	accepted := make(chan net.Conn, 10)
	ended := make(chan error, 1)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- conn
		}
	}()
	for range 4 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	first, second := <-accepted, <-accepted
	select {
	case <-accepted:
		t.Fatal("a third connection was accepted")
	case <-time.After(50 * time.Millisecond):
	}
	_ = first.Close()
	_ = first.Close() // a second close frees nothing
	third := <-accepted
	select {
	case <-accepted:
		t.Fatal("a fourth connection was accepted")
	case <-time.After(50 * time.Millisecond):
	}
	_ = l.Close() // while Accept waits for a slot
	if err := <-ended; err == nil {
		t.Error("Accept ended without an error")
	}
	_, _ = second.Close(), third.Close()
}

// call sends a POST over a socket.
func call(ctx context.Context, addr, token, key, body string) (status int, text string, err error) {
	in, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/charges", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	in.Header.Set("Authorization", "Bearer "+token)
	in.Header.Set("Idempotency-Key", key)
	in.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(in)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(all), err
}

func (a *api) start(t *testing.T) (addr string, stop func(), result chan error) {
	t.Helper()
	return start(t, "api", func(ctx context.Context, log *slog.Logger) error {
		one := a.API
		one.Log = log
		return one.Run(ctx)
	})
}

// slow is a database in which a POST waits until it is let go.
type slow struct {
	usecase.PostStore

	entered, release chan struct{}
}

func (s slow) InPostTx(ctx context.Context, fn func(ctx context.Context, tx usecase.PostTx) error) error {
	close(s.entered)
	<-s.release
	return s.PostStore.InPostTx(ctx, fn)
}

func TestRequestInFlightIsAnsweredWhenTheServerStops(t *testing.T) {
	t.Parallel()
	s := slow{entered: make(chan struct{}), release: make(chan struct{})}
	a := newAPI(t, func(a *api) { s.PostStore, a.Post.Store = a.Post.Store, &s })
	addr, stop, result := a.start(t)
	answered := make(chan int, 1)
	go func() {
		status, _, _ := call(t.Context(), addr, tokenOf("shop"), "k", bodyOf("o"))
		answered <- status
	}()
	<-s.entered
	stop()
	testkit.Eventually(t, "new connections are refused", func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	close(s.release)
	if status := <-answered; status != http.StatusAccepted {
		t.Errorf("the request in flight got %d", status)
	}
	if err := <-result; err != nil {
		t.Errorf("stopped with %v", err)
	}
}

// While the database is away the answer is 503 with a hint, and nothing has to be restarted after it.
func TestOutageOfTheDatabaseIsSaidAndOver(t *testing.T) {
	t.Parallel()
	var proxy *testkit.Proxy
	a := newAPI(t, func(a *api) {
		proxy = testkit.NewProxy(t, a.db.Addr())
		a.Post.Store = a.storeAt(t, a.db.URLVia(proxy.Addr()), 4)
	})
	wantAccepted(t, a.post(t, "shop", "k-1", bodyOf("o-1")), false)
	proxy.Refuse()
	answer := a.post(t, "shop", "k-2", bodyOf("o-2"))
	wantProblem(t, answer, http.StatusServiceUnavailable, "UNAVAILABLE")
	if strings.Contains(answer.Body.String(), "127.0.0.1") || answer.Header().Get("Retry-After") != "1" {
		t.Errorf("got %v %s", answer.Header(), answer.Body)
	}
	if err := proxy.Resume(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the API works again", func() bool {
		return a.post(t, "shop", "k-2", bodyOf("o-2")).Code == http.StatusAccepted
	})
}

func TestPanicOfOneRequestLeavesTheOthers(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(a *api) {
		inner := a.Post.Answer
		a.Post.Answer = func(id uuid.UUID, o domain.Order) (usecase.Answer, error) {
			if o.OrderID == "bad" {
				panic("a mistake of ours")
			}
			return inner(id, o)
		}
	})
	addr, stop, result := a.start(t)
	for order, want := range map[string]int{"bad": http.StatusInternalServerError, "good": http.StatusAccepted} {
		if status, body, err := call(t.Context(), addr, tokenOf("shop"), order, bodyOf(order)); status != want || err != nil || strings.Contains(body, "mistake") {
			t.Errorf("%s: got %d %s, %v", order, status, body, err)
		}
	}
	stop()
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestBodyThatDoesNotComeEndsTheRequest(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	srv := httptest.NewUnstartedServer(a.handler)
	srv.Config.ReadTimeout = 100 * time.Millisecond
	srv.Start()
	defer srv.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head := "POST /v1/charges HTTP/1.1\r\nHost: billing\r\nAuthorization: Bearer " + tokenOf("shop") + "\r\nIdempotency-Key: k\r\nContent-Length: 100\r\n\r\n{"
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn) // the server also closes the connection
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") || !strings.Contains(string(answer), "REQUEST_TIMEOUT") {
		t.Errorf("got %s, %v", answer, err)
	}
}
