package usecase

import (
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
)

// ChargeFilter selects charges for a person's eyes. Without order and status it selects all.
type ChargeFilter struct {
	OrderID string
	Status  domain.Status
	Limit   int
}

// ChargeRecord is a charge as a person sees it.
type ChargeRecord struct {
	EventID     uuid.UUID      `json:"event_id"`
	OrderID     string         `json:"order_id"`
	CustomerID  string         `json:"customer_id"`
	AmountMinor int64          `json:"amount"`
	Currency    string         `json:"currency"`
	Source      string         `json:"source"`
	Status      domain.Status  `json:"status"`
	LastOutcome domain.Outcome `json:"last_outcome,omitempty"`
	Reason      string         `json:"reason,omitempty"`
	Account     string         `json:"provider_account,omitempty"`
	ProviderRef *string        `json:"provider_ref"`
	Attempts    int32          `json:"attempts"`
	Version     int32          `json:"version"`
	FirstSentAt *time.Time     `json:"first_sent_at,omitempty"`
	CreatedAt   time.Time      `json:"created_at"`
	UpdatedAt   time.Time      `json:"updated_at"`
}

// AttemptRecord is one row of the journal.
type AttemptRecord struct {
	Attempt    int32          `json:"attempt"`
	StartedAt  time.Time      `json:"started_at"`
	FinishedAt *time.Time     `json:"finished_at,omitempty"`
	Outcome    domain.Outcome `json:"outcome,omitempty"` // empty while in flight
	HTTPStatus int32          `json:"http_status,omitempty"`
	Code       string         `json:"provider_code,omitempty"`
	Detail     string         `json:"detail,omitempty"`
}

// MoveRecord is one row of a charge's history.
type MoveRecord struct {
	At          time.Time     `json:"at"`
	Type        string        `json:"type"`
	From        domain.Status `json:"from"`
	To          domain.Status `json:"to"`
	Actor       string        `json:"actor"`
	Reason      string        `json:"reason,omitempty"`
	Version     *int32        `json:"version"` // null: not announced
	PublishedAt *time.Time    `json:"published_at,omitempty"`
}

// ChargeDossier is all that is known of one charge.
type ChargeDossier struct {
	Charge   ChargeRecord    `json:"charge"`
	Attempts []AttemptRecord `json:"attempt_rows"`
	History  []MoveRecord    `json:"history"`
}
