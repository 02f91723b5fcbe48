package kafka

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

func announcement(status domain.Status, change func(*domain.Announcement)) domain.Announcement {
	a := domain.Announcement{
		ID:         uuid.Must(uuid.FromString("019b7ca9-8c88-7d3a-9f10-5b2f6c1d8e02")),
		Type:       status.Announcement(),
		OccurredAt: time.Date(2026, 1, 2, 6, 4, 5, 678_900_000, time.FixedZone("MSK", 3*3600)),
		Charge:     uuid.Must(uuid.FromString("019b7ca9-8c88-7d3a-9f10-5b2f6c1d8e01")),
		Order:      domain.Order{OrderID: "o-1", CustomerID: "c-1", Amount: domain.Money{Minor: 150000, Currency: "RUB"}},
		Version:    1,
	}
	change(&a)
	return a
}

func announcements() map[string]domain.Announcement {
	return map[string]domain.Announcement{
		"ChargeSucceeded": announcement(domain.StatusSucceeded, func(a *domain.Announcement) { a.ProviderRef = new("ch_1") }),
		"ChargeDeclined": announcement(domain.StatusDeclined, func(a *domain.Announcement) {
			a.ProviderRef, a.Reason = new(""), "card_declined"
		}),
		"ChargeParked": announcement(domain.StatusParked, func(a *domain.Announcement) {
			a.Reason, a.Version = string(domain.ParkOutcomeUnknown), 2
		}),
		"ChargeCancelled": announcement(domain.StatusCancelled, func(a *domain.Announcement) {
			a.Order.OrderID, a.Order.CustomerID = `17 "<&>" ✓`, "4"
		}),
	}
}

func TestAnnouncementsAreTheGoldenBytesAndFollowTheirSchema(t *testing.T) {
	t.Parallel()
	for name, a := range announcements() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := Messages{ResultsTopic: "results"}.Announcement(a, "")
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(filepath.Join("testdata", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(append(m.Value, '\n'), want) {
				t.Errorf("got  %s\nwant %s", m.Value, want)
			}
			checkSchema(t, filepath.Join("schema", name+".json"), m.Value)
		})
	}
}

// checkSchema holds a value against the part of JSON Schema that our schemas use.
func checkSchema(t *testing.T, file string, value []byte) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Required   []string
		Properties map[string]struct {
			Type    any
			Const   any
			Pattern string
			Minimum *float64
		}
	}
	var members map[string]any
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if err := json.Unmarshal(value, &members); err != nil {
		t.Fatal(err)
	}
	if len(schema.Required) != len(members) || len(schema.Properties) != len(members) {
		t.Errorf("%s requires %d of %d members, the event has %d", file, len(schema.Required), len(schema.Properties), len(members))
	}
	for name, rule := range schema.Properties {
		member, present := members[name]
		if !present || !slices.Contains(schema.Required, name) {
			t.Errorf("%s: %s is not in the event or not required", file, name)
		}
		text, isText := member.(string)
		number, isNumber := member.(float64)
		types, _ := json.Marshal(rule.Type)
		switch {
		case isText && !bytes.Contains(types, []byte(`"string"`)),
			isNumber && !bytes.Contains(types, []byte(`"integer"`)),
			member == nil && !bytes.Contains(types, []byte(`"null"`)),
			rule.Const != nil && rule.Const != member,
			isText && rule.Pattern != "" && !regexp.MustCompile(rule.Pattern).MatchString(text),
			isNumber && rule.Minimum != nil && number < *rule.Minimum:
			t.Errorf("%s: %s is %v", file, name, member)
		}
	}
}

func TestAnAnnouncementCarriesKeyHeadersAndATrace(t *testing.T) {
	t.Parallel()
	const given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	valid := regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$`)
	a := announcements()["ChargeSucceeded"]
	traces := map[string]bool{}
	for _, traceparent := range []string{given, "", ""} {
		m, err := Messages{ResultsTopic: "results"}.Announcement(a, traceparent)
		if err != nil {
			t.Fatal(err)
		}
		if m.Topic != "results" || string(m.Key) != "o-1" || m.EventType != "ChargeSucceeded" || m.EventID.UUID != a.Charge || m.Version != 1 {
			t.Errorf("message %+v", m)
		}
		headers := headersOf(m)
		if headers["event-id"] != a.ID.String() || headers["event-type"] != a.Type || !valid.MatchString(headers["traceparent"]) {
			t.Errorf("headers %v", headers)
		}
		traces[headers["traceparent"]] = true
	}
	if len(traces) != 2 || !traces[given] {
		t.Errorf("traces %v: want the given one and one that is always the same", traces)
	}
}

func TestAProvidersUncleanWordsDoNotStopAResult(t *testing.T) {
	t.Parallel()
	a := announcements()["ChargeDeclined"]
	a.ProviderRef, a.Reason = new("a\xffb"), "x\xfe\x00"
	m, err := Messages{}.Announcement(a, "")
	if err != nil || !json.Valid(m.Value) || !strings.Contains(string(m.Value), "a\uFFFDb") {
		t.Fatalf("%s, %v", m.Value, err)
	}
	a.Order.OrderID = "\xff"
	if _, err := (Messages{}).Announcement(a, ""); err == nil {
		t.Fatal("an order id that is no text was changed silently")
	}
}

func headersOf(m usecase.OutboxMessage) map[string]string {
	headers := map[string]string{}
	for _, h := range m.Headers {
		headers[h.Key] = string(h.Value)
	}
	return headers
}

func letter(change func(*usecase.DeadLetter)) usecase.DeadLetter {
	d := usecase.DeadLetter{
		Group:   "billing-order-confirmed",
		Origin:  usecase.Origin{Topic: "orders", Partition: 3, Offset: 42, Time: time.UnixMilli(1767323045678)},
		Key:     []byte("o-1"),
		Value:   []byte("{"),
		Headers: []usecase.Header{{Key: "traceparent", Value: []byte("t")}, {Key: "x", Value: nil}, {Key: "dlq-reason", Value: []byte("older")}},
		Reason:  domain.ReasonInvalidJSON,
		Detail:  "unexpected end",
	}
	change(&d)
	return d
}

func TestADeadLetterIsTheOriginalWithTheReason(t *testing.T) {
	t.Parallel()
	d := letter(func(*usecase.DeadLetter) {})
	m, err := Messages{DeadLetterTopic: "dlq"}.DeadLetter(d)
	if err != nil || m.Topic != "dlq" || string(m.Key) != "o-1" || string(m.Value) != "{" || m.EventType != "DeadLetter" {
		t.Fatalf("%+v, %v", m, err)
	}
	got := make([]string, 0, len(m.Headers))
	for _, h := range m.Headers {
		got = append(got, h.Key+"="+string(h.Value))
	}
	want := []string{
		"traceparent=t", "x=", "dlq-reason=invalid_json", "dlq-detail=unexpected end", "dlq-topic=orders", "dlq-partition=3",
		"dlq-offset=42", "dlq-timestamp=2026-01-02T03:04:05.678Z", "dlq-group=billing-order-confirmed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("headers\n%q, want\n%q", got, want)
	}
	if len(d.Headers) != 3 || string(d.Headers[2].Value) != "older" {
		t.Errorf("the letter's own headers were changed: %v", d.Headers)
	}
}

func TestACopyIsNeverTooLargeToPublish(t *testing.T) {
	t.Parallel()
	huge, big := bytes.Repeat([]byte("k"), 1_040_000), bytes.Repeat([]byte("v"), 900_001)
	tests := map[string]struct {
		letter  usecase.DeadLetter
		value   bool
		headers map[string]string
		keyNil  bool
	}{
		"as it is":       {letter(func(d *usecase.DeadLetter) { d.Value = big[:800_000] }), true, nil, false},
		"no key":         {letter(func(d *usecase.DeadLetter) { d.Key = nil }), true, nil, true},
		"value":          {letter(func(d *usecase.DeadLetter) { d.Value = big }), false, map[string]string{"dlq-truncated": "true", "dlq-size": "900001", "traceparent": "t"}, false},
		"detail":         {letter(func(d *usecase.DeadLetter) { d.Detail = string(huge) }), true, nil, false},
		"key":            {letter(func(d *usecase.DeadLetter) { d.Key = huge }), false, map[string]string{"dlq-truncated": "true", "dlq-dropped": "key"}, true},
		"headers":        {letter(func(d *usecase.DeadLetter) { d.Headers[0].Value = huge }), false, map[string]string{"dlq-truncated": "true", "dlq-dropped": "headers"}, false},
		"masked":         {letter(func(d *usecase.DeadLetter) { d.Masked = true }), true, map[string]string{"dlq-masked": "true"}, false},
		"empty detail":   {letter(func(d *usecase.DeadLetter) { d.Detail = "" }), true, map[string]string{"dlq-detail": "invalid_json"}, false},
		"detail of text": {letter(func(d *usecase.DeadLetter) { d.Detail = strings.Repeat("ж", 600) }), true, map[string]string{"dlq-detail": strings.Repeat("ж", 512)}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := Messages{DeadLetterTopic: "dlq"}.DeadLetter(tt.letter)
			if err != nil || size(m) > 1_000_000 {
				t.Fatalf("%d bytes, %v", size(m), err)
			}
			if kept := len(m.Value) > 0; kept != tt.value || m.Value == nil || (m.Key == nil) != tt.keyNil {
				t.Errorf("value kept %t, null %t; key null %t", kept, m.Value == nil, m.Key == nil)
			}
			headers := headersOf(m)
			for key, want := range tt.headers {
				if headers[key] != want {
					t.Errorf("%s is %.60q, want %q", key, headers[key], want)
				}
			}
			if _, hashed := headers["dlq-sha256"]; hashed == tt.value || headers["dlq-detail"] == "" {
				t.Errorf("hash %t, detail %q", hashed, headers["dlq-detail"])
			}
		})
	}
}
