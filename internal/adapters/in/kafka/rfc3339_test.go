package kafka

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTimesOfRFC3339(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"2026-01-02T03:04:05Z":                true,
		"2026-01-02T03:04:05.1Z":              true,
		"2026-01-02T03:04:05.123456789012Z":   true,
		"2026-01-02T03:04:05+03:00":           true,
		"2026-01-02T03:04:05.5-11:30":         true,
		"2026-01-02T03:04:05-00:00":           true,
		"2026-01-02t03:04:05z":                true, // RFC 3339 allows lower case
		"2024-02-29T00:00:00Z":                true,
		"2000-02-29T00:00:00Z":                true,
		"0000-01-01T00:00:00Z":                true,
		"9999-12-31T23:59:59+23:59":           true,
		"2016-12-31T23:59:60Z":                true,
		"2017-01-01T02:59:60+03:00":           true,
		"2016-12-31T15:59:60.5-08:00":         true,
		"":                                    false,
		"Z":                                   false,
		"2026-01-02":                          false,
		"2026-01-02T03:04Z":                   false,
		"2026-01-02T03:04:05":                 false,
		"2026-01-02T03:04:05.5":               false,
		"2026-01-02 03:04:05Z":                false,
		"2026-01-02T03:04:05,5Z":              false,
		"2026-01-02T03:04:05.Z":               false,
		"2026-01-02T03:04:05. Z":              false,
		"2026-01-02T3:04:05Z":                 false,
		"2026-1-2T03:04:05Z":                  false,
		"26-01-02T03:04:05Z":                  false,
		"+2026-01-02T03:04:05Z":               false,
		"2026-01-02T03:04:05+0300":            false,
		"2026-01-02T03:04:05+03":              false,
		"2026-01-02T03:04:05+3:00":            false,
		"2026-01-02T03:04:05 +03:00":          false,
		"2026-01-02T03:04:05+24:00":           false,
		"2026-01-02T03:04:05+03:60":           false,
		"2026-01-02T03:04:05ZZ":               false,
		"2026-01-02T03:04:05Z ":               false,
		" 2026-01-02T03:04:05Z":               false,
		"2026-01-02T03:04:05Z[Europe/Moscow]": false,
		"2026-00-02T03:04:05Z":                false,
		"2026-13-02T03:04:05Z":                false,
		"2026-01-00T03:04:05Z":                false,
		"2026-01-32T03:04:05Z":                false,
		"2026-04-31T03:04:05Z":                false,
		"2025-02-29T03:04:05Z":                false,
		"1900-02-29T03:04:05Z":                false,
		"2026-01-02T24:00:00Z":                false,
		"2026-01-02T03:60:05Z":                false,
		"2026-01-02T03:04:60Z":                false,
		"2016-12-31T23:59:60+03:00":           false,
		"2016-12-31T23:59:61Z":                false,
		"٢026-01-02T03:04:05Z":                false,
		"20260102T030405Z":                    false,
		"1767323045":                          false,
	} {
		if got := isRFC3339([]byte(s)); got != want {
			t.Errorf("%q: %t, want %t", s, got, want)
		}
	}
}

// TestEveryTimeThatGoWritesIsRead also cuts and bends what is written, and then agrees with Go's parser
// wherever that one refuses.
func TestEveryTimeThatGoWritesIsRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		zone := time.FixedZone("", 60*rapid.IntRange(-23*60, 23*60).Draw(t, "zone"))
		at := time.Unix(rapid.Int64Range(-62135596800+86400, 253402300799-86400).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).In(zone)
		text := []byte(at.Format(time.RFC3339Nano))
		if !isRFC3339(text) {
			t.Fatalf("%q is refused", text)
		}
		text[rapid.IntRange(0, len(text)-1).Draw(t, "index")] = rapid.SampledFrom([]byte("0123456789TZ:-+. ,")).Draw(t, "byte")
		if _, err := time.Parse(time.RFC3339, string(text)); err != nil && isRFC3339(text) && string(text[17:19]) != "60" {
			t.Fatalf("%q is accepted: %v", text, err)
		}
	})
}
