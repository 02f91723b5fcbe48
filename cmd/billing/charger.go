package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/gofrs/uuid/v5"
	"golang.org/x/time/rate"

	"billing/internal/adapters/out/payment"
	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/worker"
)

// charger builds claim, send and settle around the payment provider.
func (s *service) charger() (part, func(), error) {
	provider, err := newProvider(s.cfg, s.clock.Now)
	if err != nil {
		return part{}, nil, err
	}
	retry := domain.Backoff{Min: s.cfg.RetryMin, Max: s.cfg.RetryMax}
	codec := s.codec()
	beat := s.liveness.Register("charger")
	c := &worker.Charger{
		Queue: tapCharges(s.queue),
		Send: usecase.Send{
			Provider: tapProvider(provider), Gate: s.gate, Codec: codec, Clock: s.clock, Random: rand.Float64, IDs: newID,
			Backoff: retry, Lease: s.cfg.ChargeLease, Timeout: s.cfg.ProviderTimeout, PendingMax: s.cfg.PendingMax,
			HoldUntil: s.clock.Now().Add(2 * s.cfg.KafkaSessionTimeout),
		},
		Settle:      usecase.Settle{Queue: tapCharges(s.queue), Codec: codec, IDs: newID},
		Gate:        s.gate,
		Rules:       usecase.ClaimRules{Account: s.cfg.ProviderAccount, Lease: s.cfg.ChargeLease, KeyWindow: s.cfg.ProviderKeyWindow},
		Concurrency: s.cfg.ProviderConcurrency, Ahead: worker.AheadOf(s.cfg.ProviderConcurrency),
		Poll: pollEvery, SettleAfter: worker.SettleAfter, SettleMost: worker.SettleMost, DBTimeout: dbTimeout,
		Backoff: domain.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second},
		Clock:   s.clock, Wake: s.charges, Settled: s.messages.Set,
		Observe: chargerObserver{metrics: s.metrics, beat: beat}, Log: s.log,
	}
	run := func(ctx context.Context) error {
		defer beat.Stop()
		return c.Run(ctx)
	}
	return part{"charger", run}, provider.Close, nil
}

func newProvider(cfg Config, now func() time.Time) (*payment.Generic, error) {
	roots, certificates, err := tlsFiles(cfg.ProviderTLSCAFile, cfg.ProviderTLSCertFile, cfg.ProviderTLSKeyFile)
	if err != nil {
		return nil, fmt.Errorf("provider TLS: %w", err)
	}
	token, err := providerToken(cfg)
	if err != nil {
		return nil, err
	}
	return payment.NewGeneric(payment.Config{
		Account: cfg.ProviderAccount, URL: cfg.ProviderURL, AllowHTTP: bool(cfg.ProviderAllowHTTP), Token: token,
		Timeout: cfg.ProviderTimeout, Concurrency: cfg.ProviderConcurrency, Lookup: bool(cfg.ProviderLookup),
		KeyWindow: cfg.ProviderKeyWindow, RootCAs: roots, Certificates: certificates, Now: now,
	})
}

// newID makes the identity of an announcement.
func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// providerToken returns where the bearer token comes from: a file that is read again when it changes,
// or the environment. LoadConfig has read the file once, so that a mistake shows at start.
func providerToken(cfg Config) (func() string, error) {
	if cfg.ProviderTokenFile == "" {
		return func() string { return string(cfg.ProviderToken) }, nil
	}
	file, err := payment.NewTokenFile(cfg.ProviderTokenFile)
	if err != nil {
		return nil, fmt.Errorf("BILLING_PROVIDER_TOKEN_FILE: %w", err)
	}
	return file.Token, nil
}

// tlsFiles reads PEM files; empty names give nil, the system's choice.
func tlsFiles(caFile, certFile, keyFile string) (*x509.CertPool, []tls.Certificate, error) {
	var roots *x509.CertPool
	if caFile != "" {
		pem, err := os.ReadFile(caFile) //nolint:gosec // the path is the operator's
		if err != nil {
			return nil, nil, fmt.Errorf("read the CA file: %w", err)
		}
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, nil, errors.New("the CA file holds no certificate")
		}
	}
	if certFile == "" {
		return roots, nil, nil
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, nil, fmt.Errorf("read the client certificate: %w", err)
	}
	return roots, []tls.Certificate{pair}, nil
}

// limiter bounds the requests per second of this process.
type limiter struct{ *rate.Limiter }

func newLimiter(perSecond float64) usecase.Limiter {
	if perSecond == 0 {
		return nil
	}
	return limiter{rate.NewLimiter(rate.Limit(perSecond), max(int(perSecond/10), 1))}
}

// Take implements usecase.Limiter.
func (l limiter) Take(n int) (granted int, wait time.Duration) {
	granted = min(n, int(l.Tokens()))
	if granted < 1 {
		return 0, time.Duration(float64(time.Second) / float64(l.Limit()))
	}
	if !l.AllowN(time.Now(), granted) {
		return 0, time.Millisecond
	}
	return granted, 0
}
