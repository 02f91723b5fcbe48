package kafka

import (
	"embed"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

//go:embed testdata/go.json testdata/java.json
var golden embed.FS

const (
	goldenGoID   = "019b7ca9-8c88-7d3a-9f10-5b2f6c1d8e01"
	goldenJavaID = "019b7ca9-8c88-7d3a-9f10-5b2f6c1d8e02"
)

func goldenEvent(tb testing.TB, name string) string {
	tb.Helper()
	text, err := golden.ReadFile("testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

func testDecoder() Decoder {
	return Decoder{DefaultCurrency: "RUB", MaxAmountMinor: 1_000_000_000, IgnoreEventTypes: []string{"OrderShipped", "order.shipped.v1", typeGo, typeJava}}
}

func decode(value string) usecase.Delivery {
	return testDecoder().Decode("orders", 3, usecase.Message{Offset: 7, Time: time.UnixMilli(9), Value: []byte(value)})
}

var plainDetail = regexp.MustCompile(`^[a-zA-Z0-9 _.,:'\-]{1,100}$`)

// checkConsistent fails when the parts of a delivery do not fit each other.
func checkConsistent(tb testing.TB, d usecase.Delivery) {
	tb.Helper()
	if (d.Kind == usecase.KindRefused) != (d.Refusal != nil) {
		tb.Fatalf("kind %d with refusal %v", d.Kind, d.Refusal)
	}
	if d.Refusal != nil && !plainDetail.MatchString(d.Refusal.Detail) {
		tb.Fatalf("detail %q is empty or may hold payload", d.Refusal.Detail)
	}
	if (d.Kind == usecase.KindTombstone) != (len(d.Message.Value) == 0) {
		tb.Fatalf("kind %d for a value of %d bytes", d.Kind, len(d.Message.Value))
	}
	if d.Kind != usecase.KindEvent {
		if d.Event != (domain.OrderConfirmed{}) {
			tb.Fatalf("kind %d with event %+v", d.Kind, d.Event)
		}
		return
	}
	order := d.Event.Order
	if !d.EventID.Valid || d.EventID.UUID != d.Event.EventID || d.EventID.UUID == uuid.Nil {
		tb.Fatalf("event id %v of event %+v", d.EventID, d.Event)
	}
	if order.OrderID == "" || order.CustomerID == "" || order.Amount.Minor <= 0 || order.Amount.Minor > testDecoder().MaxAmountMinor {
		tb.Fatalf("accepted %+v", order)
	}
	if _, ok := domain.Exponent(order.Amount.Currency); !ok {
		tb.Fatalf("accepted currency %q", order.Amount.Currency)
	}
}

func TestGoldenExamplesAreEvents(t *testing.T) {
	t.Parallel()
	money := domain.Money{Minor: 150000, Currency: "RUB"}
	for name, want := range map[string]domain.OrderConfirmed{
		"go.json":   {EventID: uuid.Must(uuid.FromString(goldenGoID)), Order: domain.Order{OrderID: "o-1", CustomerID: "c-1", Amount: money}},
		"java.json": {EventID: uuid.Must(uuid.FromString(goldenJavaID)), Order: domain.Order{OrderID: "17", CustomerID: "4", Amount: money}},
	} {
		d := decode(goldenEvent(t, name))
		checkConsistent(t, d)
		if d.Kind != usecase.KindEvent || d.Event != want {
			t.Errorf("%s: kind %d, refusal %v, event %+v", name, d.Kind, d.Refusal, d.Event)
		}
		if at := domain.IDTime(d.Event.EventID); !at.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
			t.Errorf("%s: the example's id is of %s", name, at)
		}
		if want := (usecase.Origin{Topic: "orders", Partition: 3, Offset: 7, Time: time.UnixMilli(9)}); d.Origin != want {
			t.Errorf("%s: origin %+v", name, d.Origin)
		}
	}
}

// change is an edit of a golden example. old must stand in it exactly once.
type change struct{ old, new string }

func (c change) apply(tb testing.TB, text string) string {
	tb.Helper()
	if c.old == "" {
		return c.new
	}
	if strings.Count(text, c.old) != 1 {
		tb.Fatalf("%q stands %d times in the example", c.old, strings.Count(text, c.old))
	}
	return strings.Replace(text, c.old, c.new, 1)
}

type refusalTest struct {
	change
	reason domain.Reason
}

func checkRefusals(t *testing.T, file, id string, tests []refusalTest) {
	t.Helper()
	for _, test := range tests {
		d := decode(test.apply(t, goldenEvent(t, file)))
		checkConsistent(t, d)
		if d.Refusal == nil || d.Refusal.Reason != test.reason {
			t.Errorf("%q for %q: kind %d, refusal %v, want %s", test.new, test.old, d.Kind, d.Refusal, test.reason)
			continue
		}
		readable := test.reason == domain.ReasonInvalidAmount || test.reason == domain.ReasonUnsupportedEventType
		if readable && (!d.EventID.Valid || d.EventID.UUID.String() != id) {
			t.Errorf("%q for %q: the id could be read and is %v", test.new, test.old, d.EventID)
		}
	}
}

func TestInvalidJSONIsRefused(t *testing.T) {
	t.Parallel()
	const reason = domain.ReasonInvalidJSON
	nested := func(open, end string, n int) string { return strings.Repeat(open, n) + "1" + strings.Repeat(end, n) }
	checkRefusals(t, "go.json", goldenGoID, []refusalTest{
		{change{"", " "}, reason},
		{change{"", "null"}, reason},
		{change{"", "[]"}, reason},
		{change{"", `"OrderConfirmed"`}, reason},
		{change{"", "17"}, reason},
		{change{"", "NaN"}, reason},
		{change{"", "{"}, reason},
		{change{"", "{]"}, reason},
		{change{"", `{"a":1,}`}, reason},
		{change{"", `{'a':1}`}, reason},
		{change{"", "\xef\xbb\xbf{}"}, reason}, // BOM
		{change{"", "\x00\x00\x00\x00\x01{}"}, reason},
		{change{"", strings.Repeat("[", 100_000)}, reason},
		{change{"", strings.Repeat(`{"a":`, 100_000)}, reason},
		{change{"}", "} {}"}, reason},
		{change{"}", "},"}, reason},
		{change{"}", "}\x00"}, reason},
		{change{"}", "}//"}, reason},
		{change{"}", ""}, reason},
		{change{`"o-1"`, "\"o\xff\""}, reason},
		{change{`"o-1"`, "\"o\xed\xa0\x80\""}, reason}, // a surrogate in UTF-8
		{change{`"o-1"`, "\"\xc0\x80\""}, reason},      // overlong
		{change{`"o-1"`, `"\ud800"`}, reason},
		{change{`"o-1"`, `"\udc00"`}, reason},
		{change{`"o-1"`, `"\ud800\ud800"`}, reason},
		{change{`"o-1"`, `"\x41"`}, reason},
		{change{`"o-1"`, "\"a\nb\""}, reason},
		{change{`"o-1"`, "\"a\x00b\""}, reason},
		{change{"150000", "0150000"}, reason},
		{change{"150000", "+1"}, reason},
		{change{"150000", "-"}, reason},
		{change{"150000", ".5"}, reason},
		{change{"150000", "1."}, reason},
		{change{"150000", "0x10"}, reason},
		{change{"150000", "Infinity"}, reason},
		{change{"150000", "True"}, reason},
		{change{`"c-1"`, `"c-1","customer_id":"c-1"`}, reason},
		{change{`"c-1"`, `"c-1","customer_\u0069d":"c-1"`}, reason},
		{change{`"c-1"`, `"c-1","other":{"a":[{"b":1,"b":1}]}`}, reason},
		{change{`"c-1"`, `"c-1","other":"\ud800"`}, reason},
		{change{`"c-1"`, `"c-1","other":` + nested("[", "]", 16)}, reason},
		{change{`"c-1"`, `"c-1","other":` + nested(`{"a":`, "}", 16)}, reason},
		{change{`"c-1"`, `"c-1","other":[[],[{}],` + nested("[", "]", 15) + "]"}, reason},
	})
}

func TestKeysThatDifferInCaseAreRefused(t *testing.T) {
	t.Parallel()
	const reason = domain.ReasonInvalidJSON
	var many strings.Builder
	for i := range 40 {
		many.WriteString(`"` + strings.Repeat("k", i+1) + `":0,`)
	}
	checkRefusals(t, "go.json", goldenGoID, []refusalTest{
		{change{`"event_id"`, `"Event_ID"`}, reason},
		{change{`"event_type"`, `"EVENT_TYPE"`}, reason},
		{change{`"event_type"`, `"EventType"`}, reason},
		{change{`"occurred_at"`, `"Occurred_at"`}, reason},
		{change{`"order_id"`, `"order_Id"`}, reason},
		{change{`"customer_id"`, `"customer_ID"`}, reason},
		{change{`"total_amount"`, `"total_Amount"`}, reason},
		{change{`"currency"`, `"Currency"`}, reason},
		{change{`"customer_id"`, `"cuſtomer_id"`}, reason},
		{change{`"customer_id"`, `"cu\u017ftomer_id"`}, reason},
		{change{`"customer_id"`, `"customer_ıd"`}, reason},
		{change{`"customer_id"`, `"customer_İd"`}, reason},
		{change{`150000`, `150000,"Total_Amount":1`}, reason},
		{change{`150000`, `150000,"eventtype":1`}, reason},
		{change{`150000`, `150000,"Amount":1,"amount":1`}, reason},
		{change{`150000`, `150000,"K":1,"k":1`}, reason}, // Kelvin
		{change{`150000`, `150000,"ΣΑΣ":1,"σας":1`}, reason},
		{change{`150000`, `150000,"Ё":1,"ё":1`}, reason},
		{change{`150000`, `150000,"x":[{"y":{"Amount":1,"amount":1}}]`}, reason},
		{change{`150000`, `150000,"x":{` + many.String() + `"K":1}`}, reason},
	})
	checkRefusals(t, "java.json", goldenJavaID, []refusalTest{
		{change{`"eventId"`, `"eventID"`}, reason},
		{change{`"eventId"`, `"eventid"`}, reason},
		{change{`"eventType"`, `"eventtype"`}, reason},
		{change{`"eventType"`, `"EventType"`}, reason},
		{change{`"occurredAt"`, `"occurredat"`}, reason},
		{change{`"orderId"`, `"OrderId"`}, reason},
		{change{`"customerId"`, `"customerid"`}, reason},
		{change{`"totalAmount"`, `"TotalAmount"`}, reason},
		{change{`"amount"`, `"Amount"`}, reason},
		{change{`"currency"`, `"CURRENCY"`}, reason},
		{change{`"orderId"`, `"orderid":17,"orderId"`}, reason},
		{change{`"amount"`, `"AMOUNT":1,"amount"`}, reason},
	})
}

func TestGoContractRefusals(t *testing.T) {
	t.Parallel()
	const id = `"` + goldenGoID + `"`
	long := `"` + strings.Repeat("x", 256) + `"`
	checkRefusals(t, "go.json", goldenGoID, append(fieldRefusals("event_type", `"OrderConfirmed"`), []refusalTest{
		{change{"", "{}"}, domain.ReasonMissingField},
		{change{`"event_type":"OrderConfirmed",`, ""}, domain.ReasonMissingField},
		{change{`"event_id":` + id + ",", ""}, domain.ReasonMissingField},
		{change{`"occurred_at":"2026-01-02T03:04:05Z",`, ""}, domain.ReasonMissingField},
		{change{`"order_id":"o-1",`, ""}, domain.ReasonMissingField},
		{change{`"customer_id":"c-1",`, ""}, domain.ReasonMissingField},
		{change{`"total_amount":150000,`, ""}, domain.ReasonMissingField},
		{change{id, "null"}, domain.ReasonMissingField},
		{change{`"2026-01-02T03:04:05Z"`, "null"}, domain.ReasonMissingField},
		{change{`"o-1"`, "null"}, domain.ReasonMissingField},
		{change{`"c-1"`, "null"}, domain.ReasonMissingField},
		{change{"150000", "null"}, domain.ReasonMissingField},

		{change{`"OrderConfirmed"`, `"OrderCreated"`}, domain.ReasonUnsupportedEventType},
		{change{`"OrderConfirmed"`, `"orderconfirmed"`}, domain.ReasonUnsupportedEventType},
		{change{`"OrderConfirmed"`, `" OrderConfirmed"`}, domain.ReasonUnsupportedEventType},
		{change{`"OrderConfirmed"`, `"order.created.v1"`}, domain.ReasonUnsupportedEventType},
		{change{`{`, `{"eventType":"order.confirmed.v1",`}, domain.ReasonInvalidField},
		{change{`{`, `{"eventType":"other",`}, domain.ReasonInvalidField},

		{change{id, "17"}, domain.ReasonInvalidField},
		{change{id, `["a"]`}, domain.ReasonInvalidField},
		{change{id, `""`}, domain.ReasonInvalidEventID},
		{change{id, `"17"`}, domain.ReasonInvalidEventID},
		{change{id, `"` + strings.Repeat("x", 36) + `"`}, domain.ReasonInvalidEventID},
		{change{id, `"019b7ca98c887d3a9f105b2f6c1d8e01"`}, domain.ReasonInvalidEventID},
		{change{id, `"{` + goldenGoID + `}"`}, domain.ReasonInvalidEventID},
		{change{id, `"urn:uuid:` + goldenGoID + `"`}, domain.ReasonInvalidEventID},
		{change{id, `" ` + goldenGoID + `"`}, domain.ReasonInvalidEventID},
		{change{id, `"019b7ca9-8c88-4d3a-9f10-5b2f6c1d8e01"`}, domain.ReasonInvalidEventID}, // version 4
		{change{id, `"019b7ca9-8c88-7d3a-cf10-5b2f6c1d8e01"`}, domain.ReasonInvalidEventID}, // variant
		{change{id, `"00000000-0000-0000-0000-000000000000"`}, domain.ReasonInvalidEventID},
		{change{id, `"019b7ca9-8c88-7d3a-9f10-5b2f6c1d8e\u00001"`}, domain.ReasonInvalidEventID},
		{change{id, `"019b7ca9-8c88-7d3a-9f10-5b2f6c1d8e0g"`}, domain.ReasonInvalidEventID},

		{change{`"o-1"`, long}, domain.ReasonInvalidField},
		{change{`"c-1"`, long}, domain.ReasonInvalidField},
		{change{`"2026-01-02T03:04:05Z"`, `"2026-01-02T03:04:05"`}, domain.ReasonInvalidField},
		{change{`"2026-01-02T03:04:05Z"`, `"yesterday"`}, domain.ReasonInvalidField},

		{change{"150000", "0"}, domain.ReasonInvalidAmount},
		{change{"150000", "-0"}, domain.ReasonInvalidAmount},
		{change{"150000", "-1"}, domain.ReasonInvalidAmount},
		{change{"150000", "-99999999999999999999"}, domain.ReasonInvalidAmount},
		{change{"150000", "1000000001"}, domain.ReasonInvalidAmount},
		{change{"150000", "9223372036854775807"}, domain.ReasonInvalidAmount},
		{change{"150000", "9223372036854775808"}, domain.ReasonInvalidAmount},
		{change{"150000", "18446744073709551617"}, domain.ReasonInvalidAmount},
		{change{"150000", "100.0"}, domain.ReasonInvalidAmount},
		{change{"150000", "100.5"}, domain.ReasonInvalidAmount},
		{change{"150000", "1E2"}, domain.ReasonInvalidAmount},
		{change{"150000", "1e2"}, domain.ReasonInvalidAmount},
		{change{"150000", "1e400"}, domain.ReasonInvalidAmount},
		{change{"150000", `"150000"`}, domain.ReasonInvalidAmount},
		{change{"150000", `""`}, domain.ReasonInvalidAmount},
		{change{"150000", "true"}, domain.ReasonInvalidAmount},
		{change{"150000", "[150000]"}, domain.ReasonInvalidAmount},
		{change{"150000", `{"amount":"1500.00","currency":"RUB"}`}, domain.ReasonInvalidAmount},
	}...))
	for name, old := range map[string]string{
		"occurred_at": `"2026-01-02T03:04:05Z"`, "order_id": `"o-1"`, "customer_id": `"c-1"`, "currency": `"RUB"`,
	} {
		checkRefusals(t, "go.json", goldenGoID, fieldRefusals(name, old))
	}
	checkRefusals(t, "go.json", goldenGoID, currencyRefusals())
}

// fieldRefusals are what no string member may be.
func fieldRefusals(name, old string) []refusalTest {
	tests := make([]refusalTest, 0, 8)
	for _, value := range []string{`""`, "17", "1.5", "true", "false", "{}", "[]", `"a\u0000b"`} {
		tests = append(tests, refusalTest{change{`"` + name + `":` + old, `"` + name + `":` + value}, domain.ReasonInvalidField})
	}
	return tests
}

func currencyRefusals() []refusalTest {
	tests := make([]refusalTest, 0, 10)
	for _, value := range []string{"rub", "Rub", "RUBL", "RU", " RUB", "XAU", "XXX", "XDR", "ABC", "643"} {
		tests = append(tests, refusalTest{change{`"RUB"`, `"` + value + `"`}, domain.ReasonInvalidField})
	}
	return tests
}

func TestJavaContractRefusals(t *testing.T) {
	t.Parallel()
	const money = `{"amount":"1500.00","currency":"RUB"}`
	checkRefusals(t, "java.json", goldenJavaID, []refusalTest{
		{change{`"eventType":"order.confirmed.v1",`, ""}, domain.ReasonMissingField},
		{change{`"eventId":"` + goldenJavaID + `",`, ""}, domain.ReasonMissingField},
		{change{`"occurredAt":"2026-01-02T06:04:05+03:00",`, ""}, domain.ReasonMissingField},
		{change{`"orderId":17,`, ""}, domain.ReasonMissingField},
		{change{`"customerId":4,`, ""}, domain.ReasonMissingField},
		{change{`,"totalAmount":` + money, ""}, domain.ReasonMissingField},
		{change{money, "null"}, domain.ReasonMissingField},
		{change{money, "{}"}, domain.ReasonMissingField},
		{change{`"amount":"1500.00",`, ""}, domain.ReasonMissingField},
		{change{`"1500.00"`, "null"}, domain.ReasonMissingField},
		{change{`,"currency":"RUB"`, ""}, domain.ReasonMissingField},
		{change{`"RUB"`, "null"}, domain.ReasonMissingField},
		{change{"17", "null"}, domain.ReasonMissingField},

		{change{"order.confirmed.v1", "order.confirmed.v2"}, domain.ReasonUnsupportedEventType},
		{change{"order.confirmed.v1", "OrderCreated"}, domain.ReasonUnsupportedEventType},
		{change{"order.confirmed.v1", "ORDER.CONFIRMED.V1"}, domain.ReasonUnsupportedEventType},
		{change{`"` + goldenJavaID + `"`, `"17"`}, domain.ReasonInvalidEventID},
		{change{`"` + goldenJavaID + `"`, "17"}, domain.ReasonInvalidField},

		{change{":17", `:"17"`}, domain.ReasonInvalidField},
		{change{":17", ":17.0"}, domain.ReasonInvalidField},
		{change{":17", ":1e1"}, domain.ReasonInvalidField},
		{change{":17", ":-17"}, domain.ReasonInvalidField},
		{change{":17", ":-0"}, domain.ReasonInvalidField},
		{change{":17", ":9223372036854775808"}, domain.ReasonInvalidField},
		{change{":17", ":true"}, domain.ReasonInvalidField},
		{change{":17", `:""`}, domain.ReasonInvalidField},
		{change{":4", `:"4"`}, domain.ReasonInvalidField},
		{change{":4", ":4.5"}, domain.ReasonInvalidField},
		{change{":4", ":[4]"}, domain.ReasonInvalidField},
		{change{`"RUB"`, `""`}, domain.ReasonInvalidField},
		{change{`"RUB"`, "643"}, domain.ReasonInvalidField},
		{change{`"RUB"`, `"RU\u0000B"`}, domain.ReasonInvalidField},
		{change{`"2026-01-02T06:04:05+03:00"`, "1767323045"}, domain.ReasonInvalidField},

		{change{money, "1500"}, domain.ReasonInvalidAmount},
		{change{money, `"1500.00"`}, domain.ReasonInvalidAmount},
		{change{money, "[]"}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, `""`}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, `"0"`}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, `"0.00"`}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, `"-1"`}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, `"+1"`}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, `"01"`}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, `"1.005"`}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, `"1e3"`}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, `"1500,00"`}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, `" 1500"`}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, `"15\u00000"`}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, `"10000000.01"`}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, `"99999999999999999999"`}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, "0"}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, "-0"}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, "-1500"}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, "1.5E3"}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, "1E2"}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, "1e400"}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, "1500.001"}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, "true"}, domain.ReasonInvalidAmount},
		{change{`"1500.00"`, `["1500.00"]`}, domain.ReasonInvalidAmount},
		{change{money, `{"amount":"1500.50","currency":"JPY"}`}, domain.ReasonInvalidAmount},
		{change{money, `{"amount":"1.0005","currency":"KWD"}`}, domain.ReasonInvalidAmount},
	})
	for name, old := range map[string]string{"eventType": `"order.confirmed.v1"`, "occurredAt": `"2026-01-02T06:04:05+03:00"`} {
		checkRefusals(t, "java.json", goldenJavaID, fieldRefusals(name, old))
	}
	checkRefusals(t, "java.json", goldenJavaID, currencyRefusals())
}

func TestEventTypesAreNeverMixedBetweenContracts(t *testing.T) {
	t.Parallel()
	checkRefusals(t, "go.json", goldenGoID, []refusalTest{
		{change{`"OrderConfirmed"`, `"order.confirmed.v1"`}, domain.ReasonUnsupportedEventType},
		{change{`"event_type":"OrderConfirmed"`, `"eventType":"order.confirmed.v1"`}, domain.ReasonMissingField},
	})
	checkRefusals(t, "java.json", goldenJavaID, []refusalTest{
		{change{`"order.confirmed.v1"`, `"OrderConfirmed"`}, domain.ReasonUnsupportedEventType},
		{change{`"eventType":"order.confirmed.v1"`, `"event_type":"OrderConfirmed"`}, domain.ReasonMissingField},
	})
}
