package kafka

import (
	"errors"
	"strconv"

	"billing/internal/core/domain"
)

// minorUnits reads an amount that is a JSON integer literal.
func (f *fields) minorUnits(name string) int64 {
	value := f.require(name)
	if f.refusal != nil {
		return 0
	}
	minor, err := strconv.ParseInt(string(value), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		f.refuse(domain.ReasonInvalidAmount, name+": beyond 64 bits of minor units")
	case err != nil:
		f.refuse(domain.ReasonInvalidAmount, name+": not a JSON integer")
	}
	return minor
}

// amountObject enters the object that holds an amount and its currency.
func (f *fields) amountObject(name string, space []member) fields {
	value := f.require(name)
	switch {
	case f.refusal != nil:
	case value[0] != '{':
		f.refuse(domain.ReasonInvalidAmount, name+": not an object")
	default:
		space, f.refusal = parseObject(value, space)
	}
	return fields{members: space, parent: name + ".", verdict: f.verdict}
}

// decimal returns the digits of an amount in major units, which stands there as a string or as a number.
func (f *fields) decimal(name string) []byte {
	value := f.require(name)
	switch {
	case f.refusal != nil:
		return nil
	case value[0] == '"':
		return unquote(value)
	case value[0] == '-' || isDigit(value[0]):
		return value
	default:
		f.refuse(domain.ReasonInvalidAmount, name+": neither a string nor a number")
		return nil
	}
}

// currency reads a currency that must be there.
func (f *fields) currency(name string) string {
	currency := string(f.text(name))
	if f.refusal != nil {
		return ""
	}
	return f.chargeable(name, currency)
}

// currencyOr reads a currency that may be left out.
func (f *fields) currencyOr(name, otherwise string) string {
	if f.refusal != nil {
		return ""
	}
	if f.find(name) == nil {
		return f.chargeable(name, otherwise)
	}
	return f.currency(name)
}

func (f *fields) chargeable(name, currency string) string {
	if _, ok := domain.Exponent(currency); !ok {
		f.refuse(domain.ReasonInvalidField, name+": not an active ISO 4217 currency with a minor unit")
		return ""
	}
	return currency
}

// minorValue brings an amount in major units to minor ones, exactly.
func (f *fields) minorValue(name string, decimal []byte, currency string) int64 {
	if f.refusal != nil {
		return 0
	}
	minor, err := domain.ParseDecimal(string(decimal), currency)
	if err != nil {
		f.refuseBy(name, err)
	}
	return minor
}

// money holds a sum against the currencies and the bounds.
func (f *fields) money(name string, minor int64, currency string, maxMinor int64) domain.Money {
	if f.refusal != nil {
		return domain.Money{}
	}
	money, err := domain.NewMoney(minor, currency, maxMinor)
	if err != nil {
		f.refuseBy(name, err)
	}
	return money
}
