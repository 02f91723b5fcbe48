package payment

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"

	"billing/internal/core/domain"
)

// interruption is the cause of an answer that did not come whole, after a connection was had.
func interruption(err error) domain.Cause {
	if timedOut(err) {
		return domain.CauseTimeout
	}
	return domain.CauseBroken
}

// timedOut counts a caller that stopped waiting as well. Every kind of deadline is a net.Error.
func timedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return (ok && timeout.Timeout()) || errors.Is(err, context.Canceled)
}

// describe names an error of net/http in words of our own: its texts may quote the answer, which may
// quote the customer.
func describe(err error) string {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "the name was not resolved"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the certificate is not trusted"
	}
	if alert, ok := errors.AsType[tls.AlertError](err); ok {
		return alert.Error()
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case timedOut(err):
		return "timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed"
	default:
		return "the protocol was broken"
	}
}
