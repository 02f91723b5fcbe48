//go:build mutants

package mutants

import (
	"context"
	"math/rand/v2"
	"os"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// mutant is what this process is; url is the database, for mutants that need SQL of their own. The
// variable is taken out of the environment, because the service refuses variables that it does not know.
var (
	mutant = os.Getenv("BILLING_MUTANT")
	url    = os.Getenv("BILLING_DATABASE_URL")
)

func init() { _ = os.Unsetenv("BILLING_MUTANT") } // fails for invalid names only

// is reports whether this process is the mutant.
func is(name string) bool { return mutant == name }

// pool connects for one statement that the service itself would never make.
func exec(ctx context.Context, sql string, args ...any) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, sql, args...)
	return err
}

// Inbox breaks the way in.
func Inbox(i usecase.Inbox) usecase.Inbox { return inbox{i} }

type inbox struct{ usecase.Inbox }

func (i inbox) Position(ctx context.Context, src usecase.Source) (usecase.Position, bool, error) {
	if is(PositionIgnored) {
		return usecase.Position{}, false, nil
	}
	return i.Inbox.Position(ctx, src)
}

func (i inbox) AcceptChunk(ctx context.Context, c usecase.Chunk, limits usecase.Limits) (usecase.Accepted, error) {
	switch {
	case is(DeadLetterLost):
		c.DeadLetters = nil
	case is(DedupOutside) && len(c.Events) > 0:
		return i.dedupFirst(ctx, c, limits)
	case is(FenceRemoved):
		_ = exec(ctx, `UPDATE consumer_position SET next_offset = $1 WHERE cluster_id = $2 AND consumer_group = $3 AND topic = $4 AND partition = $5 AND next_offset <> $1`,
			c.From, c.Source.ClusterID, c.Source.Group, c.Source.Topic, c.Source.Partition)
	}
	return i.Inbox.AcceptChunk(ctx, c, limits)
}

// dedupFirst commits what is seen, then charges what was new, as two transactions do.
func (i inbox) dedupFirst(ctx context.Context, c usecase.Chunk, limits usecase.Limits) (usecase.Accepted, error) {
	ids := make([]uuid.UUID, len(c.Events))
	prints := make([][]byte, len(c.Events))
	for n := range c.Events {
		f := c.Events[n].Event.Order.Fingerprint()
		ids[n], prints[n] = c.Events[n].Event.EventID, f[:]
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return usecase.Accepted{}, err
	}
	defer pool.Close()
	rows, err := pool.Query(ctx, `INSERT INTO processed_event (event_id, consumer_group, fingerprint)
		SELECT unnest($1::uuid[]), $2, unnest($3::bytea[]) ON CONFLICT DO NOTHING RETURNING event_id`, ids, c.Source.Group, prints)
	if err != nil {
		return usecase.Accepted{}, err
	}
	fresh := map[uuid.UUID]bool{}
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			return usecase.Accepted{}, err
		}
		fresh[id] = true
	}
	if rows.Err() != nil {
		return usecase.Accepted{}, rows.Err()
	}
	time.Sleep(20 * time.Millisecond) // what a second transaction takes under load
	for n := range c.Events {
		e := &c.Events[n]
		if !fresh[e.Event.EventID] {
			continue
		}
		o := e.Event.Order
		if _, err := pool.Exec(ctx, `WITH c AS (INSERT INTO charge (event_id, order_id, customer_id, amount_minor, currency, source)
			VALUES ($1, $2, $3, $4, $5, 'kafka') ON CONFLICT DO NOTHING RETURNING event_id)
			INSERT INTO outbox (channel, event_type, event_id, payload, headers)
			SELECT 'provider', 'ChargeRequested', event_id, $6, ARRAY['traceparent'::bytea, convert_to($7, 'UTF8')] FROM c`,
			e.Event.EventID, o.OrderID, o.CustomerID, o.Amount.Minor, o.Amount.Currency, e.Request, e.Traceparent); err != nil {
			return usecase.Accepted{}, err
		}
	}
	accepted := usecase.Accepted{Charged: make([]bool, len(c.Events)), Now: time.Now()}
	for n := range c.Events {
		accepted.Charged[n] = fresh[c.Events[n].Event.EventID]
	}
	c.Events = nil
	_, err = i.Inbox.AcceptChunk(ctx, c, limits)
	return accepted, err
}

func (i inbox) InTx(ctx context.Context, fn func(ctx context.Context, tx usecase.AcceptTx) error) error {
	return i.Inbox.InTx(ctx, func(ctx context.Context, tx usecase.AcceptTx) error { return fn(ctx, acceptTx{tx}) })
}

type acceptTx struct{ usecase.AcceptTx }

func (t acceptTx) PutDeadLetters(ctx context.Context, letters []usecase.DeadLetter) error {
	if is(DeadLetterLost) {
		return nil
	}
	return t.AcceptTx.PutDeadLetters(ctx, letters)
}

// Log breaks the order of the two commits.
func Log(l usecase.PartitionLog) usecase.PartitionLog { return partitionLog{l} }

type partitionLog struct{ usecase.PartitionLog }

func (l partitionLog) Fetch(ctx context.Context, offset int64) (usecase.Fetched, error) {
	fetched, err := l.PartitionLog.Fetch(ctx, offset)
	if err == nil && is(OffsetFirst) && len(fetched.Deliveries) > 0 {
		if err := l.PartitionLog.Commit(ctx, fetched.Next); err != nil {
			return fetched, err
		}
	}
	return fetched, err
}

// Charges breaks claim and settle.
func Charges(q usecase.ChargeQueue) usecase.ChargeQueue { return charges{q} }

type charges struct{ usecase.ChargeQueue }

func (q charges) ClaimCharges(ctx context.Context, n int, rules usecase.ClaimRules) ([]usecase.Claim, error) {
	switch {
	case is(LeaseIgnored) && rand.IntN(4) == 0:
		_ = exec(ctx, "UPDATE outbox SET run_at = clock_timestamp() WHERE channel = 'provider' AND status = 'PUBLISHING'")
	case is(WindowIgnored):
		rules.KeyWindow = 24 * time.Hour
	case is(ClaimsTwice):
		n = (n + 1) / 2
	}
	claims, err := q.ChargeQueue.ClaimCharges(ctx, n, rules)
	if is(ClaimsTwice) && n > 1 {
		claims = append(claims, claims...)
	}
	return claims, err
}

func (q charges) SettleCharges(ctx context.Context, batch []usecase.Settlement) (usecase.Settled, error) {
	if is(NotAnnounced) {
		for i := range batch {
			batch[i].Announcement = nil
		}
	}
	return q.ChargeQueue.SettleCharges(ctx, batch)
}

// Messages breaks the relay's queue.
func Messages(q usecase.MessageQueue) usecase.MessageQueue { return messages{q} }

type messages struct{ usecase.MessageQueue }

func (q messages) ClaimMessages(ctx context.Context, n int, lease time.Duration) ([]usecase.OutboxMessage, error) {
	claimed, err := q.MessageQueue.ClaimMessages(ctx, n, lease)
	if err == nil && is(AckFirst) && len(claimed) > 0 {
		refs := make([]usecase.MessageRef, len(claimed))
		for i := range claimed {
			refs[i] = usecase.MessageRef{ID: claimed[i].ID, Attempt: claimed[i].Attempt}
		}
		if _, err := q.MessageQueue.AckMessages(ctx, refs); err != nil {
			return nil, err
		}
	}
	return claimed, err
}

// Publisher breaks what is known of a write.
func Publisher(p usecase.Publisher) usecase.Publisher { return publisher{p} }

type publisher struct{ usecase.Publisher }

func (p publisher) Publish(ctx context.Context, topic string, messages []usecase.OutboxMessage) []error {
	errs := p.Publisher.Publish(ctx, topic, messages)
	if is(FailedAcked) {
		clear(errs)
	}
	return errs
}

// Provider breaks the call to the provider.
func Provider(p usecase.Provider) usecase.Provider { return provider{p} }

type provider struct{ usecase.Provider }

func (p provider) Charge(ctx context.Context, key uuid.UUID, request []byte, order domain.Order, traceparent string) domain.Answer {
	switch {
	case is(NewKey):
		key = uuid.Must(uuid.NewV4())
	case is(BodyChanged):
		request = append([]byte{}, request...)
		for range rand.IntN(20) {
			request = append(request, ' ')
		}
	case is(GetBodyKept):
		return naive(ctx, key, request)
	}
	answer := p.Provider.Charge(ctx, key, request, order, traceparent)
	if answer.Outcome != domain.Unknown {
		return answer
	}
	switch {
	case is(UnknownDeclined):
		answer.Outcome = domain.Declined
	case is(TimeoutSucceeded):
		answer.Outcome = domain.Succeeded
	case is(TimeoutNotSent):
		answer.Outcome = domain.NotSent
	}
	return answer
}
