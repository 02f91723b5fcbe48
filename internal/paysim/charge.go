package paysim

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

// order is the body of a request to charge.
type order struct {
	OrderID    string `json:"order_id"`
	CustomerID string `json:"customer_id"`
	Amount     int64  `json:"amount"`
	Currency   string `json:"currency"`
}

// parseOrder refuses unknown, repeated and missing members, and an amount that is not
// a positive integer literal.
func parseOrder(body []byte) (order, error) {
	var o order
	if err := json.Unmarshal(body, &o, strict); err != nil {
		return order{}, fmt.Errorf("parse order: %w", err)
	}
	switch {
	case o.OrderID == "":
		return order{}, errors.New("order_id is missing")
	case o.CustomerID == "":
		return order{}, errors.New("customer_id is missing")
	case o.Amount <= 0:
		return order{}, errors.New("amount is not positive")
	case !isCurrency(o.Currency):
		return order{}, errors.New("currency is not three upper-case letters")
	}
	return o, nil
}

func isCurrency(s string) bool {
	for i := range len(s) {
		if s[i] < 'A' || s[i] > 'Z' {
			return false
		}
	}
	return len(s) == 3
}

// charge is an accepted request: one effect, or one to come while it is pending. A
// million of them are kept, so it holds nothing that can be derived.
type charge struct {
	order

	key      string
	hash     [32]byte
	number   int64  // of the charge id
	seq      int64  // of the effect; 0 while pending
	at       int64  // when accepted, Unix nanoseconds
	held     *held  // set when it was accepted as pending
	declined bool   // when final
	open     bool   // not bound to its key: NotStored
	epoch    uint32 // of the moment when it was accepted
}

// held is what only a charge has that was accepted as pending.
type held struct {
	hold    Hold
	finalAt int64 // Unix nanoseconds
}

func (c *charge) id() string { return fmt.Sprintf("ch_%08d", c.number) }

func (c *charge) status() Status {
	switch {
	case c.seq == 0:
		return Pending
	case c.declined:
		return Declined
	default:
		return Succeeded
	}
}

func (c *charge) effect() Effect {
	at := c.at
	if c.held != nil && c.seq != 0 {
		at = c.held.finalAt
	}
	return Effect{
		Seq: c.seq, Time: time.Unix(0, at).UTC(), Key: c.key, OrderID: c.OrderID, CustomerID: c.CustomerID,
		Amount: c.Amount, Currency: c.Currency, ChargeID: c.id(), Status: c.status(),
		BodySHA256: hex.EncodeToString(c.hash[:]), NotStored: c.open,
	}
}

// chargeOf is the reverse of effect.
func chargeOf(e Effect) (*charge, error) {
	number, err := strconv.ParseInt(e.ChargeID[min(len(e.ChargeID), len("ch_")):], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("parse charge id %q: %w", e.ChargeID, err)
	}
	c := &charge{
		order: order{e.OrderID, e.CustomerID, e.Amount, e.Currency},
		key:   e.Key, hash: unhash(e.BodySHA256), number: number, seq: e.Seq,
		at: e.Time.UnixNano(), declined: e.Status == Declined, open: e.NotStored,
	}
	return c, nil
}

func unhash(s string) (hash [32]byte) {
	if b, err := hex.DecodeString(s); err == nil {
		copy(hash[:], b)
	}
	return hash
}

// wireCharge is a charge as answers show it.
type wireCharge struct {
	ID         string `json:"id"`
	Status     Status `json:"status"`
	Code       string `json:"code,omitzero"`
	OrderID    string `json:"order_id"`
	CustomerID string `json:"customer_id"`
	Amount     int64  `json:"amount"`
	Currency   string `json:"currency"`
	Key        string `json:"idempotency_key,omitzero"`
}

func (c *charge) wire(status Status) wireCharge {
	w := wireCharge{
		ID: c.id(), Status: status, OrderID: c.OrderID, CustomerID: c.CustomerID,
		Amount: c.Amount, Currency: c.Currency,
	}
	if status == Declined {
		w.Code = "card_declined"
	}
	return w
}

// first is the answer to the request that made the charge: a pending charge is
// replayed as pending even when it has become final, look-up tells the present.
func (c *charge) first() reply {
	switch {
	case c.held != nil:
		return jsonReply(http.StatusAccepted, c.wire(Pending))
	case c.declined:
		return jsonReply(http.StatusPaymentRequired, c.wire(Declined))
	default:
		return jsonReply(http.StatusCreated, c.wire(Succeeded))
	}
}

// found is the charge as look-up and list show it.
func (c *charge) found() wireCharge {
	w := c.wire(c.status())
	w.Key = c.key
	return w
}

// reply is an answer before it goes on the wire.
type reply struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header,omitzero"`
	Body   []byte            `json:"body"`

	replayed bool
	effect   int64 // sequence number of the effect that this answer is the first to tell
}

func jsonReply(status int, v any) reply {
	body, err := json.Marshal(v)
	if err != nil { // only values of this package come here, strings from strict JSON among them
		panic(fmt.Sprintf("encode answer: %v", err))
	}
	return reply{Status: status, Body: body}
}

func codeReply(status int, code, message string) reply {
	return jsonReply(status, struct {
		Code    string `json:"code,omitzero"`
		Message string `json:"message,omitzero"`
	}{code, message})
}
