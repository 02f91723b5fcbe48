package kafka

import (
	"strings"
	"testing"
	"time"

	"billing/internal/core/usecase"
)

func headersOf(pairs ...string) []usecase.Header {
	var headers []usecase.Header
	for i := 0; i < len(pairs); i += 2 {
		headers = append(headers, usecase.Header{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return headers
}

func TestTraceparentIsKeptWhenItIsValid(t *testing.T) {
	t.Parallel()
	const valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for value, want := range map[string]string{
		valid:                   valid,
		valid[:53] + "00":       valid[:53] + "00",
		"cc" + valid[2:]:        valid,
		"01" + valid[2:] + "-x": valid,
		"01" + valid[2:] + "x":  "",
		valid + "-x":            "",
		"ff" + valid[2:]:        "",
		"":                      "",
		"00":                    "",
		valid[:54]:              "",
		" " + valid:             "",
		strings.ToUpper(valid):  "",
		strings.Replace(valid, "4bf92f3577b34da6a3ce929d0e0e4736", strings.Repeat("0", 32), 1): "",
		strings.Replace(valid, "00f067aa0ba902b7", strings.Repeat("0", 16), 1):                 "",
		strings.Replace(valid, "-00f", "_00f", 1):                                              "",
		strings.Replace(valid, "4bf", "4bg", 1):                                                "",
		strings.Replace(valid, "-01", "-0x", 1):                                                "",
	} {
		d := testDecoder().Decode("orders", 0, usecase.Message{Headers: headersOf("traceparent", value)})
		if d.Traceparent != want {
			t.Errorf("%q is read %q, want %q", value, d.Traceparent, want)
		}
	}
	d := testDecoder().Decode("orders", 0, usecase.Message{Headers: headersOf("traceparent", "old", "traceparent", valid, "Traceparent", "x")})
	if d.Traceparent != valid {
		t.Errorf("of two headers %q is read, want the last one", d.Traceparent)
	}
}

const retryTopic = "orders.billing.retry"

func retryHeaders() []usecase.Header {
	return headersOf("retry-topic", "orders", "retry-partition", "5", "retry-offset", "9223372036854775807",
		"retry-timestamp", "2026-01-02T03:04:05.678Z", "retry-count", "2")
}

func TestRetriedMessageKeepsItsFirstCoordinates(t *testing.T) {
	t.Parallel()
	d := testDecoder().Decode(retryTopic, 0, usecase.Message{Offset: 1, Value: []byte(goldenEvent(t, "go.json")), Headers: retryHeaders()})
	want := usecase.Origin{Topic: "orders", Partition: 5, Offset: 1<<63 - 1, Time: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)}
	if d.Origin != want || d.Retries != 2 || d.Kind != usecase.KindEvent {
		t.Errorf("origin %+v after %d retries, want %+v", d.Origin, d.Retries, want)
	}
	d = testDecoder().Decode(retryTopic, 0, usecase.Message{Offset: 1, Headers: append(headersOf("retry-count", "x"), retryHeaders()...)})
	if d.Origin != want {
		t.Errorf("of two headers the first is read: %+v", d.Origin)
	}
}

func TestMalformedRetryHeadersAreAsIfAbsent(t *testing.T) {
	t.Parallel()
	check := func(topic string, headers []usecase.Header) {
		t.Helper()
		at := time.UnixMilli(1)
		d := testDecoder().Decode(topic, 4, usecase.Message{Offset: 6, Time: at, Headers: headers})
		if want := (usecase.Origin{Topic: topic, Partition: 4, Offset: 6, Time: at}); d.Origin != want || d.Retries != 0 {
			t.Errorf("%s %q: origin %+v after %d retries", topic, headers, d.Origin, d.Retries)
		}
	}
	for i := range retryHeaders() {
		headers := retryHeaders()
		check(retryTopic, append(headers[:i:i], headers[i+1:]...))
	}
	for key, values := range map[string][]string{
		"retry-topic":     {"", "payments", "order", retryTopic},
		"retry-partition": {"", "-1", "+1", "1.0", "2147483648", "x", " 1"},
		"retry-offset":    {"", "-1", "9223372036854775808", "0x1"},
		"retry-timestamp": {"", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05,678Z", "2026-01-02T03:04:05.678+00:00", "2026-01-02T03:04:05.6789Z", "2026-02-30T03:04:05.678Z"},
		"retry-count":     {"", "-1", "x", "99999999999"},
	} {
		for _, value := range values {
			headers := retryHeaders()
			for i := range headers {
				if headers[i].Key == key {
					headers[i].Value = []byte(value)
				}
			}
			check(retryTopic, headers)
		}
	}
	check("orders", retryHeaders())         // a copy in the topic itself
	check("payments.retry", retryHeaders()) // another topic's retries
	check("orders.billing", retryHeaders())
}
