package kafka

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// FuzzDecode looks for a message that panics, that is read inconsistently, or that is accepted with a
// content which another JSON reader and exact arithmetic do not find in it.
func FuzzDecode(f *testing.F) {
	for _, file := range []string{"go.json", "java.json"} {
		f.Add([]byte(goldenEvent(f, file)), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "5")
	}
	f.Fuzz(func(t *testing.T, value []byte, trace, number string) {
		headers := headersOf("traceparent", trace, "retry-topic", "orders", "retry-partition", number, "retry-offset", number,
			"retry-timestamp", trace, "retry-count", number)
		before := string(value)
		d := testDecoder().Decode(retryTopic, 0, usecase.Message{Value: value, Headers: headers})
		checkConsistent(t, d)
		if string(value) != before {
			t.Fatal("the payload was changed")
		}
		valid := json.Valid(value)
		if !valid && len(value) > 0 && (d.Refusal == nil || d.Refusal.Reason != domain.ReasonInvalidJSON) {
			t.Fatalf("broken JSON: kind %d, %v", d.Kind, d.Refusal)
		}
		if d.Kind == usecase.KindEvent {
			checkMeaning(t, value, d.Event)
		}
	})
}

// checkMeaning reads the message in the loosest way there is: the standard library, which takes the last
// of equal names and does not care for case.
func checkMeaning(tb testing.TB, value []byte, event domain.OrderConfirmed) {
	tb.Helper()
	var loose struct {
		EventID      *string     `json:"event_id"`
		EventType    *string     `json:"event_type"`
		OrderID      string      `json:"order_id"`
		CustomerID   string      `json:"customer_id"`
		TotalAmount  json.Number `json:"total_amount"`
		Currency     *string     `json:"currency"`
		JavaType     *string     `json:"eventType"`
		JavaID       *string     `json:"eventId"`
		JavaOrder    any         `json:"orderId"`
		JavaCustomer any         `json:"customerId"`
		JavaAmount   any         `json:"totalAmount"`
	}
	decoder := json.NewDecoder(strings.NewReader(string(value)))
	decoder.UseNumber()
	// An unknown member may be of any type, so that a mismatch of types is no error here.
	_ = decoder.Decode(&loose)
	id, order, customer, currency := loose.EventID, loose.OrderID, loose.CustomerID, "RUB"
	amount, exponent := loose.TotalAmount.String(), int64(0)
	if loose.Currency != nil {
		currency = *loose.Currency
	}
	if loose.EventType == nil || *loose.EventType != typeGo {
		money, _ := loose.JavaAmount.(map[string]any)
		text, _ := money["currency"].(string)
		id, currency = loose.JavaID, text
		orderNumber, _ := loose.JavaOrder.(json.Number)
		customerNumber, _ := loose.JavaCustomer.(json.Number)
		order, customer = orderNumber.String(), customerNumber.String()
		digits, _ := domain.Exponent(text)
		exponent = int64(digits)
		switch v := money["amount"].(type) {
		case string:
			amount = v
		case json.Number:
			amount = v.String()
		}
	}
	exact, ok := new(big.Rat).SetString(amount)
	if !ok {
		tb.Fatalf("accepted amount %q", amount)
	}
	exact.Mul(exact, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(exponent), nil)))
	want := domain.Order{OrderID: order, CustomerID: customer, Amount: domain.Money{Minor: exact.Num().Int64(), Currency: currency}}
	if !exact.IsInt() || !exact.Num().IsInt64() || event.Order != want {
		tb.Fatalf("read %+v, the message says %+v", event.Order, want)
	}
	if id == nil || strings.ToLower(*id) != event.EventID.String() {
		tb.Fatalf("read id %s, the message says %v", event.EventID, id)
	}
}
