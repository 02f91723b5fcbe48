package payment

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// Generic is the provider of the contract, §3.
type Generic struct {
	client *client
	able   usecase.Capabilities
	now    func() time.Time
}

// NewGeneric checks the configuration; it does not connect.
func NewGeneric(cfg Config) (*Generic, error) {
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	return &Generic{
		client: c,
		able:   usecase.Capabilities{Name: cfg.Account, Lookup: cfg.Lookup, KeyWindow: cfg.KeyWindow},
		now:    cfg.Now,
	}, nil
}

// Close closes the connections that no call is using.
func (g *Generic) Close() { g.client.http.CloseIdleConnections() }

// Capabilities returns what the configuration says of the provider.
func (g *Generic) Capabilities() usecase.Capabilities { return g.able }

// Charge posts the request once, with the key as Idempotency-Key. A context that ends after the
// connection was had makes the outcome unknown, so it should not end before the configured timeout.
func (g *Generic) Charge(ctx context.Context, key uuid.UUID, request []byte, order domain.Order, traceparent string) domain.Answer {
	if len(request) == 0 {
		return domain.Answer{Outcome: domain.Rejected, Cause: domain.CauseInvalidRequest, Detail: "the stored request is empty"}
	}
	r, fail := g.client.do(ctx, call{
		target: "/charges", key: key.String(), body: request, traceparent: traceparent, limit: maxAnswer,
	})
	if fail != nil {
		return g.hinted(unanswered(r, fail), r)
	}
	return g.hinted(classifyCharge(r.status, r.body, order), r)
}

// Lookup asks for the charge under a key. It moves no money, so that it is unknown even when it was
// not sent.
func (g *Generic) Lookup(ctx context.Context, key uuid.UUID, order domain.Order, traceparent string) domain.Answer {
	r, fail := g.client.do(ctx, call{
		target: "/charges?idempotency_key=" + key.String(), traceparent: traceparent, limit: maxAnswer,
	})
	if fail != nil {
		a := unanswered(r, fail)
		a.Outcome = domain.Unknown // of the charge, whose own request may have arrived
		return g.hinted(a, r)
	}
	return g.hinted(classifyLookup(r.status, r.body, key.String(), order), r)
}

// unanswered is the meaning of an answer that is missing or not whole. Where a status came, it still
// tells the gate what to do, but it settles nothing.
func unanswered(r reply, fail *failure) domain.Answer {
	a := domain.Answer{Outcome: domain.Unknown, Cause: fail.cause, HTTPStatus: r.status, Detail: fail.detail}
	if cause := statusCause(r.status); cause != domain.CauseNone {
		a.Cause = cause
	} else if r.status == 0 && (a.Cause == domain.CauseNoConnection || a.Cause == domain.CauseUnauthorized) {
		a.Outcome = domain.NotSent
	}
	return a
}

// hinted adds the provider's hint when to come back to an answer that has to be asked for again.
func (g *Generic) hinted(a domain.Answer, r reply) domain.Answer {
	if a.Outcome == domain.Unknown && r.status != 0 {
		a.RetryAfter = retryAfter(r.header, g.now())
	}
	return a
}

// Request encodes the body of a charge. It is stored with the charge and sent byte for byte, so its
// form may change only for new charges. An order that cannot be written in JSON is an error.
func Request(order domain.Order) ([]byte, error) {
	if order.OrderID == "" || order.CustomerID == "" || order.Amount.Minor <= 0 || order.Amount.Currency == "" {
		return nil, errors.New("encode provider request: the order is incomplete")
	}
	body := []byte(`{`)
	for _, member := range [...]struct{ name, value string }{
		{`"order_id":`, order.OrderID}, {`,"customer_id":`, order.CustomerID},
	} {
		var err error
		if body, err = jsontext.AppendQuote(append(body, member.name...), member.value); err != nil {
			return nil, fmt.Errorf("encode provider request: %w", err)
		}
	}
	body = strconv.AppendInt(append(body, `,"amount":`...), order.Amount.Minor, 10)
	body, err := jsontext.AppendQuote(append(body, `,"currency":`...), order.Amount.Currency)
	if err != nil {
		return nil, fmt.Errorf("encode provider request: %w", err)
	}
	return append(body, '}'), nil
}

// Request encodes the body of a charge, see the function of the same name.
func (*Generic) Request(order domain.Order) ([]byte, error) { return Request(order) }
