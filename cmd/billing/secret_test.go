package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
)

func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	cfg := Config{DatabaseURL: canary, ProviderToken: canary, KafkaSASLPassword: canary}
	asJSON, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewJSONHandler(&logged, nil), slog.NewTextHandler(&logged, nil)} {
		slog.New(handler).Info("configuration", "config", cfg, "token", cfg.ProviderToken)
	}
	checkNoCanary(t, string(asJSON), logged.String())
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t"} {
		checkNoCanary(t, fmt.Sprintf(verb, cfg), fmt.Sprintf(verb, &cfg), fmt.Sprintf(verb, cfg.ProviderToken))
	}
	if got := fmt.Sprint(cfg.ProviderToken, Secret("")); got != "*** " && got != "***" {
		t.Errorf("printed %q", got)
	}
}
