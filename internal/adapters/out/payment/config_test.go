package payment

import (
	"strings"
	"testing"
	"time"
)

func TestBaseURLIsCheckedAtStart(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		url       string
		allowHTTP bool
		base      string // empty: refused
	}{
		{url: "https://pay.example.com", base: "https://pay.example.com"},
		{url: "https://pay.example.com/", base: "https://pay.example.com"},
		{url: "https://pay.example.com:8443/v1/", base: "https://pay.example.com:8443/v1"},
		{url: "HTTPS://pay.example.com", base: "https://pay.example.com"},
		{url: "http://127.0.0.1:8080", base: "http://127.0.0.1:8080"},
		{url: "http://127.9.9.9", base: "http://127.9.9.9"},
		{url: "http://[::1]:8080", base: "http://[::1]:8080"},
		{url: "http://localhost:8080", base: "http://localhost:8080"},
		{url: "http://pay.example.com", allowHTTP: true, base: "http://pay.example.com"},
		{url: ""},
		{url: "pay.example.com"},
		{url: "//pay.example.com"},
		{url: "/charges"},
		{url: "https://"},
		{url: "https:pay.example.com"},
		{url: "https://:443"},
		{url: "http://pay.example.com"},
		{url: "http://localhost.example.com"},
		{url: "http://127.0.0.1.example.com"},
		{url: "http://10.0.0.1"},
		{url: "http://0.0.0.0"},
		{url: "ftp://127.0.0.1", allowHTTP: true},
		{url: "file:///etc/passwd", allowHTTP: true},
		{url: "unix:///run/pay.sock", allowHTTP: true},
		{url: "https://" + canaryToken + "@pay.example.com"},
		{url: "https://user:" + canaryToken + "@pay.example.com"},
		{url: "https://user:" + canaryToken + "@[pay.example.com"},
		{url: "https://pay.example.com?key=" + canaryToken},
		{url: "https://pay.example.com?"},
		{url: "https://pay.example.com#" + canaryToken},
		{url: "https://pay.example.com#"},
		{url: "https://pay.example.com:" + canaryToken},
		{url: "https://pay.example.com/\x7f" + canaryToken},
	} {
		g, err := NewGeneric(Config{
			URL: tc.url, AllowHTTP: tc.allowHTTP, Timeout: time.Second, Concurrency: 1, Now: time.Now,
		})
		switch {
		case err != nil:
			checkNoSecret(t, err.Error())
			if tc.base != "" {
				t.Errorf("%q: %v", tc.url, err)
			}
		case g.client.base != tc.base:
			t.Errorf("%q: got base %q, want %q", tc.url, g.client.base, tc.base)
		}
	}
}

func TestConfigurationOutOfBoundsIsRefused(t *testing.T) {
	t.Parallel()
	good := Config{URL: "https://pay.example.com", Timeout: time.Second, Concurrency: 1, Account: "a", Lookup: true, KeyWindow: time.Hour, Now: time.Now}
	g, err := NewGeneric(good)
	if err != nil {
		t.Fatal(err)
	}
	if able := g.Capabilities(); able.Name != "a" || !able.Lookup || able.KeyWindow != time.Hour {
		t.Errorf("capabilities are %+v", able)
	}
	for name, spoil := range map[string]func(*Config){
		"timeout":     func(c *Config) { c.Timeout = 0 },
		"concurrency": func(c *Config) { c.Concurrency = 0 },
		"key window":  func(c *Config) { c.KeyWindow = -1 },
		"clock":       func(c *Config) { c.Now = nil },
	} {
		bad := good
		spoil(&bad)
		if _, err := NewGeneric(bad); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
