package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	httpin "billing/internal/adapters/in/http"
	"billing/internal/core/usecase"
	"billing/internal/worker"
)

// apiDrain is how long requests of the API may take when the process stops, if the shutdown timeout leaves
// as much: longer than any request that reaches the database.
const apiDrain = 10 * time.Second

// api builds the way in over HTTP.
func (s *service) api() (part, error) {
	tokens, err := httpin.OpenTokens(s.cfg.APITokensFile, s.clock.Now, s.log)
	if err != nil {
		return part{}, fmt.Errorf("BILLING_API_TOKENS_FILE: %w", err)
	}
	a := httpin.API{
		Addr: s.cfg.HTTPAddr,
		Post: usecase.Post{
			Store: s.inbox, Codec: s.codec(), MaxAmountMinor: s.cfg.MaxAmountMinor, KeyTTL: s.cfg.KeyTTL, Answer: httpin.Accepted, Wake: s.charges.Set,
		},
		Read: usecase.Read{Charges: s.inbox}, Tokens: tokens, Rate: s.cfg.APIRate,
		Drain: min(apiDrain, s.cfg.ShutdownTimeout-2*time.Second), Now: s.clock.Now, Report: s.metrics.Request, Log: s.log,
	}
	return part{"api", a.Run}, nil
}

// forgetKeys deletes idempotency keys that have expired, chunk by chunk.
func (s *service) forgetKeys() part {
	purge := usecase.PurgeKeys{Store: s.queue, Limit: 1000, Timeout: dbTimeout}
	beat := s.liveness.Register("keys")
	l := worker.Loop{
		Name: "keys", Idle: time.Minute, Max: time.Minute, Clock: s.clock, Log: s.log, Turn: beat.Beat,
		Step: func(ctx context.Context) (bool, error) {
			_, busy, err := purge.Step(ctx)
			if err == nil {
				s.metrics.JobSucceeded(jobKeys, s.clock.Now())
			}
			return busy, err
		},
	}
	run := func(ctx context.Context) error {
		defer beat.Stop()
		return l.Run(ctx)
	}
	return part{"keys", run}
}

// checkTokens reads the tokens file once, so that a mistake shows at start and in billing config.
func (l *loader) checkTokens() {
	const variable = "BILLING_API_TOKENS_FILE"
	if l.cfg.APITokensFile == "" || !l.sound(variable) {
		return
	}
	if _, err := httpin.OpenTokens(l.cfg.APITokensFile, time.Now, slog.New(slog.DiscardHandler)); err != nil {
		l.fault(variable, "names a file that is not valid: %s", err)
	}
}
