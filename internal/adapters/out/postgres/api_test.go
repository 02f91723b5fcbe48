package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"billing/internal/adapters/out/postgres"
	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/testkit"
)

const shop = "shop"

// post is the use case on a store.
func post(store *postgres.Store) usecase.Post {
	return usecase.Post{
		Store: store, Codec: codec{}, MaxAmountMinor: 1_000_000, KeyTTL: time.Hour, Wake: func() {},
		Answer: func(id uuid.UUID, _ domain.Order) (usecase.Answer, error) {
			return usecase.Answer{Status: 202, Location: "/v1/charges/" + id.String(), Body: []byte("answer of " + id.String())}, nil
		},
	}
}

// asks is a request for an order as event and orderOf make it.
func asks(client, key, order string) usecase.PostRequest {
	o := orderOf(order)
	return usecase.PostRequest{
		Client: client, Key: key, OrderID: o.OrderID, CustomerID: o.CustomerID, AmountMinor: o.Amount.Minor, Currency: o.Amount.Currency, Traceparent: trace,
	}
}

// must posts and returns what it came to.
func (e env) must(t *testing.T, r usecase.PostRequest) usecase.Posted {
	t.Helper()
	posted, err := post(e.store).Do(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return posted
}

// refuses fails unless a POST ends with an error, and returns it.
func (e env) refuses(t *testing.T, r usecase.PostRequest, want error) {
	t.Helper()
	if _, err := post(e.store).Do(t.Context(), r); !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

func TestPostStoresKeyChargeAndProviderRowTogether(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	woken := 0
	p := post(e.store)
	p.Wake = func() { woken++ }
	posted, err := p.Do(t.Context(), asks(shop, "k-1", "o-1"))
	if err != nil || posted.Replayed || woken != 1 {
		t.Fatalf("%+v, %v, woken %d times", posted, err, woken)
	}
	id := usecase.PostedEventID(shop, "k-1")
	e.count(t, 1, `SELECT count(*) FROM charge WHERE event_id = $1 AND order_id = 'o-1' AND customer_id = 'c-o-1' AND amount_minor = 150000
		AND currency = 'RUB' AND source = 'api' AND client = 'shop' AND status = 'requested' AND holds_order`, id)
	request, _ := codec{}.Request(orderOf("o-1"))
	e.count(t, 1, `SELECT count(*) FROM outbox WHERE event_id = $1 AND channel = 'provider' AND event_type = 'ChargeRequested' AND payload = $2
		AND headers = ARRAY['traceparent'::bytea, convert_to($3, 'UTF8')] AND run_at <= clock_timestamp()`, id, request, trace)
	e.count(t, 1, `SELECT count(*) FROM idempotency_key WHERE client = 'shop' AND key = 'k-1' AND event_id = $1 AND response_status = 202
		AND expires_at BETWEEN clock_timestamp() + interval '59 minutes' AND clock_timestamp() + interval '61 minutes'`, id)
	claims, err := e.store.ClaimCharges(t.Context(), 10, rules)
	if err != nil || len(claims) != 1 || claims[0].Step != usecase.StepPost || claims[0].Traceparent != trace {
		t.Errorf("claimed %+v, %v", claims, err)
	}
}

func TestRepeatReturnsTheStoredBytes(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first := e.must(t, asks(shop, "k-1", "o-1"))
	p := post(e.store)
	p.Answer = func(uuid.UUID, domain.Order) (usecase.Answer, error) {
		return usecase.Answer{Status: 200, Location: "elsewhere", Body: []byte("a later version")}, nil
	}
	p.Wake = func() { t.Error("woken by a repeat") }
	again, err := p.Do(t.Context(), asks(shop, "k-1", "o-1"))
	if err != nil || !again.Replayed || fmt.Sprint(again.Answer) != fmt.Sprint(first.Answer) {
		t.Errorf("got %+v, %v; want %+v", again, err, first)
	}
	e.count(t, 1, "SELECT count(*) FROM charge")
}

func TestKeyWithOtherContentIsRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.must(t, asks(shop, "k-1", "o-1"))
	for _, change := range []func(*usecase.PostRequest){
		func(r *usecase.PostRequest) { r.OrderID = "o-2" },
		func(r *usecase.PostRequest) { r.CustomerID = "c-2" },
		func(r *usecase.PostRequest) { r.AmountMinor++ },
		func(r *usecase.PostRequest) { r.Currency = "USD" },
	} {
		r := asks(shop, "k-1", "o-1")
		change(&r)
		e.refuses(t, r, usecase.ErrKeyReused)
	}
	e.count(t, 1, "SELECT count(*) FROM charge")
}

func TestOneKeyOfTwoClientsNamesTwoCharges(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first, second := e.must(t, asks(shop, "k-1", "o-1")), e.must(t, asks("market", "k-1", "o-2"))
	if first.Answer.Location == second.Answer.Location || second.Replayed {
		t.Errorf("%+v and %+v", first, second)
	}
	e.count(t, 2, "SELECT count(*) FROM charge")
}

func TestRacersWithOneKeyChargeOnce(t *testing.T) {
	t.Parallel()
	const n = 64
	e := newEnvWith(t, 20)
	var fresh, replayed, waiting int
	var mu sync.Mutex
	together(n, func(int) {
		posted, err := post(e.store).Do(t.Context(), asks(shop, "k-1", "o-1"))
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, usecase.ErrKeyInProgress):
			waiting++
		case err != nil:
			t.Error(err)
		case posted.Replayed:
			replayed++
		default:
			fresh++
		}
	})
	if fresh != 1 || fresh+replayed+waiting != n || replayed == 0 {
		t.Errorf("%d fresh, %d replayed, %d in progress", fresh, replayed, waiting)
	}
	e.count(t, 1, "SELECT count(*) FROM charge")
	e.count(t, 1, "SELECT count(*) FROM outbox")
}

// together runs f for 0 to n-1 at once.
func together(n int, f func(i int)) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { <-start; f(i) })
	}
	close(start)
	wg.Wait()
}

var errStop = errors.New("stop here")

// held runs f while another request with the same key is in its transaction, which then ends with nothing stored.
func (e env) held(t *testing.T, store *postgres.Store, client, key string, f func()) {
	t.Helper()
	err := store.InPostTx(t.Context(), func(ctx context.Context, tx usecase.PostTx) error {
		taken, err := tx.TakeKey(ctx, usecase.Posting{Client: client, Key: key, EventID: newID(), TTL: time.Hour, Answer: usecase.Answer{Body: []byte("x")}})
		if err != nil || !taken {
			t.Errorf("taken %v, %v", taken, err)
		}
		f()
		return errStop
	})
	if !errors.Is(err, errStop) {
		t.Errorf("the other request ended with %v", err)
	}
}

func TestKeyOfAnOpenRequestIsInProgress(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.held(t, e.store, shop, "k-1", func() {
		began := time.Now()
		e.refuses(t, asks(shop, "k-1", "o-1"), usecase.ErrKeyInProgress)
		if took := time.Since(began); took < 400*time.Millisecond || took > 3*time.Second {
			t.Errorf("it took %s, want about 500ms", took)
		}
		e.must(t, asks(shop, "k-2", "o-2"))
		e.must(t, asks("market", "k-1", "o-3"))
	})
	e.must(t, asks(shop, "k-1", "o-1"))
}

// A process killed inside a request leaves nothing behind that a repeat would have to wait for.
func TestRequestCutOffInItsTransactionIsRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	proxy := testkit.NewProxy(t, e.db.Addr())
	far := postgres.NewStore(productPool(t, e.db.URLVia(proxy.Addr()), 2))
	e.held(t, far, shop, "k-1", proxy.Cut)
	if posted := e.must(t, asks(shop, "k-1", "o-1")); posted.Replayed {
		t.Error("a request that was cut off counts as done")
	}
	e.count(t, 1, "SELECT count(*) FROM charge")
}

// The commit may have been done when the connection is lost: the repeat finds out.
func TestRequestWhoseCommitWasNotHeardIsReplayed(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	proxy := testkit.NewProxy(t, e.db.Addr())
	p := post(postgres.NewStore(productPool(t, e.db.URLVia(proxy.Addr()), 2)))
	p.Wake = func() { t.Error("woken without knowing") }
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	failed := make(chan error, 1)
	e.db.Exec(t, `CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN NULL; END'`)
	e.db.Exec(t, `CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON charge DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait()`)
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(7)"); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := p.Do(ctx, asks(shop, "k-1", "o-1"))
		failed <- err
	}()
	eventually(t, "the commit is under way", func() bool { return e.waiting(t) == 1 })
	proxy.HoldAnswers()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_unlock(7)"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is committed", func() bool { return e.db.Count(t, "SELECT count(*) FROM charge") == 1 })
	proxy.Cut()
	if err := <-failed; !errors.Is(err, domain.ErrOutage) {
		t.Errorf("got %v, want an outage", err)
	}
	if posted := e.must(t, asks(shop, "k-1", "o-1")); !posted.Replayed {
		t.Error("charged again")
	}
}

func TestChargedOrderIsRefusedAndTheKeyStaysFree(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	byEvent := b.request(t, "o-1")
	b.must(t, asks("market", "k-1", "o-2"))
	for _, tc := range []struct {
		request usecase.PostRequest
		want    usecase.OrderChargedError
	}{
		{asks(shop, "k-1", "o-1"), usecase.OrderChargedError{EventID: byEvent}},
		{asks(shop, "k-1", "o-2"), usecase.OrderChargedError{EventID: usecase.PostedEventID("market", "k-1"), Client: "market"}},
		{asks("market", "k-2", "o-2"), usecase.OrderChargedError{EventID: usecase.PostedEventID("market", "k-1"), Client: "market"}},
	} {
		_, err := post(b.store).Do(t.Context(), tc.request)
		charged, ok := errors.AsType[*usecase.OrderChargedError](err)
		if !ok || *charged != tc.want {
			t.Errorf("got %v, want %v", err, tc.want)
		}
	}
	b.count(t, 1, "SELECT count(*) FROM idempotency_key")
	b.must(t, asks(shop, "k-1", "o-3"))
}

func TestEventForAPostedOrderIsADuplicate(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	b.must(t, asks(shop, "k-1", "o-1"))
	want(t, b.orders.take(t, event("o-1")), 0, 1)
	other := event("o-1")
	other.Event.Order.Amount.Minor++
	want(t, b.orders.take(t, other), 0, 0, domain.ReasonOrderAlreadyCharged)
	b.count(t, 1, "SELECT count(*) FROM charge")
}

func TestDeclinedOrderIsChargedAgainUnderANewKeyOnly(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	b.must(t, asks(shop, "k-1", "o-1"))
	b.conclude(t, b.claim(t), domain.StatusDeclined, domain.Declined)
	if posted := b.must(t, asks(shop, "k-1", "o-1")); !posted.Replayed {
		t.Error("the key charged twice")
	}
	if posted := b.must(t, asks(shop, "k-2", "o-1")); posted.Replayed {
		t.Error("a new key is taken for the old one")
	}
	b.count(t, 2, "SELECT count(*) FROM charge")
	b.db.Exec(t, "UPDATE idempotency_key SET expires_at = clock_timestamp()")
	if posted := b.must(t, asks(shop, "k-1", "o-1")); !posted.Replayed {
		t.Error("an expired key charged twice")
	}
}

func TestPostsAndEventsRaceForOrders(t *testing.T) {
	t.Parallel()
	const rounds = 40
	e := newEnvWith(t, 20)
	var charged, duplicates, refused int
	var mu sync.Mutex
	readers := make([]*reader, 8)
	for i := range readers {
		readers[i] = e.reader(t, group, int32(i))
	}
	for round := range rounds {
		orders := []string{fmt.Sprint("a-", round), fmt.Sprint("b-", round), fmt.Sprint("c-", round)}
		together(16, func(i int) {
			if i < len(readers) {
				counts, err := readers[i].takeAll(t.Context(), []usecase.Delivery{event(orders[0]), event(orders[1]), event(orders[2])})
				mu.Lock()
				defer mu.Unlock()
				charged, duplicates = charged+counts.Accepted, duplicates+counts.Duplicates
				if err != nil {
					t.Error(err)
				}
				return
			}
			posted, err := post(e.store).Do(t.Context(), asks(shop, fmt.Sprint(round, "-", i), orders[i%3]))
			_, is := errors.AsType[*usecase.OrderChargedError](err)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case is:
				refused++
			case err != nil || posted.Replayed:
				t.Errorf("%+v, %v", posted, err)
			default:
				charged++
			}
		})
	}
	if charged != 3*rounds || charged+duplicates+refused != rounds*(24+8) {
		t.Errorf("%d charged, %d duplicates, %d refused", charged, duplicates, refused)
	}
	e.count(t, 3*rounds, "SELECT count(*) FROM charge")
	e.count(t, 3*rounds, "SELECT count(*) FROM outbox WHERE channel = 'provider'")
	if n := e.db.Count(t, "SELECT count(*) FROM charge WHERE source = 'api'"); n == 0 || n == 3*rounds {
		t.Logf("%d of %d orders were won by POSTs: nothing was raced for", n, 3*rounds)
	}
}

func TestForgottenKeyMakesTheSameEventID(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]string{
		"expired": "UPDATE idempotency_key SET expires_at = clock_timestamp() - interval '1 second'",
		"purged":  "DELETE FROM idempotency_key",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			first := e.must(t, asks(shop, "k-1", "o-1"))
			e.db.Exec(t, forget)
			other := asks(shop, "k-1", "o-2")
			e.refuses(t, other, usecase.ErrKeyReused)
			again := e.must(t, asks(shop, "k-1", "o-1"))
			if !again.Replayed || fmt.Sprint(again.Answer) != fmt.Sprint(first.Answer) {
				t.Errorf("got %+v, want %+v replayed", again, first)
			}
			e.refuses(t, other, usecase.ErrKeyReused)
			e.count(t, 1, "SELECT count(*) FROM idempotency_key WHERE expires_at > clock_timestamp()")
			e.count(t, 1, "SELECT count(*) FROM charge")
		})
	}
}

func TestLostChargeIsOrderedAgainUnderItsOldID(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first := e.must(t, asks(shop, "k-1", "o-1"))
	e.db.Exec(t, "DELETE FROM idempotency_key")
	e.db.Exec(t, "DELETE FROM outbox")
	e.db.Exec(t, "DELETE FROM charge")
	e.db.Exec(t, "INSERT INTO control (name, actor, reason) VALUES ('history_lost', 'test', 'restored')")
	again := e.must(t, asks(shop, "k-1", "o-1"))
	if again.Replayed || again.Answer.Location != first.Answer.Location {
		t.Errorf("got %+v, want %+v", again, first)
	}
	claims, err := e.store.ClaimCharges(t.Context(), 10, rules)
	if err != nil || len(claims) != 1 || claims[0].Step != usecase.StepLookupPost {
		t.Errorf("claimed %+v, %v; want a look-up first", claims, err)
	}
}

func TestExpiredKeyIsTakenOverOnce(t *testing.T) {
	t.Parallel()
	const n = 20
	e := newEnvWith(t, n)
	e.db.Exec(t, `INSERT INTO idempotency_key (client, key, request_hash, event_id, response_status, location, response_body, expires_at)
		VALUES ('shop', 'k-1', decode(repeat('00', 32), 'hex'), gen_random_uuid(), 202, 'old', 'old', clock_timestamp())`)
	var fresh, refused int
	var mu sync.Mutex
	together(n, func(i int) {
		r := asks(shop, "k-1", "o-1")
		r.AmountMinor = int64(1 + i%2)
		posted, err := post(e.store).Do(t.Context(), r)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, usecase.ErrKeyReused):
			refused++
		case err != nil && !errors.Is(err, usecase.ErrKeyInProgress):
			t.Error(err)
		case err == nil && !posted.Replayed:
			fresh++
		}
	})
	if fresh != 1 || refused == 0 {
		t.Errorf("%d fresh, %d refused", fresh, refused)
	}
	e.count(t, 1, "SELECT count(*) FROM charge")
	e.count(t, 1, "SELECT count(*) FROM idempotency_key WHERE location LIKE '/v1/charges/%'")
}

func TestPurgeForgetsExpiredKeysInChunks(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.db.Exec(t, `INSERT INTO idempotency_key (client, key, request_hash, event_id, response_status, location, response_body, expires_at)
		SELECT 'shop', g::text, decode(repeat('00', 32), 'hex'), gen_random_uuid(), 202, '', '', clock_timestamp() + (g - 25.5) * interval '1 hour' FROM generate_series(1, 30) g`)
	purge := usecase.PurgeKeys{Store: e.store, Limit: 10, Timeout: time.Minute}
	for _, want := range []int{10, 10, 5, 0} {
		if n, busy, err := purge.Step(t.Context()); err != nil || n != want || busy != (want == 10) {
			t.Errorf("purged %d, busy %v, %v; want %d", n, busy, err, want)
		}
	}
	e.count(t, 5, "SELECT count(*) FROM idempotency_key")
}

func TestClientReadsOnlyWhatItPosted(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	byEvent := b.charge(t, "o-0", domain.StatusSucceeded, domain.Succeeded)
	b.must(t, asks(shop, "k-1", "o-1"))
	b.must(t, asks("market", "k-1", "o-2"))
	read := usecase.Read{Charges: b.store}
	ids := []uuid.UUID{byEvent, usecase.PostedEventID(shop, "k-1"), usecase.PostedEventID("market", "k-1")}
	for name, tc := range map[string]struct {
		viewer usecase.Viewer
		sees   []bool
	}{
		"shop":     {usecase.Viewer{Client: shop}, []bool{false, true, false}},
		"operator": {usecase.Viewer{Client: shop, Operator: true}, []bool{true, true, true}},
		"stranger": {usecase.Viewer{Client: "stranger"}, []bool{false, false, false}},
		"nobody":   {usecase.Viewer{}, []bool{false, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, id := range ids {
				d, err := read.Charge(t.Context(), tc.viewer, id)
				if seen := err == nil && d.Charge.EventID == id; seen != tc.sees[i] || (!seen && !errors.Is(err, usecase.ErrNoCharge)) {
					t.Errorf("charge %d: %v", i, err)
				}
				page, err := read.List(t.Context(), tc.viewer, usecase.ChargeQuery{OrderID: fmt.Sprint("o-", i), Limit: 10})
				if (len(page.Charges) == 1) != tc.sees[i] {
					t.Errorf("order %d: %d charges, %v", i, len(page.Charges), err)
				}
			}
		})
	}
	d, err := read.Charge(t.Context(), usecase.Viewer{Operator: true}, byEvent)
	if err != nil || len(d.Attempts) != 1 || len(d.History) != 1 || d.Attempts[0].Outcome != domain.Succeeded || d.History[0].Type != "ChargeSucceeded" {
		t.Errorf("%+v, %v", d, err)
	}
}

// walk reads every page and returns the charges, and how many pages there were.
func walk(t *testing.T, store *postgres.Store, q usecase.ChargeQuery) (ids []uuid.UUID, pages int) {
	t.Helper()
	for {
		page, err := store.ReadCharges(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, c := range page.Charges {
			if len(ids) > 0 && strings.Compare(ids[len(ids)-1].String(), c.EventID.String()) >= 0 {
				t.Fatalf("%s behind %s", c.EventID, ids[len(ids)-1])
			}
			ids = append(ids, c.EventID)
		}
		if !page.Next.Valid {
			return ids, pages
		}
		q.After = page.Next.UUID
	}
}

func TestListsWalkThroughAllThatMatches(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const n = 5000 // more than one page may look at
	e.db.Exec(t, `INSERT INTO charge (event_id, order_id, customer_id, amount_minor, currency, source, client, status, holds_order)
		SELECT gen_random_uuid(), CASE WHEN g % 100 = 0 THEN 'o-x' ELSE 'o-' || g END, 'c', 1, 'RUB', CASE WHEN g % 500 = 0 THEN 'api' ELSE 'kafka' END,
		       CASE WHEN g % 500 = 0 THEN 'shop' END, s, s <> 'declined'
		  FROM (SELECT g, CASE WHEN g % 100 = 0 THEN 'declined' WHEN g % 50 = 0 THEN 'requested' WHEN g % 25 = 0 THEN 'parked' ELSE 'succeeded' END AS s
		          FROM generate_series(1, $1) g) x`, n)
	e.db.Exec(t, `INSERT INTO outbox (channel, event_type, event_id, payload) SELECT 'provider', 'ChargeRequested', event_id, 'x' FROM charge WHERE status IN ('requested', 'parked')`)
	for name, tc := range map[string]struct {
		query       usecase.ChargeQuery
		want, pages int
	}{
		"all":                {usecase.ChargeQuery{Limit: 100}, n, n / 100},
		"few of all":         {usecase.ChargeQuery{Status: domain.StatusDeclined, Limit: 100}, 50, 3},
		"none of all":        {usecase.ChargeQuery{Status: domain.StatusCancelled, Limit: 100}, 0, 3},
		"requested":          {usecase.ChargeQuery{Status: domain.StatusRequested, Limit: 100}, 50, 1},
		"parked, page of 7":  {usecase.ChargeQuery{Status: domain.StatusParked, Limit: 7}, 100, 15},
		"order":              {usecase.ChargeQuery{OrderID: "o-x", Limit: 20}, 50, 3},
		"order and status":   {usecase.ChargeQuery{OrderID: "o-7", Status: domain.StatusParked, Limit: 20}, 0, 1},
		"client":             {usecase.ChargeQuery{Client: shop, Limit: 100}, 10, 1},
		"client, exact page": {usecase.ChargeQuery{Client: shop, Limit: 10}, 10, 1},
		"client and status":  {usecase.ChargeQuery{Client: shop, Status: domain.StatusRequested, Limit: 10}, 0, 1},
		"client and order":   {usecase.ChargeQuery{Client: shop, OrderID: "o-x", Limit: 100}, 10, 1},
		"another client":     {usecase.ChargeQuery{Client: "market", OrderID: "o-x", Limit: 100}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ids, pages := walk(t, e.store, tc.query)
			if len(ids) != tc.want || pages != tc.pages {
				t.Errorf("%d charges on %d pages, want %d on %d", len(ids), pages, tc.want, tc.pages)
			}
		})
	}
}

func TestListsStayCheapWhateverTheTable(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.fill(t, 25_000)
	e.db.Exec(t, "UPDATE charge SET client = 'shop', source = 'api' WHERE event_id IN (SELECT event_id FROM charge LIMIT 100)")
	e.db.Exec(t, "ANALYZE charge, outbox")
	first := []any{uuid.UUID{}, "", "cancelled", 2000, 51}
	for name, args := range map[string][]any{
		"all": first, "waiting": first, "client": {uuid.UUID{}, "shop", "", 2000, 51}, "order": append(first[:5:5], "o-1"),
	} {
		plan := e.explain(t, postgres.ListSQL[name], args...)
		if strings.Contains(plan, "Seq Scan") || buffers(t, plan) > 15_000 {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}
