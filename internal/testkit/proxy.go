package testkit

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is a TCP proxy on 127.0.0.1 that breaks the way to one address. All methods may be called at any time.
type Proxy struct {
	upstream string
	addr     string
	links    sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	closed   bool
	open     map[*link]struct{}
	held     map[direction]bool
	latency  time.Duration
	changed  chan struct{} // closed and replaced when held changes

	accepted atomic.Int64
	bytes    [2]atomic.Int64
}

type direction int

const (
	up direction = iota // from client to server
	down
)

// NewProxy starts a proxy in front of addr (host:port) that is closed at the end of the test.
func NewProxy(tb testing.TB, addr string) *Proxy {
	tb.Helper()
	proxy, err := StartProxy(addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(proxy.Close)
	return proxy
}

// StartProxy starts a proxy in front of addr (host:port).
func StartProxy(addr string) (*Proxy, error) {
	listener, err := listen()
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	p := &Proxy{
		upstream: addr, addr: listener.Addr().String(), listener: listener,
		open: map[*link]struct{}{}, held: map[direction]bool{}, changed: make(chan struct{}),
	}
	p.links.Go(func() { p.accept(listener) })
	return p, nil
}

// Addr is where clients connect; it stays the same.
func (p *Proxy) Addr() string { return p.addr }

// SetLatency delays every chunk of up to 32 KiB, in each direction, by d.
func (p *Proxy) SetLatency(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latency = d
}

// BlackHole lets nothing pass in either direction, on connections that stay open and on new ones. What was sent meanwhile
// arrives after Resume, as it does when a network heals.
func (p *Proxy) BlackHole() { p.hold(up, down) }

// HoldAnswers lets requests reach the server and keeps its answers back. With Cut they are lost for good.
func (p *Proxy) HoldAnswers() { p.hold(down) }

// Cut resets every connection; new ones are accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.open {
		l.reset()
	}
}

// Refuse resets every connection and refuses new ones.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	listener := p.listener
	p.listener = nil
	p.mu.Unlock()
	if listener != nil {
		_ = listener.Close()
	}
	p.Cut()
}

// Resume ends BlackHole, HoldAnswers and Refuse; the latency stays.
func (p *Proxy) Resume() error {
	p.hold()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil || p.closed {
		return nil
	}
	listener, err := net.Listen("tcp", p.addr)
	if err != nil {
		return fmt.Errorf("accept again: %w", err)
	}
	p.listener = listener
	p.links.Go(func() { p.accept(listener) })
	return nil
}

// Close resets every connection and returns when all is over.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Refuse()
	p.links.Wait()
}

// Accepted counts the connections so far.
func (p *Proxy) Accepted() int64 { return p.accepted.Load() }

// Active counts the connections that are open now.
func (p *Proxy) Active() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// BytesUp counts what was passed on from clients to the server.
func (p *Proxy) BytesUp() int64 { return p.bytes[up].Load() }

// BytesDown counts what was passed on from the server to clients.
func (p *Proxy) BytesDown() int64 { return p.bytes[down].Load() }

// hold sets the directions that are kept back, and only these.
func (p *Proxy) hold(directions ...direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.held)
	for _, d := range directions {
		p.held[d] = true
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // closed by Refuse
		}
		p.accepted.Add(1)
		p.links.Go(func() { p.serve(client.(*net.TCPConn)) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	server, err := net.DialTimeout("tcp", p.upstream, 5*time.Second)
	if err != nil {
		_ = client.SetLinger(0)
		_ = client.Close()
		return
	}
	l := &link{proxy: p, client: client, server: server.(*net.TCPConn), done: make(chan struct{})}
	p.mu.Lock()
	p.open[l] = struct{}{}
	refused := p.listener == nil
	p.mu.Unlock()
	if refused {
		l.reset()
	}
	var both sync.WaitGroup
	both.Go(func() { l.pass(up, l.server, l.client) })
	both.Go(func() { l.pass(down, l.client, l.server) })
	both.Wait()
	l.close()
	p.mu.Lock()
	delete(p.open, l)
	p.mu.Unlock()
}

// link is one connection through the proxy.
type link struct {
	proxy          *Proxy
	client, server *net.TCPConn
	once           sync.Once
	done           chan struct{}
}

// pass copies one direction until its end, which it passes on: a clean end as such, an error as a reset.
func (l *link) pass(d direction, to, from *net.TCPConn) {
	buffer := make([]byte, 32<<10)
	for {
		n, readErr := from.Read(buffer)
		if n > 0 {
			if !l.admit(d) {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				l.reset()
				return
			}
			l.proxy.bytes[d].Add(int64(n))
		}
		if readErr != nil {
			l.end(d, to, readErr)
			return
		}
	}
}

// end waits, too: the news that a peer is gone does not pass a black hole either.
func (l *link) end(d direction, to *net.TCPConn, err error) {
	if !l.admit(d) {
		return
	}
	if errors.Is(err, net.ErrClosed) || to.CloseWrite() != nil {
		l.reset()
	}
}

// admit returns when the direction is not held and the latency is over; false when the link was reset meanwhile.
func (l *link) admit(d direction) bool {
	p := l.proxy
	p.mu.Lock()
	held, changed, latency := p.held[d], p.changed, p.latency
	p.mu.Unlock()
	for held {
		select {
		case <-changed:
		case <-l.done:
			return false
		}
		p.mu.Lock()
		held, changed, latency = p.held[d], p.changed, p.latency
		p.mu.Unlock()
	}
	if latency == 0 {
		return true
	}
	timer := time.NewTimer(latency)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.done:
		return false
	}
}

// reset closes both sides without a goodbye: with no time to linger, closing sends RST.
func (l *link) reset() {
	_ = l.client.SetLinger(0)
	_ = l.server.SetLinger(0)
	l.close()
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.done)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}
