package payment

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"billing/internal/core/domain"
)

func TestRetryAfterIsReadAndClamped(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"":                                   0,
		"0":                                  0,
		"7":                                  7 * time.Second,
		" 7 ":                                7 * time.Second,
		"-5":                                 0,
		"900":                                15 * time.Minute,
		"901":                                15 * time.Minute,
		"315360000":                          15 * time.Minute,
		"99999999999999999999999999":         15 * time.Minute,
		"-99999999999999999999999999":        0,
		"1.5":                                0,
		"7s":                                 0,
		"soon":                               0,
		"Fri, 02 Jan 2026 03:04:15 GMT":      10 * time.Second,
		"Friday, 02-Jan-26 03:04:15 GMT":     10 * time.Second,
		"Fri, 02 Jan 2026 03:04:00 GMT":      0,
		"Fri, 02 Jan 2036 03:04:00 GMT":      15 * time.Minute,
		"Mon, 01 Jan 0001 00:00:00 GMT":      0,
		"Fri, 31 Dec 9999 23:59:59 GMT":      15 * time.Minute,
		"2026-01-02T03:04:15Z":               0,
		"Fri, 02 Jan 2026 03:04:15 GMT, 120": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, testNow); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
}

// TestRetryAfterComesWithEveryUnknownAnswer is H7: whoever says it, it is not before then.
func TestRetryAfterComesWithEveryUnknownAnswer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		raw  string
		want time.Duration
	}{
		"429":         {whole(429, "{}", "Retry-After: 3"), 3 * time.Second},
		"503":         {whole(503, "", "Retry-After: Fri, 02 Jan 2026 03:04:15 GMT"), 10 * time.Second},
		"408":         {whole(408, "", "Retry-After: 4"), 4 * time.Second},
		"302":         {whole(302, "", "Retry-After: 4"), 4 * time.Second},
		"in progress": {whole(409, `{"code":"in_progress"}`, "Retry-After: 5"), 5 * time.Second},
		"cut 503":     {"HTTP/1.1 503 No\r\nRetry-After: 6\r\nContent-Length: 10\r\n\r\n", 6 * time.Second},
		"negative":    {whole(429, "", "Retry-After: -1"), 0},
		"succeeded":   {whole(200, goodBody, "Retry-After: 7"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := newPeer(t, once(tc.raw))
			g := newGeneric(t, target{url: at.url()})
			if got := g.Charge(t.Context(), testKey, testRequest, testOrder, "").RetryAfter; got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			g.Close()
		})
	}
}

func TestCodeIsShortPrintableASCII(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`"card_declined"`:                      "card_declined",
		`"two words"`:                          "two words",
		`"\u0000\r\nx\u007f"`:                  "???x?",
		`"отказ"`:                              "??????????",
		`""`:                                   "",
		`null`:                                 "",
		`17`:                                   "",
		`{"a":"b"}`:                            "",
		`"` + strings.Repeat("a", 1000) + `"`:  strings.Repeat("a", 64),
		`"` + strings.Repeat("a", 63) + `ы"`:   strings.Repeat("a", 63) + "?",
		`"` + strings.Repeat("\\n", 100) + `"`: strings.Repeat("?", 64),
	} {
		if got := classifyCharge(402, []byte(`{"code":`+raw+`}`), testOrder).Code; got != want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
	}
}

func TestProviderRefIsKeptWhereATableCanHoldIt(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	for raw, want := range map[string]*string{
		`,"id":"ch_1"`:     text("ch_1"),
		`,"id":""`:         text(""),
		`,"id":null`:       nil,
		``:                 nil,
		`,"id":"a\u0000b"`: nil,
		`,"id":"` + strings.Repeat("a", 255) + `"`:   text(strings.Repeat("a", 255)),
		`,"id":"` + strings.Repeat("a", 256) + `"`:   nil,
		`,"id":"` + strings.Repeat("a", 60000) + `"`: nil,
	} {
		a := classifyCharge(200, []byte(`{"status":"succeeded"`+raw+`}`), testOrder)
		if a.Outcome != domain.Succeeded || (a.ProviderRef == nil) != (want == nil) || (want != nil && *a.ProviderRef != *want) {
			t.Errorf("%s: got %s with ref %v", raw, a.Outcome, a.ProviderRef)
		}
	}
	for _, status := range []int{202, 402} {
		a := classifyCharge(status, []byte(`{"id":"ch_2"}`), testOrder)
		if a.ProviderRef == nil || *a.ProviderRef != "ch_2" {
			t.Errorf("%d: got ref %v", status, a.ProviderRef)
		}
	}
	// The id of another charge is not ours.
	if a := classifyCharge(200, []byte(`{"id":"ch_3","status":"succeeded","amount":1}`), testOrder); a.ProviderRef != nil {
		t.Errorf("got ref %q of another charge", *a.ProviderRef)
	}
}

func TestRequestBytesAreFixed(t *testing.T) {
	t.Parallel()
	rub := domain.Money{Minor: 1, Currency: "RUB"}
	for want, order := range map[string]domain.Order{
		`{"order_id":"o-1","customer_id":"c-1","amount":150000,"currency":"RUB"}`: {
			OrderID: "o-1", CustomerID: "c-1", Amount: domain.Money{Minor: 150000, Currency: "RUB"},
		},
		`{"order_id":"17","customer_id":"4","amount":9223372036854775807,"currency":"JPY"}`: {
			OrderID: "17", CustomerID: "4", Amount: domain.Money{Minor: 1<<63 - 1, Currency: "JPY"},
		},
		`{"order_id":"<a>&\"\\","customer_id":"ё\n","amount":1,"currency":"RUB"}`: {OrderID: `<a>&"\`, CustomerID: "ё\n", Amount: rub},
	} {
		if got, err := Request(order); err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	for name, order := range map[string]domain.Order{
		"bad UTF-8": {OrderID: "\xff", CustomerID: "c", Amount: rub}, "empty": {},
		"no customer": {OrderID: "o", Amount: rub}, "no amount": {OrderID: "o", CustomerID: "c", Amount: domain.Money{Currency: "RUB"}},
	} {
		if got, err := Request(order); err == nil {
			t.Errorf("%s: became %s", name, got)
		}
	}
}

// TestRequestSaysWhatTheOrderSays: any order that can be written reads back the same.
func TestRequestSaysWhatTheOrderSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		order := domain.Order{
			OrderID:    rapid.StringN(1, 50, -1).Draw(t, "order"),
			CustomerID: rapid.StringN(1, 50, -1).Draw(t, "customer"),
			Amount:     domain.Money{Minor: rapid.Int64Min(1).Draw(t, "amount"), Currency: "RUB"},
		}
		first, err := Request(order)
		if err != nil {
			t.Fatalf("Request: %v", err)
		}
		again, _ := new(Generic).Request(order)
		var got struct {
			OrderID    string `json:"order_id"`
			CustomerID string `json:"customer_id"`
			Amount     int64  `json:"amount"`
			Currency   string `json:"currency"`
		}
		if err := json.Unmarshal(first, &got, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("read %s: %v", first, err)
		}
		back := domain.Order{OrderID: got.OrderID, CustomerID: got.CustomerID, Amount: domain.Money{Minor: got.Amount, Currency: got.Currency}}
		if back != order || string(first) != string(again) {
			t.Fatalf("got %v, want %v", back, order)
		}
	})
}
