package testkit_test

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"billing/internal/testkit"
)

// echoServer sends every byte back.
func echoServer(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return listener.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func send(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
}

func receive(conn net.Conn) error {
	_, err := io.ReadFull(conn, make([]byte, 4))
	return err
}

func roundTrip(t *testing.T, conn net.Conn) {
	t.Helper()
	send(t, conn)
	if err := receive(conn); err != nil {
		t.Fatal(err)
	}
}

func TestProxyPassesCountsAndDelays(t *testing.T) {
	t.Parallel()
	proxy := testkit.NewProxy(t, echoServer(t))
	conn := dial(t, proxy.Addr())
	roundTrip(t, conn)
	proxy.SetLatency(30 * time.Millisecond)
	start := time.Now()
	roundTrip(t, conn)
	if took := time.Since(start); took < 60*time.Millisecond {
		t.Errorf("30 ms in each direction took %s", took)
	}
	testkit.Eventually(t, "bytes are counted", func() bool { return proxy.BytesUp() == 8 && proxy.BytesDown() == 8 })
	if proxy.Accepted() != 1 || proxy.Active() != 1 {
		t.Errorf("%d accepted, %d active", proxy.Accepted(), proxy.Active())
	}
	_ = conn.Close()
	testkit.Eventually(t, "the end is passed on", func() bool { return proxy.Active() == 0 })
}

func TestProxyCutResetsAndRefuseRefuses(t *testing.T) {
	t.Parallel()
	proxy := testkit.NewProxy(t, echoServer(t))
	conn := dial(t, proxy.Addr())
	roundTrip(t, conn)
	proxy.Cut()
	if err := receive(conn); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("cut: %v", err)
	}
	roundTrip(t, dial(t, proxy.Addr()))

	proxy.Refuse()
	if _, err := net.Dial("tcp", proxy.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("refuse: %v", err)
	}
	if err := proxy.Resume(); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, dial(t, proxy.Addr()))
}

func TestProxyHoldsWhatPassesAfterResume(t *testing.T) {
	t.Parallel()
	holds := map[string]struct {
		hold func(*testkit.Proxy)
		up   int64
	}{
		"black hole":   {(*testkit.Proxy).BlackHole, 4},
		"held answers": {(*testkit.Proxy).HoldAnswers, 8},
	}
	for name, c := range holds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := testkit.NewProxy(t, echoServer(t))
			conn := dial(t, proxy.Addr())
			roundTrip(t, conn)
			c.hold(proxy)
			send(t, conn)
			if err := conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			if err := receive(conn); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("something came through: %v", err)
			}
			if up := proxy.BytesUp(); up != c.up {
				t.Errorf("%d bytes reached the server", up)
			}
			if err := errors.Join(conn.SetReadDeadline(time.Now().Add(10*time.Second)), proxy.Resume()); err != nil {
				t.Fatal(err)
			}
			if err := receive(conn); err != nil {
				t.Errorf("after resuming: %v", err)
			}
		})
	}
}
