package payment

import (
	"maps"
	"slices"
	"testing"

	"billing/internal/core/domain"
)

// bodies are the kinds of bodies that make a difference to some status.
var bodies = map[string]string{
	"succeeded":         goodBody,
	"succeeded bare":    `{"status":"succeeded"}`,
	"declined":          `{"status":"declined","code":"card_declined","order_id":"o-1"}`,
	"pending":           `{"id":"ch_1","status":"pending"}`,
	"processing":        `{"status":"processing"}`,
	"no status":         `{"id":"ch_1","amount":150000}`,
	"status number":     `{"status":1}`,
	"Status":            `{"Status":"succeeded"}`,
	"other order":       `{"status":"succeeded","order_id":"o-2"}`,
	"other amount":      `{"status":"succeeded","amount":150001}`,
	"other currency":    `{"status":"succeeded","currency":"USD"}`,
	"decline of other":  `{"status":"declined","order_id":"o-2"}`,
	"amount fraction":   `{"status":"succeeded","amount":150000.0}`,
	"amount exponent":   `{"status":"succeeded","amount":1.5e5}`,
	"amount string":     `{"status":"succeeded","amount":"150000"}`,
	"order number":      `{"status":"succeeded","order_id":1}`,
	"id number":         `{"status":"succeeded","id":17}`,
	"in_progress":       `{"code":"in_progress"}`,
	"key_reused":        `{"code":"key_reused"}`,
	"already_processed": `{"code":"already_processed"}`,
	"other code":        `{"code":"locked"}`,
	"code number":       `{"code":409}`,
	"code null":         `{"code":null}`,
	"not_found":         `{"code":"not_found"}`,
	"object":            `{}`,
	"null":              `null`,
	"list":              `[{"status":"succeeded"}]`,
	"empty":             ``,
	"HTML":              `<html>succeeded</html>`,
	"cut":               `{"status":"succeeded"`,
	"trailing":          `{"status":"declined"} {}`,
	"duplicate":         `{"status":"declined","status":"succeeded"}`,
	"deep duplicate":    `{"status":"declined","x":{"a":1,"a":2}}`,
	"bad UTF-8":         "{\"status\":\"declined\",\"x\":\"\xff\"}",
	"lone surrogate":    `{"status":"declined","x":"\ud800"}`,
	"BOM":               "\ufeff{\"status\":\"declined\"}",
	"comment":           `{"status":"declined"/**/}`,
}

// meaning is an outcome with its cause.
type meaning struct {
	outcome domain.Outcome
	cause   domain.Cause
}

var (
	succeeded  = meaning{domain.Succeeded, domain.CauseNone}
	declined   = meaning{domain.Declined, domain.CauseNone}
	pending    = meaning{domain.Pending, domain.CauseNone}
	rejected   = meaning{domain.Rejected, domain.CauseInvalidRequest}
	mismatch   = meaning{domain.Rejected, domain.CauseEchoMismatch}
	keyReused  = meaning{domain.Rejected, domain.CauseKeyReused}
	refused    = meaning{domain.NotSent, domain.CauseUnauthorized}
	unexpected = meaning{domain.Unknown, domain.CauseUnexpected}
	unreadable = meaning{domain.Unknown, domain.CauseBroken}
	processed  = meaning{domain.Unknown, domain.CauseAlreadyProcessed}
	inProgress = meaning{domain.Unknown, domain.CauseInProgress}
	throttled  = meaning{domain.Unknown, domain.CauseThrottled}
	failed     = meaning{domain.Unknown, domain.CauseServerError}
	again      = meaning{domain.Unknown, domain.CauseNone}
	notFound   = meaning{domain.Unknown, domain.CauseNotFound}
	noToken    = meaning{domain.Unknown, domain.CauseUnauthorized}
)

// row is what one status means: by default, and for the bodies named.
type row struct {
	byDefault meaning
	bodies    map[meaning][]string
}

// notObjects are the bodies that cannot be read as a JSON object.
var notObjects = []string{
	"null", "list", "empty", "HTML", "cut", "trailing", "duplicate", "deep duplicate", "bad UTF-8", "lone surrogate", "BOM", "comment",
}

// verdicts is a row in which the body's status decides.
var verdicts = row{byDefault: unexpected, bodies: map[meaning][]string{
	succeeded:  {"succeeded", "succeeded bare"},
	declined:   {"declined"},
	pending:    {"pending"},
	mismatch:   {"other order", "other amount", "other currency", "decline of other"},
	unreadable: append([]string{"amount fraction", "amount exponent", "amount string", "order number", "id number"}, notObjects...),
}}

var pendingOnly = row{byDefault: unexpected, bodies: map[meaning][]string{pending: {"pending"}}}

// chargeRow is the contract's table, written down once more, the other way round.
func chargeRow(status int) row {
	special := map[int]row{
		200: verdicts,
		201: verdicts,
		202: {byDefault: pending},
		401: {byDefault: refused},
		403: {byDefault: refused},
		402: {byDefault: declined, bodies: map[meaning][]string{
			unreadable: {"empty", "HTML", "cut", "trailing", "duplicate", "deep duplicate", "bad UTF-8", "lone surrogate", "BOM", "comment"},
		}},
		408: {byDefault: again},
		425: {byDefault: again},
		429: {byDefault: throttled},
		503: {byDefault: throttled},
		409: {byDefault: processed, bodies: map[meaning][]string{
			inProgress: {"in_progress"},
			keyReused:  {"key_reused"},
			unexpected: {"other code", "code number", "not_found", "declined"},
			unreadable: slices.DeleteFunc(slices.Clone(notObjects), func(name string) bool { return name == "empty" }),
		}},
		422: {byDefault: rejected, bodies: map[meaning][]string{declined: {"declined"}, mismatch: {"decline of other"}}},
	}
	if r, ok := special[status]; ok {
		return r
	}
	return []row{
		1: {byDefault: unexpected}, 2: pendingOnly, 3: {byDefault: unexpected}, 4: {byDefault: rejected}, 5: {byDefault: failed},
	}[status/100]
}

func lookupRow(status int) row {
	switch {
	case status == 200:
		return verdicts
	case status == 404:
		return row{byDefault: unexpected, bodies: map[meaning][]string{notFound: {"not_found"}}}
	case status == 401 || status == 403:
		return row{byDefault: noToken}
	case status == 429 || status == 503:
		return row{byDefault: throttled}
	case status == 408 || status == 425:
		return row{byDefault: again}
	case status >= 500:
		return row{byDefault: failed}
	}
	return row{byDefault: unexpected}
}

func (r row) of(body string) meaning {
	for m, names := range r.bodies {
		if slices.Contains(names, body) {
			return m
		}
	}
	return r.byDefault
}

// TestEveryStatusWithEveryBodyHasItsMeaning goes through the whole table, so that no status and no
// body is left to chance.
func TestEveryStatusWithEveryBodyHasItsMeaning(t *testing.T) {
	t.Parallel()
	for status := 100; status <= 599; status++ {
		for _, name := range slices.Sorted(maps.Keys(bodies)) {
			body := []byte(bodies[name])
			a := classifyCharge(status, body, testOrder)
			if got, want := (meaning{a.Outcome, a.Cause}), chargeRow(status).of(name); got != want {
				t.Errorf("charge, %d, %s: got %v, want %v", status, name, got, want)
			}
			if a.HTTPStatus != status || (a.Detail == "" && a.Cause != domain.CauseNone) {
				t.Errorf("charge, %d, %s: status %d, detail %q", status, name, a.HTTPStatus, a.Detail)
			}
			a = classifyLookup(status, body, testKey.String(), testOrder)
			if got, want := (meaning{a.Outcome, a.Cause}), lookupRow(status).of(name); got != want {
				t.Errorf("look-up, %d, %s: got %v, want %v", status, name, got, want)
			}
		}
	}
}

func TestLookupOfAnotherKeyIsNoWordOnThisOne(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		key  string
		want meaning
	}{
		"same":              {`"0197e5a1-7a10-7abc-8def-0123456789ab"`, succeeded},
		"same, upper case":  {`"0197E5A1-7A10-7ABC-8DEF-0123456789AB"`, succeeded},
		"null":              {`null`, succeeded},
		"other":             {`"0197e5a1-7a10-7abc-8def-0123456789ac"`, mismatch},
		"of another type":   {`17`, unreadable},
		"empty is no match": {`""`, mismatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := classifyLookup(200, []byte(`{"status":"succeeded","idempotency_key":`+tc.key+`}`), testKey.String(), testOrder)
			if got := (meaning{a.Outcome, a.Cause}); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
