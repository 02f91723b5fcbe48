package crash_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"billing/internal/core/usecase"
	"billing/internal/paysim"
	"billing/internal/testkit"
)

const (
	shop      = "shop"
	shopToken = "shop-secret"
)

// apiEnv is the environment of a process that also serves the API to one client.
func apiEnv(t *testing.T) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.json")
	hash := sha256.Sum256([]byte(shopToken))
	file := fmt.Sprintf(`{"clients":[{"name":%q,"token_sha256":%q,"scopes":["charges:write","charges:read"]}]}`, shop, hex.EncodeToString(hash[:]))
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{
		"BILLING_ROLES=consumer,charger,relay,maintenance,api", "BILLING_HTTP_ADDR=127.0.0.1:0", "BILLING_API_TOKENS_FILE=" + path, "BILLING_API_RATE=0",
	}
}

func (r *rig) apiAddr(t *testing.T, p *testkit.Process) string {
	t.Helper()
	addr, err := p.WaitListening(r.patient(t), "api")
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// want makes an order that a client will post, and returns it.
func (r *rig) want() order {
	r.n++
	id := fmt.Sprintf("order-%d", r.n)
	o := order{event: usecase.PostedEventID(shop, "key-"+id), id: id, amount: int64(100 + r.n)}
	r.orders[id] = o
	return o
}

// posted is what a client was told.
type posted struct {
	status   int
	location string
	replayed bool
	body     string
}

// post sends a client's request for an order; an error is what a client sees of a process that is killed.
func (r *rig) post(t *testing.T, addr string, o order) (posted, error) {
	t.Helper()
	body := fmt.Sprintf(`{"order_id":%q,"customer_id":%q,"amount":%d,"currency":"RUB"}`, o.id, "customer-"+o.id, o.amount)
	request, err := http.NewRequestWithContext(r.patient(t), http.MethodPost, "http://"+addr+"/v1/charges", strings.NewReader(body))
	if err != nil {
		return posted{}, err
	}
	request.Header.Set("Authorization", "Bearer "+shopToken)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", "key-"+o.id)
	request.Header.Set("Traceparent", "00-"+hex.EncodeToString(o.event[:])+"-00000000000000a1-01")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return posted{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return posted{}, err
	}
	return posted{answer.StatusCode, answer.Header.Get("Location"), answer.Header.Get("Idempotent-Replayed") == "true", string(text)}, nil
}

// insist posts an order until it is accepted, as a client does that wants it charged.
func (r *rig) insist(t *testing.T, addr string, o order) posted {
	t.Helper()
	var got posted
	r.await(t, "order "+o.id+" is accepted", func() bool {
		var err error
		got, err = r.post(t, addr, o)
		return err == nil && got.status == http.StatusAccepted
	})
	if want := "/v1/charges/" + o.event.String(); got.location != want {
		t.Errorf("order %s is at %s, want %s", o.id, got.location, want)
	}
	return got
}

func TestPostedOrdersAreChargedOnceThroughKills(t *testing.T) {
	t.Parallel()
	r := newRig(t, lossy(), apiEnv(t)...)
	orders := make([]order, 200)
	for i := range orders {
		orders[i] = r.want()
	}
	told := make([]posted, len(orders))
	p := r.serve(t)
	addr := r.apiAddr(t, p)
	var clients sync.WaitGroup
	for c := range 8 {
		clients.Go(func() {
			for i := c; i < len(orders); i += 8 {
				told[i], _ = r.post(t, addr, orders[i]) // some meet the kill
			}
		})
	}
	if err := r.sim.WaitEffects(r.patient(t), 20); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	clients.Wait()
	p = r.serve(t)
	addr = r.apiAddr(t, p)
	for i, o := range orders {
		again := r.insist(t, addr, o)
		if told[i].status != 0 && (!again.replayed || again.body != told[i].body) {
			t.Errorf("order %s was told %+v, then %+v", o.id, told[i], again)
		}
	}
	r.awaitSettled(t)
	r.audit(t)
	if n := r.db.Count(t, "SELECT count(*) FROM charge"); n != len(orders) {
		t.Errorf("%d charges of %d orders", n, len(orders))
	}
	stop(t, p)
}

func TestPostsAndEventsForTheSameOrdersChargeThemOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, paysim.Script{}, apiEnv(t)...)
	p := r.serve(t)
	addr := r.apiAddr(t, p)
	orders := make([]order, 100)
	for i := range orders {
		orders[i] = r.want()
	}
	r.await(t, "the partitions are assigned", func() bool { return r.db.Count(t, "SELECT count(*) FROM consumer_position") >= 3 })
	var both sync.WaitGroup
	both.Go(func() {
		for chunk := range slices.Chunk(orders, 5) {
			records := make([]*kgo.Record, 0, len(chunk))
			for _, o := range chunk {
				records = append(records, r.record(uuid.Must(uuid.NewV7()), o))
			}
			testkit.Produce(t, r.brokers, records...)
		}
	})
	both.Go(func() {
		for _, o := range slices.Backward(orders) { // the two meet somewhere
			got, err := r.post(t, addr, o)
			if err != nil || (got.status != http.StatusAccepted && got.status != http.StatusConflict) || (got.status == http.StatusConflict && !strings.Contains(got.body, "ORDER_ALREADY_CHARGED")) {
				t.Errorf("order %s: %+v, %v", o.id, got, err)
			}
		}
	})
	both.Wait()
	r.await(t, "all events are read", func() bool {
		return r.db.Count(t, "SELECT coalesce(sum(next_offset), 0) FROM consumer_position") >= len(orders)
	})
	r.awaitSettled(t)
	r.audit(t)
	if n := r.db.Count(t, "SELECT count(*) FROM dead_letter"); n != 0 {
		t.Errorf("%d dead letters for equal content", n)
	}
	byPost := r.db.Count(t, "SELECT count(*) FROM charge WHERE source = 'api'")
	t.Logf("%d of %d orders were won by POSTs", byPost, len(orders))
	stop(t, p)
}

// The database loses a charge that the provider has executed, and the provider has forgotten its key: the
// client's repeat makes the same EventID, and the look-up finds the money taken.
func TestRepeatAfterARestoredDatabaseTakesNothingAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, paysim.Script{}, append(apiEnv(t), "BILLING_PROVIDER_KEY_WINDOW=60m")...)
	old := time.Now().Add(-2 * time.Hour) // events whose keys a provider may have forgotten
	r.produce(t, 20, old)
	p := r.serve(t)
	r.awaitSettled(t)
	stop(t, p)
	copied := r.db.Snapshot(t)

	p = r.serve(t)
	addr := r.apiAddr(t, p)
	orders := make([]order, 20)
	for i := range orders {
		orders[i] = r.want()
		r.insist(t, addr, orders[i])
	}
	r.produce(t, 20, old)
	r.awaitSettled(t)
	stop(t, p)
	r.audit(t)

	copied.Restore(t)
	r.restored = true
	if err := r.sim.ForgetKeys(); err != nil {
		t.Fatal(err)
	}
	p = r.serve(t)
	addr = r.apiAddr(t, p)
	r.await(t, "the loss is noticed", func() bool { return r.db.Count(t, "SELECT count(*) FROM control WHERE name = 'history_lost'") == 1 })
	for _, o := range orders {
		if got := r.insist(t, addr, o); got.replayed {
			t.Errorf("order %s is remembered by a database that never saw it", o.id)
		}
	}
	r.awaitSettled(t)
	r.audit(t)
	stop(t, p)
}

func TestTraceOfAPostReachesProviderAndResults(t *testing.T) {
	t.Parallel()
	r := newRig(t, paysim.Script{}, apiEnv(t)...)
	traces := make(chan string, 100)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		traces <- in.Header.Get("Traceparent")
		r.sim.ServeHTTP(w, in)
	}))
	t.Cleanup(provider.Close)
	p := r.serve(t, "BILLING_PROVIDER_URL="+provider.URL)
	o := r.want()
	r.insist(t, r.apiAddr(t, p), o)
	r.awaitSettled(t)
	trace := hex.EncodeToString(o.event[:])
	if got := <-traces; !strings.Contains(got, trace) {
		t.Errorf("the provider got trace %q, want %s", got, trace)
	}
	told := 0
	for _, record := range testkit.ReadTopic(t, r.brokers, r.results, kgo.ReadCommitted()) {
		for _, h := range record.Headers {
			if h.Key == "traceparent" && strings.Contains(string(h.Value), trace) {
				told++
			}
		}
	}
	if told != 1 {
		t.Errorf("%d results with the trace, want 1", told)
	}
	stop(t, p)
}
