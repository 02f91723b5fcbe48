package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// LogLevels and LogFormats are the accepted words of BILLING_LOG_LEVEL and BILLING_LOG_FORMAT.
var (
	LogLevels  = []string{"debug", "info", "warn", "error"}
	LogFormats = []string{"json", "text"}
)

// NewLogger returns a logger that writes lines of the given format at or above the given level, each
// with the trace_id of its context when there is one.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("read the log level: %w", err)
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case "json":
		return slog.New(traceHandler{slog.NewJSONHandler(w, options)}), nil
	case "text":
		return slog.New(traceHandler{slog.NewTextHandler(w, options)}), nil
	default:
		return nil, errors.New("read the log format: want json or text")
	}
}

// traceHandler adds the trace id, so that one order can be followed over Kafka, rows, provider and logs.
type traceHandler struct{ slog.Handler }

func (h traceHandler) Handle(ctx context.Context, record slog.Record) error {
	if trace, ok := ParseTraceparent(Traceparent(ctx)); ok {
		record = record.Clone()
		record.AddAttrs(slog.String("trace_id", trace.TraceID))
	}
	return h.Handler.Handle(ctx, record)
}

func (h traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traceHandler{h.Handler.WithAttrs(attrs)}
}

func (h traceHandler) WithGroup(name string) slog.Handler {
	return traceHandler{h.Handler.WithGroup(name)}
}
