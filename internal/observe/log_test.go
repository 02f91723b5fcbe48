package observe_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"billing/internal/observe"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestLogCarriesTheTraceOfItsContext(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := observe.NewLogger(&out, "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	ctx := observe.WithTraceparent(t.Context(), traceparent)
	log.With("role", "relay").InfoContext(ctx, "published", "rows", 3)
	log.DebugContext(ctx, "not shown")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	for key, want := range map[string]any{
		"msg": "published", "level": "INFO", "role": "relay", "rows": 3.0, "trace_id": "0af7651916cd43dd8448eb211c80319c",
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
}

func TestLogWithoutTraceHasNoTraceID(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := observe.NewLogger(&out, "debug", "text")
	if err != nil {
		t.Fatal(err)
	}
	log.DebugContext(observe.WithTraceparent(t.Context(), "nonsense"), "shown")
	if got := out.String(); !strings.Contains(got, "msg=shown") || strings.Contains(got, "trace_id") {
		t.Errorf("got %q", got)
	}
}

func TestLoggerRefusesUnknownWords(t *testing.T) {
	t.Parallel()
	for _, words := range [][2]string{{"loud", "json"}, {"info", "xml"}} {
		if _, err := observe.NewLogger(&bytes.Buffer{}, words[0], words[1]); err == nil {
			t.Errorf("level %q and format %q were accepted", words[0], words[1])
		}
	}
	for _, level := range observe.LogLevels {
		for _, format := range observe.LogFormats {
			if _, err := observe.NewLogger(&bytes.Buffer{}, level, format); err != nil {
				t.Errorf("level %q and format %q: %v", level, format, err)
			}
		}
	}
}

func TestTraceparentIsValidated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in   string
		want bool
	}{
		"valid":                 {traceparent, true},
		"later version, longer": {"01" + traceparent[2:] + "-more", true},
		"later version":         {"cc" + traceparent[2:], true},
		"empty":                 {"", false},
		"version ff":            {"ff" + traceparent[2:], false},
		"version 00, longer":    {traceparent + "-more", false},
		"later, glued":          {"01" + traceparent[2:] + "x", false},
		"upper case":            {strings.ToUpper(traceparent), false},
		"zero trace":            {"00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01", false},
		"zero span":             {"00-0af7651916cd43dd8448eb211c80319c-" + strings.Repeat("0", 16) + "-01", false},
		"short":                 {traceparent[:54], false},
		"wrong dash":            {strings.Replace(traceparent, "-b7", "_b7", 1), false},
		"no hex flags":          {traceparent[:53] + "0g", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, ok := observe.ParseTraceparent(tc.in); ok != tc.want {
				t.Errorf("accepted %t, want %t", ok, tc.want)
			}
		})
	}
}

func TestChildKeepsTheTraceAndItsFlags(t *testing.T) {
	t.Parallel()
	parent, _ := observe.ParseTraceparent(traceparent)
	if parent.String() != traceparent {
		t.Errorf("got %s, want %s", parent, traceparent)
	}
	child := observe.Child(traceparent)
	if child.TraceID != parent.TraceID || child.Flags != "01" || child.SpanID == parent.SpanID {
		t.Errorf("child %s of %s", child, parent)
	}
	for _, fresh := range []observe.Trace{child, observe.Child("nonsense"), observe.NewTrace()} {
		if _, ok := observe.ParseTraceparent(fresh.String()); !ok {
			t.Errorf("%s is not valid", fresh)
		}
	}
}
