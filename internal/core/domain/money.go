package domain

import (
	"math"
	"strconv"
	"strings"
)

// Money is an amount in minor units of its currency: kopecks for RUB, yen for JPY.
type Money struct {
	Minor    int64
	Currency string // three upper-case letters of ISO 4217
}

// NewMoney checks a sum that somebody asks to collect: a chargeable currency, more than zero and at most
// maxMinor minor units. The error is a *Refusal with ReasonInvalidField for the currency and with
// ReasonInvalidAmount for the amount.
func NewMoney(minor int64, currency string, maxMinor int64) (Money, error) {
	if _, ok := Exponent(currency); !ok {
		return Money{}, refuseCurrency()
	}
	if minor <= 0 {
		return Money{}, Refuse(ReasonInvalidAmount, "must be more than zero")
	}
	if minor > maxMinor {
		return Money{}, Refuse(ReasonInvalidAmount, "above the maximum of "+strconv.FormatInt(maxMinor, 10)+" minor units")
	}
	return Money{Minor: minor, Currency: currency}, nil
}

// ParseDecimal reads an amount in major units, (0|[1-9][0-9]*)(\.[0-9]+)?, as minor units of a currency.
// The value must be a whole number of minor units, so only zeros may follow the currency's own digits.
// Zero is a value like any other: NewMoney decides what may be charged. The error is a *Refusal with
// ReasonInvalidField for the currency and with ReasonInvalidAmount for the amount.
func ParseDecimal(amount, currency string) (int64, error) {
	exponent, ok := Exponent(currency)
	if !ok {
		return 0, refuseCurrency()
	}
	whole, fraction, hasPoint := strings.Cut(amount, ".")
	if !digits(whole) || (len(whole) > 1 && whole[0] == '0') || (hasPoint && !digits(fraction)) {
		return 0, Refuse(ReasonInvalidAmount, "not a plain decimal number")
	}
	if len(fraction) > exponent && strings.Trim(fraction[exponent:], "0") != "" {
		return 0, Refuse(ReasonInvalidAmount, "not a whole number of the currency's minor units")
	}
	minor, fits := appendDigits(0, whole)
	for i := 0; i < exponent && fits; i++ {
		digit := "0"
		if i < len(fraction) {
			digit = fraction[i : i+1]
		}
		minor, fits = appendDigits(minor, digit)
	}
	if !fits {
		return 0, Refuse(ReasonInvalidAmount, "more minor units than 64 bits hold")
	}
	return minor, nil
}

// FormatDecimal writes m in major units with all digits of its currency: 1500.00 for 150000 RUB. For
// every m that may be charged, ParseDecimal returns m.Minor again. A currency without minor unit is
// written in whole units.
func FormatDecimal(m Money) string {
	text, sign := strconv.FormatInt(m.Minor, 10), ""
	if m.Minor < 0 {
		text, sign = text[1:], "-"
	}
	exponent, _ := Exponent(m.Currency)
	if exponent == 0 {
		return sign + text
	}
	if len(text) <= exponent {
		text = strings.Repeat("0", exponent+1-len(text)) + text
	}
	point := len(text) - exponent
	return sign + text[:point] + "." + text[point:]
}

func refuseCurrency() *Refusal {
	return Refuse(ReasonInvalidField, "not an active ISO 4217 currency with a minor unit")
}

// digits reports whether s is one or more ASCII digits.
func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// appendDigits writes decimal digits behind n and reports whether the result fits.
func appendDigits(n int64, s string) (int64, bool) {
	for i := range len(s) {
		digit := int64(s[i] - '0')
		if n > (math.MaxInt64-digit)/10 {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, true
}
