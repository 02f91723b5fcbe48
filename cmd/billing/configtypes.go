package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The roles of BILLING_ROLES.
const (
	RoleConsumer    = "consumer"
	RoleCharger     = "charger"
	RoleRelay       = "relay"
	RoleMaintenance = "maintenance"
	RoleAPI         = "api"
)

// Roles are the loops that a process runs.
type Roles []string

// Has reports whether any of the named roles is among them.
func (r Roles) Has(roles ...string) bool {
	return slices.ContainsFunc(roles, func(role string) bool { return slices.Contains(r, role) })
}

// Decode reads a comma-separated list of roles.
func (r *Roles) Decode(value string) error {
	names, err := split(value)
	if err != nil {
		return err
	}
	known := []string{RoleConsumer, RoleCharger, RoleRelay, RoleMaintenance, RoleAPI}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return errors.New("names an unknown role, want a list of " + strings.Join(known, ", "))
		}
	}
	*r = names
	return nil
}

// List is a comma-separated list without empty or repeated entries.
type List []string

// Decode reads the list.
func (l *List) Decode(value string) error {
	entries, err := split(value)
	if err != nil {
		return err
	}
	*l = entries
	return nil
}

func split(value string) ([]string, error) {
	var entries []string
	for entry := range strings.SplitSeq(value, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			return nil, errors.New("has an empty entry, want a list separated by commas")
		}
		if slices.Contains(entries, entry) {
			return nil, errors.New("names an entry twice")
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// Delays is a comma-separated list of positive durations.
type Delays []time.Duration

// maxDelays bounds how often one message comes back before it is a dead letter.
const maxDelays = 16

// Decode reads the list; an empty one is empty.
func (d *Delays) Decode(value string) error {
	*d = nil
	if value == "" {
		return nil
	}
	for entry := range strings.SplitSeq(value, ",") {
		delay, err := time.ParseDuration(strings.TrimSpace(entry))
		if err != nil || delay <= 0 {
			return errors.New("is not a list of positive durations, want for example 10s,1m,10m or empty")
		}
		*d = append(*d, delay)
	}
	if len(*d) > maxDelays {
		return fmt.Errorf("has %d entries, want at most %d", len(*d), maxDelays)
	}
	return nil
}

// Share is a number from 0 to 1.
type Share float64

// Decode reads the share.
func (s *Share) Decode(value string) error {
	f, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > 1 {
		return errors.New("want a number from 0 to 1")
	}
	*s = Share(f)
	return nil
}

// Switch is a bool that also understands on and off.
type Switch bool

// Decode reads the switch.
func (s *Switch) Decode(value string) error {
	switch strings.ToLower(value) {
	case "true", "on", "yes", "1":
		*s = true
	case "false", "off", "no", "0":
		*s = false
	default:
		return errors.New("want true or false")
	}
	return nil
}

const mask = "***"

// Secret is a value that no way of printing shows. Convert it to string where it is used.
type Secret string

func (s Secret) masked() string {
	if s == "" {
		return ""
	}
	return mask
}

// Format writes the mask, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.masked()) }

// LogValue returns the mask.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.masked()) }

// MarshalText returns the mask, in JSON as well.
//
//nolint:unparam // the interface has an error
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.masked()), nil }
