//go:build mutants

package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
)

// naive is the request as most programs make it: the client of the standard library, which repeats a POST
// that carries an Idempotency-Key when a kept connection dies before the first byte of the answer.
func naive(ctx context.Context, key uuid.UUID, body []byte) domain.Answer {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	unknown := domain.Answer{Outcome: domain.Unknown, Cause: domain.CauseBroken, Detail: "no answer"}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, os.Getenv("BILLING_PROVIDER_URL")+"/charges", bytes.NewReader(body))
	if err != nil {
		return unknown
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key.String())
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return unknown
	}
	defer func() { _ = response.Body.Close() }()
	var charge struct{ ID, Status string }
	if json.NewDecoder(response.Body).Decode(&charge) != nil {
		return unknown
	}
	switch charge.Status {
	case "succeeded":
		return domain.Answer{Outcome: domain.Succeeded, HTTPStatus: response.StatusCode, ProviderRef: &charge.ID}
	case "declined":
		return domain.Answer{Outcome: domain.Declined, HTTPStatus: response.StatusCode, Code: "card_declined"}
	}
	return unknown
}
