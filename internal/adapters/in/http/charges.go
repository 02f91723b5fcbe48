package http

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/observe"
)

const chargesPath = "/v1/charges/"

// acceptedJSON is the answer to a POST. It says nothing that could be different the next time.
type acceptedJSON struct {
	EventID    string        `json:"event_id"`
	OrderID    string        `json:"order_id"`
	CustomerID string        `json:"customer_id"`
	Amount     int64         `json:"amount"`
	Currency   string        `json:"currency"`
	Status     domain.Status `json:"status"`
}

// Accepted is the answer to a new charge, for usecase.Post.
func Accepted(id uuid.UUID, o domain.Order) (usecase.Answer, error) {
	return usecase.Answer{
		Status: http.StatusAccepted, Location: chargesPath + id.String(),
		Body: encode(acceptedJSON{
			EventID: id.String(), OrderID: o.OrderID, CustomerID: o.CustomerID, Amount: o.Amount.Minor, Currency: o.Amount.Currency,
			Status: domain.StatusRequested,
		}),
	}, nil
}

// postCharge orders a charge. Once the body is read the work goes on without its client: what it came to
// is there for the repeat.
func (s *server) postCharge(w http.ResponseWriter, r *http.Request, c caller) error {
	key := ""
	if keys := r.Header.Values("Idempotency-Key"); len(keys) == 1 {
		key = keys[0]
	}
	if err := usecase.CheckKey(key); err != nil {
		return err //nolint:wrapcheck // says all
	}
	if !isJSON(r.Header) {
		return newProblem(http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "The body must be application/json in UTF-8, without encoding.")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return unread(err)
	}
	in, refusal := decode(body)
	if refusal != nil {
		return refusal
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), dbTimeout)
	defer cancel()
	posted, err := s.Post.Do(ctx, usecase.PostRequest{
		Client: c.name, Key: key, OrderID: in.orderID, CustomerID: in.customerID, AmountMinor: in.amount, Currency: in.currency,
		Traceparent: observe.Traceparent(ctx),
	})
	if err != nil {
		return s.linked(err, c)
	}
	s.away.Store(false)
	w.Header().Set("Location", posted.Answer.Location)
	if posted.Replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	writeBody(w, posted.Answer.Status, "application/json", posted.Answer.Body)
	return nil
}

// linked shows the charge that is in the way to those who may see it.
func (s *server) linked(err error, c caller) error {
	charged, ok := errors.AsType[*usecase.OrderChargedError](err)
	if !ok || !c.has(ScopeRead, ScopeOperator) || !viewer(c).MaySee(charged.Client) {
		return err
	}
	p := problemOf(err)
	p.Charge = chargesPath + charged.EventID.String()
	return p
}

// isJSON reports whether a body is JSON by its headers. One that says nothing of its kind is held to be.
func isJSON(h http.Header) bool {
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return false
	}
	if len(h.Values("Content-Type")) == 0 {
		return true
	}
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset := params["charset"]
	return err == nil && kind == "application/json" && (charset == "" || strings.EqualFold(charset, "utf-8"))
}
