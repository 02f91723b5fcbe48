package payment

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"billing/internal/core/domain"
)

// TestEveryStatusOverTheWireIsOneRequest: the transport adds no meaning of its own to any status. The
// informational ones (but 101) are followed by no answer here.
func TestEveryStatusOverTheWireIsOneRequest(t *testing.T) {
	t.Parallel()
	for status := 100; status <= 599; status++ {
		at := newPeer(t, once(whole(status, `{"status":"pending"}`)))
		g := newGeneric(t, target{url: at.url()})
		a := g.Charge(t.Context(), testKey, testRequest, testOrder, "")
		want := classifyCharge(status, []byte(`{"status":"pending"}`), testOrder)
		switch {
		case status == 101:
		case status < 200:
			want = domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseBroken}
		case status == 204 || status == 304: // they have no body
			want = classifyCharge(status, nil, testOrder)
		}
		checkAnswer(t, a, want.Outcome, want.Cause, want.HTTPStatus)
		g.Close()
		at.shut()
		if n := at.count(); n != 1 {
			t.Errorf("status %d: %d requests on the wire, want 1", status, n)
		}
	}
}

func TestStatusBeyondTheKnownIsUnknown(t *testing.T) {
	t.Parallel()
	for _, status := range []int{600, 799, 999} {
		at := newPeer(t, answers(whole(status, goodBody)))
		g := newGeneric(t, target{url: at.url()})
		a := g.Charge(t.Context(), testKey, testRequest, testOrder, "")
		checkAnswer(t, a, domain.Unknown, domain.CauseUnexpected, status)
		g.Close()
	}
}

// TestRequestGoesOutAsTheContractSays: the bytes are the stored ones, and no header says more than
// the contract.
func TestRequestGoesOutAsTheContractSays(t *testing.T) {
	t.Parallel()
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	at := newPeer(t, answers(reply200(goodBody)))
	g := newGeneric(t, target{url: at.url() + "/v1/"})
	stored := []byte(` {"order_id" : "o-1"}` + "\n")
	g.Charge(t.Context(), testKey, stored, testOrder, trace)
	g.Lookup(t.Context(), testKey, testOrder, trace)
	g.Close()
	at.shut()
	seen := at.seen()
	if len(seen) != 2 {
		t.Fatalf("%d requests, want 2", len(seen))
	}
	post, get := seen[0], seen[1]
	if post.method != http.MethodPost || post.uri != "/v1/charges" || post.body != string(stored) {
		t.Errorf("POST was %s %s %q", post.method, post.uri, post.body)
	}
	if get.method != http.MethodGet || get.uri != "/v1/charges?idempotency_key="+testKey.String() || get.body != "" {
		t.Errorf("look-up was %s %s %q", get.method, get.uri, get.body)
	}
	common := "Accept: application/json\r\nAccept-Encoding: identity\r\nAuthorization: Bearer " + canaryToken + "\r\n"
	checkHeader(t, post.header, common+fmt.Sprintf("Content-Length: %d\r\nContent-Type: application/json\r\nIdempotency-Key: %s\r\n", len(stored), testKey)+
		"Traceparent: "+trace+"\r\nUser-Agent: billing\r\n")
	checkHeader(t, get.header, common+"Traceparent: "+trace+"\r\nUser-Agent: billing\r\n")
}

func checkHeader(t *testing.T, got http.Header, want string) {
	t.Helper()
	var b strings.Builder
	if err := got.Write(&b); err != nil {
		t.Fatal(err)
	}
	if b.String() != want {
		t.Errorf("header\n%s\nwant\n%s", b.String(), want)
	}
}

func TestForgedTraceparentIsLeftOut(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"empty": "", "short": "00-0af7651916cd43dd8448eb211c80319c", "injection": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nX: y",
		"line feed": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b71692033\r\n-01", "upper case": "00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01",
		"dashes": "00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331--01",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := newPeer(t, answers(reply200(goodBody)))
			g := newGeneric(t, target{url: at.url()})
			a := g.Charge(t.Context(), testKey, testRequest, testOrder, value)
			checkAnswer(t, a, domain.Succeeded, domain.CauseNone, 200)
			if got := at.seen()[0].header.Values("Traceparent"); len(got) != 0 {
				t.Errorf("sent %q", got)
			}
			g.Close()
		})
	}
}

// TestTokenThatCannotBeSentClosesTheGate: net/http would refuse it before it connects, which must not
// pass for a provider that is away.
func TestTokenThatCannotBeSentClosesTheGate(t *testing.T) {
	t.Parallel()
	at := newPeer(t, answers(reply200(goodBody)))
	g := newGeneric(t, target{url: at.url(), cfg: Config{Token: func() string { return canaryToken + "\r\nX: y" }}})
	checkAnswer(t, g.Charge(t.Context(), testKey, testRequest, testOrder, ""), domain.NotSent, domain.CauseUnauthorized, 0)
	checkAnswer(t, g.Lookup(t.Context(), testKey, testOrder, ""), domain.Unknown, domain.CauseUnauthorized, 0)
	_, _, err := g.List(t.Context(), "", 10)
	if err == nil {
		t.Fatal("List: no error")
	}
	checkNoSecret(t, err.Error())
	checkWire(t, g, at, 0)
}

func TestEmptyRequestIsNeverSent(t *testing.T) {
	t.Parallel()
	at := newPeer(t, answers(reply200(goodBody)))
	g := newGeneric(t, target{url: at.url()})
	checkAnswer(t, g.Charge(t.Context(), testKey, nil, testOrder, ""), domain.Rejected, domain.CauseInvalidRequest, 0)
	checkWire(t, g, at, 0)
}

// TestTLSAndHTTP2Work: the client certificate is shown, the private CA trusted, HTTP/2 used.
func TestTLSAndHTTP2Work(t *testing.T) {
	t.Parallel()
	protocols := make(chan string, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !bytes.Equal(body, testRequest) || len(r.TLS.PeerCertificates) != 1 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		protocols <- r.Proto
		_, _ = io.WriteString(w, goodBody)
	}))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	g := newGeneric(t, target{url: server.URL, cfg: Config{RootCAs: roots, Certificates: server.TLS.Certificates}})
	checkAnswer(t, g.Charge(t.Context(), testKey, testRequest, testOrder, ""), domain.Succeeded, domain.CauseNone, 200)
	if got := <-protocols; got != "HTTP/2.0" {
		t.Errorf("protocol %s", got)
	}
	g.Close()
}

func TestTransportLeavesNothingToDefaults(t *testing.T) {
	t.Parallel()
	g := newGeneric(t, target{url: "https://provider.test", timeout: 10 * time.Second, cfg: Config{Concurrency: 64}})
	tr := transportOf(t, g)
	if tr.Proxy != nil || !tr.DisableCompression || tr.TLSClientConfig.MinVersion != tls.VersionTLS12 || tr.TLSClientConfig.InsecureSkipVerify {
		t.Error("proxy, compression or TLS are not as they should be")
	}
	for name, d := range map[string]time.Duration{
		"handshake": tr.TLSHandshakeTimeout, "header": tr.ResponseHeaderTimeout, "idle": tr.IdleConnTimeout,
		"ping": tr.HTTP2.SendPingTimeout, "ping answer": tr.HTTP2.PingTimeout, "write": tr.HTTP2.WriteByteTimeout,
	} {
		if d <= 0 || d > 30*time.Second {
			t.Errorf("%s timeout is %s", name, d)
		}
	}
	if tr.MaxConnsPerHost != 64 || tr.MaxIdleConns != 64 || tr.MaxIdleConnsPerHost != 64 || tr.MaxResponseHeaderBytes <= 0 {
		t.Error("the number of connections or the header is not bounded")
	}
	if !errors.Is(g.client.http.CheckRedirect(nil, nil), http.ErrUseLastResponse) {
		t.Error("redirects are followed")
	}
}
