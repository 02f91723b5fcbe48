package http_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// hostile makes requests, good ones and such as nobody sane would send.
type hostile struct {
	*rand.Rand

	locations []string // of charges that were accepted
	cursors   []string
	done      []posted
}

// posted is what was sent for a charge that was accepted.
type posted struct{ token, key, body string }

func pick[T any](h *hostile, list ...T) T { return list[h.IntN(len(list))] }

func (h *hostile) chance(of int) bool { return h.IntN(of) == 0 }

// text is a string in JSON, or something in its place.
func (h *hostile) text(good string) string {
	if !h.chance(12) {
		encoded, _ := json.Marshal(good)
		return string(encoded)
	}
	return pick(h, `""`, `null`, `17`, `true`, `[]`, `{}`, `"\u0000"`, `"\ud800"`, `"\ud83d\ude00"`, "\"\xff\"", `"a\r\nb"`, `"`+strings.Repeat("x", 256)+`"`,
		`"`+strings.Repeat("é", 128)+`"`, `"'; DROP TABLE charge; --"`, `"\u202e"`, `"$1"`, `"%s%n"`, `"`, `NaN`, "\"\x01\"")
}

func (h *hostile) amount() string {
	if !h.chance(8) {
		return strconv.Itoa(1 + h.IntN(3))
	}
	return pick(h, "0", "-0", "-1", "1.0", "1e2", "1E400", "1000000", "1000001", "9223372036854775807", "9223372036854775808", `"1"`, "null", "01", "+1", "Infinity", "[1]", strings.Repeat("9", 400))
}

func (h *hostile) body() string {
	if h.chance(30) {
		return pick(h, "", "null", "[]", "{", "}", `"x"`, strings.Repeat("[", 50_000), strings.Repeat(" ", 70_000), "\ufeff{}", "{}{}", "\x00")
	}
	members := []string{
		`"order_id":` + h.text(fmt.Sprint("o-", h.IntN(400))), `"customer_id":` + h.text(fmt.Sprint("c-", h.IntN(2))),
		`"amount":` + h.amount(), `"currency":` + h.text(pick(h, "RUB", "RUB", "RUB", "JPY", "KWD", "rub", "XXX", "XAU", "RU")),
	}
	if h.chance(10) {
		members = append(members, pick(h, `"note":"x"`, `"x":{"y":[1,{"Y":2}]}`, `"order_id":"again"`, `"Amount":5`, `"\u0061mount":1`, `"x":`+strings.Repeat("[", 20)+strings.Repeat("]", 20), `"":0`))
	}
	h.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	if h.chance(15) {
		members = members[1:]
	}
	body := "{" + strings.Join(members, ",") + "}"
	if h.chance(25) && body != "" { // a byte of it is lost, doubled or another
		at := h.IntN(len(body))
		body = body[:at] + pick(h, "", body[at:at+1]+body[at:at+1], string(rune(h.IntN(256)))) + body[at+1:]
	}
	return body
}

func (h *hostile) header() http.Header {
	header := http.Header{}
	for range h.IntN(3) {
		name := pick(h, "Content-Type", "Content-Encoding", "Traceparent", "Accept", "Idempotency-Key", "X-Forwarded-For", "If-Match", "Range")
		header[name] = []string{pick(h, "", "application/json", "application/json; charset=latin1", "text/xml", "gzip", "identity", traceparent, "00-0-0-00", "*/*",
			strings.Repeat("k", 300), "ключ", "a b", "k-1", "\xff", "bytes=0-1", "00-00000000000000000000000000000000-0123456789abcdef-01")}
	}
	if h.chance(3) {
		return header
	}
	return nil
}

func (h *hostile) token() string {
	if h.chance(20) {
		return pick(h, none, "", "wrong", tokenOf("former"), tokenOf("reader"), tokenOf("writer"), strings.Repeat("t", 8000), "\xff")
	}
	return tokenOf(pick(h, "shop", "market"))
}

func (h *hostile) query() string {
	n := h.IntN(4)
	parts := make([]string, 0, n)
	for range n {
		value := pick(h, "", "1", "100", "101", "-1", "x", "requested", "succeeded", "parked", "o-1", "%00", "%ff", "%zz", "a%20b", strings.Repeat("z", 300), "'--")
		if len(h.cursors) > 0 && h.chance(3) {
			value = pick(h, h.cursors...)
		}
		parts = append(parts, pick(h, "limit", "status", "order_id", "cursor", "x", "")+pick(h, "=", "=", "=", "")+value)
	}
	return strings.Join(parts, pick(h, "&", "&", "&", ";"))
}

func (h *hostile) request() (r request, sent posted) {
	if len(h.done) > 0 && h.chance(20) { // again, now and then with another token, key or content
		sent = pick(h, h.done...)
		other := pick(h, h.done...)
		switch h.IntN(8) {
		case 0:
			sent.token = other.token
		case 1:
			sent.key = other.key
		case 2:
			sent.body = other.body
		}
		return request{method: http.MethodPost, path: "/v1/charges", token: sent.token, key: sent.key, body: strings.NewReader(sent.body)}, sent
	}
	r = request{method: http.MethodGet, path: "/v1/charges", token: h.token(), header: h.header()}
	switch n := h.IntN(20); {
	case n < 12:
		sent = posted{token: r.token, key: fmt.Sprint("k-", h.IntN(2000)), body: h.body()}
		r.method, r.key, r.body = http.MethodPost, sent.key, strings.NewReader(sent.body)
	case n < 15:
		r.query = h.query()
	case n < 18:
		r.path = "/v1/charges/" + pick(h, "x", "019ade3c-1b00-7000-8000-000000000001", "019ADE3C-1B00-7000-8000-000000000001", "%00", "\x00", "\xff", "..", ".", " ", strings.Repeat("0", 36),
			strings.Repeat("-", 36), "{019ade3c-1b00-7000-8000-0000000001}", "{event_id}")
		if len(h.locations) > 0 && !h.chance(4) {
			r.path = pick(h, h.locations...)
		}
	default:
		r.method = pick(h, "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW", "")
		r.path = pick(h, "", "*", "/", "//", "/v1", "/v1/charges", "/v1/charges/", "/v1/charges//", "/V1/charges", "/openapi.yaml", "/metrics", "/v1/charges/x/y", "/../etc/passwd", "/\x00", "/\xff")
		r.query = h.query()
	}
	return r, sent
}

// Whatever is sent, nothing breaks: no answer is a 5xx, every answer is as described, a key that was
// accepted once says the same ever after, and each acceptance is one charge.
func TestNoRequestBreaksTheAPI(t *testing.T) {
	t.Parallel()
	const n = 12_000
	a := newAPI(t)
	h := &hostile{Rand: rand.New(rand.NewPCG(7, 11))}
	accepted := map[string]string{} // by location: the answer
	statuses, replays := map[int]int{}, 0
	for i := range n {
		r, sent := h.request()
		answer := a.send(t, r)
		statuses[answer.Code]++
		if answer.Code >= 500 {
			t.Errorf("got %d %s", answer.Code, answer.Body)
		}
		if answer.Code == http.StatusAccepted {
			h.remember(t, answer, accepted, sent)
			replays += len(answer.Header().Values("Idempotent-Replayed"))
		}
		if answer.Code == http.StatusOK && r.path == "/v1/charges" && r.method == http.MethodGet {
			h.turn(answer)
		}
		if t.Failed() {
			t.Fatalf("request %d: %+v", i, r)
		}
	}
	t.Logf("%v, %d replays", statuses, replays)
	if replays < 100 {
		t.Errorf("%d replays", replays)
	}
	for _, status := range []int{200, 202, 400, 401, 403, 404, 405, 409, 413, 415, 422} {
		if statuses[status] < 10 {
			t.Errorf("%d answers %d in %d requests", statuses[status], status, n)
		}
	}
	charges := a.db.Count(t, "SELECT count(*) FROM charge")
	orders, keys := a.db.Count(t, "SELECT count(DISTINCT order_id) FROM charge"), a.db.Count(t, "SELECT count(*) FROM idempotency_key")
	if charges != len(accepted) || orders != charges || keys != charges || a.woken.Load() != int64(charges) {
		t.Errorf("%d accepted, %d charges of %d orders, %d keys, woken %d times", len(accepted), charges, orders, keys, a.woken.Load())
	}
}

func (h *hostile) remember(t *testing.T, answer *httptest.ResponseRecorder, accepted map[string]string, sent posted) {
	t.Helper()
	location := answer.Header().Get("Location")
	before, known := accepted[location]
	if replayed := answer.Header().Get("Idempotent-Replayed") == "true"; replayed != known || (known && before != answer.Body.String()) {
		t.Errorf("%s was answered %q, now %q, replayed %v", location, before, answer.Body, replayed)
	}
	if !known {
		h.locations, h.done = append(h.locations, location), append(h.done, sent)
	}
	accepted[location] = answer.Body.String()
}

// turn keeps the cursor of a page.
func (h *hostile) turn(answer *httptest.ResponseRecorder) {
	var page struct {
		Next *string `json:"next_cursor"`
	}
	if json.Unmarshal(answer.Body.Bytes(), &page) == nil && page.Next != nil {
		h.cursors = append(h.cursors, *page.Next)
	}
}
