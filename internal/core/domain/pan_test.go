package domain_test

import (
	"strings"
	"testing"

	"billing/internal/core/domain"
)

func TestCardNumbersAreMasked(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"visa":              `{"card":"4111111111111111"}`,
		"visa as a number":  `{"card":4111111111111111}`,
		"13 digits":         `4222222222222`,
		"amex":              `x378282246310005y`,
		"19 digits":         `"6304000000000000000"`,
		"spaces":            `pan 4111 1111 1111 1111.`,
		"hyphens":           `"5555-5555-5555-4444"`,
		"amex groups":       `3782 822463 10005`,
		"two of them":       `4111111111111111,5555555555554444`,
		"behind an id":      `{"order_id":"7","note":"4111111111111111"}`,
		"at the very end":   `n=4111111111111111`,
		"next to a newline": "4111111111111111\n",
	} {
		masked, found := domain.MaskCards([]byte(text))
		if !found || len(masked) != len(text) {
			t.Errorf("%s: %s", name, masked)
		}
		for _, part := range []string{"4111", "4222", "3782", "6304", "5555", "8224", "0005"} {
			if strings.Contains(string(masked), part) {
				t.Errorf("%s: %s", name, masked)
			}
		}
		if again, more := domain.MaskCards(masked); more || string(again) != string(masked) {
			t.Errorf("%s: masked again as %s", name, again)
		}
	}
}

func TestOtherDigitsAreLeft(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"wrong check digit":        `4111111111111112`,
		"12 digits":                `411111111111`,
		"part of a longer run":     `004111111111111111111`,
		"a time and an amount":     `{"occurred_at":"2026-01-02T03:04:05+03:00","total_amount":150000}`,
		"uuid of digits":           `41111111-1111-1111-8111-111111111111`,
		"uuid with letters before": `abcd4111-1111-1111-1111-111111111111`,
		"groups inside a uuid":     `0198abcd-4111-1111-1111-1111aaaaaaaa`,
		"date groups":              `2026-01-02 03:04:05`,
		"zeros":                    `0000000000000000`,
		"nothing":                  ``,
	} {
		if masked, found := domain.MaskCards([]byte(text)); found || string(masked) != text {
			t.Errorf("%s: %s", name, masked)
		}
	}
	own := `{"orderId":4111111111111111,"note":"5555555555554444"}`
	if masked, found := domain.MaskCards([]byte(own), "4111111111111111"); !found || string(masked) != `{"orderId":4111111111111111,"note":"****************"}` {
		t.Errorf("the id of an order: %s", masked)
	}
}
