package payment

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// Config is what an adapter needs to talk to its provider.
type Config struct {
	Account      string            // name of the account behind the URL
	URL          string            // base URL: https, or http to a loopback address
	AllowHTTP    bool              // http to any address
	Token        func() string     // the bearer token of this moment; nil or empty sends none
	Timeout      time.Duration     // one call as a whole, its answer read
	Concurrency  int               // connections at most
	Lookup       bool              // the provider answers look-up by key
	KeyWindow    time.Duration     // how long the provider remembers a key
	RootCAs      *x509.CertPool    // who may sign the provider's certificate; nil is the system's choice
	Certificates []tls.Certificate // shown to a provider that asks
	Now          func() time.Time  // the pod's clock, for dates in Retry-After
}

// check returns the base URL without its trailing slash. Its errors name no part of the URL, which may
// hold a password.
func (c Config) check() (string, error) {
	switch {
	case c.Timeout <= 0:
		return "", errors.New("provider timeout: must be positive")
	case c.Concurrency <= 0:
		return "", errors.New("provider concurrency: must be positive")
	case c.KeyWindow < 0:
		return "", errors.New("provider key window: must not be negative")
	case c.Now == nil:
		return "", errors.New("provider clock: missing")
	}
	base, err := checkURL(c.URL, c.AllowHTTP)
	if err != nil {
		return "", fmt.Errorf("provider URL: %w", err)
	}
	return base, nil
}

func checkURL(raw string, allowHTTP bool) (string, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", errors.New("cannot be parsed") // the cause would print the URL
	case u.Scheme != "https" && u.Scheme != "http":
		return "", errors.New("scheme must be https or http")
	case u.Opaque != "" || u.Hostname() == "":
		return "", errors.New("host is missing")
	case u.User != nil:
		return "", errors.New("must not hold a user or password")
	case u.RawQuery != "" || u.ForceQuery:
		return "", errors.New("must not hold a query")
	case strings.Contains(raw, "#"):
		return "", errors.New("must not hold a fragment")
	case u.Scheme == "http" && !allowHTTP && !loopback(u.Hostname()):
		return "", errors.New("http is allowed to a loopback address only")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func loopback(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}
