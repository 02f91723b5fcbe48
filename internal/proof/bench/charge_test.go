package bench_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"billing/internal/adapters/out/payment"
	"billing/internal/adapters/out/postgres"
	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/proof/bench"
	"billing/internal/testkit"
	"billing/internal/worker"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// full asks for the figures of `make bench-charge`; without it the measurements only show that they still run.
var full = flag.Bool("full", false, "measure at full size")

const (
	inFlight = 64
	latency  = 5 * time.Millisecond
)

func size(short, long int) int {
	if *full {
		return long
	}
	return short
}

// shop is a provider that says yes after a while, in as little time of its own as possible.
type shop struct {
	url      string
	latency  time.Duration
	requests atomic.Int64
	arrived  sync.Map // order id → time of its first request
	note     bool
}

func newShop(t *testing.T, latency time.Duration, note bool) *shop {
	t.Helper()
	s := &shop{latency: latency, note: note}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	s.url = "http://" + listener.Addr().String()
	return s
}

// ServeHTTP says yes.
func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.note {
		s.arrived.LoadOrStore(r.Header.Get("Idempotency-Key"), time.Now())
	}
	_, _ = io.Copy(io.Discard, r.Body)
	worker.Clock{}.Sleep(r.Context(), s.latency)
	s.requests.Add(1)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"id":"ch_1","status":"succeeded"}`)
}

// bare sends n requests with the same concurrency and nothing else, and returns the rate.
func bare(t *testing.T, s *shop, n int) float64 {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: inFlight, MaxConnsPerHost: inFlight, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var next atomic.Int64
	var senders sync.WaitGroup
	begin := time.Now()
	for range inFlight {
		senders.Go(func() {
			for next.Add(1) <= int64(n) {
				body := strings.NewReader(`{"order_id":"order-000001","customer_id":"customer-000001","amount":150000,"currency":"RUB"}`)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/charges", body)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Idempotency-Key", uuid.Must(uuid.NewV7()).String())
				answer, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
			}
		})
	}
	senders.Wait()
	return float64(n) / time.Since(begin).Seconds()
}

// fillSQL makes a backlog of charges that are due, as the accepting statement does.
const fillSQL = `WITH made AS (
		INSERT INTO charge (event_id, order_id, customer_id, amount_minor, currency, source)
		SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(g & 4095), 3, '0') || '8' || substr(replace(gen_random_uuid()::text, '-', ''), 18, 15))::uuid,
		       $2 || '-' || g, 'customer-' || g, 150000, 'RUB', 'kafka' FROM generate_series(1, $1::int) g
		RETURNING event_id, order_id, customer_id)
	INSERT INTO outbox (channel, event_type, event_id, payload, headers)
	SELECT 'provider', 'ChargeRequested', event_id,
	       convert_to(format('{"order_id":"%s","customer_id":"%s","amount":150000,"currency":"RUB"}', order_id, customer_id), 'UTF8'),
	       ARRAY['traceparent'::bytea, convert_to('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'UTF8')]
	  FROM made`

// exec runs a statement that may take minutes.
func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SET LOCAL statement_timeout = 0"); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), sql, args...)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func newPool(t *testing.T, db *testkit.DB) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.NewPool(t.Context(), db.URL(), postgres.PoolOptions{MaxConns: 4, ApplicationName: "bench"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// blind observes nothing.
type blind struct{ settled func(n int) }

func (blind) Turn()                                  {}
func (blind) Claimed([]usecase.Claim, time.Duration) {}
func (blind) Started(usecase.Claim) func(usecase.Settlement, time.Duration) {
	return func(usecase.Settlement, time.Duration) {}
}
func (blind) Attempted(usecase.Settlement) {}
func (b blind) Settled(r usecase.SettleReport, _ time.Duration) {
	if b.settled != nil {
		b.settled(r.ByStatus[domain.StatusSucceeded])
	}
}

// results makes announcements of the usual size.
type results struct{}

func (results) Request(o domain.Order) ([]byte, error) { return payment.Request(o) }
func (results) Announcement(a domain.Announcement, trace string) (usecase.OutboxMessage, error) {
	value := fmt.Appendf(nil, `{"event_id":%q,"event_type":%q,"occurred_at":%q,"order_id":%q,"customer_id":%q,"source_event_id":%q,"amount":%d,"currency":%q,"provider_ref":"ch_1","reason":null,"version":%d}`,
		a.ID, a.Type, a.OccurredAt.Format(time.RFC3339Nano), a.Order.OrderID, a.Order.CustomerID, a.Charge, a.Order.Amount.Minor, a.Order.Amount.Currency, a.Version)
	return usecase.OutboxMessage{
		EventType: a.Type, Topic: "billing.charge-results", Key: []byte(a.Order.OrderID), Value: value,
		Headers: []usecase.Header{{Key: "traceparent", Value: []byte(trace)}},
	}, nil
}

func (results) DeadLetter(usecase.DeadLetter) (usecase.OutboxMessage, error) {
	return usecase.OutboxMessage{}, nil
}

// newCharger is wired as cmd/billing does it.
func newCharger(t *testing.T, pool *pgxpool.Pool, s *shop, wake <-chan struct{}, settled func(int)) *worker.Charger {
	t.Helper()
	clock := worker.Clock{}
	provider, err := payment.NewGeneric(payment.Config{
		Account: "default", URL: s.url, Timeout: 10 * time.Second, Concurrency: inFlight, Lookup: true, KeyWindow: 24 * time.Hour, Now: clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(provider.Close)
	gate := &usecase.Gate{Clock: clock, Random: rand.Float64, Backoff: domain.Backoff{Min: time.Second, Max: time.Minute}}
	newID := func() uuid.UUID { return uuid.Must(uuid.NewV7()) }
	store := postgres.NewStore(pool)
	return &worker.Charger{
		Queue: store, Gate: gate,
		Send: usecase.Send{
			Provider: provider, Gate: gate, Codec: results{}, Clock: clock, Random: rand.Float64, IDs: newID,
			Backoff: domain.Backoff{Min: time.Second, Max: time.Minute}, Lease: 30 * time.Second, Timeout: 10 * time.Second, PendingMax: time.Hour,
		},
		Settle:      usecase.Settle{Queue: store, Codec: results{}, IDs: newID},
		Rules:       usecase.ClaimRules{Account: "default", Lease: 30 * time.Second, KeyWindow: 24 * time.Hour},
		Concurrency: inFlight, Ahead: worker.AheadOf(inFlight), Poll: 50 * time.Millisecond,
		SettleAfter: worker.SettleAfter, SettleMost: worker.SettleMost, DBTimeout: 10 * time.Second,
		Backoff: domain.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second}, Clock: clock, Wake: wake,
		Settled: func() {}, Observe: blind{settled}, Log: slog.New(slog.DiscardHandler),
	}
}

// charged works off a backlog of n and returns the rate.
func charged(t *testing.T, pool *pgxpool.Pool, s *shop, n int, round string) float64 {
	t.Helper()
	exec(t, pool, "TRUNCATE charge, charge_attempt, charge_event, outbox")
	exec(t, pool, fillSQL, n, round)
	exec(t, pool, "ANALYZE charge, outbox")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	left := n
	begin := time.Now()
	var took time.Duration
	charger := newCharger(t, pool, s, nil, func(done int) {
		if left -= done; left <= 0 {
			took = time.Since(begin)
			cancel()
		}
	})
	if err := charger.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if left > 0 {
		t.Fatalf("%d charges are left", left)
	}
	return float64(n) / took.Seconds()
}

func TestChargingAgainstABareLoop(t *testing.T) {
	db := testkit.NewDB(t)
	pool, s := newPool(t, db), newShop(t, latency, false)
	n, rounds := size(500, 15_000), size(1, 5)
	var ours, theirs, ratios []float64
	for i := range rounds {
		theirs = append(theirs, bare(t, s, n))
		ours = append(ours, charged(t, pool, s, n, fmt.Sprint("round", i)))
		ratios = append(ratios, ours[i]/theirs[i])
	}
	t.Logf("charges/s at %s latency, %d in flight: %.0f, a bare HTTP loop %.0f, ratio %.2f (goal 0.85)", latency, inFlight, bench.Median(ours), bench.Median(theirs), bench.Median(ratios))
}

func TestFromAcceptedToTheWireWhenIdle(t *testing.T) {
	db := testkit.NewDB(t)
	pool, s := newPool(t, db), newShop(t, 0, true)
	wake := worker.NewSignal()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	done := make(chan int, 1000)
	charger := newCharger(t, pool, s, wake, func(n int) { done <- n })
	running.Go(func() { _ = charger.Run(ctx) })
	inbox := postgres.NewStore(newPool(t, db))
	source := usecase.Source{ClusterID: "k", Group: "g", Topic: "t"}
	if err := inbox.PutPosition(ctx, source, usecase.Position{}); err != nil {
		t.Fatal(err)
	}
	var waits []float64
	for i := range size(20, 1000) {
		e := domain.OrderConfirmed{EventID: uuid.Must(uuid.NewV7()), Order: domain.Order{OrderID: fmt.Sprint("o-", i), CustomerID: "c", Amount: domain.Money{Minor: 100, Currency: "RUB"}}}
		request, err := payment.Request(e.Order)
		if err != nil {
			t.Fatal(err)
		}
		chunk := usecase.Chunk{Source: source, From: int64(i), Next: int64(i) + 1, Events: []usecase.Acceptance{{Event: e, Request: request, Traceparent: "t"}}}
		if _, err := inbox.AcceptChunk(ctx, chunk, usecase.Limits{Retention: time.Hour, Skew: time.Hour}); err != nil {
			t.Fatal(err)
		}
		accepted := time.Now()
		wake.Set()
		<-done
		arrived, ok := s.arrived.Load(e.EventID.String())
		if !ok {
			t.Fatal("settled without a request")
		}
		waits = append(waits, arrived.(time.Time).Sub(accepted).Seconds()*1000)
		worker.Clock{}.Sleep(ctx, time.Duration(rand.IntN(20))*time.Millisecond)
	}
	cancel()
	running.Wait()
	slices.Sort(waits)
	t.Logf("accepted to request on the wire, idle: p50 %.2f ms (goal 3), p99 %.2f ms (goal 10)", waits[len(waits)/2], waits[len(waits)*99/100])
}
