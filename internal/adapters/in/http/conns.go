package http

import (
	"net"
	"sync"
)

// connLimit is a listener that leaves further connections in the kernel's queue while too many are open.
type connLimit struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

func limitConns(l net.Listener, n int) *connLimit {
	return &connLimit{Listener: l, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

// Accept waits for a free slot first, and then for a connection.
func (l *connLimit) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err //nolint:wrapcheck // net/http looks at it
	}
	return &limitedConn{Conn: conn, free: func() { <-l.slots }}, nil
}

// Close also ends an Accept that waits for a slot.
func (l *connLimit) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close() //nolint:wrapcheck // net/http looks at it
}

// limitedConn gives its slot back when it is closed, once.
type limitedConn struct {
	net.Conn
	once sync.Once
	free func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.free)
	return err //nolint:wrapcheck // net/http looks at it
}
