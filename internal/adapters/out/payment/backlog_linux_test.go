package payment

import (
	"net"
	"syscall"
	"testing"
	"time"

	"billing/internal/core/domain"
)

// TestServerThatAcceptsNobodyIsNotSent dials a listener whose queue is full: the real dial timeout.
func TestServerThatAcceptsNobodyIsNotSent(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { err = syscall.Listen(int(fd), 0) }); err != nil {
		t.Fatal(err)
	}
	for range 64 { // until no more fits
		c, err := (&net.Dialer{Timeout: 200 * time.Millisecond}).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			break
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	g := newGeneric(t, target{url: "http://" + l.Addr().String(), timeout: shortTimeout})
	a := g.Charge(t.Context(), testKey, testRequest, testOrder, "")
	checkAnswer(t, a, domain.NotSent, domain.CauseNoConnection, 0)
}
