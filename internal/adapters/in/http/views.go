package http

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

func viewer(c caller) usecase.Viewer {
	return usecase.Viewer{Client: c.name, Operator: c.has(ScopeOperator)}
}

// chargeJSON is a charge as its client may see it.
type chargeJSON struct {
	EventID      string          `json:"event_id"`
	OrderID      string          `json:"order_id"`
	CustomerID   string          `json:"customer_id"`
	Amount       int64           `json:"amount"`
	Currency     string          `json:"currency"`
	Source       string          `json:"source"`
	Status       domain.Status   `json:"status"`
	LastOutcome  *domain.Outcome `json:"last_outcome"`
	Reason       *string         `json:"reason"`
	ProviderRef  *string         `json:"provider_ref"`
	AttemptCount int32           `json:"attempt_count"`
	Version      int32           `json:"version"`
	CreatedAt    time.Time       `json:"created_at"`
	UpdatedAt    time.Time       `json:"updated_at"`
}

type attemptJSON struct {
	Attempt      int32           `json:"attempt"`
	StartedAt    time.Time       `json:"started_at"`
	FinishedAt   *time.Time      `json:"finished_at"`
	Outcome      *domain.Outcome `json:"outcome"`
	HTTPStatus   *int32          `json:"http_status"`
	ProviderCode *string         `json:"provider_code"`
}

type moveJSON struct {
	At          time.Time     `json:"at"`
	Type        string        `json:"type"`
	From        domain.Status `json:"from"`
	To          domain.Status `json:"to"`
	By          string        `json:"by"`
	Version     *int32        `json:"version"`
	PublishedAt *time.Time    `json:"published_at"`
}

type dossierJSON struct {
	chargeJSON

	Attempts []attemptJSON `json:"attempts"`
	History  []moveJSON    `json:"history"`
}

type pageJSON struct {
	Data       []chargeJSON `json:"data"`
	NextCursor *string      `json:"next_cursor"`
}

// known returns nil for a zero value, which is null in JSON.
func known[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func chargeOf(r *usecase.ChargeRecord) chargeJSON {
	return chargeJSON{
		EventID: r.EventID.String(), OrderID: r.OrderID, CustomerID: r.CustomerID, Amount: r.AmountMinor, Currency: r.Currency,
		Source: r.Source, Status: r.Status, LastOutcome: known(r.LastOutcome), Reason: known(r.Reason), ProviderRef: r.ProviderRef,
		AttemptCount: r.Attempts, Version: r.Version, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
}

func dossierOf(d *usecase.ChargeDossier) dossierJSON {
	out := dossierJSON{chargeJSON: chargeOf(&d.Charge), Attempts: make([]attemptJSON, len(d.Attempts)), History: make([]moveJSON, len(d.History))}
	for i, a := range d.Attempts {
		out.Attempts[i] = attemptJSON{
			Attempt: a.Attempt, StartedAt: a.StartedAt, FinishedAt: a.FinishedAt, Outcome: known(a.Outcome), HTTPStatus: known(a.HTTPStatus),
			ProviderCode: known(a.Code),
		}
	}
	for i, m := range d.History {
		by := "operator" // who it was is nobody's business outside
		if m.Actor == "billing" {
			by = m.Actor
		}
		out.History[i] = moveJSON{At: m.At, Type: m.Type, From: m.From, To: m.To, By: by, Version: m.Version, PublishedAt: m.PublishedAt}
	}
	return out
}

func (s *server) getCharge(w http.ResponseWriter, r *http.Request, c caller) error {
	text := r.PathValue("event_id")
	id, err := uuid.FromString(text)
	if err != nil || len(text) != 36 {
		return notFound()
	}
	ctx, cancel := context.WithTimeout(r.Context(), dbTimeout)
	defer cancel()
	d, err := s.Read.Charge(ctx, viewer(c), id)
	if err != nil {
		return err //nolint:wrapcheck // says what was being done
	}
	s.away.Store(false)
	writeBody(w, http.StatusOK, "application/json", encode(dossierOf(&d)))
	return nil
}

func (s *server) listCharges(w http.ResponseWriter, r *http.Request, c caller) error {
	q, err := queryOf(r.URL.RawQuery)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), dbTimeout)
	defer cancel()
	page, err := s.Read.List(ctx, viewer(c), q)
	if err != nil {
		return err //nolint:wrapcheck // says what was being done
	}
	s.away.Store(false)
	out := pageJSON{Data: make([]chargeJSON, len(page.Charges))}
	for i := range page.Charges {
		out.Data[i] = chargeOf(&page.Charges[i])
	}
	if page.Next.Valid {
		cursor := base64.RawURLEncoding.EncodeToString(page.Next.UUID[:])
		out.NextCursor = &cursor
	}
	writeBody(w, http.StatusOK, "application/json", encode(out))
	return nil
}

const (
	defaultLimit = 50
	maxLimit     = 100
)

// queryOf reads what a list is asked for. A parameter that is not known is refused: with a misspelt filter
// the answer would be about something else.
func queryOf(raw string) (usecase.ChargeQuery, error) {
	q := usecase.ChargeQuery{Limit: defaultLimit}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, badQuery("the query cannot be read")
	}
	for name, list := range values {
		if len(list) != 1 {
			return q, badQuery("a parameter stands there twice")
		}
		if !setParameter(&q, name, list[0]) {
			return q, badQuery("want order_id, status, cursor and limit (1 to 100), each with a value that fits")
		}
	}
	return q, nil
}

func setParameter(q *usecase.ChargeQuery, name, value string) bool {
	switch name {
	case "order_id":
		q.OrderID = value
		return value != "" && len(value) <= maxIDBytes && utf8.ValidString(value) && !strings.Contains(value, "\x00")
	case "status":
		q.Status = domain.Status(value)
		return slices.Contains(domain.Statuses(), q.Status)
	case "limit":
		n, err := strconv.Atoi(value)
		q.Limit = n
		return err == nil && n >= 1 && n <= maxLimit
	case "cursor":
		id, err := base64.RawURLEncoding.Strict().DecodeString(value)
		if err != nil || len(id) != uuid.Size {
			return false
		}
		q.After = uuid.UUID(id)
		return true
	}
	return false
}

func badQuery(why string) *problem {
	return newProblem(http.StatusBadRequest, "INVALID_QUERY", "The query cannot be answered: "+why+".")
}
