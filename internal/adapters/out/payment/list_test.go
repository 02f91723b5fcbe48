package payment

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"billing/internal/core/domain"
)

func TestPageIsReadWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	const one = `{"idempotency_key":"k","id":"ch_1","status":"succeeded","order_id":"o-1","customer_id":"canary","amount":150000,"currency":"RUB"}`
	charge := ProviderCharge{Key: "k", ID: "ch_1", Status: "succeeded", OrderID: "o-1", Amount: domain.Money{Minor: 150000, Currency: "RUB"}}
	for name, tc := range map[string]struct {
		raw    string
		want   []ProviderCharge
		next   string
		failed bool
		outage bool
	}{
		"one":              {raw: reply200(`{"data":[` + one + `],"next":"c2"}`), want: []ProviderCharge{charge}, next: "c2"},
		"last":             {raw: reply200(`{"data":[` + one + `],"next":""}`), want: []ProviderCharge{charge}},
		"null next":        {raw: reply200(`{"data":[],"next":null}`), want: []ProviderCharge{}},
		"no next":          {raw: reply200(`{"data":[]}`), want: []ProviderCharge{}},
		"no data":          {raw: reply200(`{"next":"c2"}`), failed: true},
		"null data":        {raw: reply200(`{"data":null}`), failed: true},
		"same next":        {raw: reply200(`{"data":[],"next":"c 1&x=1"}`), failed: true},
		"no key":           {raw: reply200(`{"data":[` + strings.Replace(one, "idempotency_key", "key", 1) + `]}`), failed: true},
		"no amount":        {raw: reply200(`{"data":[` + strings.Replace(one, "amount", "sum", 1) + `]}`), failed: true},
		"fraction":         {raw: reply200(`{"data":[` + strings.Replace(one, "150000", "150000.5", 1) + `]}`), failed: true},
		"duplicate member": {raw: reply200(`{"data":[],"data":[` + one + `]}`), failed: true},
		"HTML":             {raw: reply200(`<html>` + canaryCustomer), failed: true},
		"cut":              {raw: "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + `{"data":[]}`, failed: true, outage: true},
		"400":              {raw: whole(400, canaryCustomer), failed: true},
		"401":              {raw: whole(401, canaryCustomer), failed: true},
		"429":              {raw: whole(429, canaryCustomer), failed: true, outage: true},
		"503":              {raw: whole(503, canaryCustomer), failed: true, outage: true},
		"302":              {raw: whole(302, canaryCustomer, "Location: /charges"), failed: true},
		"large":            {raw: reply200(`{"data":[` + strings.Repeat(one+",", 999) + one + `]}`), want: repeat(charge, 1000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := newPeer(t, once(tc.raw))
			g := newGeneric(t, target{url: at.url()})
			got, next, err := g.List(t.Context(), "c 1&x=1", 5000)
			if (err != nil) != tc.failed || errors.Is(err, domain.ErrOutage) != tc.outage {
				t.Errorf("got error %v", err)
			}
			if err != nil {
				checkNoSecret(t, err.Error())
			}
			if !reflect.DeepEqual(got, tc.want) || next != tc.next {
				t.Errorf("got %v and next %q", got, next)
			}
			g.Close()
			at.shut()
			if uri := at.seen()[0].uri; uri != "/charges?cursor=c+1%26x%3D1&limit=1000" {
				t.Errorf("asked for %s", uri)
			}
		})
	}
}

func repeat(c ProviderCharge, n int) []ProviderCharge {
	all := make([]ProviderCharge, n)
	for i := range all {
		all[i] = c
	}
	return all
}
