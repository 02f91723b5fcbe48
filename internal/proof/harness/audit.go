package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"billing/internal/paysim"
)

// findings are what is wrong, by kind.
type findings struct {
	count    map[string]int
	examples []string
}

func (f *findings) add(kind, format string, args ...any) {
	if f.count == nil {
		f.count = map[string]int{}
	}
	if f.count[kind]++; f.count[kind] <= 3 {
		f.examples = append(f.examples, kind+": "+fmt.Sprintf(format, args...))
	}
}

func (f *findings) total() (n int) {
	for _, c := range f.count {
		n += c
	}
	return n
}

// judge compares the witnesses. restored says that the database was put back: attempts and announcements
// of before are not in it then.
func (r *rig) judge(f *facts, restored bool) findings {
	var out findings
	for _, order := range f.provider.DoubleCharged() {
		out.add("double", "order %s was charged %d times", order, len(f.provider.EffectsByOrder[order]))
	}
	for _, key := range f.provider.ReusedKeys() {
		out.add("identity", "key %s came with different bytes", key)
	}
	for _, at := range f.unknown {
		out.add("harness", "message %v was produced by nobody", at)
	}
	r.judgeEntries(f, &out)
	r.judgeCharges(f, restored, &out)
	r.judgeEffects(f, &out)
	r.judgeLetters(f, restored, &out)
	r.judgePosts(f, &out)
	if !restored {
		r.judgeRequests(f, &out)
	}
	return out
}

// judgeEntries asks of every message that lies in the topic how it ended, and whether every acknowledged
// one lies there.
func (r *rig) judgeEntries(f *facts, out *findings) {
	declined := f.declinedOrders()
	for _, e := range f.entries {
		places := f.places[e]
		if e.acked.Load() && len(places) == 0 {
			out.add("broker", "an acknowledged message of order %s is not in the topic", e.Order)
		}
		for _, at := range places {
			r.judgeMessage(f, e, at, declined[e.Order], out)
		}
	}
}

func (r *rig) judgeMessage(f *facts, e *entry, at place, declined bool, out *findings) {
	reason, refused := f.letters[at]
	_, charged := f.charges[e.Event]
	of, duplicate := f.duplicates[e.Event]
	switch e.Kind {
	case first, redelivery:
		if !charged {
			out.add("lost", "%s %s of order %s is no charge", e.Kind, e.Event, e.Order)
		}
		if refused {
			out.add("refused", "%s of order %s was refused as %s", e.Kind, e.Order, reason)
		}
	case secondSame:
		// After a decline another amount may have taken the order: then this event is refused.
		taken := declined && (charged || reason == "order_already_charged")
		if !duplicate && !taken {
			out.add("lost", "the second event %s of order %s is neither duplicate nor charge", e.Event, e.Order)
		}
	case secondOther:
		// After a decline an earlier event with this other amount may have taken the order: then this one is its duplicate.
		c := f.charges[of]
		same := duplicate && declined && c.order == e.Order && c.amount == e.Amount && c.status != "declined"
		if reason != "order_already_charged" && (!charged || !declined) && !same {
			out.add("lost", "the second event %s of order %s with another amount: %q", e.Event, e.Order, reason)
		}
	case conflict, malformed:
		if reason != e.Reason {
			out.add("lost", "message %v (%s) has dead letter %q, want %q", at, e.Kind, reason, e.Reason)
		}
	}
}

var announcedAs = map[string]string{
	"succeeded": "ChargeSucceeded", "declined": "ChargeDeclined", "parked": "ChargeParked", "cancelled": "ChargeCancelled",
}

// judgeCharges asks of every charge whether it ended, as the provider says, and whether the world was told.
func (r *rig) judgeCharges(f *facts, restored bool, out *findings) {
	second := map[string]bool{}
	for _, e := range f.entries {
		second[e.Event] = second[e.Event] || e.Kind == secondSame || e.Kind == secondOther
	}
	for id, c := range f.charges {
		taken, refused := 0, 0
		for _, e := range f.provider.EffectsByKey[id] {
			if e.Status == paysim.Succeeded {
				taken++
			} else {
				refused++
			}
		}
		switch {
		case c.status == "requested":
			out.add("stuck", "charge %s of order %s still waits", id, c.order)
			continue
		case c.status == "succeeded" && taken != 1, c.status == "declined" && (refused != 1 || taken != 0):
			out.add("lost", "charge %s is %s, and the provider took money %d times and declined %d times", id, c.status, taken, refused)
		case c.status == "parked" && restored && second[id] && taken+refused == 0:
			// It follows a declined charge, and the provider does not know it: the lost history may have refused it.
		case c.status == "parked" && !strings.HasPrefix(c.order, silentPrefix) && (!r.o.Quick || taken+refused > 0):
			// In the short form half of the key window is shorter than two deaths of an owner.
			out.add("stuck", "charge %s of order %s is parked", id, c.order)
		}
		r.judgeTold(f.told[id], id, c, restored, out)
	}
	for source, all := range f.told {
		if _, ok := f.charges[source]; !ok {
			out.add("lost", "order %s was announced as %s of a charge that does not exist", all[0].Order, all[0].Type)
		}
	}
}

// judgeTold asks whether announcements are complete, in order, and say what is true. The same one may come
// twice; two of one version may not.
func (r *rig) judgeTold(all []told, id string, c charge, restored bool, out *findings) {
	byVersion := map[int]string{}
	last := told{}
	for _, t := range all {
		if known, ok := byVersion[t.Version]; ok && known != t.ID && !restored {
			out.add("identity", "version %d of charge %s was announced as %s and as %s", t.Version, id, known, t.ID)
		}
		if _, again := byVersion[t.Version]; !again && t.Version != len(byVersion)+1 {
			out.add("order", "version %d of charge %s was announced after %d others", t.Version, id, len(byVersion))
		}
		byVersion[t.Version] = t.ID
		if t.Version >= last.Version {
			last = t
		}
		if t.Order != c.order || t.Customer != c.customer || t.Amount != c.amount || t.Currency != c.currency {
			out.add("amount", "charge %s of %d for order %s was announced as %+v", id, c.amount, c.order, t)
		}
	}
	if last.Type != announcedAs[c.status] {
		out.add("unannounced", "charge %s is %s, announced last as %q", id, c.status, last.Type)
	}
	if c.status == "succeeded" && last.Ref != nil && c.ref != nil && *last.Ref != *c.ref {
		out.add("identity", "charge %s has reference %s, announced as %s", id, *c.ref, *last.Ref)
	}
}

// judgeEffects asks of everything that the provider did whether somebody ordered exactly that.
func (r *rig) judgeEffects(f *facts, out *findings) {
	for key, effects := range f.provider.EffectsByKey {
		c, ok := f.charges[key]
		for _, e := range effects {
			switch {
			case !ok:
				out.add("identity", "the provider has an effect for order %s under key %s, which is no charge", e.OrderID, key)
			case e.OrderID != c.order || e.Amount != c.amount || e.Currency != c.currency || e.CustomerID != c.customer:
				out.add("amount", "charge %s of %d for order %s: the provider took %d for %s", key, c.amount, c.order, e.Amount, e.OrderID)
			case e.Status == paysim.Succeeded && c.status != "succeeded":
				out.add("lost", "the provider took money for charge %s, which is %s", key, c.status)
			}
		}
	}
}

// declinedOrders are the orders with a declined charge, which may have been charged again.
func (f *facts) declinedOrders() map[string]bool {
	declined := map[string]bool{}
	for _, c := range f.charges {
		if c.status == "declined" {
			declined[c.order] = true
		}
	}
	return declined
}

// judgeLetters asks whether only what had to be refused was refused, and whether the copies agree.
func (r *rig) judgeLetters(f *facts, restored bool, out *findings) {
	explained, again, declined := map[place]bool{}, map[place]bool{}, f.declinedOrders()
	for _, e := range f.entries {
		_, charged := f.charges[e.Event]
		for _, at := range f.places[e] {
			second := e.Kind == secondOther || e.Kind == secondSame && declined[e.Order]
			explained[at] = e.Kind == conflict || e.Kind == malformed || second
			// The lost history refused it while the order's first charge was open, which is declined now.
			again[at] = second && charged && declined[e.Order]
		}
	}
	for at, reason := range f.letters {
		if !explained[at] {
			out.add("refused", "message %v was refused as %s without need", at, reason)
		}
		if f.copies[at] != reason {
			out.add("unannounced", "the dead letter of message %v (%s) has the copy %q", at, reason, f.copies[at])
		}
	}
	for at, reason := range f.copies {
		if f.letters[at] != reason && (!restored || !again[at]) {
			out.add("identity", "the topic has a dead letter of message %v (%s) that the table does not have", at, reason)
		}
	}
}

// judgeRequests compares what was on the wire with the journal of attempts, and looks for requests after
// the key window.
func (r *rig) judgeRequests(f *facts, out *findings) {
	firstAt := map[string]time.Time{}
	for _, q := range f.requests {
		if q.Call != paysim.Charges {
			continue
		}
		if _, ok := firstAt[q.Key]; !ok {
			firstAt[q.Key] = q.Time
		}
		if q.Time.Sub(firstAt[q.Key]) > r.t.window/2+r.t.timeout+time.Second {
			out.add("window", "charge %s was posted again %s after its first request", q.Key, q.Time.Sub(firstAt[q.Key]).Round(time.Second))
		}
	}
	for key, n := range f.provider.RequestsByKey {
		if c := f.charges[key]; n < c.least || n > c.most {
			out.add("attempts", "charge %s: %d requests on the wire, its attempts say %d to %d", key, n, c.least, c.most)
		}
	}
	for id, c := range f.charges {
		if c.least > 0 && f.provider.RequestsByKey[id] == 0 {
			out.add("attempts", "charge %s has answers to requests that never were", id)
		}
	}
}

// judgeTables asks the tables alone for what must not be left.
func (r *rig) judgeTables(ctx context.Context, out *findings) error {
	for _, q := range []struct{ kind, what, sql string }{
		{"stuck", "rows wait in the outbox", "SELECT count(*) FROM outbox WHERE run_at < 'infinity'"},
		{"stuck", "attempts are open", "SELECT count(*) FROM charge_attempt WHERE outcome IS NULL"},
		{"unannounced", "announcements are not published", "SELECT count(*) FROM charge_event WHERE version IS NOT NULL AND published_at IS NULL"},
		{"unannounced", "dead letters are not published", "SELECT count(*) FROM dead_letter WHERE published_at IS NULL"},
		{"double", "orders have two live charges", "SELECT count(*) FROM (SELECT 1 FROM charge WHERE holds_order GROUP BY order_id HAVING count(*) > 1) x"},
		{"lease", "attempts were given up while their lease held", fmt.Sprintf(
			"SELECT count(*) FROM charge_attempt WHERE detail LIKE 'the process that made this attempt%%' AND finished_at < started_at + interval '%d milliseconds'",
			(r.t.lease - 500*time.Millisecond).Milliseconds())},
	} {
		n, err := r.count(ctx, q.sql)
		if err != nil {
			return err
		}
		if n > 0 {
			out.add(q.kind, "%d %s", n, q.what)
		}
	}
	return r.judgePositions(ctx, out)
}

// judgePositions: everything that was produced is read, in the database and in Kafka.
func (r *rig) judgePositions(ctx context.Context, out *findings) error {
	ends, err := endOffsets(ctx, r.admin, r.topic)
	if err != nil {
		return err
	}
	committed, err := committedOffsets(ctx, r.admin, r.group, r.topic)
	if err != nil {
		return err
	}
	for p, end := range ends {
		stored, err := r.count(ctx, "SELECT coalesce(max(next_offset), 0) FROM consumer_position WHERE topic = $1 AND partition = $2", r.topic, p)
		if err != nil {
			return err
		}
		if int64(stored) != end || (end > 0 && committed[p] != end) {
			out.add("stuck", "partition %d ends at %d, the database stands at %d, Kafka's offset at %d", p, end, stored, committed[p])
		}
	}
	return nil
}

func (f *findings) String() string {
	if f.total() == 0 {
		return "none"
	}
	parts := make([]string, 0, len(f.count))
	for _, kind := range sorted(f.count) {
		parts = append(parts, fmt.Sprintf("%s %d", kind, f.count[kind]))
	}
	slices.Sort(f.examples)
	return strings.Join(parts, ", ")
}
