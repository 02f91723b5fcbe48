package paysim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"billing/internal/paysim"
)

func TestRepeatReplaysTheFirstAnswer(t *testing.T) {
	t.Parallel()
	b := start(t, paysim.Options{})
	first := b.post(t.Context(), "k-1", orderBody("o-1"))
	first.check(t, http.StatusCreated, `"status":"succeeded"`, `"order_id":"o-1"`, `"amount":1500`, `"currency":"RUB"`)
	if got := first.header.Get("Idempotent-Replayed"); got != "" {
		t.Errorf("got Idempotent-Replayed %q on the first answer", got)
	}
	again := b.post(t.Context(), "k-1", orderBody("o-1"))
	again.check(t, http.StatusCreated)
	if again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %q replayed %q, want %q", again.body, again.header.Get("Idempotent-Replayed"), first.body)
	}
	b.checkEffects(t, 1)
}

func TestKeyWithAnotherBodyIsRefused(t *testing.T) {
	t.Parallel()
	for _, status := range []int{0, http.StatusUnprocessableEntity} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			b := start(t, paysim.Options{ReuseStatus: status})
			b.post(t.Context(), "k-1", orderBody("o-1")).check(t, http.StatusCreated)
			want := max(status, http.StatusConflict)
			b.post(t.Context(), "k-1", " "+orderBody("o-1")).check(t, want, `{"code":"key_reused"}`)
			b.checkEffects(t, 1)
			if got := b.Journal().Audit().ReusedKeys(); len(got) != 1 || got[0] != "k-1" {
				t.Errorf("got reused keys %v, want k-1", got)
			}
		})
	}
}

func TestConcurrentRequestsOfOneKeyHaveOneEffect(t *testing.T) {
	t.Parallel()
	b := start(t, paysim.Options{Script: paysim.Script{Latency: paysim.Range{Max: 5 * time.Millisecond}}})
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for { // as a client does: in progress means again
				r := b.post(t.Context(), "k-1", orderBody("o-1"))
				if r.err != nil || r.status == http.StatusCreated {
					if r.err != nil {
						t.Error(r.err)
					}
					return
				}
				if r.status != http.StatusConflict || !strings.Contains(r.body, `"in_progress"`) {
					t.Errorf("got %d %s", r.status, r.body)
					return
				}
			}
		})
	}
	wg.Wait()
	b.checkEffects(t, 1)
}

func TestRequestDuringExecutionIsInProgress(t *testing.T) {
	t.Parallel()
	b := start(t, paysim.Options{Script: scripted(paysim.Fault{Latency: paysim.Exactly(time.Hour)})})
	done := make(chan result)
	go func() { done <- b.post(t.Context(), "k-1", orderBody("o-1")) }()
	must(t, b.WaitRequests(t.Context(), 1))
	// The first may not have begun yet; then the second would execute, so wait for it.
	must(t, b.Wait(t.Context(), func(s paysim.Stats) bool { return s.Executing == 1 }))
	b.post(t.Context(), "k-1", orderBody("o-1")).check(t, http.StatusConflict, `{"code":"in_progress"}`)
	b.lookup(t.Context(), "k-1").check(t, http.StatusNotFound, `{"code":"not_found"}`)
	b.checkEffects(t, 0)
	must(t, b.listener.Close())
	if r := <-done; r.err == nil {
		t.Errorf("got %d %s from a listener that closed, want an error", r.status, r.body)
	}
	b.checkEffects(t, 0)
}

func TestEffectComesAlthoughTheClientLeft(t *testing.T) {
	t.Parallel()
	b := start(t, paysim.Options{Script: scripted(paysim.Fault{Latency: paysim.Exactly(100 * time.Millisecond)})})
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan result, 1)
	go func() { done <- b.post(ctx, "k-1", orderBody("o-1")) }()
	must(t, b.WaitRequests(t.Context(), 1)) // however long it takes to get there
	leave()
	if r := <-done; r.err == nil {
		t.Fatalf("got %d, want an error", r.status)
	}
	must(t, b.WaitEffects(t.Context(), 1))
	b.lookup(t.Context(), "k-1").check(t, http.StatusOK, `"succeeded"`)
}

func TestForgottenKeyIsChargedAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		forget  func(*bench) error
		effects int
	}{
		"inside the window": {func(b *bench) error { return b.Advance(time.Hour - time.Nanosecond) }, 1},
		"after the window":  {func(b *bench) error { return b.Advance(time.Hour) }, 2},
		"all at once":       {func(b *bench) error { return b.ForgetKeys() }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, paysim.Options{KeyWindow: time.Hour})
			first := b.post(t.Context(), "k-1", orderBody("o-1"))
			must(t, tc.forget(b))
			b.post(t.Context(), "k-1", orderBody("o-1")).check(t, http.StatusCreated)
			b.checkEffects(t, tc.effects)
			if got := len(b.Journal().Audit().DoubleCharged()); got != tc.effects-1 {
				t.Errorf("got %d orders charged twice, want %d", got, tc.effects-1)
			}
			var charge struct{ ID string }
			must(t, json.Unmarshal([]byte(first.body), &charge))
			b.lookup(t.Context(), "k-1").check(t, http.StatusOK, `"id":"`+charge.ID+`"`, `"idempotency_key":"k-1"`)
		})
	}
}

func TestMalformedRequestHasNoEffect(t *testing.T) {
	t.Parallel()
	b := start(t, paysim.Options{})
	for name, tc := range map[string]struct {
		key, body string
		status    int
	}{
		"no key":           {"", orderBody("o-1"), 400},
		"long key":         {strings.Repeat("k", 256), orderBody("o-1"), 400},
		"no JSON":          {"k", `nonsense`, 400},
		"trailing data":    {"k", orderBody("o-1") + "{}", 400},
		"unknown member":   {"k", `{"order_id":"o","customer_id":"c","amount":1,"currency":"RUB","x":1}`, 400},
		"repeated member":  {"k", `{"order_id":"o","order_id":"o","customer_id":"c","amount":1,"currency":"RUB"}`, 400},
		"other case":       {"k", `{"Order_ID":"o","customer_id":"c","amount":1,"currency":"RUB"}`, 400},
		"no order":         {"k", `{"customer_id":"c","amount":1,"currency":"RUB"}`, 400},
		"null customer":    {"k", `{"order_id":"o","customer_id":null,"amount":1,"currency":"RUB"}`, 400},
		"numeric order":    {"k", `{"order_id":1,"customer_id":"c","amount":1,"currency":"RUB"}`, 400},
		"zero amount":      {"k", `{"order_id":"o","customer_id":"c","amount":0,"currency":"RUB"}`, 400},
		"negative amount":  {"k", `{"order_id":"o","customer_id":"c","amount":-1,"currency":"RUB"}`, 400},
		"fraction":         {"k", `{"order_id":"o","customer_id":"c","amount":1.0,"currency":"RUB"}`, 400},
		"string amount":    {"k", `{"order_id":"o","customer_id":"c","amount":"1","currency":"RUB"}`, 400},
		"overflow":         {"k", `{"order_id":"o","customer_id":"c","amount":9223372036854775808,"currency":"RUB"}`, 400},
		"lower currency":   {"k", `{"order_id":"o","customer_id":"c","amount":1,"currency":"rub"}`, 400},
		"very large body":  {"k", orderBody(strings.Repeat("o", 65<<10)), 413},
		"control order id": {"k", "{\"order_id\":\"\x01\",\"customer_id\":\"c\",\"amount\":1,\"currency\":\"RUB\"}", 400},
	} {
		if r := b.post(t.Context(), tc.key, tc.body); r.status != tc.status {
			t.Errorf("%s: got %d %s %v, want %d", name, r.status, r.body, r.err, tc.status)
		}
	}
	b.do(t.Context(), http.MethodDelete, "/charges", "", "").check(t, http.StatusMethodNotAllowed)
	b.do(t.Context(), http.MethodGet, "/charges/ch_1", "", "").check(t, http.StatusNotFound)
	b.do(t.Context(), http.MethodGet, "/charges?limit=0", "", "").check(t, http.StatusBadRequest)
	b.do(t.Context(), http.MethodGet, "/charges?cursor=-1", "", "").check(t, http.StatusBadRequest)
	b.checkEffects(t, 0)
	b.post(t.Context(), "k", orderBody("o-1")).check(t, http.StatusCreated) // no refusal bound the key
}

func TestRequestWithoutTokenIsRefusedBeforeEverything(t *testing.T) {
	t.Parallel()
	b := start(t, paysim.Options{Token: "secret", Script: scripted(paysim.Fault{Kind: paysim.Answer, Status: 500})})
	b.post(t.Context(), "k-1", orderBody("o-1")).check(t, http.StatusUnauthorized)
	b.lookup(t.Context(), "k-1").check(t, http.StatusUnauthorized)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+"/charges", http.NoBody)
	must(t, err)
	req.Header.Set("Authorization", "Bearer secret")
	resp, err := b.client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("got %d with the token, want 200", resp.StatusCode)
	}
	b.checkEffects(t, 0)
}

func TestListIsCompleteUnderConcurrentWrites(t *testing.T) {
	t.Parallel()
	const writers, each = 4, 50
	b := start(t, paysim.Options{Script: paysim.Script{DeclineShare: 0.2}})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprintf("%d-%d", w, i)
				if r := b.post(t.Context(), "k-"+id, orderBody("o-"+id)); r.err != nil {
					t.Error(r.err)
				}
			}
		})
	}
	var seen []string // by position; the last page is read again while it grows
	for cursor, base := "", 0; len(seen) < writers*each; {
		var page struct {
			Data []struct {
				Key string `json:"idempotency_key"`
			}
			Next string
		}
		r := b.do(t.Context(), http.MethodGet, "/charges?limit=7&cursor="+cursor, "", "")
		r.check(t, http.StatusOK)
		must(t, json.Unmarshal([]byte(r.body), &page))
		for i, c := range page.Data {
			if base+i == len(seen) {
				seen = append(seen, c.Key)
			}
			if seen[base+i] != c.Key {
				t.Fatalf("position %d moved from %s to %s", base+i, seen[base+i], c.Key)
			}
		}
		if page.Next != "" {
			cursor, base = page.Next, base+len(page.Data)
		}
	}
	slices.Sort(seen)
	if got := len(slices.Compact(seen)); got != writers*each {
		t.Errorf("got %d charges in the list, want %d", got, writers*each)
	}
	wg.Wait()
	b.checkEffects(t, writers*each)
}

func TestServerKeepsItsStateWhileItIsOffTheNetwork(t *testing.T) {
	t.Parallel()
	b := start(t, paysim.Options{})
	b.post(t.Context(), "k-1", orderBody("o-1")).check(t, http.StatusCreated)
	b.unlisten(t)
	if r := b.post(t.Context(), "k-1", orderBody("o-1")); r.err == nil {
		t.Fatalf("got %d from a closed listener", r.status)
	}
	b.listen(t, b.listener.Addr)
	b.post(t.Context(), "k-1", orderBody("o-1")).check(t, http.StatusCreated)
	b.checkEffects(t, 1)
}
