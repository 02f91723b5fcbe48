package payment

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"

	"billing/internal/core/domain"
)

const (
	maxPage       = 1000    // charges of one page
	maxPageAnswer = 4 << 20 // bytes of one page
)

// ProviderCharge is one charge as the provider lists it. The status is the provider's own word:
// succeeded, declined or pending.
type ProviderCharge struct {
	Key     string // the idempotency key; a provider may know others than ours
	ID      string
	Status  string
	OrderID string
	Amount  domain.Money
}

type listed struct {
	Key      *string `json:"idempotency_key"`
	ID       string  `json:"id"`
	Status   *string `json:"status"`
	OrderID  *string `json:"order_id"`
	Amount   *int64  `json:"amount"`
	Currency *string `json:"currency"`
}

// List returns one page of the provider's charges, of 1 to 1000, and the cursor of the next page, empty
// behind the last one. The first page has the empty cursor. An error that wraps domain.ErrOutage may
// pass when the same page is asked for again; no error holds a part of the answer.
func (g *Generic) List(ctx context.Context, cursor string, limit int) (charges []ProviderCharge, next string, err error) {
	r, fail := g.client.do(ctx, call{target: listTarget(cursor, min(max(limit, 1), maxPage)), limit: maxPageAnswer})
	switch {
	case fail != nil:
		return nil, "", fmt.Errorf("list charges: %w: %s", domain.ErrOutage, fail.detail)
	case r.status == http.StatusTooManyRequests || r.status >= http.StatusInternalServerError:
		return nil, "", fmt.Errorf("list charges: %w: status %d", domain.ErrOutage, r.status)
	case r.status != http.StatusOK:
		return nil, "", fmt.Errorf("list charges: status %d", r.status)
	}
	charges, next, err = readPage(r.body)
	if err == nil && next == cursor && next != "" {
		err = errors.New("the next page is the same one")
	}
	if err != nil {
		return nil, "", fmt.Errorf("list charges: %w", err)
	}
	return charges, next, nil
}

func readPage(body []byte) ([]ProviderCharge, string, error) {
	var page struct {
		Data *[]listed `json:"data"`
		Next string    `json:"next"`
	}
	if err := json.Unmarshal(body, &page); err != nil || page.Data == nil {
		return nil, "", errors.New("the page is not readable") // the cause would quote it
	}
	charges := make([]ProviderCharge, 0, len(*page.Data))
	for i, c := range *page.Data {
		if c.Key == nil || c.Status == nil || c.OrderID == nil || c.Amount == nil || c.Currency == nil {
			return nil, "", fmt.Errorf("charge %d of the page is incomplete", i+1)
		}
		charges = append(charges, ProviderCharge{
			Key: *c.Key, ID: c.ID, Status: *c.Status, OrderID: *c.OrderID,
			Amount: domain.Money{Minor: *c.Amount, Currency: *c.Currency},
		})
	}
	return charges, page.Next, nil
}

// listTarget is the path of one page.
func listTarget(cursor string, limit int) string {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return "/charges?" + query.Encode()
}
