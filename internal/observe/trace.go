package observe

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// Trace is a parsed W3C traceparent.
type Trace struct {
	TraceID string // 32 lower-case hex digits, not all zero
	SpanID  string // 16 lower-case hex digits, not all zero
	Flags   string // 2 lower-case hex digits
}

// String returns the traceparent in version 00.
func (t Trace) String() string { return "00-" + t.TraceID + "-" + t.SpanID + "-" + t.Flags }

const traceparentLength = 55 // of version 00

// ParseTraceparent reads a traceparent of version 00, or the leading part of a later version as the
// recommendation asks. It reports false for anything else, which is then treated as absent.
func ParseTraceparent(s string) (Trace, bool) {
	if len(s) < traceparentLength || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return Trace{}, false
	}
	version, t := s[:2], Trace{TraceID: s[3:35], SpanID: s[36:52], Flags: s[53:55]}
	if !lowerHex(version) || !lowerHex(t.TraceID) || !lowerHex(t.SpanID) || !lowerHex(t.Flags) {
		return Trace{}, false
	}
	if version == "ff" || zero(t.TraceID) || zero(t.SpanID) {
		return Trace{}, false
	}
	if len(s) > traceparentLength && (version == "00" || s[traceparentLength] != '-') {
		return Trace{}, false
	}
	return t, true
}

// NewTrace starts a trace with random ids, not sampled: whether to record it is not ours to decide.
func NewTrace() Trace {
	return Trace{TraceID: randomHex(16), SpanID: randomHex(8), Flags: "00"}
}

// Child continues a trace with a new span id; an invalid or empty traceparent starts a new trace.
func Child(traceparent string) Trace {
	t, ok := ParseTraceparent(traceparent)
	if !ok {
		return NewTrace()
	}
	t.SpanID = randomHex(8)
	return t
}

type traceparentKey struct{}

// WithTraceparent returns a context that carries a traceparent. An invalid one leaves ctx as it is.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	if _, ok := ParseTraceparent(traceparent); !ok {
		return ctx
	}
	return context.WithValue(ctx, traceparentKey{}, traceparent)
}

// Traceparent returns the traceparent of a context, empty when it carries none.
func Traceparent(ctx context.Context) string {
	s, _ := ctx.Value(traceparentKey{}).(string)
	return s
}

func lowerHex(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }) < 0
}

func zero(s string) bool { return strings.Trim(s, "0") == "" }

// randomHex returns n random bytes as hex. An id of zeros is not valid, so it is drawn again.
func randomHex(n int) string {
	b := make([]byte, n)
	for {
		_, _ = rand.Read(b) // never fails, by its documentation
		if s := hex.EncodeToString(b); !zero(s) {
			return s
		}
	}
}
