package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"billing/internal/adapters/out/postgres"
	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/testkit"
)

const (
	group     = "billing-order-confirmed"
	topic     = "order-service.order.confirmed"
	lease     = 30 * time.Second
	keyWindow = 24 * time.Hour
	account   = "default"
)

var limits = usecase.Limits{Retention: 168 * time.Hour, Skew: 24 * time.Hour}

// env is one test's database with the use cases that run on it.
type env struct {
	db     *testkit.DB
	pool   *pgxpool.Pool
	store  *postgres.Store
	accept usecase.Accept
	settle usecase.Settle
}

func newEnv(t *testing.T) env { t.Helper(); return newEnvWith(t, 8) }

// newEnvWith is newEnv with connections for many sessions at once.
func newEnvWith(t *testing.T, conns int32) env {
	t.Helper()
	return envOn(t, testkit.NewDB(t), conns)
}

func envOn(t *testing.T, db *testkit.DB, conns int32) env {
	t.Helper()
	pool := productPool(t, db.URL(), conns)
	store := postgres.NewStore(pool)
	return env{
		db: db, pool: pool, store: store,
		accept: usecase.Accept{Inbox: store, Codec: codec{}, Limits: limits},
		settle: usecase.Settle{Queue: store, Codec: codec{}, IDs: newID},
	}
}

// productPool opens connections as the service does.
func productPool(t *testing.T, url string, conns int32) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.NewPool(t.Context(), url, postgres.PoolOptions{MaxConns: conns, ApplicationName: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// poolOf opens connections with changed settings.
func poolOf(t *testing.T, config *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// codec is a small deterministic usecase.Codec.
type codec struct{}

func (codec) Request(o domain.Order) ([]byte, error) {
	return fmt.Appendf(nil, `{"order_id":%q,"customer_id":%q,"amount":%d,"currency":%q}`, o.OrderID, o.CustomerID, o.Amount.Minor, o.Amount.Currency), nil
}

func (codec) Announcement(a domain.Announcement, traceparent string) (usecase.OutboxMessage, error) {
	return usecase.OutboxMessage{
		EventType: a.Type, Topic: "billing.charge-results", Key: []byte(a.Order.OrderID),
		Value: fmt.Appendf(nil, `{"event_id":%q,"event_type":%q,"source_event_id":%q,"version":%d}`, a.ID, a.Type, a.Charge, a.Version),
		Headers: []usecase.Header{
			{Key: "event-id", Value: []byte(a.ID.String())},
			{Key: "event-type", Value: []byte(a.Type)},
			{Key: "traceparent", Value: []byte(traceparent)},
		},
	}, nil
}

func (codec) DeadLetter(d usecase.DeadLetter) (usecase.OutboxMessage, error) {
	return usecase.OutboxMessage{
		EventType: "DeadLetter", Topic: "billing.order-confirmed.dlq", Key: d.Key, Value: d.Value,
		Headers: append([]usecase.Header{{Key: "dlq-reason", Value: []byte(d.Reason)}}, d.Headers...),
	}, nil
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// idAt makes a UUID v7 of an instant.
func idAt(at time.Time) uuid.UUID {
	id, bound := newID(), domain.IDBound(at)
	copy(id[:6], bound[:6])
	return id
}

func orderOf(id string) domain.Order {
	return domain.Order{OrderID: id, CustomerID: "c-" + id, Amount: domain.Money{Minor: 150000, Currency: "RUB"}}
}

// event is the delivery of a new event for an order.
func event(order string) usecase.Delivery { return eventOf(newID(), orderOf(order)) }

func eventOf(id uuid.UUID, order domain.Order) usecase.Delivery {
	return usecase.Delivery{
		Kind: usecase.KindEvent, Event: domain.OrderConfirmed{EventID: id, Order: order},
		EventID: uuid.NullUUID{UUID: id, Valid: true},
		Message: usecase.Message{Key: []byte(order.OrderID), Value: []byte("value of " + id.String())},
	}
}

// reader is one partition of one group, as its owner sees it.
type reader struct {
	env
	src  usecase.Source
	next int64
	// below marks offsets that a restored database reads again.
	below int64
}

// reader makes the row of a partition and returns its owner.
func (e env) reader(t *testing.T, group string, partition int32) *reader {
	t.Helper()
	src := usecase.Source{ClusterID: "cluster", Group: group, Topic: topic, Partition: partition}
	if err := e.store.PutPosition(t.Context(), src, usecase.Position{}); err != nil {
		t.Fatal(err)
	}
	return &reader{env: e, src: src}
}

// chunk is one try to write deliveries, with offsets from the position on.
func (r *reader) chunk(ctx context.Context, deliveries ...usecase.Delivery) (usecase.Counts, int, error) {
	for i := range deliveries {
		d := &deliveries[i]
		d.Message.Offset = r.next + int64(i)
		if d.Message.Time.IsZero() {
			d.Message.Time = time.UnixMilli(1_700_000_000_000 + d.Message.Offset)
		}
		d.Origin = usecase.Origin{Topic: r.src.Topic, Partition: r.src.Partition, Offset: d.Message.Offset, Time: d.Message.Time}
	}
	next, counts, err := r.accept.Chunk(ctx, r.src, r.next, r.next+int64(len(deliveries)), r.below, deliveries)
	if err != nil {
		return counts, 0, err //nolint:wrapcheck // a test
	}
	taken := int(next - r.next)
	r.next = next
	return counts, taken, nil
}

// take writes all deliveries, chunk by chunk, and repeats what lost a race.
func (r *reader) take(t *testing.T, deliveries ...usecase.Delivery) usecase.Counts {
	t.Helper()
	sum, err := r.takeAll(t.Context(), deliveries)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func (r *reader) takeAll(ctx context.Context, deliveries []usecase.Delivery) (usecase.Counts, error) {
	sum := usecase.Counts{DeadLetters: map[domain.Reason]int{}}
	for len(deliveries) > 0 {
		counts, taken, err := r.chunk(ctx, deliveries...)
		if errors.Is(err, domain.ErrRetry) {
			sum.Retries++
			continue
		}
		if err != nil {
			return sum, err
		}
		sum.Accepted += counts.Accepted
		sum.Duplicates += counts.Duplicates
		for reason, n := range counts.DeadLetters {
			sum.DeadLetters[reason] += n
		}
		deliveries = deliveries[taken:]
	}
	return sum, nil
}

// want compares the counts that matter.
func want(t *testing.T, got usecase.Counts, accepted, duplicates int, letters ...domain.Reason) {
	t.Helper()
	expected := map[domain.Reason]int{}
	for _, reason := range letters {
		expected[reason]++
	}
	if got.Accepted != accepted || got.Duplicates != duplicates || fmt.Sprint(got.DeadLetters) != fmt.Sprint(expected) {
		t.Fatalf("accepted %d, duplicates %d, dead letters %v; want %d, %d, %v", got.Accepted, got.Duplicates, got.DeadLetters, accepted, duplicates, expected)
	}
}

// count fails unless the query returns n.
func (e env) count(t *testing.T, n int, sql string, args ...any) {
	t.Helper()
	if got := e.db.Count(t, sql, args...); got != n {
		t.Fatalf("%d, want %d: %s %v", got, n, sql, args)
	}
}

// text is a single value as text, NULL for null.
func (e env) text(t *testing.T, sql string, args ...any) string {
	t.Helper()
	v := testkit.Value[*string](t, e.db, "SELECT ("+sql+")::text", args...)
	if v == nil {
		return "NULL"
	}
	return *v
}

// eventually waits until ok, as long as the test may take.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// waiting is how many of the test's sessions wait for a lock.
func (e env) waiting(t *testing.T) int {
	t.Helper()
	return e.db.Count(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
}
