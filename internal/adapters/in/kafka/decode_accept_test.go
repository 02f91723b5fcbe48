package kafka

import (
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// acceptTest is an edit of a golden example that is an event still. edit changes what it says.
type acceptTest struct {
	change
	edit func(e *domain.OrderConfirmed)
}

func checkAccepted(t *testing.T, file string, tests []acceptTest) {
	t.Helper()
	for _, test := range tests {
		want := decode(goldenEvent(t, file)).Event
		if test.edit != nil {
			test.edit(&want)
		}
		d := decode(test.apply(t, goldenEvent(t, file)))
		checkConsistent(t, d)
		if d.Kind != usecase.KindEvent || d.Event != want {
			t.Errorf("%q for %q: kind %d, refusal %v, event %+v, want %+v", test.new, test.old, d.Kind, d.Refusal, d.Event, want)
		}
	}
}

func setOrder(id string) func(*domain.OrderConfirmed) {
	return func(e *domain.OrderConfirmed) { e.Order.OrderID = id }
}

func setMoney(minor int64, currency string) func(*domain.OrderConfirmed) {
	return func(e *domain.OrderConfirmed) { e.Order.Amount = domain.Money{Minor: minor, Currency: currency} }
}

func TestGoContractAccepts(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 15) + strings.Repeat("]", 15)
	checkAccepted(t, "go.json", []acceptTest{
		{change{goldenGoID, strings.ToUpper(goldenGoID)}, nil},
		{change{goldenGoID, "019b7cA9-8C88-7d3a-9F10-5b2f6c1d8E01"}, nil},
		{change{goldenGoID, `019b7ca9\u002d8c88-7d3a-9f10-5b2f6c1d8e01`}, nil},
		{change{`"event_type"`, `"event\u005ftype"`}, nil},
		{change{`"OrderConfirmed"`, `"\u004frderConfirmed"`}, nil},
		{change{`"o-1"`, `"заказ \ud83d\ude00 \"1\" \\"`}, setOrder("заказ 😀 \"1\" \\")},
		{change{`"o-1"`, `"` + strings.Repeat("x", 255) + `"`}, setOrder(strings.Repeat("x", 255))},
		{change{`"o-1"`, `" o-1\r\n"`}, setOrder(" o-1\r\n")},
		{change{`150000,"currency":"RUB"`, "150000"}, setMoney(150000, "RUB")},
		{change{`"RUB"`, "null"}, setMoney(150000, "RUB")},
		{change{`"RUB"`, `"JPY"`}, setMoney(150000, "JPY")},
		{change{`"RUB"`, `"K\u0057D"`}, setMoney(150000, "KWD")},
		{change{"150000", "1"}, setMoney(1, "RUB")},
		{change{"150000", "1000000000"}, setMoney(1_000_000_000, "RUB")},
		{change{"{", `{"eventType":null,`}, nil},
		{change{"{", `{"totalAmount":{"Amount":"x"},"EVENTID":"y","":null,"a\u0000b":"\u0000",`}, nil},
		{change{"{", ` { "items" : [ ] , "e" : { } , "n" : [ { "a" : 1 } , 2 ] , `}, nil},
		{change{"{", `{"deep":` + deep + ","}, nil},
		{change{"{", "\t{\r\n\"n\": 1e400 ,\"true\":true,"}, nil},
		{change{"{", `{"item":[{"Amount":1},{"amount":1}],"amount":1.5,"ſ":1,"x":[{"a":"]}\\"},"\"}"],`}, nil},
		{change{"}", "}\n\t "}, nil},
	})
}

func TestJavaContractAccepts(t *testing.T) {
	t.Parallel()
	const money = `{"amount":"1500.00","currency":"RUB"}`
	checkAccepted(t, "java.json", []acceptTest{
		{change{goldenJavaID, strings.ToUpper(goldenJavaID)}, nil},
		{change{":17", ":0"}, setOrder("0")},
		{change{":17", ": 9223372036854775807 "}, setOrder("9223372036854775807")},
		{change{`"1500.00"`, "1500.00"}, nil},
		{change{`"1500.00"`, "1500"}, nil},
		{change{`"1500.00"`, "1500.0000000000000000000000"}, nil},
		{change{`"1500.00"`, `"1500.000000000000000000000"`}, nil},
		{change{`"1500.00"`, `"1500"`}, nil},
		{change{`"1500.00"`, `"\u0031500"`}, nil},
		{change{`"1500.00"`, "0.01"}, setMoney(1, "RUB")},
		{change{`"1500.00"`, "0.29"}, setMoney(29, "RUB")}, // as a float it is 28.999…
		{change{`"1500.00"`, "1.15"}, setMoney(115, "RUB")},
		{change{`"1500.00"`, "10000000.00"}, setMoney(1_000_000_000, "RUB")},
		{change{money, `{"amount":1500,"currency":"JPY"}`}, setMoney(1500, "JPY")},
		{change{money, `{"amount":"1500.0","currency":"JPY"}`}, setMoney(1500, "JPY")},
		{change{money, `{"currency":"KWD","amount":"1.234"}`}, setMoney(1234, "KWD")},
		{change{money, `{"currency":"CLF","scale":2,"Scale2":{},"amount":0.0001}`}, setMoney(1, "CLF")},
		{change{"{\"eventId", `{"event_type":null,"currency":"?","Currency2":1,"amount":null,"eventId`}, nil},
		{change{"2026-01-02T06:04:05+03:00", "2026-01-02T06:04:05.123456789+03:00"}, nil},
	})
}

func TestDefaultCurrencyMustBeChargeable(t *testing.T) {
	t.Parallel()
	value := change{`,"currency":"RUB"`, ""}.apply(t, goldenEvent(t, "go.json"))
	for _, currency := range []string{"", "XXX"} {
		decoder := Decoder{DefaultCurrency: currency, MaxAmountMinor: 1_000_000}
		d := decoder.Decode("orders", 0, usecase.Message{Value: []byte(value)})
		if d.Refusal == nil || d.Refusal.Reason != domain.ReasonInvalidField {
			t.Errorf("default %q: %v", currency, d.Refusal)
		}
	}
}

func TestEmptyValueIsTombstone(t *testing.T) {
	t.Parallel()
	for _, value := range [][]byte{nil, {}} {
		d := testDecoder().Decode("orders", 3, usecase.Message{Offset: 7, Key: []byte("o-1"), Value: value})
		checkConsistent(t, d)
		if d.Kind != usecase.KindTombstone || d.Origin.Offset != 7 || d.EventID.Valid {
			t.Errorf("%+v", d)
		}
	}
}

func TestListedEventTypesAreIgnored(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		`{"event_type":"OrderShipped","event_id":"` + goldenGoID + `"}`,
		`{"eventType":"order.shipped.v1","eventId":"` + goldenGoID + `","Event_Id":1}`,
		`{"event_type":"OrderShipped","event_id":"` + goldenGoID + `","order_id":17}`,
	} {
		d := decode(value)
		checkConsistent(t, d)
		if d.Kind != usecase.KindIgnored || d.EventID.UUID.String() != goldenGoID {
			t.Errorf("%s: kind %d, id %v", value, d.Kind, d.EventID)
		}
	}
	if d := decode(`{"event_type":"OrderShipped","event_type":"OrderShipped"}`); d.Kind != usecase.KindRefused {
		t.Errorf("an ignored type excuses broken JSON: kind %d", d.Kind)
	}
}

// TestRefusedMessagesNameTheirID tries messages whose contract is not known or whose fault lies elsewhere.
func TestRefusedMessagesNameTheirID(t *testing.T) {
	t.Parallel()
	goID, javaID := uuid.Must(uuid.FromString(goldenGoID)), uuid.Must(uuid.FromString(goldenJavaID))
	for value, want := range map[string]uuid.UUID{
		`{"event_id":"` + goldenGoID + `"}`:                                                                               goID,
		`{"eventId":"` + goldenJavaID + `"}`:                                                                              javaID,
		`{"event_id":"` + goldenGoID + `","eventId":"` + goldenGoID + `"}`:                                                goID,
		`{"event_id":"` + goldenGoID + `","eventId":"` + goldenJavaID + `"}`:                                              uuid.Nil,
		`{"event_type":"A","event_id":"` + goldenGoID + `","eventId":"` + goldenJavaID + `"}`:                             goID,
		`{"eventType":"A","event_id":"` + goldenGoID + `","eventId":"` + goldenJavaID + `"}`:                              javaID,
		`{"eventType":"A","event_id":"` + goldenGoID + `"}`:                                                               uuid.Nil,
		`{"event_type":"A","eventType":"A","event_id":"` + goldenGoID + `"}`:                                              goID,
		`{"event_type":"OrderConfirmed","event_id":"` + goldenGoID + `"}`:                                                 goID,
		`{"event_type":"OrderConfirmed","event_id":"019b7ca9-8c88-4d3a-9f10-5b2f6c1d8e01"}`:                               uuid.Nil,
		`{"event_type":"OrderConfirmed","event_id":"` + goldenGoID + `","event_id":"019b7ca9-8c88-7d3a-9f10-5b2f6c1d8e"}`: uuid.Nil,
		`{"event_id":"` + goldenGoID + `"`:                                                                                uuid.Nil,
	} {
		d := decode(value)
		checkConsistent(t, d)
		if d.Kind != usecase.KindRefused || d.EventID.Valid != (want != uuid.Nil) || d.EventID.UUID != want {
			t.Errorf("%s: kind %d, id %v, want %v", value, d.Kind, d.EventID, want)
		}
	}
}

// TestOrderOfChecks holds messages with two faults against the order of contract §2.
func TestOrderOfChecks(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]domain.Reason{
		`{"a":1,"a":1,"event_type":"Other"}`:                                           domain.ReasonInvalidJSON,
		`{"a":1,"A":1,"event_type":"Other"}`:                                           domain.ReasonInvalidJSON,
		`{"event_type":"Other","event_id":"x"}`:                                        domain.ReasonUnsupportedEventType,
		`{"event_type":"OrderConfirmed","Order_Id":"x","event_id":"x"}`:                domain.ReasonInvalidJSON,
		`{"event_type":"OrderConfirmed","event_id":"x","total_amount":0}`:              domain.ReasonInvalidEventID,
		`{"event_type":"OrderConfirmed","event_id":"x"}`:                               domain.ReasonInvalidEventID,
		`{"event_type":"OrderConfirmed","event_id":null,"total_amount":0}`:             domain.ReasonMissingField,
		`{"eventType":"order.confirmed.v1","eventId":"x","totalAmount":{"amount":-1}}`: domain.ReasonInvalidEventID,
	} {
		d := decode(value)
		checkConsistent(t, d)
		if d.Refusal == nil || d.Refusal.Reason != want {
			t.Errorf("%s: %v, want %s", value, d.Refusal, want)
		}
	}
}

// TestDetailsHoldNoPayload puts a mark into every place of a message and looks for it in the detail.
func TestDetailsHoldNoPayload(t *testing.T) {
	t.Parallel()
	const mark = "zqzq"
	for _, file := range []string{"go.json", "java.json"} {
		text := goldenEvent(t, file)
		for at := range len(text) {
			for _, cut := range []int{0, 1, 9} {
				value := text[:at] + mark + text[min(at+cut, len(text)):]
				d := decode(value)
				checkConsistent(t, d)
				if d.Refusal != nil && strings.Contains(d.Refusal.Detail, mark) {
					t.Fatalf("%s: %q", value, d.Refusal.Detail)
				}
			}
		}
	}
}

// TestNoTruncatedMessageIsAnEvent cuts the examples at every byte.
func TestNoTruncatedMessageIsAnEvent(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"go.json", "java.json"} {
		text := strings.TrimSpace(goldenEvent(t, file))
		for at := 1; at < len(text); at++ {
			d := decode(text[:at])
			checkConsistent(t, d)
			if d.Refusal == nil || d.Refusal.Reason != domain.ReasonInvalidJSON {
				t.Fatalf("%s: kind %d, %v", text[:at], d.Kind, d.Refusal)
			}
		}
	}
}
