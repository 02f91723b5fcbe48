package http_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	httpin "billing/internal/adapters/in/http"
	"billing/internal/adapters/out/payment"
	"billing/internal/adapters/out/postgres"
	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/testkit"
)

const (
	maxAmount   = 1_000_000
	traceparent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
	none        = "-" // no token
)

// The clients of the tests. A token is its client's name with "-token" behind it.
var clients = map[string][]string{
	"shop": {"charges:write", "charges:read"}, "market": {"charges:write", "charges:read"},
	"writer": {"charges:write"}, "reader": {"charges:read"}, "boss": {"operator"},
}

func tokenOf(client string) string { return client + "-token" }

// entry is a line of the tokens file.
func entry(client string, scopes []string, more string) string {
	hash := sha256.Sum256([]byte(tokenOf(client)))
	list, _ := json.Marshal(scopes)
	return fmt.Sprintf(`{"name":%q,"token_sha256":%q,"scopes":%s%s}`, client, hex.EncodeToString(hash[:]), list, more)
}

func tokensFile(entries ...string) string { return `{"clients":[` + strings.Join(entries, ",") + `]}` }

func allClients() string {
	entries := make([]string, 0, 1+len(clients))
	entries = append(entries, entry("former", []string{"charges:write", "charges:read", "operator"}, `,"expires_at":"2026-01-01T00:00:00Z"`))
	for client, scopes := range clients {
		entries = append(entries, entry(client, scopes, ""))
	}
	return tokensFile(entries...)
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// codec makes the provider's request, which is all of usecase.Codec that a POST needs.
type codec struct{ usecase.Codec }

func (codec) Request(o domain.Order) ([]byte, error) { return payment.Request(o) }

// api is an API on a database of its own. Every answer it gives is held to its description.
type api struct {
	httpin.API

	db       *testkit.DB
	store    *postgres.Store
	clock    *testkit.Clock
	tokens   string // path
	logged   *logBuffer
	woken    atomic.Int64
	document document
	handler  http.Handler
}

// logBuffer keeps what is logged.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.b.Len() == 0 {
		return nil
	}
	return strings.Split(strings.TrimSpace(l.b.String()), "\n")
}

// newAPI changes an API before it is put to use.
func newAPI(t *testing.T, change ...func(*api)) *api {
	t.Helper()
	a := &api{
		db: testkit.NewDB(t), clock: testkit.NewClock(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)),
		tokens: filepath.Join(t.TempDir(), "tokens.json"), logged: &logBuffer{}, document: loadDocument(t),
	}
	writeFile(t, a.tokens, allClients())
	a.store = a.storeAt(t, a.db.URL(), 16)
	log := slog.New(slog.NewJSONHandler(a.logged, nil))
	tokens, err := httpin.OpenTokens(a.tokens, a.clock.Now, log)
	if err != nil {
		t.Fatal(err)
	}
	a.API = httpin.API{
		Addr: "127.0.0.1:0", Tokens: tokens, Drain: 5 * time.Second, Now: a.clock.Now, Report: func(string, int, time.Duration) {}, Log: log,
		Post: usecase.Post{
			Store: a.store, Codec: codec{}, MaxAmountMinor: maxAmount, KeyTTL: 24 * time.Hour, Answer: httpin.Accepted, Wake: func() { a.woken.Add(1) },
		},
		Read: usecase.Read{Charges: a.store},
	}
	for _, c := range change {
		c(a)
	}
	a.handler = a.Handler()
	return a
}

func (a *api) storeAt(t *testing.T, address string, conns int32) *postgres.Store {
	t.Helper()
	pool, err := postgres.NewPool(t.Context(), address, postgres.PoolOptions{MaxConns: conns, ApplicationName: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return postgres.NewStore(pool)
}

// request is one request; empty members have a good value, that of the client shop.
type request struct {
	ctx    context.Context
	method string
	path   string
	query  string
	token  string
	header http.Header
	key    string
	body   io.Reader
}

func (r request) build(ctx context.Context) *http.Request {
	if r.ctx != nil {
		ctx = r.ctx
	}
	out := (&http.Request{
		Method: r.method, URL: &url.URL{Path: r.path, RawQuery: r.query}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "billing",
		Header: http.Header{"Traceparent": {traceparent}}, Body: http.NoBody,
	}).WithContext(ctx)
	switch r.token {
	case none:
	case "":
		out.Header.Set("Authorization", "Bearer "+tokenOf("shop"))
	default:
		out.Header.Set("Authorization", "Bearer "+r.token)
	}
	if r.key != "" {
		out.Header.Set("Idempotency-Key", r.key)
	}
	if r.body != nil {
		out.Body = io.NopCloser(r.body)
		out.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(out.Header, r.header)
	return out
}

// send sends a request and holds the answer to the description.
func (a *api) send(t *testing.T, r request) *httptest.ResponseRecorder {
	t.Helper()
	in := r.build(t.Context())
	answer := httptest.NewRecorder()
	a.handler.ServeHTTP(answer, in)
	if err := a.document.check(in, answer.Result(), answer.Body.Bytes()); err != nil {
		t.Errorf("%s %s: %v\n%d %s", r.method, r.path, err, answer.Code, answer.Body)
	}
	return answer
}

func bodyOf(order string) string {
	return fmt.Sprintf(`{"order_id":%q,"customer_id":"c-1","amount":150000,"currency":"RUB"}`, order)
}

func (a *api) post(t *testing.T, client, key, body string) *httptest.ResponseRecorder {
	t.Helper()
	return a.send(t, request{method: http.MethodPost, path: "/v1/charges", token: tokenOf(client), key: key, body: strings.NewReader(body)})
}

func (a *api) get(t *testing.T, client, path, query string) *httptest.ResponseRecorder {
	t.Helper()
	return a.send(t, request{method: http.MethodGet, path: path, query: query, token: tokenOf(client)})
}

// wantProblem fails unless an answer is the problem with a code.
func wantProblem(t *testing.T, answer *httptest.ResponseRecorder, status int, code string) map[string]any {
	t.Helper()
	var problem map[string]any
	if err := json.Unmarshal(answer.Body.Bytes(), &problem); err != nil || answer.Code != status || problem["code"] != code {
		t.Errorf("got %d %s, want %d %s", answer.Code, answer.Body, status, code)
	}
	return problem
}

func wantAccepted(t *testing.T, answer *httptest.ResponseRecorder, replayed bool) {
	t.Helper()
	if answer.Code != http.StatusAccepted || (answer.Header().Get("Idempotent-Replayed") == "true") != replayed {
		t.Errorf("got %d %v %s, want 202, replayed %v", answer.Code, answer.Header(), answer.Body, replayed)
	}
}

func TestPostIsAcceptedAndARepeatGetsTheSameBytes(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	first := a.post(t, "shop", "k-1", bodyOf("o-1"))
	wantAccepted(t, first, false)
	id := usecase.PostedEventID("shop", "k-1").String()
	want := `{"event_id":"` + id + `","order_id":"o-1","customer_id":"c-1","amount":150000,"currency":"RUB","status":"requested"}` + "\n"
	if first.Body.String() != want || first.Header().Get("Location") != "/v1/charges/"+id || a.woken.Load() != 1 {
		t.Errorf("got %s at %s, woken %d times", first.Body, first.Header().Get("Location"), a.woken.Load())
	}
	// The same content in another spelling, with members that nobody knows.
	again := a.post(t, "shop", "k-1", ` {"note":{"a":[1]},"currency":"\u0052UB","amount":150000,"customer_id":"c-1","order_id":"o\u002d1"} `)
	wantAccepted(t, again, true)
	if again.Body.String() != want || again.Header().Get("Location") != first.Header().Get("Location") || a.woken.Load() != 1 {
		t.Errorf("the repeat got %s", again.Body)
	}
	if n := a.db.Count(t, "SELECT count(*) FROM charge WHERE client = 'shop'"); n != 1 {
		t.Errorf("%d charges", n)
	}
	request := testkit.Value[string](t, a.db, "SELECT convert_from(payload, 'UTF8') FROM outbox")
	if request != `{"order_id":"o-1","customer_id":"c-1","amount":150000,"currency":"RUB"}` {
		t.Errorf("the provider is sent %s", request)
	}
	if n := a.db.Count(t, "SELECT count(*) FROM outbox WHERE convert_from(headers[2], 'UTF8') = $1", traceparent); n != 1 {
		t.Error("the trace was not carried on")
	}
}

func TestEqualKeysOfTwoClientsHaveNothingInCommon(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	first, second := a.post(t, "shop", "k-1", bodyOf("o-1")), a.post(t, "market", "k-1", bodyOf("o-2"))
	wantAccepted(t, first, false)
	wantAccepted(t, second, false)
	wantProblem(t, a.get(t, "market", first.Header().Get("Location"), ""), http.StatusNotFound, "NOT_FOUND")
}

func TestChargedOrderIsLinkedForThoseWhoMaySeeIt(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	writeFile(t, a.tokens, tokensFile(
		entry("shop", clients["shop"], ""), entry("market", clients["market"], ""), entry("writer", clients["writer"], ""),
		entry("boss", []string{"operator", "charges:write"}, "")))
	a.clock.Advance(time.Minute)
	link := a.post(t, "shop", "k-1", bodyOf("o-1")).Header().Get("Location")
	a.post(t, "writer", "k-1", bodyOf("o-2"))
	for _, tc := range []struct {
		client, order string
		want          any
	}{
		{"shop", "o-1", link}, {"boss", "o-1", link}, {"market", "o-1", nil}, {"writer", "o-1", nil}, {"writer", "o-2", nil},
	} {
		problem := wantProblem(t, a.post(t, tc.client, "k-2", bodyOf(tc.order)), http.StatusConflict, "ORDER_ALREADY_CHARGED")
		if problem["charge"] != tc.want {
			t.Errorf("%s is shown %v, want %v", tc.client, problem["charge"], tc.want)
		}
	}
	wantAccepted(t, a.post(t, "shop", "k-2", bodyOf("o-3")), false)
}

func TestParallelRequestsWithOneKeyChargeOnce(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	const n = 64
	answers := make([]*httptest.ResponseRecorder, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { answers[i] = a.post(t, "shop", "k-1", bodyOf("o-1")) })
	}
	all.Wait()
	fresh := 0
	for _, answer := range answers {
		switch {
		case answer.Code == http.StatusConflict:
			wantProblem(t, answer, http.StatusConflict, "IDEMPOTENCY_KEY_IN_PROGRESS")
		case answer.Header().Get("Idempotent-Replayed") == "":
			fresh++
			wantAccepted(t, answer, false)
		default:
			wantAccepted(t, answer, true)
		}
	}
	if charges := a.db.Count(t, "SELECT count(*) FROM charge"); fresh != 1 || charges != 1 {
		t.Errorf("%d fresh answers, %d charges", fresh, charges)
	}
}

// The client is gone before its charge is stored: the work is done, and the repeat gets the result.
func TestClientThatLeavesFindsItsChargeLater(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	gone, leave := context.WithCancel(t.Context())
	leave()
	a.send(t, request{ctx: gone, method: http.MethodPost, path: "/v1/charges", key: "k-1", body: strings.NewReader(bodyOf("o-1"))})
	wantAccepted(t, a.post(t, "shop", "k-1", bodyOf("o-1")), true)
}

func TestChargeIsShownWithoutWhatIsInside(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	location := a.post(t, "shop", "k-1", bodyOf("o-1")).Header().Get("Location")
	id := usecase.PostedEventID("shop", "k-1")
	a.db.Exec(t, `INSERT INTO charge_attempt (event_id, attempt, finished_at, outcome, http_status, provider_code, detail)
		SELECT $1, g, clock_timestamp(), 'unknown', 503, 'busy', 'dial tcp 10.1.2.3: secret' FROM generate_series(1, 150) g`, id)
	a.db.Exec(t, "INSERT INTO charge_attempt (event_id, attempt) VALUES ($1, 151)", id)
	a.db.Exec(t, `INSERT INTO charge_event (event_id, version, announcement_id, type, from_status, to_status, reason, actor)
		VALUES ($1, 1, gen_random_uuid(), 'ChargeParked', 'requested', 'parked', 'outcome_unknown', 'billing'),
		       ($1, NULL, NULL, 'ChargeRetried', 'parked', 'requested', 'secret word', 'jane')`, id)
	a.db.Exec(t, "UPDATE charge SET attempts = 151, provider_ref = '', reason = 'outcome_unknown', last_outcome = 'unknown' WHERE event_id = $1", id)
	answer := a.get(t, "shop", location, "")
	var got struct {
		ProviderRef *string `json:"provider_ref"`
		Attempts    []struct{ Attempt int }
		History     []struct{ By, Type string }
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	if len(got.Attempts) != 100 || got.Attempts[99].Attempt != 151 || got.ProviderRef == nil || len(got.History) != 2 ||
		got.History[0].By != "billing" || got.History[1].By != "operator" {
		t.Errorf("got %s", answer.Body)
	}
	for _, word := range []string{"secret", "jane", "10.1.2.3"} {
		if strings.Contains(answer.Body.String(), word) {
			t.Errorf("%s is shown", word)
		}
	}
	upper := strings.ToUpper(id.String())
	if again := a.get(t, "shop", "/v1/charges/"+upper, ""); again.Code != http.StatusOK {
		t.Errorf("upper case is %d", again.Code)
	}
	if head := a.send(t, request{method: http.MethodHead, path: location}); head.Code != http.StatusOK {
		t.Errorf("HEAD is %d", head.Code)
	}
}

func TestListsAreScopedAndPaged(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for i := range 7 {
		a.post(t, "shop", fmt.Sprint("k-", i), bodyOf(fmt.Sprint("o-", i)))
	}
	a.post(t, "market", "k-1", bodyOf("o-7"))
	a.db.Exec(t, `INSERT INTO charge (event_id, order_id, customer_id, amount_minor, currency, source) VALUES ($1, 'o-8', 'c', 1, 'RUB', 'kafka')`, uuid.Must(uuid.NewV7()))
	for client, want := range map[string]int{"shop": 7, "market": 1, "reader": 0, "boss": 9} {
		for _, limit := range []int{1, 3, 100} {
			if got := len(a.walk(t, client, fmt.Sprintf("limit=%d", limit))); got != want {
				t.Errorf("%s sees %d charges by %d, want %d", client, got, limit, want)
			}
		}
	}
	for query, want := range map[string]int{
		"order_id=o-3": 1, "order_id=o-7": 0, "order_id=o-3&status=requested": 1, "order_id=o-3&status=parked": 0, "status=requested": 7, "status=succeeded": 0, "": 7,
	} {
		if got := len(a.walk(t, "shop", query)); got != want {
			t.Errorf("%q shows %d charges, want %d", query, got, want)
		}
	}
	if got := len(a.walk(t, "boss", "status=requested")); got != 8 {
		t.Errorf("%d charges wait for the provider, want 8", got)
	}
}

// walk reads all pages.
func (a *api) walk(t *testing.T, client, query string) []string {
	t.Helper()
	var orders []string
	cursor := ""
	for range 100 {
		answer := a.get(t, client, "/v1/charges", query+cursor)
		var page struct {
			Data []struct {
				OrderID string `json:"order_id"`
			}
			Next *string `json:"next_cursor"`
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &page); err != nil || answer.Code != http.StatusOK {
			t.Fatalf("%d %s", answer.Code, answer.Body)
		}
		for _, c := range page.Data {
			orders = append(orders, c.OrderID)
		}
		if page.Next == nil {
			return orders
		}
		cursor = "&cursor=" + *page.Next
	}
	t.Fatal("the list does not end")
	return nil
}
