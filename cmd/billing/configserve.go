package main

import (
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// checkServe checks what only the running service uses.
func (l *loader) checkServe() {
	if l.cfg.RelayLease < minRelayLease {
		l.bound("BILLING_RELAY_LEASE", "want at least %s", minRelayLease)
	}
	if l.cfg.ShutdownTimeout < minShutdownTimeout {
		l.bound("BILLING_SHUTDOWN_TIMEOUT", "want at least %s", minShutdownTimeout)
	}
	if !(l.cfg.APIRate >= 0) || math.IsInf(l.cfg.APIRate, 1) { // NaN too
		l.bound("BILLING_API_RATE", "want 0 or more")
	}
	if l.cfg.KeyTTL < minKeyTTL {
		l.bound("BILLING_IDEMPOTENCY_KEY_TTL", "want at least %s", minKeyTTL)
	}
	if !hostPort(l.cfg.HTTPAddr, true) {
		l.bound("BILLING_HTTP_ADDR", "is not host:port, want for example :8080")
	}
	if !hostPort(l.cfg.OpsAddr, true) {
		l.bound("BILLING_OPS_ADDR", "is not host:port, want for example :9090")
	}
	if l.cfg.PprofAddr == "" {
		return
	}
	if host, _, _ := net.SplitHostPort(l.cfg.PprofAddr); !hostPort(l.cfg.PprofAddr, true) || !loopback(host) {
		l.fault("BILLING_PPROF_ADDR", "is not a loopback host:port, want for example 127.0.0.1:6060")
	}
}

// checkRoles asks for what the roles need.
func (l *loader) checkRoles() {
	if !l.sound("BILLING_ROLES") {
		return
	}
	for _, want := range []struct {
		variable, value string
		part            Parts
		roles           []string
	}{
		{"BILLING_KAFKA_BROKERS", strings.Join(l.cfg.KafkaBrokers, ","), PartKafka, []string{RoleConsumer, RoleRelay}},
		{"BILLING_PROVIDER_URL", l.cfg.ProviderURL, PartProvider, []string{RoleCharger}},
		{"BILLING_API_TOKENS_FILE", l.cfg.APITokensFile, PartServe, []string{RoleAPI}},
	} {
		if want.value == "" && want.part&l.parts != 0 && l.cfg.Roles.Has(want.roles...) {
			l.bound(want.variable, "is required with role %s", strings.Join(want.roles, " or "))
		}
	}
	if l.cfg.Roles.Has(RoleAPI) {
		l.readable("BILLING_API_TOKENS_FILE", l.cfg.APITokensFile)
		l.checkTokens()
	}
}

// hostPort reports whether s is host:port. To listen, the host may be left out and the port be 0.
func hostPort(s string, listen bool) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || strings.ContainsAny(host, " @/") {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && (listen || (host != "" && n > 0))
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
