package domain_test

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"billing/internal/core/domain"
)

func refusal(t *testing.T, err error) *domain.Refusal {
	t.Helper()
	var refused *domain.Refusal
	if !errors.As(err, &refused) {
		t.Fatalf("error is %v, want a refusal", err)
	}
	if refused.Detail == "" {
		t.Fatal("a refusal without detail")
	}
	return refused
}

// chargeable lists every code that has an exponent, by trying all of them.
func chargeable() []string {
	var codes []string
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			for c := 'A'; c <= 'Z'; c++ {
				code := string([]rune{a, b, c})
				if _, ok := domain.Exponent(code); ok {
					codes = append(codes, code)
				}
			}
		}
	}
	return codes
}

func TestExponentKnowsListOne(t *testing.T) {
	t.Parallel()
	count := map[int]int{}
	for _, code := range chargeable() {
		exponent, _ := domain.Exponent(code)
		count[exponent]++
	}
	for exponent, want := range map[int]int{0: 17, 2: 139, 3: 7, 4: 2} {
		if count[exponent] != want {
			t.Errorf("%d currencies of exponent %d, List One has %d", count[exponent], exponent, want)
		}
	}
	for code, want := range map[string]int{
		"RUB": 2, "USD": 2, "EUR": 2, "AFN": 2, "HUF": 2, "MGA": 2, "MRU": 2, "IDR": 2, "XCG": 2, "ZWG": 2, "SLE": 2, "VED": 2,
		"JPY": 0, "KRW": 0, "ISK": 0, "UGX": 0, "VND": 0, "CLP": 0, "XAF": 0, "UYI": 0,
		"KWD": 3, "BHD": 3, "IQD": 3, "TND": 3, "LYD": 3, "JOD": 3, "OMR": 3, "CLF": 4, "UYW": 4,
	} {
		if got, ok := domain.Exponent(code); !ok || got != want {
			t.Errorf("exponent of %s is %d, %t, want %d", code, got, ok, want)
		}
	}
}

func TestExponentRefusesWhatCannotBeCharged(t *testing.T) {
	t.Parallel()
	for _, code := range []string{
		"XAU", "XAG", "XPT", "XPD", "XDR", "XUA", "XSU", "XBA", "XBB", "XBC", "XBD", "XTS", "XXX", // no minor unit
		"BGN", "HRK", "ANG", "SLL", "CUC", "ZWL", "DEM", "RUR", // withdrawn
		"", "R", "RU", "RUBL", "rub", "Rub", " RUB", "RUB ", "643", "AAA", "РУБ", "ＲＵＢ",
	} {
		if _, ok := domain.Exponent(code); ok {
			t.Errorf("%q has an exponent", code)
		}
	}
}

func TestParseDecimalIsExactOrRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		amount, currency string
		want             int64
		reason           domain.Reason
	}{
		{"1500.00", "RUB", 150000, ""},
		{"1500", "RUB", 150000, ""},
		{"1500.5", "RUB", 150050, ""},
		{"0.01", "RUB", 1, ""},
		{"0", "RUB", 0, ""},
		{"0.00", "RUB", 0, ""},
		{"1.0000000000000000000000000000000", "RUB", 100, ""},
		{"1.000", "JPY", 1, ""},
		{"1.234", "KWD", 1234, ""},
		{"1.2340", "KWD", 1234, ""},
		{"0.0001", "CLF", 1, ""},
		{"92233720368547758.07", "RUB", math.MaxInt64, ""},
		{"9223372036854775807", "JPY", math.MaxInt64, ""},
		{"9223372036854775.807", "KWD", math.MaxInt64, ""},
		{"922337203685477.5807", "UYW", math.MaxInt64, ""},

		{"92233720368547758.08", "RUB", 0, domain.ReasonInvalidAmount},
		{"92233720368547759", "RUB", 0, domain.ReasonInvalidAmount},
		{"9223372036854775807", "RUB", 0, domain.ReasonInvalidAmount},
		{"9223372036854775808", "JPY", 0, domain.ReasonInvalidAmount},
		{"18446744073709551616", "JPY", 0, domain.ReasonInvalidAmount}, // 2^64 would wrap to 0
		{"18446744073709551617", "JPY", 0, domain.ReasonInvalidAmount},
		{strings.Repeat("9", 400), "JPY", 0, domain.ReasonInvalidAmount},
		{"1.005", "RUB", 0, domain.ReasonInvalidAmount},
		{"0.001", "RUB", 0, domain.ReasonInvalidAmount},
		{"1.5", "JPY", 0, domain.ReasonInvalidAmount},
		{"1.0000000000000000000000000000001", "RUB", 0, domain.ReasonInvalidAmount},
		{"", "RUB", 0, domain.ReasonInvalidAmount},
		{".", "RUB", 0, domain.ReasonInvalidAmount},
		{".5", "RUB", 0, domain.ReasonInvalidAmount},
		{"5.", "RUB", 0, domain.ReasonInvalidAmount},
		{"1.2.3", "RUB", 0, domain.ReasonInvalidAmount},
		{"00", "RUB", 0, domain.ReasonInvalidAmount},
		{"01", "RUB", 0, domain.ReasonInvalidAmount},
		{"-1", "RUB", 0, domain.ReasonInvalidAmount},
		{"-0", "RUB", 0, domain.ReasonInvalidAmount},
		{"+1", "RUB", 0, domain.ReasonInvalidAmount},
		{"1e3", "RUB", 0, domain.ReasonInvalidAmount},
		{"1E3", "RUB", 0, domain.ReasonInvalidAmount},
		{"0x10", "RUB", 0, domain.ReasonInvalidAmount},
		{"1_000", "RUB", 0, domain.ReasonInvalidAmount},
		{"1,5", "RUB", 0, domain.ReasonInvalidAmount},
		{" 1", "RUB", 0, domain.ReasonInvalidAmount},
		{"1 ", "RUB", 0, domain.ReasonInvalidAmount},
		{"1\n", "RUB", 0, domain.ReasonInvalidAmount},
		{"1\x00", "RUB", 0, domain.ReasonInvalidAmount},
		{"١", "RUB", 0, domain.ReasonInvalidAmount},
		{"NaN", "RUB", 0, domain.ReasonInvalidAmount},
		{"1", "XAU", 0, domain.ReasonInvalidField},
		{"1", "rub", 0, domain.ReasonInvalidField},
		{"1", "", 0, domain.ReasonInvalidField},
	}
	for _, test := range tests {
		got, err := domain.ParseDecimal(test.amount, test.currency)
		if test.reason == "" {
			if err != nil || got != test.want {
				t.Errorf("%q %s: %d, %v, want %d", test.amount, test.currency, got, err, test.want)
			}
			continue
		}
		if err == nil {
			t.Errorf("%q %s is %d, want a refusal", test.amount, test.currency, got)
		} else if r := refusal(t, err); r.Reason != test.reason || got != 0 {
			t.Errorf("%q %s: %d, %v, want %s", test.amount, test.currency, got, r, test.reason)
		}
	}
}

func TestParseDecimalReadsWhatFormatDecimalWrites(t *testing.T) {
	t.Parallel()
	codes := chargeable()
	rapid.Check(t, func(t *rapid.T) {
		money := domain.Money{
			Minor:    rapid.Int64Range(0, math.MaxInt64).Draw(t, "minor"),
			Currency: rapid.SampledFrom(codes).Draw(t, "currency"),
		}
		text := domain.FormatDecimal(money)
		minor, err := domain.ParseDecimal(text, money.Currency)
		if err != nil || minor != money.Minor {
			t.Fatalf("%+v is written %q and read %d, %v", money, text, minor, err)
		}
	})
}

// TestParseDecimalAgreesWithRationals compares with arithmetic that knows neither rounding nor overflow.
func TestParseDecimalAgreesWithRationals(t *testing.T) {
	t.Parallel()
	codes := chargeable()
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.StringMatching(`(0|[1-9][0-9]{0,20})(\.[0-9]{1,6}0{0,3})?`).Draw(t, "amount")
		currency := rapid.SampledFrom(codes).Draw(t, "currency")
		exponent, _ := domain.Exponent(currency)
		exact, ok := new(big.Rat).SetString(amount)
		if !ok {
			t.Fatalf("%q is no number", amount)
		}
		exact.Mul(exact, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(exponent)), nil)))
		minor, err := domain.ParseDecimal(amount, currency)
		if fits := exact.IsInt() && exact.Num().IsInt64(); fits != (err == nil) {
			t.Fatalf("%q %s: minor units %s, read %d, %v", amount, currency, exact, minor, err)
		}
		if err == nil && exact.Num().Int64() != minor {
			t.Fatalf("%q %s: minor units %s, read %d", amount, currency, exact, minor)
		}
	})
}

func TestFormatDecimalWritesTheCurrencysDigits(t *testing.T) {
	t.Parallel()
	for want, money := range map[string]domain.Money{
		"1500.00": {Minor: 150000, Currency: "RUB"},
		"0.05":    {Minor: 5, Currency: "RUB"},
		"0.00":    {Minor: 0, Currency: "RUB"},
		"-0.05":   {Minor: -5, Currency: "RUB"},
		"1500":    {Minor: 1500, Currency: "JPY"},
		"1.500":   {Minor: 1500, Currency: "KWD"},
		"0.0015":  {Minor: 15, Currency: "CLF"},
		"15":      {Minor: 15, Currency: "XAU"},

		"-92233720368547758.08": {Minor: math.MinInt64, Currency: "RUB"},
	} {
		if got := domain.FormatDecimal(money); got != want {
			t.Errorf("%+v is written %q, want %q", money, got, want)
		}
	}
}

func TestNewMoneyKeepsTheBounds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		minor    int64
		currency string
		reason   domain.Reason
	}{
		{1, "RUB", ""},
		{1000, "JPY", ""},
		{0, "RUB", domain.ReasonInvalidAmount},
		{-1, "RUB", domain.ReasonInvalidAmount},
		{math.MinInt64, "RUB", domain.ReasonInvalidAmount},
		{1001, "RUB", domain.ReasonInvalidAmount},
		{math.MaxInt64, "RUB", domain.ReasonInvalidAmount},
		{1, "XXX", domain.ReasonInvalidField},
		{1, "rub", domain.ReasonInvalidField},
	}
	for _, test := range tests {
		got, err := domain.NewMoney(test.minor, test.currency, 1000)
		switch {
		case test.reason == "" && (err != nil || got != domain.Money{Minor: test.minor, Currency: test.currency}):
			t.Errorf("%d %s: %+v, %v", test.minor, test.currency, got, err)
		case test.reason != "" && (err == nil || refusal(t, err).Reason != test.reason):
			t.Errorf("%d %s: %v, want %s", test.minor, test.currency, err, test.reason)
		}
	}
}
