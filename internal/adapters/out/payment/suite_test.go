package payment

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// provider is what the suite needs of an adapter under test.
type provider interface {
	usecase.Provider
	Close()
}

// law is one misbehaviour of a provider and what every adapter has to make of it. The promise is the
// same for all: the outcome is never a guess, and a charge is exactly one request on the wire.
type law struct {
	behave  serve
	outcome domain.Outcome
	cause   domain.Cause
	status  int
	short   bool // ends by the timeout, so a short one is used
}

const (
	shortTimeout = time.Second
	patience     = 15 * time.Second // far above what a call takes, below what a misbehaving peer does
)

func unknown(status int, cause domain.Cause, behave serve) law {
	return law{behave: behave, outcome: domain.Unknown, cause: cause, status: status}
}

func late(status int, behave serve) law {
	return law{behave: behave, outcome: domain.Unknown, cause: domain.CauseTimeout, status: status, short: true}
}

// laws is H2, H3, H4 and H12 of the fault matrix. The bodies quote the customer, as a provider may.
func laws() map[string]law {
	const page = "<html>" + canaryCustomer + "</html>"
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"
	broken := domain.CauseBroken
	m := map[string]law{
		"reset before the answer":      unknown(0, broken, resets("")),
		"closed before the answer":     unknown(0, broken, once("")),
		"reset in the status line":     unknown(0, broken, resets("HTTP/1.1 200 "+canaryCustomer)),
		"reset in the header":          unknown(0, broken, resets("HTTP/1.1 200 OK\r\nX-Customer: "+canaryCustomer+"\r\nContent-Le")),
		"no HTTP":                      unknown(0, broken, once(canaryCustomer+"\r\n\r\n")),
		"binary":                       unknown(0, broken, once("\x16\x03\x01\x00\x00")),
		"status that is no number":     unknown(0, broken, once("HTTP/1.1 2OO "+canaryCustomer+"\r\n\r\n")),
		"malformed header line":        unknown(0, broken, once("HTTP/1.1 200 OK\r\n"+canaryCustomer+"\r\n\r\n"+goodBody)),
		"two lengths":                  unknown(0, broken, once("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 84\r\n\r\n"+goodBody)),
		"length that is no number":     unknown(0, broken, once("HTTP/1.1 200 OK\r\nContent-Length: "+canaryCustomer+"\r\n\r\n"+goodBody)),
		"huge header":                  unknown(0, broken, once("HTTP/1.1 200 OK\r\nX-Big: "+strings.Repeat("a", 1<<20)+"\r\n\r\n"+goodBody)),
		"endless header":               unknown(0, broken, repeats("HTTP/1.1 200 OK\r\n", "X-More: "+strings.Repeat("a", 1000)+"\r\n", 0, 100_000)),
		"endless informational answer": unknown(0, broken, repeats("", "HTTP/1.1 103 Early Hints\r\nLink: "+strings.Repeat("a", 100)+"\r\n\r\n", 0, 100_000)),
		"cut body":                     unknown(200, broken, once(head+goodBody)),
		"reset in the body":            unknown(200, broken, resets(head+goodBody)),
		"cut chunk":                    unknown(200, broken, once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n54\r\n"+goodBody)),
		"cut behind the last chunk":    unknown(200, broken, once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n54\r\n"+goodBody+"\r\n")),
		"malformed chunk":              unknown(200, broken, once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+canaryCustomer+"\r\n")),
		"oversized by its length":      unknown(200, broken, answers(reply200(goodBody+strings.Repeat(" ", maxAnswer)))),
		"oversized without a length":   unknown(200, broken, once("HTTP/1.1 200 OK\r\n\r\n"+goodBody+strings.Repeat(" ", maxAnswer))),
		"endless body":                 unknown(200, broken, repeats("HTTP/1.1 200 OK\r\n\r\n"+goodBody, strings.Repeat(" ", 1000), 0, 1_000_000)),
		"gzip bomb":                    unknown(200, broken, answers(bomb())),
		"encoded":                      unknown(200, broken, answers(whole(200, goodBody, "Content-Encoding: br"))),
		"empty":                        unknown(200, broken, answers(reply200(""))),
		"page of HTML":                 unknown(200, broken, answers(reply200(page))),
		"cut JSON":                     unknown(200, broken, answers(reply200(goodBody[:60]))),
		"two values":                   unknown(200, broken, answers(reply200(goodBody+goodBody))),
		"duplicate member":             unknown(200, broken, answers(reply200(`{"status":"succeeded","status":"declined"}`))),
		"bad UTF-8":                    unknown(200, broken, answers(reply200("{\"status\":\"succeeded\",\"id\":\"\xff\"}"))),
		"switches the protocol":        unknown(101, domain.CauseUnexpected, hangs("HTTP/1.1 101 Switching\r\nUpgrade: any\r\nConnection: Upgrade\r\n\r\n")),
		"server error, cut":            unknown(500, domain.CauseServerError, once("HTTP/1.1 500 No\r\nContent-Length: 99\r\n\r\n"+page)),
		"refused token, cut":           unknown(401, domain.CauseUnauthorized, once("HTTP/1.1 401 No\r\nContent-Length: 99\r\n\r\n"+page)),
		"declined, cut":                unknown(402, broken, once("HTTP/1.1 402 No\r\nContent-Length: 99\r\n\r\n"+`{"status":"declined"}`)),
		"refused request, cut":         unknown(400, broken, once("HTTP/1.1 400 No\r\nContent-Length: 99\r\n\r\n{}")),
		"no answer in time":            late(0, hangs("")),
		"header in drops":              late(0, repeats("HTTP/1.1 200 OK\r\nX-Drop: ", "a", 10*time.Millisecond, 10_000)),
		"header and then nothing":      late(200, hangs(head)),
		"body in drops":                late(200, repeats(head, " ", 10*time.Millisecond, 10_000)),
		"slow informational answers":   late(0, repeats("", "HTTP/1.1 102 Processing\r\n\r\n", 50*time.Millisecond, 10_000)),
		"hints, then the answer":       {behave: answers("HTTP/1.1 103 Early Hints\r\n\r\n" + reply200(goodBody)), outcome: domain.Succeeded, status: 200},
	}
	return m
}

// runSuite is the contract of every provider adapter.
func runSuite(t *testing.T, newProvider func(t *testing.T, to target) provider) {
	t.Helper()
	for name, l := range laws() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := target{}
			if l.short {
				to.timeout = shortTimeout
			}
			charging := newPeer(t, l.behave)
			to.url = charging.url()
			p := newProvider(t, to)
			begin := time.Now()
			a := p.Charge(t.Context(), testKey, testRequest, testOrder, "")
			checkAnswer(t, a, l.outcome, l.cause, l.status)
			checkWire(t, p, charging, 1)
			if took := time.Since(begin); took > patience {
				t.Errorf("took %s: neither a limit nor the deadline ended it", took)
			}

			asking := newPeer(t, l.behave)
			to.url = asking.url()
			p = newProvider(t, to)
			a = p.Lookup(t.Context(), testKey, testOrder, "")
			checkAnswer(t, a, l.outcome, l.cause, l.status)
			checkWire(t, p, asking, 1)
		})
	}
	t.Run("redirects", func(t *testing.T) { t.Parallel(); testRedirects(t, newProvider) })
	t.Run("kept connections", func(t *testing.T) { t.Parallel(); testKept(t, newProvider) })
	t.Run("stopped caller", func(t *testing.T) { t.Parallel(); testCancelled(t, newProvider) })
	t.Run("no connection", func(t *testing.T) { t.Parallel(); testNotSent(t, newProvider) })
}

func checkAnswer(t *testing.T, a domain.Answer, outcome domain.Outcome, cause domain.Cause, status int) {
	t.Helper()
	if a.Outcome != outcome || a.Cause != cause || a.HTTPStatus != status {
		t.Errorf("got %s/%s status %d (%s), want %s/%s status %d",
			a.Outcome, a.Cause, a.HTTPStatus, a.Detail, outcome, cause, status)
	}
	checkNoSecret(t, a.Detail+a.Code)
}

func checkNoSecret(t *testing.T, s string) {
	t.Helper()
	if strings.Contains(s, "canary") {
		t.Errorf("a secret or a customer came out: %q", s)
	}
}

// checkWire closes both ends and compares what arrived.
func checkWire(t *testing.T, p provider, at *peer, want int) {
	t.Helper()
	p.Close()
	at.shut()
	if got := at.count(); got != want {
		t.Errorf("%d requests on the wire, want %d", got, want)
	}
}

// testRedirects is H12: body and token stay where they were sent.
func testRedirects(t *testing.T, newProvider func(t *testing.T, to target) provider) {
	t.Helper()
	for _, status := range []int{301, 302, 303, 307, 308} {
		for place, location := range map[string]string{"here": "/elsewhere", "malformed": "http://[" + canaryCustomer, "absent": ""} {
			t.Run(fmt.Sprint(status, " ", place), func(t *testing.T) {
				t.Parallel()
				at := newPeer(t, answers(whole(status, "", "Location: "+location)))
				p := newProvider(t, target{url: at.url()})
				a := p.Charge(t.Context(), testKey, testRequest, testOrder, "")
				if a.Outcome != domain.Unknown {
					t.Errorf("got %s, want unknown", a.Outcome)
				}
				checkNoSecret(t, a.Detail)
				checkWire(t, p, at, 1)
			})
		}
		t.Run(fmt.Sprint(status, " there"), func(t *testing.T) {
			t.Parallel()
			there := newPeer(t, answers(reply200(goodBody)))
			at := newPeer(t, answers(whole(status, "", "Location: "+there.url()+"/charges")))
			p := newProvider(t, target{url: at.url()})
			checkAnswer(t, p.Charge(t.Context(), testKey, testRequest, testOrder, ""), domain.Unknown, domain.CauseUnexpected, status)
			checkAnswer(t, p.Lookup(t.Context(), testKey, testOrder, ""), domain.Unknown, domain.CauseUnexpected, status)
			checkWire(t, p, at, 2)
			checkWire(t, p, there, 0)
		})
	}
}

// testCancelled: a caller that stops waiting makes nothing certain, unless nothing had been sent.
func testCancelled(t *testing.T, newProvider func(t *testing.T, to target) provider) {
	t.Helper()
	t.Run("before", func(t *testing.T) {
		t.Parallel()
		at := newPeer(t, answers(reply200(goodBody)))
		p := newProvider(t, target{url: at.url()})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		a := p.Charge(ctx, testKey, testRequest, testOrder, "")
		checkAnswer(t, a, domain.NotSent, domain.CauseNoConnection, 0)
		checkWire(t, p, at, 0)
	})
	t.Run("after", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		at := newPeer(t, cancels(cancel))
		p := newProvider(t, target{url: at.url()})
		a := p.Charge(ctx, testKey, testRequest, testOrder, "")
		checkAnswer(t, a, domain.Unknown, domain.CauseTimeout, 0)
		checkWire(t, p, at, 1)
	})
}
