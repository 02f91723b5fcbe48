package kafka

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/gofrs/uuid/v5"
	"pgregory.net/rapid"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// jsonWriter writes one message in the many ways that JSON allows: any order of members, any space, any
// character escaped, members that nobody asked for.
type jsonWriter struct{ t *rapid.T }

func (w jsonWriter) space() string {
	return rapid.SampledFrom([]string{"", "", "", " ", "\n", "\t\r "}).Draw(w.t, "space")
}

func (w jsonWriter) text(s string) string {
	escapes := rapid.SampledFrom([]int{0, 0, 2, 1}).Draw(w.t, "escapes") // none, every second, all
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range []rune(s) {
		must := r == '"' || r == '\\' || r < ' '
		switch {
		case !must && (escapes == 0 || i%escapes != 0):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04X`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04X`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func (w jsonWriter) object(members []string) string {
	members = rapid.Permutation(members).Draw(w.t, "order of members")
	return w.space() + "{" + w.space() + strings.Join(members, w.space()+","+w.space()) + w.space() + "}" + w.space()
}

func (w jsonWriter) member(name, value string) string {
	return w.text(name) + w.space() + ":" + w.space() + value
}

// unknown returns members that no contract has.
func (w jsonWriter) unknown(prefix string) []string {
	values := []string{"null", "true", "-1.5e-400", `""`, `"\u0000"`, "[]", "{}", `[{"Amount":1},{"amount":[2]}]`, `{"event_id":{"order_id":null}}`}
	count := rapid.IntRange(0, 30).Draw(w.t, "unknown members")
	members := make([]string, 0, count)
	for i := range count {
		members = append(members, w.member(prefix+strconv.Itoa(i), rapid.SampledFrom(values).Draw(w.t, "value")))
	}
	return members
}

func (w jsonWriter) id(id uuid.UUID) string {
	text := id.String()
	if rapid.Bool().Draw(w.t, "upper case id") {
		text = strings.ToUpper(text)
	}
	return w.text(text)
}

func (w jsonWriter) instant() string {
	zone := time.FixedZone("", 60*rapid.IntRange(-14*60, 14*60).Draw(w.t, "zone"))
	at := time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(w.t, "time")).In(zone)
	return w.text(at.Format(time.RFC3339Nano))
}

// goMessage writes an event by the Go contract.
func (w jsonWriter) goMessage(e domain.OrderConfirmed) string {
	members := append(w.unknown("x_"),
		w.member("event_id", w.id(e.EventID)),
		w.member("event_type", w.text(typeGo)),
		w.member("occurred_at", w.instant()),
		w.member("order_id", w.text(e.Order.OrderID)),
		w.member("customer_id", w.text(e.Order.CustomerID)),
		w.member("total_amount", strconv.FormatInt(e.Order.Amount.Minor, 10)))
	if e.Order.Amount.Currency != testDecoder().DefaultCurrency || rapid.Bool().Draw(w.t, "currency given") {
		members = append(members, w.member("currency", w.text(e.Order.Amount.Currency)))
	}
	return w.object(members)
}

// javaMessage writes an event by the Java contract.
func (w jsonWriter) javaMessage(e domain.OrderConfirmed) string {
	amount := domain.FormatDecimal(e.Order.Amount)
	if strings.Contains(amount, ".") {
		amount += strings.Repeat("0", rapid.IntRange(0, 20).Draw(w.t, "zeros"))
	}
	if rapid.Bool().Draw(w.t, "amount as string") {
		amount = w.text(amount)
	}
	money := append(w.unknown("y"), w.member("amount", amount), w.member("currency", w.text(e.Order.Amount.Currency)))
	return w.object(append(w.unknown("x"),
		w.member("eventId", w.id(e.EventID)),
		w.member("eventType", w.text(typeJava)),
		w.member("occurredAt", w.instant()),
		w.member("orderId", e.Order.OrderID),
		w.member("customerId", e.Order.CustomerID),
		w.member("totalAmount", w.object(money))))
}

func drawEvent(t *rapid.T, id *rapid.Generator[string]) domain.OrderConfirmed {
	var eventID uuid.UUID
	copy(eventID[:], rapid.SliceOfN(rapid.Byte(), uuid.Size, uuid.Size).Draw(t, "event id"))
	eventID.SetVersion(uuid.V7)
	eventID.SetVariant(uuid.VariantRFC9562)
	currencies := rapid.SampledFrom([]string{"RUB", "USD", "JPY", "KRW", "KWD", "BHD", "CLF", "UYW"})
	return domain.OrderConfirmed{EventID: eventID, Order: domain.Order{
		OrderID:    id.Draw(t, "order id"),
		CustomerID: id.Draw(t, "customer id"),
		Amount:     domain.Money{Minor: rapid.Int64Range(1, math.MaxInt64).Draw(t, "minor"), Currency: currencies.Draw(t, "currency")},
	}}
}

func checkRoundTrip(t *rapid.T, want domain.OrderConfirmed, text string) {
	decoder := Decoder{DefaultCurrency: testDecoder().DefaultCurrency, MaxAmountMinor: math.MaxInt64}
	d := decoder.Decode("orders", 0, usecase.Message{Value: []byte(text)})
	if d.Kind != usecase.KindEvent || d.Event != want {
		t.Fatalf("%s: kind %d, refusal %v, read %+v, want %+v", text, d.Kind, d.Refusal, d.Event, want)
	}
}

func TestDecodeReadsWhatTheGoContractWrites(t *testing.T) {
	t.Parallel()
	id := rapid.StringOfN(rapid.Rune().Filter(func(r rune) bool { return r != 0 }), 1, 60, maxIDBytes)
	rapid.Check(t, func(t *rapid.T) {
		event := drawEvent(t, id)
		checkRoundTrip(t, event, jsonWriter{t}.goMessage(event))
	})
}

func TestDecodeReadsWhatTheJavaContractWrites(t *testing.T) {
	t.Parallel()
	id := rapid.Custom(func(t *rapid.T) string {
		return strconv.FormatInt(rapid.Int64Range(0, math.MaxInt64).Draw(t, "id"), 10)
	})
	rapid.Check(t, func(t *rapid.T) {
		event := drawEvent(t, id)
		checkRoundTrip(t, event, jsonWriter{t}.javaMessage(event))
	})
}
