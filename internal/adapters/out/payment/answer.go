package payment

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"billing/internal/core/domain"
)

const (
	maxCode       = 64               // bytes of a provider's code that are kept
	maxRef        = 255              // bytes of a provider's id that are kept
	maxRetryAfter = 15 * time.Minute // a longer hint is cut: an order must not wait for a misread clock
)

// object is a JSON object whose members were not looked into. Reading it refuses duplicate members,
// bad UTF-8 and trailing data at every depth: two readers must not see two answers.
type object map[string]jsontext.Value

func readObject(body []byte) (object, bool) {
	var o object
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, false // what was read up to the error must not count
	}
	return o, o != nil // null makes a nil map
}

// text returns a string member; nil when it is absent or null, not ok when it is something else.
func (o object) text(name string) (value *string, ok bool) {
	raw, present := o[name]
	if !present || raw.Kind() == jsontext.KindNull {
		return nil, true
	}
	if raw.Kind() != jsontext.KindString {
		return nil, false
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, false
	}
	return &s, true
}

// is reports whether a string member is there and equal.
func (o object) is(name, want string) bool {
	got, ok := o.text(name)
	return ok && got != nil && *got == want
}

// code returns the provider's code as it is kept: printable ASCII and short.
func (o object) code() string {
	raw, _ := o.text("code")
	if raw == nil {
		return ""
	}
	kept := []byte((*raw)[:min(len(*raw), maxCode)])
	for i, c := range kept {
		if c < ' ' || c > '~' {
			kept[i] = '?'
		}
	}
	return string(kept)
}

// ref returns the provider's id of the charge. One that no table could hold is left out: the word on
// the charge is worth more than its id.
func (o object) ref() *string {
	id, _ := o.text("id")
	if id == nil || len(*id) > maxRef || strings.ContainsFunc(*id, func(r rune) bool { return r < ' ' }) {
		return nil
	}
	return id
}

// echo is how an answer's own words on the order it is about compare with the order.
type echo uint8

const (
	echoAgrees echo = iota // every member that is there agrees
	echoDiffers
	echoUnreadable // a member is not of the contract's type
)

func (o object) echo(order domain.Order) echo {
	verdict := echoAgrees
	for _, text := range [...]struct{ name, want string }{{"order_id", order.OrderID}, {"currency", order.Amount.Currency}} {
		got, ok := o.text(text.name)
		if !ok {
			return echoUnreadable
		}
		if got != nil && *got != text.want {
			verdict = echoDiffers
		}
	}
	switch amount := o["amount"]; {
	case amount == nil || amount.Kind() == jsontext.KindNull:
	case !integer(amount):
		return echoUnreadable
	case string(amount) != strconv.FormatInt(order.Amount.Minor, 10):
		verdict = echoDiffers
	}
	return verdict
}

// integer reports whether a JSON value is a number without fraction and exponent.
func integer(raw jsontext.Value) bool {
	return raw.Kind() == jsontext.KindNumber && !strings.ContainsAny(string(raw), ".eE")
}

// retryAfter reads the hint when to come back, in seconds or as a date, between 0 and maxRetryAfter.
// What cannot be read is no hint.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		seconds = min(max(seconds, 0), int64(maxRetryAfter/time.Second))
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}
