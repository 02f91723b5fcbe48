package paysim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Listener serves a Server on one address. A server may be taken off the network and
// put on it again, as often as a test likes; its state stays.
type Listener struct {
	// URL is the base URL, such as "http://127.0.0.1:41234".
	URL string
	// Addr is host and port.
	Addr string

	http    *http.Server
	stop    context.CancelFunc
	done    chan error
	running sync.RWMutex // held for reading by every request
}

type workKey struct{}

// workOf is the context of the listener a request came by: it does not end when the
// client leaves.
func workOf(ctx context.Context) context.Context {
	if work, ok := ctx.Value(workKey{}).(context.Context); ok {
		return work
	}
	return context.WithoutCancel(ctx)
}

// Listen serves on addr, "127.0.0.1:0" for a free port, until the listener is closed.
// The end of ctx ends what requests wait for, but only Close ends the listener.
func (s *Server) Listen(ctx context.Context, addr string) (*Listener, error) {
	conn, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	work, stop := context.WithCancel(ctx)
	l := &Listener{
		URL:  "http://" + conn.Addr().String(),
		Addr: conn.Addr().String(),
		stop: stop,
		done: make(chan error, 1),
	}
	l.http = &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return context.WithValue(work, workKey{}, work) },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			l.running.RLock()
			defer l.running.RUnlock()
			s.ServeHTTP(w, r)
		}),
	}
	go func() { l.done <- l.http.Serve(conn) }()
	return l, nil
}

// Close takes the server off the network: what waits or hangs ends without an answer,
// every connection is closed, and every request is over when Close returns.
func (l *Listener) Close() error {
	l.stop()
	err := l.http.Close()
	l.running.Lock()
	defer l.running.Unlock()
	if served := <-l.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	l.done <- http.ErrServerClosed // a second Close finds the same
	if err != nil {
		return fmt.Errorf("close listener: %w", err)
	}
	return nil
}

// Shutdown closes the listener, but lets requests finish until ctx ends.
func (l *Listener) Shutdown(ctx context.Context) error {
	// Whatever kept it from finishing in time is ended by Close.
	_ = l.http.Shutdown(ctx)
	return l.Close()
}
