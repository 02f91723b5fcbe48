package payment

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
)

// cancels stops the caller when its request is there, and hangs.
func cancels(cancel context.CancelFunc) serve {
	return func(p *peer, _ net.Conn, r *bufio.Reader) {
		if p.next(r) {
			cancel()
			p.hang(r)
		}
	}
}

// testKept is H15: a request on a kept connection that dies is one request, whatever net/http thinks
// of repeating it.
func testKept(t *testing.T, newProvider func(t *testing.T, to target) provider) {
	t.Helper()
	for name, behave := range map[string]serve{"reset at the first byte": dead, "closed behind the request": deaf} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := newPeer(t, behave)
			p := newProvider(t, target{url: at.url()})
			checkAnswer(t, p.Charge(t.Context(), testKey, testRequest, testOrder, ""), domain.Succeeded, domain.CauseNone, 200)
			a := p.Charge(t.Context(), testKey, testRequest, testOrder, "")
			checkAnswer(t, a, domain.Unknown, domain.CauseBroken, 0)
			checkWire(t, p, at, 2)
		})
	}
	t.Run("closed while idle", func(t *testing.T) {
		t.Parallel()
		testLeaving(t, newProvider)
	})
	t.Run("reused", func(t *testing.T) {
		t.Parallel()
		var mu sync.Mutex
		connections := 0
		at := newPeer(t, func(p *peer, c net.Conn, r *bufio.Reader) {
			mu.Lock()
			connections++
			mu.Unlock()
			answers(reply200(goodBody))(p, c, r)
		})
		p := newProvider(t, target{url: at.url()})
		for range 20 {
			checkAnswer(t, p.Charge(t.Context(), testKey, testRequest, testOrder, ""), domain.Succeeded, domain.CauseNone, 200)
		}
		checkWire(t, p, at, 20)
		if connections != 1 {
			t.Errorf("%d connections for 20 calls, want 1", connections)
		}
	})
}

// testLeaving races calls against a server that closes each connection behind its answer. Some calls
// find it closed, some lose it; none may be there twice.
func testLeaving(t *testing.T, newProvider func(t *testing.T, to target) provider) {
	t.Helper()
	const callers, calls = 4, 100
	at := newPeer(t, leaving)
	p := newProvider(t, target{url: at.url()})
	var wg sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[string]domain.Outcome{}
	for range callers {
		wg.Go(func() {
			for range calls {
				key := uuid.Must(uuid.NewV7())
				a := p.Charge(t.Context(), key, testRequest, testOrder, "")
				mu.Lock()
				outcomes[key.String()] = a.Outcome
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	p.Close()
	at.shut()
	arrived := map[string]int{}
	for _, a := range at.seen() {
		arrived[a.header.Get("Idempotency-Key")]++
	}
	for key, outcome := range outcomes {
		n := arrived[key]
		if n > 1 || (n == 1 && outcome == domain.NotSent) || (n == 0 && outcome == domain.Succeeded) {
			t.Errorf("%d requests on the wire, outcome %s", n, outcome)
		}
	}
}

// testNotSent is H1: without a connection nothing can have been charged.
func testNotSent(t *testing.T, newProvider func(t *testing.T, to target) provider) {
	t.Helper()
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no name server")
	}}
	trusted := httptest.NewUnstartedServer(nil)
	trusted.StartTLS()
	t.Cleanup(trusted.Close)
	roots := x509.NewCertPool()
	roots.AddCert(trusted.Certificate())
	plain := newPeer(t, answers(reply200(goodBody)))
	secure := newTLSPeer(t, trusted.TLS.Clone(), answers(reply200(goodBody)))
	old := trusted.TLS.Clone()
	old.MaxVersion = tls.VersionTLS11
	old.MinVersion = tls.VersionTLS10
	outdated := newTLSPeer(t, old, answers(reply200(goodBody)))
	mute := newPeer(t, func(p *peer, _ net.Conn, r *bufio.Reader) { p.hang(r) })
	rude := newPeer(t, func(_ *peer, c net.Conn, _ *bufio.Reader) { reset(c) })
	port := func(p *peer) string { return strings.TrimPrefix(p.url(), "http://127.0.0.1:") }

	for name, to := range map[string]target{
		"refused":                       {url: "http://" + freeAddress(t)},
		"name not resolved":             {url: "https://provider.test", dial: (&net.Dialer{Resolver: resolver}).DialContext},
		"dial hangs":                    {url: "https://provider.test", dial: blackHole, timeout: shortTimeout},
		"server without TLS":            {url: "https://127.0.0.1:" + port(plain)},
		"certificate of nobody we know": {url: "https://127.0.0.1:" + port(secure)},
		"certificate of another name":   {url: "https://localhost:" + port(secure), cfg: Config{RootCAs: roots}},
		"TLS 1.1":                       {url: "https://127.0.0.1:" + port(outdated), cfg: Config{RootCAs: roots}},
		"handshake hangs":               {url: "https://127.0.0.1:" + port(mute), timeout: shortTimeout},
		"reset in the handshake":        {url: "https://127.0.0.1:" + port(rude)},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, to)
			a := p.Charge(t.Context(), testKey, testRequest, testOrder, "")
			checkAnswer(t, a, domain.NotSent, domain.CauseNoConnection, 0)
			a = p.Lookup(t.Context(), testKey, testOrder, "")
			checkAnswer(t, a, domain.Unknown, domain.CauseNoConnection, 0)
			p.Close()
		})
	}
	for _, at := range []*peer{plain, secure, outdated} {
		at.shut()
		if n := len(at.seen()); n != 0 {
			t.Errorf("%d requests on the wire, want none", n)
		}
	}
}

func blackHole(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// freeAddress is one where nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestWaitingForAConnectionIsNotSent(t *testing.T) {
	t.Parallel()
	at := newPeer(t, hangs(""))
	g := newGeneric(t, target{url: at.url(), timeout: shortTimeout, cfg: Config{Concurrency: 1}})
	var wg sync.WaitGroup
	outcomes := make(chan domain.Outcome, 2)
	for i := range 2 {
		wg.Go(func() {
			key := uuid.NewV5(testKey, strconv.Itoa(i))
			outcomes <- g.Charge(t.Context(), key, testRequest, testOrder, "").Outcome
		})
	}
	wg.Wait()
	g.Close()
	at.shut()
	got := map[domain.Outcome]int{<-outcomes: 1}
	got[<-outcomes]++
	// The second may get the connection of the first in the moment that both give up.
	if got[domain.Unknown] < 1 || got[domain.Unknown]+got[domain.NotSent] != 2 || at.count() > got[domain.Unknown] {
		t.Errorf("got %v with %d requests on the wire", got, at.count())
	}
}
