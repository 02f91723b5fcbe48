package http_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	httpin "billing/internal/adapters/in/http"
	"billing/internal/observe"
)

func newOps(checks ...httpin.Check) httpin.Ops {
	return httpin.Ops{
		Addr: "127.0.0.1:0", Gatherer: prometheus.NewRegistry(), Liveness: observe.NewLiveness(time.Now), Checks: checks,
		Log: slog.New(slog.DiscardHandler),
	}
}

func get(t *testing.T, h http.Handler, method, path string) (status int, body string) {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return rec.Code, rec.Body.String()
}

func TestOperationsRoutes(t *testing.T) {
	t.Parallel()
	ops := newOps()
	reg := prometheus.NewRegistry()
	observe.New(reg, observe.BuildInfo{}, "acme")
	ops.Gatherer = reg
	for name, tc := range map[string]struct {
		method, path string
		status       int
		body         string
	}{
		"metrics":       {http.MethodGet, "/metrics", http.StatusOK, `billing_events_total{outcome="accepted"} 0`},
		"live":          {http.MethodGet, "/livez", http.StatusOK, `"alive"`},
		"live, head":    {http.MethodHead, "/livez", http.StatusOK, ""},
		"ready":         {http.MethodGet, "/readyz", http.StatusOK, `"ready"`},
		"root":          {http.MethodGet, "/", http.StatusNotFound, ""},
		"API":           {http.MethodGet, "/v1/charges", http.StatusNotFound, ""},
		"profiles":      {http.MethodGet, "/debug/pprof/", http.StatusNotFound, ""},
		"below a route": {http.MethodGet, "/livez/x", http.StatusNotFound, ""},
		"post":          {http.MethodPost, "/metrics", http.StatusMethodNotAllowed, ""},
		"delete":        {http.MethodDelete, "/readyz", http.StatusMethodNotAllowed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body := get(t, ops.Handler(), tc.method, tc.path)
			if status != tc.status || !strings.Contains(body, tc.body) {
				t.Errorf("got %d %s, want %d with %s", status, body, tc.status, tc.body)
			}
		})
	}
}

func TestLivezNamesTheLoopThatDoesNotTurn(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	ops := newOps()
	ops.Liveness = observe.NewLiveness(func() time.Time { return now })
	ops.Liveness.Register("relay")
	charger := ops.Liveness.Register("charger")

	now = now.Add(2 * time.Minute)
	charger.Beat()
	if status, body := get(t, ops.Handler(), http.MethodGet, "/livez"); status != http.StatusOK {
		t.Errorf("at two minutes: %d %s", status, body)
	}
	now = now.Add(time.Second)
	status, body := get(t, ops.Handler(), http.MethodGet, "/livez")
	want := `{"loops":[{"loop":"relay","seconds_since_turn":121}],"status":"stalled"}` + "\n"
	if status != http.StatusServiceUnavailable || body != want {
		t.Errorf("got %d %s, want 503 %s", status, body, want)
	}
}

func check(name string, critical bool, err error) httpin.Check {
	return httpin.Check{Name: name, Critical: critical, Run: func(context.Context) (string, error) { return "seen", err }}
}

func TestReadyzIsDecidedByCriticalChecks(t *testing.T) {
	t.Parallel()
	down := errors.New("is away")
	for name, tc := range map[string]struct {
		checks []httpin.Check
		status int
		body   string
	}{
		"all well": {
			[]httpin.Check{check("database", true, nil), check("kafka", false, nil)},
			http.StatusOK,
			`{"checks":[{"name":"database","ok":true,"critical":true,"detail":"seen"},{"name":"kafka","ok":true,"critical":false,"detail":"seen"}],"status":"ready"}`,
		},
		"kafka away": {
			[]httpin.Check{check("database", true, nil), check("kafka", false, down)},
			http.StatusOK,
			`{"checks":[{"name":"database","ok":true,"critical":true,"detail":"seen"},{"name":"kafka","ok":false,"critical":false,"detail":"seen","error":"is away"}],"status":"ready"}`,
		},
		"database away": {
			[]httpin.Check{check("database", true, down), check("schema", true, nil)},
			http.StatusServiceUnavailable,
			`{"checks":[{"name":"database","ok":false,"critical":true,"detail":"seen","error":"is away"},{"name":"schema","ok":true,"critical":true,"detail":"seen"}],"status":"not_ready"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body := get(t, newOps(tc.checks...).Handler(), http.MethodGet, "/readyz")
			if status != tc.status || body != tc.body+"\n" {
				t.Errorf("got %d %s, want %d %s", status, body, tc.status, tc.body)
			}
		})
	}
}

func TestSlowCheckHasADeadlineOfItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := httpin.Check{Name: "kafka", Run: func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}}
		began := time.Now()
		status, body := get(t, newOps(slow, check("database", true, nil)).Handler(), http.MethodGet, "/readyz")
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %s, want 2s", took)
		}
		if status != http.StatusOK {
			t.Errorf("a slow informative check took readiness away: %d %s", status, body)
		}
	})
}

// start runs a server, waits for its line about listening and returns its address, a way to stop it and
// its result.
func start(t *testing.T, name string, run func(ctx context.Context, log *slog.Logger) error) (addr string, stop func(), result chan error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	result = make(chan error, 1)
	go func() {
		defer writer.Close()
		result <- run(ctx, slog.New(slog.NewJSONHandler(writer, nil)))
	}()
	lines := bufio.NewScanner(reader)
	if !lines.Scan() {
		t.Fatalf("%s did not say that it listens: %v", name, <-result)
	}
	var line struct{ Msg, Listener, Addr string }
	if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if line.Msg != "listening" || line.Listener != name {
		t.Errorf("logged %s", lines.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }() // ends with the writer
	return line.Addr, stop, result
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestServersListenOnAFreePortAndStop(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		run  func(ctx context.Context, log *slog.Logger) error
		path string
	}{
		"ops": {func(ctx context.Context, log *slog.Logger) error {
			ops := newOps()
			ops.Log = log
			return ops.Run(ctx)
		}, "/livez"},
		"pprof": {func(ctx context.Context, log *slog.Logger) error {
			return httpin.Pprof{Addr: "127.0.0.1:0", Log: log}.Run(ctx)
		}, "/debug/pprof/goroutine?debug=1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, stop, result := start(t, name, tc.run)
			if status, body := fetch(t, "http://"+addr+tc.path); status != http.StatusOK || body == "" {
				t.Errorf("got %d %q", status, body)
			}
			stop()
			if err := <-result; err != nil {
				t.Errorf("stopped with %v", err)
			}
		})
	}
}

func TestStopIsBoundedByTheDrainTime(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	stuck := httpin.Check{Name: "stuck", Run: func(context.Context) (string, error) {
		close(entered)
		<-release // as a check that breaks its promise
		return "", nil
	}}
	addr, stop, result := start(t, "ops", func(ctx context.Context, log *slog.Logger) error {
		ops := newOps(stuck)
		ops.Log = log
		return ops.Run(ctx)
	})
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /readyz HTTP/1.1\r\nHost: ops\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	stop()
	select {
	case err := <-result:
		if err != nil {
			t.Errorf("stopped with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a stuck request held up the stop")
	}
	close(release)
}

func TestServerReportsAnAddressInUse(t *testing.T) {
	t.Parallel()
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	ops := newOps()
	ops.Addr = taken.Addr().String()
	if err := ops.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "listen for ops: ") {
		t.Errorf("got %v", err)
	}
}

func TestServerUsesTheListenerItWasGiven(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr, stop, result := start(t, "ops", func(ctx context.Context, log *slog.Logger) error {
		ops := newOps()
		ops.Addr, ops.Listener, ops.Log = "", listener, log
		return ops.Run(ctx)
	})
	if addr != listener.Addr().String() {
		t.Errorf("listens on %s, want %s", addr, listener.Addr())
	}
	stop()
	if err := <-result; err != nil {
		t.Errorf("stopped with %v", err)
	}
}

func TestAScraperThatWentAwayIsNobodysError(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	observe.New(registry, observe.BuildInfo{}, "acme")
	var log strings.Builder
	ops := newOps()
	ops.Log = slog.New(slog.NewTextHandler(&log, nil))
	ctx, leave := context.WithCancel(t.Context())
	gathered := make(chan struct{})
	ops.Gatherer = prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		leave()
		<-gathered
		return registry.Gather()
	})
	rec := httptest.NewRecorder()
	ops.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil))
	close(gathered)
	if rec.Code != http.StatusServiceUnavailable {
		t.Errorf("answered %d", rec.Code)
	}
	ops.Gatherer = prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return nil, errors.New("a collector is broken") })
	get(t, ops.Handler(), http.MethodGet, "/metrics")
	if lines := strings.TrimSpace(log.String()); strings.Count(lines, "\n") != 0 || !strings.Contains(lines, "a collector is broken") {
		t.Errorf("logged:\n%s", lines)
	}
}
