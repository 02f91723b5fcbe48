package payment

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"go.uber.org/goleak"

	"billing/internal/core/domain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The canaries stand in every request and, where it can hold them, in every bad answer. Nothing of
// them may come out again.
const (
	canaryToken    = "canary-token-7f3a"
	canaryCustomer = "canary-customer-91c2"
)

var (
	testKey   = uuid.Must(uuid.FromString("0197e5a1-7a10-7abc-8def-0123456789ab"))
	testOrder = domain.Order{
		OrderID: "o-1", CustomerID: canaryCustomer, Amount: domain.Money{Minor: 150000, Currency: "RUB"},
	}
	testRequest = []byte(`{"order_id":"o-1","customer_id":"` + canaryCustomer + `","amount":150000,"currency":"RUB"}`)
	testNow     = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

const goodBody = `{"id":"ch_1","status":"succeeded","order_id":"o-1","amount":150000,"currency":"RUB"}`

// target is where a provider is to call, and how.
type target struct {
	url     string
	timeout time.Duration
	cfg     Config // the fields that matter to one test; the rest is filled in
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)
}

// newGeneric is the generic provider, as the suite and the other tests want it.
func newGeneric(t *testing.T, to target) *Generic {
	t.Helper()
	cfg := to.cfg
	cfg.URL, cfg.Timeout, cfg.Account, cfg.Lookup = to.url, to.timeout, "default", true
	cfg.Now = func() time.Time { return testNow }
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.Concurrency == 0 {
		cfg.Concurrency = 4
	}
	if cfg.Token == nil {
		cfg.Token = func() string { return canaryToken }
	}
	g, err := NewGeneric(cfg)
	if err != nil {
		t.Fatalf("NewGeneric: %v", err)
	}
	if to.dial != nil {
		transportOf(t, g).DialContext = to.dial
	}
	t.Cleanup(g.Close)
	return g
}

func transportOf(t *testing.T, g *Generic) *http.Transport {
	t.Helper()
	transport, ok := g.client.http.Transport.(*http.Transport)
	if !ok {
		t.Fatalf("transport is %T", g.client.http.Transport)
	}
	return transport
}

// arrival is one request as it came over the wire.
type arrival struct {
	method, uri string
	header      http.Header
	body        string
}

// peer is a server on bare connections: it counts what really arrives, whatever the client believes.
type peer struct {
	listener net.Listener
	stop     chan struct{} // closed when hanging behaviours have to end
	work     sync.WaitGroup

	mu       sync.Mutex
	begun    int // requests of which a first byte came
	arrivals []arrival
}

// serve answers one connection until it returns; the connection is closed behind it.
type serve func(p *peer, c net.Conn, r *bufio.Reader)

func newPeer(t *testing.T, behave serve) *peer {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{listener: listener, stop: make(chan struct{})}
	p.start(behave)
	t.Cleanup(p.shut)
	return p
}

func newTLSPeer(t *testing.T, cfg *tls.Config, behave serve) *peer {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{listener: tls.NewListener(listener, cfg), stop: make(chan struct{})}
	p.start(behave)
	t.Cleanup(p.shut)
	return p
}

func (p *peer) start(behave serve) {
	p.work.Go(func() {
		for {
			c, err := p.listener.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() {
				defer func() { _ = c.Close() }()
				behave(p, c, bufio.NewReader(c))
			})
		}
	})
}

func (p *peer) url() string { return "http://" + p.listener.Addr().String() }

// shut ends what hangs and waits until every connection was read to its end, so that no request can
// be overlooked. The client's idle connections have to be closed before.
func (p *peer) shut() {
	select {
	case <-p.stop:
	default:
		close(p.stop)
	}
	_ = p.listener.Close()
	p.work.Wait()
}

func (p *peer) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun
}

func (p *peer) seen() []arrival {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]arrival(nil), p.arrivals...)
}

// touch waits for the first byte of a request and counts it.
func (p *peer) touch(r *bufio.Reader) bool {
	if _, err := r.Peek(1); err != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun++
	return true
}

// next reads a whole request and reports whether there was one.
func (p *peer) next(r *bufio.Reader) bool {
	if !p.touch(r) {
		return false
	}
	req, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrivals = append(p.arrivals, arrival{method: req.Method, uri: req.RequestURI, header: req.Header, body: string(body)})
	return true
}

func reset(c net.Conn) {
	if wrapped, ok := c.(*tls.Conn); ok {
		c = wrapped.NetConn()
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// hang keeps the connection until the client leaves or the test ends.
func (p *peer) hang(r *bufio.Reader) {
	gone := make(chan struct{})
	p.work.Go(func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, r)
	})
	select {
	case <-gone:
	case <-p.stop:
	case <-time.After(20 * time.Second): // so that a client that waits for ever fails instead
	}
}
