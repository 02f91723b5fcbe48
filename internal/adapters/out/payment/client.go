// Package payment talks to payment providers over HTTP. What may have cost money decides every rule
// here: one call is at most one request that a provider can execute, an answer counts only when it was
// read whole, and whatever is not clear is unknown.
package payment

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"billing/internal/core/domain"
)

const (
	maxAnswer    = 64 << 10         // bytes of a charge's answer; a larger one is unreadable
	maxHeader    = 16 << 10         // bytes of an answer's header, informational ones included
	connectLimit = 5 * time.Second  // to dial, and to shake hands, when the timeout is longer
	idleLimit    = 30 * time.Second // shorter than usual servers', so that seldom a dead connection is picked

	// maxConnections of one call: a kept one that turns out dead, and a new one. Without a limit a GET
	// is repeated thousands of times on a server that answers every connection with GOAWAY. A POST is
	// never repeated once a byte of it was written, see request.
	maxConnections = 2
)

// client makes calls by the transport rules that hold for every provider.
type client struct {
	base    string
	timeout time.Duration
	token   func() string
	http    *http.Client
}

// call is one request. A call without a body is a GET.
type call struct {
	target      string // what follows the base URL
	key         string // Idempotency-Key, empty sends none
	body        []byte
	traceparent string
	limit       int64 // bytes of the answer at most
}

// reply is an answer. Status is 0 when not even a header came.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// failure says why an answer is missing or not whole.
type failure struct {
	cause  domain.Cause // no_connection only when nothing was sent
	detail string       // from a closed vocabulary: neither payload nor secrets
}

func newClient(cfg Config) (*client, error) {
	base, err := cfg.check()
	if err != nil {
		return nil, err
	}
	token := cfg.Token
	if token == nil {
		token = func() string { return "" }
	}
	return &client{
		base:    base,
		timeout: cfg.Timeout,
		token:   token,
		http: &http.Client{
			Transport: newTransport(cfg),
			// A redirect would send body and token to another address, or turn the POST into a GET.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func newTransport(cfg Config) *http.Transport {
	connect := min(cfg.Timeout, connectLimit)
	dialer := &net.Dialer{Timeout: connect}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.RootCAs, Certificates: cfg.Certificates},
		TLSHandshakeTimeout:    connect,
		ResponseHeaderTimeout:  cfg.Timeout,
		ExpectContinueTimeout:  0,
		IdleConnTimeout:        idleLimit,
		MaxIdleConns:           cfg.Concurrency,
		MaxIdleConnsPerHost:    cfg.Concurrency,
		MaxConnsPerHost:        cfg.Concurrency,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true, // a small answer must not unpack to a large one
		Protocols:              protocols,
		// All charges may share one connection: a dead one has to be noticed.
		HTTP2: &http.HTTP2Config{SendPingTimeout: cfg.Timeout, PingTimeout: connect, WriteByteTimeout: cfg.Timeout},
	}
}

// do makes one call within the timeout. The failure is nil when the answer was read whole.
func (c *client) do(ctx context.Context, in call) (reply, *failure) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var connections atomic.Int32
	req, err := c.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			if connections.Add(1) > maxConnections {
				cancel()
			}
		},
	}), in)
	if err != nil {
		return reply{}, &failure{domain.CauseNoConnection, "no request can be made"}
	}
	if !headerSafe(req.Header.Get("Authorization")) {
		return reply{}, &failure{domain.CauseUnauthorized, "the token cannot be sent in a header"}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return reply{}, unheard(err, connections.Load())
	}
	defer func() { _ = resp.Body.Close() }() // what counts was read before
	return read(resp, in.limit)
}

// unheard says why there is no answer. Nothing was sent only while no connection was had.
func unheard(err error, connections int32) *failure {
	switch {
	case connections == 0:
		return &failure{domain.CauseNoConnection, "no connection: " + describe(err)}
	case connections > maxConnections:
		return &failure{domain.CauseBroken, "no answer: the server closes every connection"}
	default:
		return &failure{interruption(err), "no answer: " + describe(err)}
	}
}

func (c *client) request(ctx context.Context, in call) (*http.Request, error) {
	method := http.MethodGet
	if in.body != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+in.target, nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if in.body != nil {
		req.Body = io.NopCloser(bytes.NewReader(in.body))
		req.ContentLength = int64(len(in.body))
		req.Header.Set("Content-Type", "application/json")
	}
	// With GetBody, net/http repeats a POST that carries Idempotency-Key by itself when a kept
	// connection dies under it: two requests for one attempt. NewRequest sets it for known readers.
	req.GetBody = nil
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "billing")
	if in.key != "" {
		req.Header.Set("Idempotency-Key", in.key)
	}
	if token := c.token(); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if validTraceparent(in.traceparent) {
		req.Header.Set("Traceparent", in.traceparent)
	}
	return req, nil
}

// read takes the whole body, or says why there is none. The body of 101 is the bare connection, which
// no deadline would end.
func read(resp *http.Response, limit int64) (reply, *failure) {
	r := reply{status: resp.StatusCode, header: resp.Header}
	if r.status < http.StatusOK {
		return r, nil
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return r, &failure{domain.CauseBroken, "the answer is encoded, which was not asked for"}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return r, &failure{interruption(err), "the answer is cut: " + describe(err)}
	case int64(len(body)) > limit:
		return r, &failure{domain.CauseBroken, "the answer is too large"}
	}
	r.body = body
	return r, nil
}

// headerSafe reports whether net/http would send s. It refuses before it connects, which would look
// like a provider that cannot be reached.
func headerSafe(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// validTraceparent accepts version 00 of W3C Trace Context. The value came in with an event, so it may
// be anything.
func validTraceparent(s string) bool {
	if len(s) != 55 || s[:3] != "00-" || s[35] != '-' || s[52] != '-' {
		return false
	}
	digits := s[3:35] + s[36:52] + s[53:]
	return strings.Trim(digits, "0123456789abcdef") == ""
}
