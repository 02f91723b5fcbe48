package http

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/observe"
)

// problem is an error as RFC 9457 writes it, with a stable code. It tells nothing of the inside.
type problem struct {
	Type    string `json:"type"`
	Title   string `json:"title"`
	Status  int    `json:"status"`
	Detail  string `json:"detail"`
	Code    string `json:"code"`
	TraceID string `json:"trace_id"`
	Charge  string `json:"charge,omitempty"` // where the charge in the way is, for those who may see it

	header [2]string // one more header, where there is one
}

// Error makes a problem what handlers return.
func (p *problem) Error() string { return p.Code + ": " + p.Detail }

func newProblem(status int, code, detail string) *problem {
	return &problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

func (p *problem) with(header, value string) *problem {
	p.header = [2]string{header, value}
	return p
}

// soon is the Retry-After of what will most likely work in a moment.
const soon = "1"

func notFound() *problem {
	return newProblem(http.StatusNotFound, "NOT_FOUND", "There is no such resource, or it is not yours to see.")
}

func unavailable() *problem {
	return newProblem(http.StatusServiceUnavailable, "UNAVAILABLE",
		"The service cannot answer right now. Repeat the request with the same idempotency key.").with("Retry-After", soon)
}

func internal() *problem {
	return newProblem(http.StatusInternalServerError, "INTERNAL", "Something went wrong here. The trace id helps to find out what.")
}

// problemOf turns an error into what the client is told of it.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if refusal, ok := errors.AsType[*domain.Refusal](err); ok {
		return refused(refusal)
	}
	if _, ok := errors.AsType[*usecase.OrderChargedError](err); ok {
		return newProblem(http.StatusConflict, "ORDER_ALREADY_CHARGED", "The order has a charge that is neither declined nor cancelled.")
	}
	switch {
	case errors.Is(err, usecase.ErrKeyInvalid):
		return newProblem(http.StatusBadRequest, "IDEMPOTENCY_KEY_REQUIRED",
			"One header Idempotency-Key of 1 to 255 visible ASCII characters is required.")
	case errors.Is(err, usecase.ErrKeyReused):
		return newProblem(http.StatusConflict, "IDEMPOTENCY_KEY_REUSED", "The idempotency key was used for another request.")
	case errors.Is(err, usecase.ErrKeyInProgress):
		return newProblem(http.StatusConflict, "IDEMPOTENCY_KEY_IN_PROGRESS",
			"A request with this idempotency key is being worked on.").with("Retry-After", soon)
	case errors.Is(err, usecase.ErrNoCharge):
		return notFound()
	case errors.Is(err, domain.ErrOutage), errors.Is(err, domain.ErrRetry):
		return unavailable()
	}
	return internal()
}

// refused is the problem of a body that can never become a charge.
func refused(r *domain.Refusal) *problem {
	status, code := http.StatusUnprocessableEntity, "INVALID_FIELD"
	switch r.Reason {
	case domain.ReasonInvalidJSON:
		status, code = http.StatusBadRequest, "INVALID_JSON"
	case domain.ReasonMissingField:
		code = "MISSING_FIELD"
	case domain.ReasonInvalidAmount:
		code = "INVALID_AMOUNT"
	default:
	}
	return newProblem(status, code, "The body cannot be accepted: "+r.Detail+".")
}

// unread is the problem of a body that did not arrive.
func unread(err error) *problem {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return newProblem(http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE", "The body is larger than 64 KiB.").with("Connection", "close")
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return newProblem(http.StatusRequestTimeout, "REQUEST_TIMEOUT", "The body did not arrive in time.").with("Connection", "close")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return newProblem(http.StatusBadRequest, "INVALID_JSON", "The body ended before its announced length.")
	}
	return newProblem(http.StatusBadRequest, "INVALID_JSON", "The body cannot be read.")
}

// write sends a problem.
func (p *problem) write(ctx context.Context, w http.ResponseWriter) {
	answer := *p
	if trace, ok := observe.ParseTraceparent(observe.Traceparent(ctx)); ok {
		answer.TraceID = trace.TraceID
	}
	if p.header[0] != "" {
		w.Header().Set(p.header[0], p.header[1])
	}
	writeBody(w, p.Status, "application/problem+json", encode(answer))
}

// encode writes JSON without the escapes that only HTML needs.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // our own types, made of strings and numbers
	}
	return b.Bytes()
}

func writeBody(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone: nobody to tell
}
