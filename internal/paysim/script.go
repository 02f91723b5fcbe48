package paysim

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Call is the kind of a request.
type Call string

// The calls; a rule on Anything also matches paths that do not exist, which makes a
// wrong base URL.
const (
	Charges  Call = "charge"
	Lookups  Call = "lookup"
	Lists    Call = "list"
	Anything Call = "any"
)

// Match selects requests: every field that is set has to agree.
type Match struct {
	// On is the call; empty means Charges.
	On Call `json:"on,omitzero"`
	// OrderID is the whole order id. A look-up has the order of its key's charge.
	OrderID string `json:"order_id,omitzero"`
	// OrderPrefix is the beginning of the order id.
	OrderPrefix string `json:"order_prefix,omitzero"`
	// Key is the idempotency key.
	Key string `json:"key,omitzero"`
	// Attempt is the number of this request among those of its call and key, from 1.
	Attempt int `json:"attempt,omitzero"`
	// Amount in minor units.
	Amount int64 `json:"amount,omitzero"`
}

// Rule applies a fault to the requests it matches. The first rule that matches wins
// and also replaces the shares.
type Rule struct {
	Match Match `json:"match,omitzero"`
	Fault Fault `json:"fault,omitzero"`
	// Max is how many requests the rule applies to, counted since it was added and not
	// across a restart; zero means all.
	Max int `json:"max,omitzero"`
}

// Share applies a fault to a part of the requests of a call.
type Share struct {
	// On is the call; empty means Charges.
	On Call `json:"on,omitzero"`
	// Of is the part of the requests, from 0 to 1.
	Of    float64 `json:"of"`
	Fault Fault   `json:"fault"`
}

// Script is everything the simulator does on purpose.
type Script struct {
	// Seed decides the shares and the latencies.
	Seed uint64 `json:"seed,omitzero"`
	// Latency is added to every request without one of its own.
	Latency Range `json:"latency,omitzero"`
	// DeclineShare of the keys is declined.
	DeclineShare float64 `json:"decline_share,omitzero"`
	// PendingShare of the keys is accepted and becomes final as Hold says.
	PendingShare float64 `json:"pending_share,omitzero"`
	// Hold of pending charges; zero means final at the second look-up.
	Hold Hold `json:"hold,omitzero"`
	// Rules are tried in order.
	Rules []Rule `json:"rules,omitzero"`
	// Shares apply where no rule matches; together at most 1 for each call.
	Shares []Share `json:"shares,omitzero"`
}

// Validate reports everything that makes the script unusable.
func (s Script) Validate() error {
	errs := []error{s.Latency.validate(), s.Hold.validate()}
	if s.DeclineShare < 0 || s.PendingShare < 0 || s.DeclineShare+s.PendingShare > 1 {
		errs = append(errs, errors.New("decline and pending share are not between 0 and 1 together"))
	}
	for i, r := range s.Rules {
		if err := r.validate(); err != nil {
			errs = append(errs, fmt.Errorf("rule %d: %w", i+1, err))
		}
	}
	sum := map[Call]float64{}
	for i, r := range s.Shares {
		if err := errors.Join(r.Fault.validate(), callOr(r.On).validate()); err != nil {
			errs = append(errs, fmt.Errorf("share %d: %w", i+1, err))
		}
		if sum[callOr(r.On)] += r.Of; r.Of < 0 || sum[callOr(r.On)] > 1 {
			errs = append(errs, fmt.Errorf("share %d: not between 0 and 1, or more than 1 together", i+1))
		}
	}
	return errors.Join(errs...)
}

func (r Rule) validate() error {
	if r.Max < 0 || r.Match.Attempt < 0 {
		return errors.New("max and attempt are not negative")
	}
	return errors.Join(callOr(r.Match.On).validate(), r.Fault.validate())
}

func callOr(c Call) Call {
	if c == "" {
		return Charges
	}
	return c
}

func (c Call) validate() error {
	switch c {
	case Charges, Lookups, Lists, Anything:
		return nil
	default:
		return fmt.Errorf("unknown call %q", c)
	}
}

// Range is a span of time, from which a value is taken uniformly; as text "5ms" or
// "5ms..20ms".
type Range struct{ Min, Max time.Duration }

// Exactly is a range of one value.
func Exactly(d time.Duration) Range { return Range{d, d} }

// MarshalText gives the form that UnmarshalText reads.
func (r Range) MarshalText() ([]byte, error) {
	if r.Min == r.Max {
		return []byte(r.Min.String()), nil
	}
	return []byte(r.Min.String() + ".." + r.Max.String()), nil
}

// UnmarshalText reads one duration, or two with ".." between them.
func (r *Range) UnmarshalText(text []byte) error {
	low, high, both := strings.Cut(string(text), "..")
	if !both {
		high = low
	}
	from, err := time.ParseDuration(low)
	if err != nil {
		return fmt.Errorf("parse range: %w", err)
	}
	to, err := time.ParseDuration(high)
	if err != nil {
		return fmt.Errorf("parse range: %w", err)
	}
	*r = Range{from, to}
	return r.validate()
}

func (r Range) validate() error {
	if r.Min < 0 || r.Max < r.Min {
		return fmt.Errorf("range %v..%v is empty or negative", r.Min, r.Max)
	}
	return nil
}

// at is the value at the part u of the range.
func (r Range) at(u float64) time.Duration {
	return r.Min + time.Duration(u*float64(r.Max-r.Min))
}

// ReadScript reads a script as JSON, durations as "1m30s". Unknown members are
// refused: a misspelt fault would otherwise be a test of nothing.
func ReadScript(r io.Reader) (Script, error) {
	var s Script
	if err := json.UnmarshalRead(r, &s, strict, durations); err != nil {
		return Script{}, fmt.Errorf("read script: %w", err)
	}
	if err := s.Validate(); err != nil {
		return Script{}, fmt.Errorf("read script: %w", err)
	}
	return s, nil
}

var (
	strict    = json.RejectUnknownMembers(true)
	durations = json.JoinOptions(
		json.WithMarshalers(json.MarshalToFunc(func(enc *jsontext.Encoder, d time.Duration) error {
			return enc.WriteToken(jsontext.String(d.String()))
		})),
		json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, d *time.Duration) error {
			token, err := dec.ReadToken()
			if err != nil {
				return err
			}
			if token.Kind() != '"' {
				return fmt.Errorf("a duration is a string such as \"90s\", not %v", token.Kind())
			}
			*d, err = time.ParseDuration(token.String())
			return err
		})),
	)
)
