// Package http is the way in over HTTP: the API for other services, and on a second port metrics,
// health and profiles for those who run it.
package http

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof" // it registers itself at the default mux, which is served nowhere
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"billing/internal/observe"
)

const (
	checkTimeout      = 2 * time.Second // under the usual probe timeouts
	opsDrain          = 2 * time.Second
	readHeaderTimeout = 5 * time.Second
)

// Check is one line of /readyz. Run says in a few words what it found, or returns an error, whose text
// is shown: neither may hold a secret. It must end when ctx is done.
type Check struct {
	Name     string
	Critical bool // decides 200 or 503; the others are shown only
	Run      func(ctx context.Context) (detail string, err error)
}

// Ops serves metrics and health to the platform.
type Ops struct {
	Addr     string       // host:port; port 0 picks a free one
	Listener net.Listener // instead of Addr when set
	Gatherer prometheus.Gatherer
	Liveness *observe.Liveness
	Checks   []Check
	Log      *slog.Logger
}

// Run serves until ctx is done. It returns an error when it cannot listen or serve.
func (o Ops) Run(ctx context.Context) error {
	srv := &http.Server{Handler: o.Handler(), ReadHeaderTimeout: readHeaderTimeout, WriteTimeout: 30 * time.Second}
	return serve(ctx, o.Log, endpoint{name: "ops", addr: o.Addr, listener: o.Listener, drain: opsDrain}, srv)
}

// Handler returns the routes of the operations port.
func (o Ops) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{
		ErrorLog:            scrapeLog{o.Log},
		ErrorHandling:       promhttp.ContinueOnError, // one broken collector must not hide the others
		MaxRequestsInFlight: 4,
		Timeout:             10 * time.Second,
	}))
	mux.HandleFunc("GET /livez", o.livez)
	mux.HandleFunc("GET /readyz", o.readyz)
	return mux
}

// scrapeLog hears of what goes wrong with a scrape. A scraper that went away is nobody's error, and it would be one for each
// family of metrics.
type scrapeLog struct{ log *slog.Logger }

// Println implements promhttp.Logger.
func (l scrapeLog) Println(v ...any) {
	for _, part := range v {
		if err, ok := part.(error); ok && scraperGone(err) {
			return
		}
	}
	l.log.Error("metrics cannot be shown in full", "error", strings.TrimSpace(fmt.Sprintln(v...)))
}

func scraperGone(err error) bool {
	_, network := errors.AsType[*net.OpError](err)
	return network || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, http.ErrHandlerTimeout) || errors.Is(err, context.Canceled)
}

type loopJSON struct {
	Loop    string  `json:"loop"`
	Seconds float64 `json:"seconds_since_turn"`
}

func (o Ops) livez(w http.ResponseWriter, _ *http.Request) {
	stalls := o.Liveness.Stalled()
	if len(stalls) == 0 {
		writeJSON(w, http.StatusOK, map[string]any{"status": "alive"})
		return
	}
	loops := make([]loopJSON, len(stalls))
	for i, s := range stalls {
		loops[i] = loopJSON{Loop: s.Loop, Seconds: s.Since.Seconds()}
	}
	writeJSON(w, http.StatusServiceUnavailable, map[string]any{"status": "stalled", "loops": loops})
}

type checkJSON struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Critical bool   `json:"critical"`
	Detail   string `json:"detail,omitempty"`
	Error    string `json:"error,omitempty"`
}

func (o Ops) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	results := make([]checkJSON, len(o.Checks))
	var all sync.WaitGroup
	for i, check := range o.Checks { // at once: a slow informative check must not use up the time of a critical one
		all.Go(func() { results[i] = check.run(ctx) })
	}
	all.Wait()
	status, word := http.StatusOK, "ready"
	for _, result := range results {
		if result.Critical && !result.OK {
			status, word = http.StatusServiceUnavailable, "not_ready"
		}
	}
	writeJSON(w, status, map[string]any{"status": word, "checks": results})
}

func (c Check) run(ctx context.Context) checkJSON {
	detail, err := c.Run(ctx)
	result := checkJSON{Name: c.Name, OK: err == nil, Critical: c.Critical, Detail: detail}
	if err != nil {
		result.Error = err.Error()
	}
	return result
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone: nobody to tell
}

// Pprof serves profiles. Its address must be loopback: the configuration refuses any other.
type Pprof struct {
	Addr     string
	Listener net.Listener // instead of Addr when set
	Log      *slog.Logger
}

// Run serves until ctx is done. It returns an error when it cannot listen or serve.
func (p Pprof) Run(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", http.NotFound) // arguments are nobody's business
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: readHeaderTimeout, WriteTimeout: 2 * time.Minute} // a profile takes its time
	return serve(ctx, p.Log, endpoint{name: "pprof", addr: p.Addr, listener: p.Listener}, srv)
}

// endpoint is where a server listens, under which name it logs, and how long requests in flight may
// take when it stops.
type endpoint struct {
	name     string
	addr     string
	listener net.Listener
	drain    time.Duration
	conns    int // at most so many connections at once, 0 = no limit
}

// serve runs srv until ctx is done, then lets requests in flight end within the drain time and cuts
// off the rest. Limits that srv leaves open get a safe value.
func serve(ctx context.Context, log *slog.Logger, at endpoint, srv *http.Server) error {
	listener := at.listener
	if listener == nil {
		var err error
		if listener, err = new(net.ListenConfig).Listen(ctx, "tcp", at.addr); err != nil {
			if ctx.Err() != nil {
				return nil // told to stop before it began
			}
			return fmt.Errorf("listen for %s: %w", at.name, err)
		}
	}
	if at.conns > 0 {
		listener = limitConns(listener, at.conns)
	}
	limit(srv)
	srv.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	log.InfoContext(ctx, "listening", "listener", at.name, "addr", listener.Addr().String())

	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", at.name, err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), at.drain)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		log.WarnContext(ctx, "requests cut off at shutdown", "listener", at.name)
		_ = srv.Close() // it only repeats what Shutdown could not wait for
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", at.name, err)
	}
	return nil
}

// limit closes what net/http leaves open by default: a slow client must not hold a connection for ever.
func limit(srv *http.Server) {
	srv.ReadHeaderTimeout = readHeaderTimeout
	srv.ReadTimeout = 10 * time.Second
	srv.IdleTimeout = time.Minute
	srv.MaxHeaderBytes = 16 << 10
	if srv.WriteTimeout == 0 {
		srv.WriteTimeout = 30 * time.Second
	}
}
