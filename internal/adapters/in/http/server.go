package http

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/observe"
)

const (
	maxConns  = 1024
	maxBody   = 64 << 10
	dbTimeout = 5 * time.Second // together with the time to read a request below writeTimeout
	// writeTimeout runs from the end of a request's header to the end of its answer.
	writeTimeout = 20 * time.Second
)

//go:embed openapi.yaml
var openAPI []byte

// API is the way in for other services.
type API struct {
	Addr     string       // host:port; port 0 picks a free one
	Listener net.Listener // instead of Addr when set
	Post     usecase.Post // with Accepted as its Answer
	Read     usecase.Read
	Tokens   *Tokens
	Rate     float64       // requests per second of one client, 0 = no limit
	Drain    time.Duration // how long requests in flight may take when it stops
	Now      func() time.Time
	// Report is told of every request. The route is a template of the API, or empty.
	Report func(route string, status int, took time.Duration)
	Log    *slog.Logger
}

// Run serves until ctx is done, then lets requests in flight end. It returns an error when it cannot listen
// or serve.
func (a API) Run(ctx context.Context) error {
	srv := &http.Server{Handler: a.Handler(), ReadHeaderTimeout: readHeaderTimeout, WriteTimeout: writeTimeout}
	return serve(ctx, a.Log, endpoint{name: "api", addr: a.Addr, listener: a.Listener, drain: a.Drain, conns: maxConns}, srv)
}

// Handler returns all routes. Each call makes one with rate limits of its own.
func (a API) Handler() http.Handler { return newServer(a, routes()) }

// route is one thing that can be asked for. Without scopes nobody may, unless it is public.
type route struct {
	method, path string
	scopes       []Scope // any of them will do
	public       bool
	handle       func(s *server, w http.ResponseWriter, r *http.Request, c caller) error
}

func routes() []route {
	return []route{
		{method: http.MethodPost, path: "/v1/charges", scopes: []Scope{ScopeWrite}, handle: (*server).postCharge},
		{method: http.MethodGet, path: "/v1/charges", scopes: []Scope{ScopeRead, ScopeOperator}, handle: (*server).listCharges},
		{method: http.MethodGet, path: "/v1/charges/{event_id}", scopes: []Scope{ScopeRead, ScopeOperator}, handle: (*server).getCharge},
		{method: http.MethodGet, path: "/openapi.yaml", public: true, handle: (*server).document},
	}
}

// server is the handler behind an API.
type server struct {
	API
	mux  *http.ServeMux
	away atomic.Bool // an outage was logged

	mu     sync.Mutex
	limits map[string]*rate.Limiter // by client
}

func newServer(a API, list []route) *server {
	s := &server{API: a, mux: http.NewServeMux(), limits: map[string]*rate.Limiter{}}
	allowed := map[string][]string{}
	for _, one := range list {
		s.mux.HandleFunc(one.method+" "+one.path, s.guarded(one))
		allowed[one.path] = append(allowed[one.path], one.method)
		if one.method == http.MethodGet {
			allowed[one.path] = append(allowed[one.path], http.MethodHead)
		}
	}
	for at, methods := range allowed {
		s.mux.HandleFunc(at, s.nothing(newProblem(http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED",
			"The resource does not know this method.").with("Allow", strings.Join(methods, ", "))))
	}
	s.mux.HandleFunc("/", s.nothing(notFound()))
	return s
}

// ServeHTTP gives a request its trace, keeps a panic from the others, and reports what came of it.
func (s *server) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	started := s.Now()
	trace, ok := observe.ParseTraceparent(r.Header.Get("Traceparent"))
	if !ok {
		trace = observe.NewTrace()
	}
	r = r.WithContext(observe.WithTraceparent(r.Context(), trace.String()))
	w := &recorder{ResponseWriter: out}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	defer func() {
		if v := recover(); v != nil {
			s.panicked(w, r, v)
		}
		s.Report(r.Pattern, w.status, s.Now().Sub(started))
	}()
	if !strings.HasPrefix(r.URL.Path, "/") || r.URL.Path != path.Clean(r.URL.Path) { // the mux would redirect it
		s.nothing(notFound())(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// guarded is the handler of a route behind its guards.
func (s *server) guarded(to route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var c caller
		var err error
		if !to.public {
			c, err = s.admit(r, to.scopes)
		}
		if err == nil {
			err = to.handle(s, w, r, c)
		}
		if err != nil {
			s.fail(w, r, err)
		}
	}
}

// nothing answers with a problem, but only those who have a token: nobody else learns what there is.
func (s *server) nothing(p *problem) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.Tokens.authenticate(r); err != nil {
			s.fail(w, r, err)
			return
		}
		s.fail(w, r, p)
	}
}

// admit returns who sent a request, when it may be sent.
func (s *server) admit(r *http.Request, scopes []Scope) (caller, error) {
	c, err := s.Tokens.authenticate(r)
	if err != nil {
		return caller{}, err
	}
	if !s.limit(c.name).AllowN(s.Now(), 1) {
		wait := strconv.Itoa(max(1, int(math.Ceil(1/s.Rate))))
		return caller{}, newProblem(http.StatusTooManyRequests, "RATE_LIMITED", "Too many requests of this client.").with("Retry-After", wait)
	}
	if !c.has(scopes...) {
		return caller{}, newProblem(http.StatusForbidden, "FORBIDDEN", "The token does not have the scope for this.")
	}
	return c, nil
}

// limit is the limiter of a client; a burst may be as large as a second's requests.
func (s *server) limit(client string) *rate.Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.limits[client]
	if l == nil {
		l = rate.NewLimiter(rate.Inf, 0)
		if s.Rate > 0 {
			l = rate.NewLimiter(rate.Limit(s.Rate), max(1, int(math.Ceil(s.Rate))))
		}
		s.limits[client] = l
	}
	return l
}

// fail tells the client what is wrong, and the log what is wrong with us.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	ctx := r.Context()
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = newProblem(statusClientGone, "CLIENT_GONE", "The client did not wait for the answer.")
	}
	p := problemOf(err)
	switch {
	case errors.Is(err, domain.ErrOutage):
		if s.away.CompareAndSwap(false, true) { // one line for an outage, not one for each request
			s.Log.ErrorContext(ctx, "the api cannot reach the database", "error", err)
		}
	case p.Status == http.StatusInternalServerError:
		s.Log.ErrorContext(ctx, "the api cannot answer a request", "route", r.Pattern, "error", err)
	}
	p.write(ctx, w)
}

// statusClientGone is what a client is told that is not there any more; it counts as its own fault.
const statusClientGone = 499

func (s *server) panicked(w *recorder, r *http.Request, v any) {
	s.Log.ErrorContext(r.Context(), "a request panicked", "route", r.Pattern, "panic", v, "stack", string(debug.Stack()))
	if w.status == 0 {
		internal().write(r.Context(), w)
		return
	}
	panic(http.ErrAbortHandler) // the answer has begun: the client must see that it is not whole
}

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.MaxBytesReader and others reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// document serves the description of the API.
func (s *server) document(w http.ResponseWriter, _ *http.Request, _ caller) error {
	writeBody(w, http.StatusOK, "application/yaml", openAPI)
	return nil
}
