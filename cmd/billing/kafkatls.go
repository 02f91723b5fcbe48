package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"
)

const kafkaDialTimeout = 5 * time.Second

// tlsDialer connects to brokers by TLS. It reads its files for every connection, so that certificates may be replaced while
// the service runs: connections are few, and a broken file ends the one that meets it, with its cause.
type tlsDialer struct{ caFile, certFile, keyFile string }

// dial verifies the broker by the name that it is dialled by.
func (d tlsDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("dial the broker: %w", err)
	}
	roots, certificates, err := tlsFiles(d.caFile, d.certFile, d.keyFile)
	if err != nil {
		return nil, fmt.Errorf("kafka TLS: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, kafkaDialTimeout)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, Certificates: certificates, ServerName: host, MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("dial the broker: %w", err)
	}
	return conn, nil
}
