package kafka

import (
	"testing"

	"billing/internal/core/usecase"
)

// BenchmarkDecode reads events of about 300 bytes, with members that are not in the contract.
func BenchmarkDecode(b *testing.B) {
	decoder := Decoder{DefaultCurrency: "RUB", MaxAmountMinor: 1_000_000_000}
	for name, value := range map[string]string{
		"go": `{"event_id":"019b7ca9-8c88-7d3a-9f10-5b2f6c1d8e01","event_type":"OrderConfirmed","occurred_at":"2026-01-02T03:04:05Z",` +
			`"order_id":"o-1234567","customer_id":"c-1234","total_amount":150000,"currency":"RUB",` +
			`"items":[{"sku":"a-1","quantity":2,"price":75000}],"source":"web","note":"leave it at the door"}`,
		"java": `{"eventId":"019b7ca9-8c88-7d3a-9f10-5b2f6c1d8e02","eventType":"order.confirmed.v1","occurredAt":"2026-01-02T06:04:05+03:00",` +
			`"orderId":1234567,"customerId":1234,"totalAmount":{"amount":"1500.00","currency":"RUB"},` +
			`"items":[{"sku":"a-1","quantity":2,"price":750.00}],"source":"web","note":"leave it at the door"}`,
	} {
		b.Run(name, func(b *testing.B) {
			message := usecase.Message{Offset: 1, Value: []byte(value)}
			b.ReportAllocs()
			b.SetBytes(int64(len(value)))
			for b.Loop() {
				if decoder.Decode("orders", 0, message).Kind != usecase.KindEvent {
					b.Fatal("not an event")
				}
			}
		})
	}
}
