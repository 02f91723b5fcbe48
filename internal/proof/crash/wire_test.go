package crash_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"billing/internal/paysim"
)

// An owner stands still with its request on the wire; another one takes over and the charge is parked; an
// operator retries it, and it is charged in its new window. Then the first owner wakes.
func TestAStoppedOwnerWakesAfterParkAndRetry(t *testing.T) {
	t.Parallel()
	r := newRig(t, paysim.Script{Rules: []paysim.Rule{
		{Match: paysim.Match{Attempt: 1}, Fault: paysim.Fault{Kind: paysim.Hang, Phase: paysim.Before}},
		{Match: paysim.Match{Attempt: 2}, Fault: paysim.Fault{Kind: paysim.Answer, Status: http.StatusBadRequest}},
	}}, "BILLING_PROVIDER_TIMEOUT=1s", "BILLING_CHARGE_LEASE=7s")
	r.produce(t, 1, time.Now())
	o := r.orders["order-1"]
	sleeper := r.serve(t)
	if err := r.sim.WaitHanging(r.patient(t), 1); err != nil {
		t.Fatal(err)
	}
	if err := sleeper.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	other := r.serve(t, "BILLING_ROLES=charger,relay")
	r.await(t, "the other owner's request is rejected", func() bool {
		return r.db.Count(t, "SELECT count(*) FROM charge WHERE status = 'parked' AND reason = 'invalid_request'") == 1
	})
	if code := r.run(t, "charges", "retry", o.event.String(), "--actor", "test", "--reason", "the provider is repaired", "--yes"); code != 0 {
		t.Fatalf("billing charges retry ended with %d", code)
	}
	r.awaitSettled(t)
	if err := sleeper.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.await(t, "the sleeper's write is fenced", func() bool { return r.metric(t, sleeper, "billing_fenced_writes_total") >= 1 })
	r.audit(t) // one effect, the same bytes under the key every time, every rule kept
	journal := r.sim.Journal().Audit()
	if n := journal.RequestsByKey[o.event.String()]; n != 3 {
		t.Errorf("%d requests, want those of the sleeper, of the other and of the new window", n)
	}
	for query, want := range map[string]int{
		"SELECT version FROM charge WHERE status = 'succeeded'":                                                 1 + 1,
		"SELECT count(*) FROM charge_event WHERE type = 'ChargeRetried' AND actor = 'test' AND version IS NULL": 1,
		"SELECT count(*) FROM charge_attempt":                                                                   3,
		"SELECT count(*) FROM charge_attempt WHERE outcome IS NULL":                                             0,
	} {
		if got := r.db.Count(t, query); got != want {
			t.Errorf("%d, want %d: %s", got, want, query)
		}
	}
	stop(t, sleeper)
	stop(t, other)
}

// authority signs certificates for 127.0.0.1, and writes what a process reads.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.key = newKey(t)
	template := certificate("authority")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.write(t, "ca.pem", "CERTIFICATE", der)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

func (a *authority) write(t *testing.T, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// issue makes a certificate, and the files of it.
func (a *authority) issue(t *testing.T, name string) (pair tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, certificate(name), a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = a.write(t, name+".pem", "CERTIFICATE", der), a.write(t, name+".key", "EC PRIVATE KEY", secret)
	if pair, err = tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		t.Fatal(err)
	}
	return pair, certFile, keyFile
}

// terminate speaks TLS in front of an address.
func terminate(t *testing.T, upstream string, config *tls.Config) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	var links sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		links.Wait()
	})
	links.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			links.Go(func() { link(ctx, client, upstream) })
		}
	})
	return "https://" + listener.Addr().String()
}

func link(ctx context.Context, client net.Conn, upstream string) {
	defer client.Close()
	if client.(*tls.Conn).HandshakeContext(ctx) != nil {
		return
	}
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", upstream)
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })()
	var up sync.WaitGroup
	up.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	_, _ = io.Copy(client, server)
	_ = client.Close()
	up.Wait()
}

func TestTheProviderIsReachedByOurOwnAuthorityAndCertificate(t *testing.T) {
	t.Parallel()
	ours, foreign := newAuthority(t), newAuthority(t)
	pair, _, _ := ours.issue(t, "provider")
	_, certFile, keyFile := ours.issue(t, "billing")
	pool := x509.NewCertPool()
	pool.AddCert(ours.cert)
	strict := &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	old := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	ca := func(a *authority) string { return "BILLING_PROVIDER_TLS_CA_FILE=" + filepath.Join(a.dir, "ca.pem") }
	client := []string{"BILLING_PROVIDER_TLS_CERT_FILE=" + certFile, "BILLING_PROVIDER_TLS_KEY_FILE=" + keyFile}
	for name, c := range map[string]struct {
		server  *tls.Config
		env     []string
		charged bool
	}{
		"trusted, with our certificate": {strict, append([]string{ca(ours)}, client...), true},
		"foreign authority":             {strict, append([]string{ca(foreign)}, client...), false},
		"the system's authorities":      {strict, client, false},
		"TLS 1.1":                       {old, []string{ca(ours)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, paysim.Script{})
			r.produce(t, 10, time.Now())
			p := r.serve(t, append(c.env, "BILLING_PROVIDER_URL="+terminate(t, strings.TrimPrefix(r.simURL, "http://"), c.server))...)
			if c.charged {
				r.awaitSettled(t)
				r.audit(t)
				stop(t, p)
				return
			}
			r.await(t, "tries without a connection", func() bool {
				return r.db.Count(t, "SELECT count(*) FROM charge_attempt WHERE outcome = 'not_sent'") >= 10
			})
			if n := len(r.sim.Requests()); n != 0 {
				t.Errorf("%d requests reached the provider", n)
			}
			if n := r.db.Count(t, "SELECT count(*) FROM charge_attempt WHERE outcome NOT IN ('not_sent')"); n != 0 {
				t.Errorf("%d attempts count as sent", n)
			}
			stop(t, p)
		})
	}
}

// A token is replaced in its file while charges are under way. The provider takes both for a while, then only
// the new one: nothing fails, and nobody has to restart anything.
func TestATokenIsReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	replace := func(token string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	replace("first-token")
	r := newRig(t, paysim.Script{Latency: paysim.Exactly(2 * time.Millisecond)}, "BILLING_PROVIDER_TOKEN_FILE="+file)
	upstream, err := url.Parse(r.simURL)
	if err != nil {
		t.Fatal(err)
	}
	var oldIsGone atomic.Bool
	var refused, withNew atomic.Int64
	proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(upstream) }, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch token := req.Header.Get("Authorization"); {
		case token == "Bearer second-token":
			withNew.Add(1)
		case token != "Bearer first-token" || oldIsGone.Load():
			refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, req)
	}))
	t.Cleanup(func() {
		server.Close()
		proxy.Transport.(*http.Transport).CloseIdleConnections()
	})
	p := r.serve(t, "BILLING_PROVIDER_URL="+server.URL)
	r.produce(t, 1500, time.Now())
	if err := r.sim.WaitEffects(r.patient(t), 200); err != nil {
		t.Fatal(err)
	}
	replace("second-token")
	r.await(t, "the new token is used", func() bool { return withNew.Load() >= 50 })
	oldIsGone.Store(true)
	r.awaitSettled(t)
	if n := r.db.Count(t, "SELECT count(*) FROM charge_attempt WHERE outcome <> 'succeeded'"); n != 0 || refused.Load() != 0 {
		t.Errorf("%d attempts failed, %d requests with the old token", n, refused.Load())
	}
	if withNew.Load() < 200 {
		t.Errorf("only %d requests with the new token: there was no load at the change", withNew.Load())
	}
	r.metrics(t, p)
	stop(t, p)
}
