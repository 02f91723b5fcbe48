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

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

var byTest = usecase.By{Actor: "ann", Reason: "ticket 17"}

// letterOf is a delivery that was refused for a reason, whose bytes the decoder of these tests reads as an event.
func letterOf(reason domain.Reason, e domain.OrderConfirmed) usecase.Delivery {
	d := refused(reason)
	d.EventID = uuid.NullUUID{UUID: e.EventID, Valid: true}
	d.Message = usecase.Message{
		Key:     []byte(e.Order.OrderID),
		Value:   fmt.Appendf(nil, "%s %s %s %d", e.EventID, e.Order.OrderID, e.Order.CustomerID, e.Order.Amount.Minor),
		Headers: []usecase.Header{{Key: "traceparent", Value: []byte(trace)}},
	}
	return d
}

func decodeTest(topic string, partition int32, m usecase.Message) usecase.Delivery {
	d := usecase.Delivery{Message: m, Kind: usecase.KindRefused, Refusal: domain.Refuse(domain.ReasonInvalidJSON, "still not readable")}
	d.Origin = usecase.Origin{Topic: topic, Partition: partition, Offset: m.Offset, Time: m.Time}
	parts := strings.Fields(string(m.Value))
	if len(parts) != 4 {
		return d
	}
	d.Kind, d.Refusal, d.Traceparent = usecase.KindEvent, nil, string(m.Headers[0].Value)
	d.Event.EventID = uuid.FromStringOrNil(parts[0])
	d.Event.Order = domain.Order{OrderID: parts[1], CustomerID: parts[2], Amount: domain.Money{Currency: "RUB"}}
	_, _ = fmt.Sscan(parts[3], &d.Event.Order.Amount.Minor)
	return d
}

func (e env) replay() usecase.Replay {
	return usecase.Replay{Desk: e.store, Decode: decodeTest, Codec: codec{}, Limits: limits, Timeout: time.Minute}
}

func confirmed(order string) domain.OrderConfirmed {
	return domain.OrderConfirmed{EventID: newID(), Order: orderOf(order)}
}

// open returns the ids of the open letters.
func (e env) open(t *testing.T) []int64 {
	t.Helper()
	ids, _, err := e.store.OpenLetters(t.Context(), usecase.LetterFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func (e env) replayOne(t *testing.T, r usecase.Replay, id int64) usecase.ReplayResult {
	t.Helper()
	result, err := r.Do(t.Context(), id, byTest)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// everything is all that replaying may touch, to compare before and after.
const everything = `SELECT concat((SELECT count(*) FROM charge), ' charges, ', (SELECT count(*) FROM outbox), ' in the outbox, ',
	(SELECT count(*) FROM processed_event), ' in the inbox, ', (SELECT string_agg(status, ' ' ORDER BY id) FROM dead_letter))`

func TestReplayedLetterIsAChargeLikeAnyOther(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	event := confirmed("o-1")
	want(t, e.reader(t, group, 0).take(t, letterOf(domain.ReasonUnsupportedEventType, event)), 0, 0, domain.ReasonUnsupportedEventType)
	id := e.open(t)[0]
	dry := e.replay()
	dry.DryRun = true
	before := e.text(t, everything)
	if got := e.replayOne(t, dry, id); !got.Accepted || got.Status != usecase.LetterOpen || e.text(t, everything) != before {
		t.Fatalf("a dry run: %+v, %s", got, e.text(t, everything))
	}
	if got := e.replayOne(t, e.replay(), id); !got.Accepted || got.Status != usecase.LetterReplayed || got.Charge.UUID != event.EventID {
		t.Fatalf("%+v", got)
	}
	e.count(t, 1, `SELECT count(*) FROM charge c JOIN outbox o USING (event_id) JOIN processed_event p USING (event_id)
		WHERE o.channel = 'provider' AND c.status = 'requested' AND c.first_sent_at IS NULL AND o.headers[2] = convert_to($1, 'UTF8') AND p.consumer_group = $2`, trace, group)
	e.count(t, 1, "SELECT count(*) FROM dead_letter WHERE status = 'replayed' AND resolved_by = 'ann' AND resolved_reason = 'ticket 17' AND resolved_at IS NOT NULL")
	before = e.text(t, everything)
	if got := e.replayOne(t, e.replay(), id); got.Accepted || got.Status != usecase.LetterReplayed || e.text(t, everything) != before {
		t.Fatalf("a second time: %+v, %s", got, e.text(t, everything))
	}
}

func TestLetterThatBecomesNoChargeStaysOpenAndSaysWhy(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	known, other, old := event("o-1"), event("o-2"), confirmed("o-3")
	want(t, r.take(t, known, other), 2, 0)
	old.EventID = idAt(time.Now().Add(-limits.Retention - time.Hour))
	ahead := confirmed("o-4")
	ahead.EventID = idAt(time.Now().Add(limits.Skew + time.Hour))
	second := domain.OrderConfirmed{EventID: newID(), Order: other.Event.Order}
	richer := domain.OrderConfirmed{EventID: newID(), Order: other.Event.Order}
	richer.Order.Amount.Minor++
	conflict := domain.OrderConfirmed{EventID: known.Event.EventID, Order: orderOf("o-9")}
	card := letterOf(domain.ReasonInvalidField, confirmed("o-5"))
	card.Message.Headers = append(card.Message.Headers, usecase.Header{Key: "note", Value: []byte("4111 1111 1111 1111")})
	tests := []struct {
		letter usecase.Delivery
		why    string
	}{
		{letterOf(domain.ReasonUnsupportedEventType, known.Event), "duplicate: the event was accepted before"},
		{letterOf(domain.ReasonUnsupportedEventType, second), "duplicate: its order has this charge"},
		{letterOf(domain.ReasonUnsupportedEventType, richer), "refused again: order_already_charged"},
		{letterOf(domain.ReasonUnsupportedEventType, conflict), "refused again: event_id_conflict"},
		{letterOf(domain.ReasonEventTooOld, old), "--accept-old"},
		{letterOf(domain.ReasonEventFromFuture, ahead), "refused again: event_from_future"},
		{refused(domain.ReasonInvalidJSON), "refused again: invalid_json"},
		{card, "masked"},
	}
	for _, test := range tests {
		r.take(t, test.letter)
	}
	before := e.text(t, everything)
	for i, id := range e.open(t) {
		if got := e.replayOne(t, e.replay(), id); got.Accepted || got.Status != usecase.LetterOpen || !strings.Contains(got.Why, tests[i].why) {
			t.Errorf("%+v, want %s", got, tests[i].why)
		}
	}
	if after := e.text(t, everything); after != before {
		t.Errorf("%s, was %s", after, before)
	}
	if _, err := e.replay().Do(t.Context(), 1<<40, byTest); !errors.Is(err, usecase.ErrNoLetter) {
		t.Error(err)
	}
	if _, err := e.replay().Do(t.Context(), e.open(t)[0], usecase.By{}); err == nil {
		t.Error("nobody answers for it")
	}
}

func TestOldEventIsChargedOnlyWhenAskedAndOnlyOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	old := confirmed("o-1")
	old.EventID = idAt(time.Now().Add(-limits.Retention - 40*24*time.Hour)) // its day has no partition
	again := domain.OrderConfirmed{EventID: idAt(time.Now().Add(-limits.Retention - 24*time.Hour)), Order: old.Order}
	for _, event := range []domain.OrderConfirmed{old, old, again} {
		r.take(t, letterOf(domain.ReasonEventTooOld, event))
	}
	replay := e.replay()
	replay.AcceptOld = true
	accepted := 0
	for _, id := range e.open(t) {
		if e.replayOne(t, replay, id).Accepted {
			accepted++
		}
	}
	if accepted != 1 {
		t.Errorf("%d were accepted", accepted)
	}
	e.count(t, 1, "SELECT count(*) FROM charge c JOIN outbox o USING (event_id) WHERE o.channel = 'provider'")
	e.count(t, 0, "SELECT count(*) FROM processed_event")
	// The audit knows such charges, also when a longer retention makes their days anew.
	e.db.Exec(t, "SELECT billing_create_partitions('60 days', '1 day') FROM generate_series(1, 70)")
	e.count(t, 1, "SELECT count(*) FROM charge_event WHERE type = 'ChargeAcceptedOld' AND version IS NULL AND actor = 'ann'")
	for _, retention := range []time.Duration{limits.Retention, 60 * 24 * time.Hour} {
		report, err := usecase.Audit{
			Store: e.store, PageRows: 100, Timeout: time.Minute, Keep: 5, Limits: usecase.AuditLimits{Grace: -time.Minute, Retention: retention},
		}.Run(t.Context())
		if err != nil || report.Total() != 0 {
			t.Errorf("%v findings with a retention of %s: %v", report.Counts(), retention, err)
		}
	}
}

func TestRestoredDatabaseLooksBeforeItSendsAReplayedCharge(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	event := confirmed("o-1")
	event.EventID = idAt(time.Now().Add(-time.Hour))
	e.reader(t, group, 0).take(t, letterOf(domain.ReasonUnsupportedEventType, event))
	if err := e.store.MarkHistoryLost(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	e.replayOne(t, e.replay(), e.open(t)[0])
	e.count(t, 1, "SELECT count(*) FROM charge WHERE first_sent_at < now() - interval '59 minutes'")
}

func TestRacingReplaysOfOneOrderMakeOneCharge(t *testing.T) {
	t.Parallel()
	e := newEnvWith(t, 16)
	r := e.reader(t, group, 0)
	event := confirmed("o-1")
	for range 4 {
		r.take(t, letterOf(domain.ReasonUnsupportedEventType, event))
		r.take(t, letterOf(domain.ReasonUnsupportedEventType, domain.OrderConfirmed{EventID: newID(), Order: event.Order}))
	}
	ids := e.open(t)
	var wg sync.WaitGroup
	results := make([]usecase.ReplayResult, 3*len(ids))
	errs := make([]error, len(results))
	for i := range results {
		wg.Go(func() { results[i], errs[i] = e.replay().Do(t.Context(), ids[i%len(ids)], byTest) })
	}
	wg.Wait()
	accepted := 0
	for i := range results {
		if errs[i] != nil {
			t.Error(errs[i])
		}
		if results[i].Accepted {
			accepted++
		}
	}
	if accepted != 1 {
		t.Errorf("%d replays were accepted", accepted)
	}
	e.count(t, 1, "SELECT count(*) FROM charge")
	e.count(t, 1, "SELECT count(*) FROM outbox WHERE channel = 'provider'")
	e.count(t, 1, "SELECT count(*) FROM processed_event")
	e.count(t, 1, "SELECT count(*) FROM dead_letter WHERE status = 'replayed'")
}

func TestInterruptedReplayLeavesTheLetterOpen(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.reader(t, group, 0).take(t, letterOf(domain.ReasonUnsupportedEventType, confirmed("o-1")))
	id := e.open(t)[0]
	for _, step := range []string{"decode", "request"} {
		ctx, cancel := context.WithCancel(t.Context())
		replay := e.replay()
		replay.Decode = func(topic string, partition int32, m usecase.Message) usecase.Delivery {
			if step == "decode" {
				cancel()
			}
			return decodeTest(topic, partition, m)
		}
		replay.Codec = cancellingCodec{cancel: cancel}
		if _, err := replay.Do(ctx, id, byTest); err == nil {
			t.Errorf("%s: was not interrupted", step)
		}
		cancel()
		e.count(t, 0, "SELECT count(*) FROM charge")
		e.count(t, 1, "SELECT count(*) FROM dead_letter WHERE status = 'open'")
	}
	if !e.replayOne(t, e.replay(), id).Accepted {
		t.Error("the letter cannot be replayed any more")
	}
}

type cancellingCodec struct {
	codec
	cancel func()
}

func (c cancellingCodec) Request(o domain.Order) ([]byte, error) {
	c.cancel()
	return c.codec.Request(o)
}

func TestDiscardedLetterIsNotReplayed(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.reader(t, group, 0).take(t, letterOf(domain.ReasonUnsupportedEventType, confirmed("o-1")))
	id := e.open(t)[0]
	if got, err := e.replay().Discard(t.Context(), id, byTest); err != nil || got.Status != usecase.LetterDiscarded {
		t.Fatalf("%+v: %v", got, err)
	}
	if got := e.replayOne(t, e.replay(), id); got.Accepted || got.Status != usecase.LetterDiscarded {
		t.Errorf("%+v", got)
	}
	if got, err := e.replay().Discard(t.Context(), id, byTest); err != nil || got.Why != "it is discarded already" {
		t.Errorf("%+v: %v", got, err)
	}
	e.count(t, 0, "SELECT count(*) FROM charge")
}

func TestListsOfDeadLettersObeyTheirFilters(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	r.take(t, refused(domain.ReasonInvalidJSON), refused(domain.ReasonMissingField), refused(domain.ReasonInvalidJSON))
	e.db.Exec(t, "UPDATE dead_letter SET created_at = created_at - interval '1 day', status = 'discarded', resolved_at = now() WHERE id = (SELECT min(id) FROM dead_letter)")
	for n, f := range map[int]usecase.LetterFilter{
		3: {Limit: 10},
		2: {Limit: 10, Status: usecase.LetterOpen},
		1: {Limit: 10, Reason: domain.ReasonInvalidJSON, Since: time.Now().Add(-time.Hour), Topic: topic},
		0: {Limit: 10, Topic: "other"},
	} {
		if list, err := e.store.ListLetters(t.Context(), f); err != nil || len(list) != n {
			t.Errorf("%d letters, want %d: %v", len(list), n, err)
		}
	}
	if ids, total, err := e.store.OpenLetters(t.Context(), usecase.LetterFilter{Limit: 1}); err != nil || len(ids) != 1 || total != 2 {
		t.Errorf("%d of %d: %v", len(ids), total, err)
	}
	groups, err := e.store.GroupLetters(t.Context(), usecase.LetterFilter{Limit: 10})
	if err != nil || len(groups) != 3 || groups[2].N != 1 || groups[0].Hour.Before(groups[2].Hour) {
		t.Errorf("%+v: %v", groups, err)
	}
}

// A card number is masked in everything that is stored of a refused message, and nowhere is it in clear.
func TestCardNumbersOfRefusedMessagesAreNotStored(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const pan = "4111111111111111"
	d := refused(domain.ReasonInvalidField)
	d.Message = usecase.Message{Key: []byte(pan), Value: []byte(`{"card":` + pan + `}`), Headers: []usecase.Header{{Key: pan, Value: []byte("4111-1111-1111-1111")}}}
	e.reader(t, group, 0).take(t, d)
	for _, text := range []string{
		"SELECT string_agg(d::text || convert_from(key, 'UTF8') || convert_from(value, 'UTF8') || convert_from(headers[1], 'UTF8') || convert_from(headers[2], 'UTF8'), '') FROM dead_letter d",
		"SELECT string_agg(convert_from(msg_key, 'UTF8') || convert_from(payload, 'UTF8') || (SELECT string_agg(convert_from(h, 'UTF8'), ' ') FROM unnest(headers) h), '') FROM outbox",
	} {
		if got := e.text(t, text); strings.Contains(got, "4111") || !strings.Contains(got, "****************") {
			t.Error(got)
		}
	}
	e.count(t, 1, "SELECT count(*) FROM dead_letter WHERE masked")
	// The ids of a well-formed order stay, whatever their digits: they are those of a charge.
	known, digits := event("o-1"), confirmed(pan)
	r := e.reader(t, group, 1)
	r.take(t, known)
	conflict := eventOf(known.Event.EventID, digits.Order)
	conflict.Message.Value = []byte("order " + pan)
	want(t, r.take(t, conflict), 0, 0, domain.ReasonEventIDConflict)
	e.count(t, 1, "SELECT count(*) FROM dead_letter WHERE NOT masked AND convert_from(value, 'UTF8') = $1", "order "+pan)
}
