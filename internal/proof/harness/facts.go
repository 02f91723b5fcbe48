package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"billing/internal/paysim"
)

// place is where a message lies.
type place struct {
	partition int32
	offset    int64
}

// charge is a row of charge with what its attempts say.
type charge struct {
	order, customer, currency, status string
	amount                            int64
	ref                               *string
	firstSent                         *time.Time
	least, most                       int // requests that its attempts admit
}

// told is one announcement in the topic.
type told struct {
	ID       string  `json:"event_id"`
	Type     string  `json:"event_type"`
	Order    string  `json:"order_id"`
	Customer string  `json:"customer_id"`
	Source   string  `json:"source_event_id"`
	Amount   int64   `json:"amount"`
	Currency string  `json:"currency"`
	Ref      *string `json:"provider_ref"`
	Version  int     `json:"version"`
	at       place
}

// facts are what the four witnesses say.
type facts struct {
	entries []*entry
	places  map[*entry][]place // of the topic of orders
	unknown []place            // records that nobody produced

	provider paysim.Audit
	requests []paysim.Request

	told   map[string][]told // by charge, as they lie in the topic
	copies map[place]string  // dead letters in the topic: reason by place of the original

	charges    map[string]charge
	letters    map[place]string  // dead letters in the table
	duplicates map[string]string // of which charge an event is a duplicate
}

func (r *rig) gather(ctx context.Context) (*facts, error) {
	f := &facts{
		entries: r.journal.all(), places: map[*entry][]place{}, told: map[string][]told{}, copies: map[place]string{},
		charges: map[string]charge{}, letters: map[place]string{}, duplicates: map[string]string{},
	}
	journal := r.sim.Journal()
	f.provider, f.requests = journal.Audit(), journal.Requests
	for _, step := range []func(context.Context, *facts) error{r.gatherTopics, r.gatherCharges, r.gatherAttempts, r.gatherLetters, r.gatherDuplicates} {
		if err := step(ctx, f); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (r *rig) gatherTopics(ctx context.Context, f *facts) error {
	var broken error
	err := readTopic(ctx, r.broker, r.topic, func(record *kgo.Record) {
		at := place{record.Partition, record.Offset}
		for _, h := range record.Headers {
			if n, err := strconv.Atoi(string(h.Value)); h.Key == seqHeader && err == nil && n < len(f.entries) {
				f.places[f.entries[n]] = append(f.places[f.entries[n]], at)
				return
			}
		}
		f.unknown = append(f.unknown, at)
	})
	if err != nil {
		return err
	}
	err = readTopic(ctx, r.broker, r.results, func(record *kgo.Record) {
		t := told{at: place{record.Partition, record.Offset}}
		if err := json.Unmarshal(record.Value, &t); err != nil {
			broken = fmt.Errorf("read an announcement: %w", err)
		}
		f.told[t.Source] = append(f.told[t.Source], t)
	})
	if err != nil || broken != nil {
		return fmt.Errorf("read announcements: %w", firstOf(err, broken))
	}
	return readTopic(ctx, r.broker, r.letters, func(record *kgo.Record) {
		h := map[string]string{}
		for _, header := range record.Headers {
			h[header.Key] = string(header.Value)
		}
		partition, _ := strconv.Atoi(h["dlq-partition"])
		offset, _ := strconv.ParseInt(h["dlq-offset"], 10, 64)
		f.copies[place{int32(partition), offset}] = h["dlq-reason"]
	})
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) each(ctx context.Context, sql string, into []any, use func()) error {
	rows, err := r.pool.Query(ctx, sql)
	if err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	if _, err := pgx.ForEachRow(rows, into, func() error { use(); return nil }); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

func (r *rig) gatherCharges(ctx context.Context, f *facts) error {
	var id string
	var c charge
	return r.each(ctx, "SELECT event_id::text, order_id, customer_id, currency, status, amount_minor, provider_ref, first_sent_at FROM charge",
		[]any{&id, &c.order, &c.customer, &c.currency, &c.status, &c.amount, &c.ref, &c.firstSent}, func() { f.charges[id] = c })
}

// gatherAttempts counts for each charge how many requests there must and may have been: an attempt with an
// answer was on the wire, one that is unknown may have been, one that is not sent was not, but for a token
// that was refused.
func (r *rig) gatherAttempts(ctx context.Context, f *facts) error {
	var id string
	var least, most int
	return r.each(ctx, `SELECT event_id::text,
			count(*) FILTER (WHERE outcome IN ('succeeded', 'declined', 'pending', 'rejected') OR (outcome = 'unknown' AND http_status IS NOT NULL)),
			count(*) FILTER (WHERE outcome IS DISTINCT FROM 'not_sent' OR http_status IN (401, 403))
		FROM charge_attempt GROUP BY event_id`, []any{&id, &least, &most}, func() {
		c := f.charges[id]
		c.least, c.most = least, most
		f.charges[id] = c
	})
}

func (r *rig) gatherLetters(ctx context.Context, f *facts) error {
	var at place
	var reason string
	return r.each(ctx, `SELECT partition, "offset", reason FROM dead_letter`, []any{&at.partition, &at.offset, &reason}, func() { f.letters[at] = reason })
}

func (r *rig) gatherDuplicates(ctx context.Context, f *facts) error {
	var id, of string
	return r.each(ctx, "SELECT event_id::text, duplicate_of::text FROM processed_event WHERE duplicate_of IS NOT NULL", []any{&id, &of}, func() { f.duplicates[id] = of })
}
