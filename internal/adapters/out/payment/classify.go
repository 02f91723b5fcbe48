package payment

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"billing/internal/core/domain"
)

// classifyCharge says what a whole answer to a POST means, by the table of the contract.
func classifyCharge(status int, body []byte, order domain.Order) domain.Answer {
	o, readable := readObject(body)
	a := domain.Answer{HTTPStatus: status, Code: o.code()}
	switch status {
	case http.StatusOK, http.StatusCreated:
		return word(a, o, readable, order)
	case http.StatusAccepted:
		a.Outcome, a.ProviderRef = domain.Pending, o.ref()
		return a
	case http.StatusUnauthorized, http.StatusForbidden:
		return with(a, domain.NotSent, domain.CauseUnauthorized, "refused before execution")
	case http.StatusPaymentRequired:
		if !jsontext.Value(body).IsValid() {
			return with(a, domain.Unknown, domain.CauseBroken, "402 without a JSON body")
		}
		a.Outcome, a.ProviderRef = domain.Declined, o.ref()
		return a
	case http.StatusConflict:
		return conflict(a, o, readable || len(bytes.TrimSpace(body)) == 0)
	case http.StatusUnprocessableEntity:
		if o.is("status", "declined") {
			return word(a, o, readable, order)
		}
	}
	return byClass(a, o)
}

// byClass judges the statuses that have no row of their own.
func byClass(a domain.Answer, o object) domain.Answer {
	switch {
	case a.HTTPStatus > http.StatusAccepted && a.HTTPStatus < 300 && o.is("status", "pending"):
		a.Outcome, a.ProviderRef = domain.Pending, o.ref()
		return a
	case a.HTTPStatus >= 400 && a.HTTPStatus < 500 && !mayComeAgain(a.HTTPStatus):
		return with(a, domain.Rejected, domain.CauseInvalidRequest, "the request was refused")
	default:
		return unclear(a)
	}
}

// mayComeAgain names the 4xx that say nothing about the request itself.
func mayComeAgain(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests
}

// word reads the provider's word on the charge. What it says of another order is no word on this one,
// not even a decline.
func word(a domain.Answer, o object, readable bool, order domain.Order) domain.Answer {
	if !readable {
		return with(a, domain.Unknown, domain.CauseBroken, "the answer is not a JSON object")
	}
	if _, ok := o.text("id"); !ok {
		return with(a, domain.Unknown, domain.CauseBroken, "the id is not a string")
	}
	switch o.echo(order) {
	case echoUnreadable:
		return with(a, domain.Unknown, domain.CauseBroken, "the echo has members of a wrong type")
	case echoDiffers:
		return with(a, domain.Rejected, domain.CauseEchoMismatch, "the answer speaks of another charge")
	case echoAgrees:
	}
	switch {
	case o.is("status", "succeeded"):
		a.Outcome = domain.Succeeded
	case o.is("status", "declined"):
		a.Outcome = domain.Declined
	case o.is("status", "pending"):
		a.Outcome = domain.Pending
	default:
		return with(a, domain.Unknown, domain.CauseUnexpected, "the status is not known")
	}
	a.ProviderRef = o.ref()
	return a
}

// conflict reads a 409. Its body decides between the same key again, a person, and look-up, so that a
// page of some proxy must not pass for "already processed". A body that is empty has no code.
func conflict(a domain.Answer, o object, readable bool) domain.Answer {
	code, isText := o.text("code")
	switch {
	case !readable:
		return with(a, domain.Unknown, domain.CauseBroken, "409 without a JSON object")
	case isText && code == nil, o.is("code", "already_processed"):
		return with(a, domain.Unknown, domain.CauseAlreadyProcessed, "the key was processed before")
	case o.is("code", "in_progress"):
		return with(a, domain.Unknown, domain.CauseInProgress, "the key is being worked on")
	case o.is("code", "key_reused"):
		return with(a, domain.Rejected, domain.CauseKeyReused, "the key is known with another request")
	default:
		return with(a, domain.Unknown, domain.CauseUnexpected, "409 with an unknown code")
	}
}

// classifyLookup says what a whole answer to a look-up means. Nothing but a 200 settles a charge.
func classifyLookup(status int, body []byte, key string, order domain.Order) domain.Answer {
	o, readable := readObject(body)
	a := domain.Answer{HTTPStatus: status, Code: o.code()}
	switch {
	case status == http.StatusOK:
		switch got, ok := o.text("idempotency_key"); {
		case !ok:
			return with(a, domain.Unknown, domain.CauseBroken, "the idempotency key is not a string")
		case got != nil && !strings.EqualFold(*got, key):
			return with(a, domain.Rejected, domain.CauseEchoMismatch, "the answer speaks of another key")
		}
		return word(a, o, readable, order)
	case status == http.StatusNotFound && o.is("code", "not_found"):
		return with(a, domain.Unknown, domain.CauseNotFound, "no charge under the key")
	default:
		return unclear(a)
	}
}

// unclear is every answer from which it cannot be told whether money was taken.
func unclear(a domain.Answer) domain.Answer {
	cause := statusCause(a.HTTPStatus)
	if cause == domain.CauseNone && !mayComeAgain(a.HTTPStatus) {
		cause = domain.CauseUnexpected
	}
	return with(a, domain.Unknown, cause, "the answer does not tell")
}

// statusCause is what the status alone tells the gate; empty when nothing.
func statusCause(status int) domain.Cause {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return domain.CauseUnauthorized
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return domain.CauseThrottled
	case status >= 500 && status < 600:
		return domain.CauseServerError
	default:
		return domain.CauseNone
	}
}

func with(a domain.Answer, outcome domain.Outcome, cause domain.Cause, detail string) domain.Answer {
	a.Outcome, a.Cause, a.Detail = outcome, cause, detail
	return a
}
