package http_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// broken is a database that fails as it is told, nil: by a panic.
type broken struct{ err error }

func (b broken) fail() error {
	if b.err == nil {
		panic("a mistake of ours")
	}
	return b.err
}

func (b broken) InPostTx(context.Context, func(ctx context.Context, tx usecase.PostTx) error) error {
	return b.fail()
}

func (b broken) ReadCharge(context.Context, string, uuid.UUID) (usecase.ChargeDossier, error) {
	return usecase.ChargeDossier{}, b.fail()
}

func (b broken) ReadCharges(context.Context, usecase.ChargeQuery) (usecase.ChargePage, error) {
	return usecase.ChargePage{}, b.fail()
}

func breaking(err error) func(*api) {
	return func(a *api) { a.Post.Store, a.Read.Charges = broken{err}, broken{err} }
}

// late is a body that does not come in time.
type late struct{}

func (late) Read([]byte) (int, error) { return 0, fmt.Errorf("read tcp: %w", os.ErrDeadlineExceeded) }

const anID = "/v1/charges/0192f000-0000-7000-8000-000000000001"

// Every answer that the description names can be had, and this is how.
func TestEveryDocumentedAnswerIsReached(t *testing.T) {
	t.Parallel()
	type ask struct {
		request
		change func(*api)
		want   string // code
	}
	post := func(r request) request {
		r.method, r.path = http.MethodPost, "/v1/charges"
		if r.key == "" {
			r.key = "k"
		}
		if r.body == nil {
			r.body = strings.NewReader(bodyOf("o"))
		}
		return r
	}
	limited := func(a *api) { a.Rate = 0.1 }
	asks := map[string]ask{
		"POST /v1/charges 202": {request: post(request{})},
		"POST /v1/charges 400": {request: post(request{body: strings.NewReader("{")}), want: "INVALID_JSON"},
		"POST /v1/charges 401": {request: post(request{token: "wrong"}), want: "UNAUTHORIZED"},
		"POST /v1/charges 403": {request: post(request{token: tokenOf("reader")}), want: "FORBIDDEN"},
		"POST /v1/charges 408": {request: post(request{body: late{}}), want: "REQUEST_TIMEOUT"},
		"POST /v1/charges 409": {request: post(request{}), change: breaking(usecase.ErrKeyInProgress), want: "IDEMPOTENCY_KEY_IN_PROGRESS"},
		"POST /v1/charges 413": {request: post(request{body: bytes.NewReader(make([]byte, 64<<10+1))}), want: "PAYLOAD_TOO_LARGE"},
		"POST /v1/charges 415": {request: post(request{header: http.Header{"Content-Type": {"text/plain"}}}), want: "UNSUPPORTED_MEDIA_TYPE"},
		"POST /v1/charges 422": {request: post(request{body: strings.NewReader("{}")}), want: "MISSING_FIELD"},
		"POST /v1/charges 429": {request: post(request{}), change: limited, want: "RATE_LIMITED"},
		"POST /v1/charges 500": {request: post(request{}), change: breaking(errors.New("relation \"charge\" of db-7.internal")), want: "INTERNAL"},
		"POST /v1/charges 503": {request: post(request{}), change: breaking(domain.ErrOutage), want: "UNAVAILABLE"},
		"GET /v1/charges 200":  {request: request{path: "/v1/charges"}},
		"GET /v1/charges 400":  {request: request{path: "/v1/charges", query: "limit=0"}, want: "INVALID_QUERY"},
		"GET /v1/charges 401":  {request: request{path: "/v1/charges", token: none}, want: "UNAUTHORIZED"},
		"GET /v1/charges 403":  {request: request{path: "/v1/charges", token: tokenOf("writer")}, want: "FORBIDDEN"},
		"GET /v1/charges 429":  {request: request{path: "/v1/charges"}, change: limited, want: "RATE_LIMITED"},
		"GET /v1/charges 500":  {request: request{path: "/v1/charges"}, change: breaking(nil), want: "INTERNAL"},
		"GET /v1/charges 503":  {request: request{path: "/v1/charges"}, change: breaking(domain.ErrRetry), want: "UNAVAILABLE"},
		"GET /v1/charges/{event_id} 200": {request: request{path: "/v1/charges/" + usecase.PostedEventID("shop", "k").String()}, change: func(a *api) {
			a.db.Exec(t, `INSERT INTO charge (event_id, order_id, customer_id, amount_minor, currency, source, client) VALUES ($1, 'o', 'c', 1, 'RUB', 'api', 'shop')`,
				usecase.PostedEventID("shop", "k"))
		}},
		"GET /v1/charges/{event_id} 401": {request: request{path: anID, token: tokenOf("former")}, want: "UNAUTHORIZED"},
		"GET /v1/charges/{event_id} 403": {request: request{path: anID, token: tokenOf("writer")}, want: "FORBIDDEN"},
		"GET /v1/charges/{event_id} 404": {request: request{path: anID}, want: "NOT_FOUND"},
		"GET /v1/charges/{event_id} 429": {request: request{path: anID}, change: limited, want: "RATE_LIMITED"},
		"GET /v1/charges/{event_id} 500": {request: request{path: anID}, change: breaking(errors.New("x")), want: "INTERNAL"},
		"GET /v1/charges/{event_id} 503": {request: request{path: anID}, change: breaking(domain.ErrOutage), want: "UNAVAILABLE"},
		"GET /openapi.yaml 200":          {request: request{path: "/openapi.yaml", token: none}},
	}
	d := loadDocument(t)
	var documented []string
	for _, operation := range d.operations() {
		for _, status := range d.statuses(operation) {
			documented = append(documented, operation+" "+status)
		}
	}
	if named := slices.Sorted(maps.Keys(asks)); !slices.Equal(named, slices.Sorted(slices.Values(documented))) {
		t.Errorf("documented %q, reached %q", documented, named)
	}
	for name, ask := range asks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, func(a *api) {
				if ask.change != nil {
					ask.change(a)
				}
			})
			if ask.method == "" {
				ask.method = http.MethodGet
			}
			var answer *httptest.ResponseRecorder
			for range 1 + int(10*a.Rate) { // the first is let through
				answer = a.send(t, ask.request)
			}
			status, _ := strconv.Atoi(name[len(name)-3:])
			if ask.want == "" {
				if answer.Code != status {
					t.Errorf("got %d %s", answer.Code, answer.Body)
				}
				return
			}
			problem := wantProblem(t, answer, status, ask.want)
			if problem["trace_id"] != traceparent[3:35] || strings.Contains(answer.Body.String(), "db-7") {
				t.Errorf("got %s", answer.Body)
			}
		})
	}
}

func TestBodiesAreReadStrictly(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	const rest = `"customer_id":"c","amount":1,"currency":"RUB"`
	deep := func(n int) string {
		return `{"order_id":"deep","x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `,` + rest + `}`
	}
	for body, code := range map[string]string{
		``:                                "INVALID_JSON",
		`null`:                            "INVALID_JSON",
		`[]`:                              "INVALID_JSON",
		`"x"`:                             "INVALID_JSON",
		`1 2`:                             "INVALID_JSON",
		`{"order_id":"o",` + rest + `}{}`: "INVALID_JSON",
		`{"order_id":"o",` + rest + `} x`: "INVALID_JSON",
		`{"order_id":"o",` + rest + `,}`:  "INVALID_JSON",
		"\ufeff" + `{"order_id":"o",` + rest + `}`:                                         "INVALID_JSON",
		`{"order_id":"o","order_id":"o",` + rest + `}`:                                     "INVALID_JSON",
		`{"order_id":"o","order\u005fid":"o",` + rest + `}`:                                "INVALID_JSON",
		`{"order_id":"o","Order_ID":"p",` + rest + `}`:                                     "INVALID_JSON",
		`{"Order_id":"o",` + rest + `}`:                                                    "INVALID_JSON",
		`{"order_id":"o","x":{"a":1,"A":2},` + rest + `}`:                                  "INVALID_JSON",
		`{"order_id":"o","x":[{"k":1,"` + "\u212a" + `":2}],` + rest + `}`:                 "INVALID_JSON",
		`{"order_id":"o","cu` + "\u017f" + `tomer_id":"d",` + rest + `}`:                   "INVALID_JSON",
		`{"order_id":"` + "\xff" + `",` + rest + `}`:                                       "INVALID_JSON",
		`{"order_id":"\ud800",` + rest + `}`:                                               "INVALID_JSON",
		`{"order_id":"a` + "\x00" + `",` + rest + `}`:                                      "INVALID_JSON",
		`{"order_id":NaN,` + rest + `}`:                                                    "INVALID_JSON",
		deep(16):                                                                           "INVALID_JSON",
		strings.Repeat("[", 60000):                                                         "INVALID_JSON",
		`{` + rest + `}`:                                                                   "MISSING_FIELD",
		`{"order_id":null,` + rest + `}`:                                                   "MISSING_FIELD",
		`{"order_id":17,` + rest + `}`:                                                     "INVALID_FIELD",
		`{"order_id":"",` + rest + `}`:                                                     "INVALID_FIELD",
		`{"order_id":"a\u0000",` + rest + `}`:                                              "INVALID_FIELD",
		`{"order_id":"` + strings.Repeat("o", 256) + `",` + rest + `}`:                     "INVALID_FIELD",
		`{"order_id":"o","customer_id":"c","amount":1,"currency":"rub"}`:                   "INVALID_FIELD",
		`{"order_id":"o","customer_id":"c","amount":1,"currency":"XXX"}`:                   "INVALID_FIELD",
		`{"order_id":"o","customer_id":"c","amount":1}`:                                    "MISSING_FIELD",
		`{"order_id":"o","customer_id":"c","amount":"1","currency":"RUB"}`:                 "INVALID_AMOUNT",
		`{"order_id":"o","customer_id":"c","amount":0,"currency":"RUB"}`:                   "INVALID_AMOUNT",
		`{"order_id":"o","customer_id":"c","amount":-0,"currency":"RUB"}`:                  "INVALID_AMOUNT",
		`{"order_id":"o","customer_id":"c","amount":-1,"currency":"RUB"}`:                  "INVALID_AMOUNT",
		`{"order_id":"o","customer_id":"c","amount":1.0,"currency":"RUB"}`:                 "INVALID_AMOUNT",
		`{"order_id":"o","customer_id":"c","amount":1e2,"currency":"RUB"}`:                 "INVALID_AMOUNT",
		`{"order_id":"o","customer_id":"c","amount":1000001,"currency":"RUB"}`:             "INVALID_AMOUNT",
		`{"order_id":"o","customer_id":"c","amount":9223372036854775808,"currency":"RUB"}`: "INVALID_AMOUNT",
		deep(15): "",
		`{"order_id":"` + strings.Repeat("o", 255) + `",` + rest + `}`:        "",
		`{"order_id":"'; DROP TABLE charge; --",` + rest + `}`:                "",
		`{"order_id":"a\r\nb\u2028<&>",` + rest + `}`:                         "",
		`{"order_id":"\ud83d\ude00",` + rest + `,"unknown":[1e400,"\u0000"]}`: "",
	} {
		answer := a.post(t, "shop", usecase.PostedEventID("", body).String(), body)
		if code == "" {
			wantAccepted(t, answer, false)
			continue
		}
		status := http.StatusUnprocessableEntity
		if code == "INVALID_JSON" {
			status = http.StatusBadRequest
		}
		wantProblem(t, answer, status, code)
		if t.Failed() {
			t.Fatalf("body %.80q", body)
		}
	}
	if n := a.db.Count(t, "SELECT count(*) FROM idempotency_key"); n != 5 {
		t.Errorf("%d keys, want those of the 5 accepted: a refusal is not stored", n)
	}
}

func TestRequestsAreRefusedByTheirHeaders(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for name, tc := range map[string]struct {
		header http.Header
		status int
		code   string
	}{
		"no key":           {http.Header{"Idempotency-Key": nil}, 400, "IDEMPOTENCY_KEY_REQUIRED"},
		"empty key":        {http.Header{"Idempotency-Key": {""}}, 400, "IDEMPOTENCY_KEY_REQUIRED"},
		"two keys":         {http.Header{"Idempotency-Key": {"a", "b"}}, 400, "IDEMPOTENCY_KEY_REQUIRED"},
		"key with a space": {http.Header{"Idempotency-Key": {"a b"}}, 400, "IDEMPOTENCY_KEY_REQUIRED"},
		"long key":         {http.Header{"Idempotency-Key": {strings.Repeat("k", 256)}}, 400, "IDEMPOTENCY_KEY_REQUIRED"},
		"key beyond ASCII": {http.Header{"Idempotency-Key": {"ключ"}}, 400, "IDEMPOTENCY_KEY_REQUIRED"},
		"form":             {http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		"no such type":     {http.Header{"Content-Type": {";"}}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		"other charset":    {http.Header{"Content-Type": {"application/json; charset=utf-16"}}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		"compressed":       {http.Header{"Content-Encoding": {"gzip"}}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		"charset":          {http.Header{"Content-Type": {"Application/JSON; charset=UTF-8"}}, 202, ""},
		"type unknown":     {http.Header{"Content-Type": nil}, 202, ""},
		"longest key":      {http.Header{"Idempotency-Key": {strings.Repeat("~", 255)}}, 202, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := "k-" + strings.ReplaceAll(name, " ", "-")
			answer := a.send(t, request{method: http.MethodPost, path: "/v1/charges", key: key, body: strings.NewReader(bodyOf(name)), header: tc.header})
			if tc.code == "" {
				wantAccepted(t, answer, false)
				return
			}
			wantProblem(t, answer, tc.status, tc.code)
		})
	}
}

func TestBrokenBodiesAreTheClientsFault(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	cut := io.MultiReader(strings.NewReader(`{"order_id":`), iotestErr{io.ErrUnexpectedEOF})
	answer := a.send(t, request{method: http.MethodPost, path: "/v1/charges", key: "k", body: cut})
	wantProblem(t, answer, http.StatusBadRequest, "INVALID_JSON")
	answer = a.send(t, request{method: http.MethodPost, path: "/v1/charges", key: "k", body: iotestErr{errors.New("invalid chunk")}})
	wantProblem(t, answer, http.StatusBadRequest, "INVALID_JSON")
	exact := bodyOf("o") + strings.Repeat(" ", 64<<10-len(bodyOf("o")))
	wantAccepted(t, a.post(t, "shop", "k", exact), false)
}

type iotestErr struct{ err error }

func (e iotestErr) Read([]byte) (int, error) { return 0, e.err }

func TestQueriesAreReadStrictly(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for _, query := range []string{
		"limit=0", "limit=101", "limit=-1", "limit=x", "limit=1&limit=2", "limit=99999999999999999999", "status=", "status=Requested", "status=%00",
		"order_id=", "order_id=%00", "order_id=%ff", "order_id=" + strings.Repeat("o", 256), "cursor=", "cursor=x", "cursor=" + strings.Repeat("A", 23),
		"cursor=AAAAAAAAAAAAAAAAAAAAAB", "orderid=o", "order_id=%zz", "a;b",
	} {
		wantProblem(t, a.get(t, "shop", "/v1/charges", query), http.StatusBadRequest, "INVALID_QUERY")
		if t.Failed() {
			t.Fatal(query)
		}
	}
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for _, tc := range []struct {
		method, path string
		status       int
		code         string
		allow        string
	}{
		{http.MethodGet, "/", 404, "NOT_FOUND", ""},
		{http.MethodGet, "/metrics", 404, "NOT_FOUND", ""},
		{http.MethodGet, "/debug/pprof/", 404, "NOT_FOUND", ""},
		{http.MethodGet, "//v1/charges", 404, "NOT_FOUND", ""},
		{http.MethodGet, "/v1/../v1/charges", 404, "NOT_FOUND", ""},
		{http.MethodGet, "/v1/charges/", 404, "NOT_FOUND", ""},
		{http.MethodGet, "/v1/charges/x/y", 404, "NOT_FOUND", ""},
		{http.MethodGet, "*", 404, "NOT_FOUND", ""},
		{http.MethodGet, "", 404, "NOT_FOUND", ""},
		{http.MethodGet, "/v1/charges/x", 404, "NOT_FOUND", ""},
		{http.MethodGet, "/v1/charges/{019ade3c-1b00-7000-8000-000000000001}", 404, "NOT_FOUND", ""},
		{http.MethodGet, "/v1/charges/019ade3c1b0070008000000000000001", 404, "NOT_FOUND", ""},
		{http.MethodPut, "/v1/charges", 405, "METHOD_NOT_ALLOWED", "POST, GET, HEAD"},
		{http.MethodDelete, anID, 405, "METHOD_NOT_ALLOWED", "GET, HEAD"},
		{http.MethodOptions, "/v1/charges", 405, "METHOD_NOT_ALLOWED", "POST, GET, HEAD"},
		{http.MethodPost, "/openapi.yaml", 405, "METHOD_NOT_ALLOWED", "GET, HEAD"},
	} {
		answer := a.send(t, request{method: tc.method, path: tc.path})
		wantProblem(t, answer, tc.status, tc.code)
		if got := answer.Header().Get("Allow"); got != tc.allow {
			t.Errorf("%s %s allows %q, want %q", tc.method, tc.path, got, tc.allow)
		}
		wantProblem(t, a.send(t, request{method: tc.method, path: tc.path, token: none}), 401, "UNAUTHORIZED")
	}
}

// One line for a whole outage, one for each mistake of ours, with its trace, and nothing of it for the client.
func TestTroubleIsLoggedOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want int
	}{
		"outage": {domain.ErrOutage, 1}, "mistake": {errors.New("x"), 3}, "panic": {nil, 3}, "lost race": {domain.ErrRetry, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, breaking(tc.err))
			for range 3 {
				a.get(t, "shop", anID, "")
			}
			if lines := a.logged.lines(); len(lines) != tc.want {
				t.Errorf("%d lines: %q", len(lines), lines)
			}
		})
	}
}

func TestEveryRequestIsReportedByItsRoute(t *testing.T) {
	t.Parallel()
	var got []string
	a := newAPI(t, func(a *api) {
		a.Report = func(route string, status int, took time.Duration) {
			got = append(got, fmt.Sprint(route, " ", status, " ", took))
		}
	})
	a.post(t, "shop", "k", bodyOf("o"))
	a.get(t, "shop", "/v1/charges", "")
	a.get(t, "shop", anID, "")
	a.get(t, "shop", "/x", "")
	a.get(t, "shop", "//", "")
	want := []string{"POST /v1/charges 202 0s", "GET /v1/charges 200 0s", "GET /v1/charges/{event_id} 404 0s", "/ 404 0s", " 404 0s"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
