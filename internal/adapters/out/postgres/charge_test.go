package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/testkit"
)

var rules = usecase.ClaimRules{Account: account, Lease: lease, KeyWindow: keyWindow}

// declineClaimed claims what is due and settles it as declined.
func (e env) declineClaimed(ctx context.Context) (int, error) {
	claims, err := e.store.ClaimCharges(ctx, 100, rules)
	if err != nil {
		return 0, err //nolint:wrapcheck // a test
	}
	batch := make([]usecase.Settlement, len(claims))
	for i, c := range claims {
		batch[i] = settlement(c, domain.Declined, domain.StatusDeclined)
	}
	_, err = e.settle.Do(ctx, batch)
	return len(claims), err //nolint:wrapcheck // a test
}

// settlement is what usecase.Send would make of an answer to c.
func settlement(c usecase.Claim, outcome domain.Outcome, status domain.Status) usecase.Settlement {
	s := usecase.Settlement{
		EventID: c.EventID, Attempt: c.Attempt, Journaled: c.Journaled, Outcome: outcome, LastOutcome: outcome,
		Status: status, Order: c.Order, Traceparent: c.Traceparent, Now: c.Now,
		ClearStamp: c.Stamped && outcome == domain.NotSent,
	}
	if status != domain.StatusRequested {
		s.Announcement = &domain.Announcement{
			ID: newID(), Type: status.Announcement(), OccurredAt: c.Now, Charge: c.EventID, Order: c.Order, Version: c.Version + 1,
		}
	}
	return s
}

// charge makes one charge that is due.
func (e env) charge(t *testing.T) uuid.UUID {
	t.Helper()
	return e.chargeAt(t, time.Now())
}

// chargeAt makes one charge whose id is of an instant.
func (e env) chargeAt(t *testing.T, at time.Time) uuid.UUID {
	t.Helper()
	id := idAt(at)
	want(t, e.reader(t, group, 1000).take(t, eventOf(id, orderOf(id.String()))), 1, 0)
	return id
}

// claim claims the one charge that is due.
func (e env) claim(t *testing.T) usecase.Claim { t.Helper(); return e.claimBy(t, rules) }

func (e env) claimBy(t *testing.T, rules usecase.ClaimRules) usecase.Claim {
	t.Helper()
	claims, err := e.store.ClaimCharges(t.Context(), 10, rules)
	if err != nil || len(claims) != 1 {
		t.Fatalf("%d claims: %v", len(claims), err)
	}
	return claims[0]
}

// nothingDue fails when a charge can be claimed.
func (e env) nothingDue(t *testing.T) {
	t.Helper()
	if claims, err := e.store.ClaimCharges(t.Context(), 10, rules); err != nil || len(claims) > 0 {
		t.Fatalf("%d claims: %v", len(claims), err)
	}
}

// expire ends every lease, and every pause.
func (e env) expire(t *testing.T) {
	t.Helper()
	e.db.Exec(t, "UPDATE outbox SET run_at = clock_timestamp() - interval '1 second' WHERE run_at < 'infinity'")
}

// write settles and checks how many claims no longer held.
func (e env) write(t *testing.T, fenced int, batch ...usecase.Settlement) usecase.SettleReport {
	t.Helper()
	report, err := e.settle.Do(t.Context(), batch)
	if err != nil || report.Fenced != fenced {
		t.Fatalf("%d fenced, want %d: %v", report.Fenced, fenced, err)
	}
	return report
}

// state is what the tables say of a charge: status, last outcome, version and its attempts.
func (e env) state(t *testing.T, id uuid.UUID) string {
	t.Helper()
	return e.text(t, `SELECT concat_ws(' ', status, coalesce(last_outcome, '-'), version, (SELECT string_agg(attempt || '=' || coalesce(outcome, 'open'), ',' ORDER BY attempt)
		FROM charge_attempt a WHERE a.event_id = c.event_id)) FROM charge c WHERE event_id = $1`, id)
}

func (e env) wantState(t *testing.T, id uuid.UUID, want string) {
	t.Helper()
	if got := e.state(t, id); got != want {
		t.Fatalf("%s, want %s", got, want)
	}
}

func TestClaimLeasesAndWritesTheAttemptBeforeTheRequest(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.reader(t, group, 0)
	d := event("o-1")
	d.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	want(t, r.take(t, d), 1, 0)
	c := e.claim(t)
	request, _ := codec{}.Request(d.Event.Order)
	if c.EventID != d.Event.EventID || c.Order != d.Event.Order || string(c.Request) != string(request) || c.Traceparent != d.Traceparent {
		t.Fatalf("%+v", c)
	}
	if c.Attempt != 1 || c.Step != usecase.StepPost || !c.Journaled || !c.Stamped || c.Reclaimed || c.HistoryLost || c.Tries != 1 || c.Version != 0 || c.LastOutcome != "" {
		t.Fatalf("%+v", c)
	}
	if c.PostFor != keyWindow/2 || c.Age != 0 || c.PendingFor != 0 || time.Since(c.Now).Abs() > time.Minute {
		t.Fatalf("%+v", c)
	}
	e.wantState(t, c.EventID, "requested - 0 1=open")
	e.count(t, 1, "SELECT count(*) FROM charge WHERE first_sent_at = $1 AND provider_account = $2 AND attempts = 1", c.Now, account)
	e.count(t, 1, "SELECT count(*) FROM outbox WHERE run_at BETWEEN now() + interval '25 seconds' AND now() + interval '30 seconds' AND attempt = 1")
	e.count(t, 1, "SELECT count(*) FROM outbox_state WHERE channel = 'provider' AND status = 'PUBLISHING' AND attempt = 1")
	e.nothingDue(t)
}

func TestOldestDueChargesAreClaimedFirst(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ids := make([]uuid.UUID, 5)
	for i := range ids {
		ids[i] = e.charge(t)
	}
	for i, id := range ids {
		e.db.Exec(t, "UPDATE outbox SET run_at = now() - make_interval(secs => $2) WHERE event_id = $1", id, i+1)
	}
	claims, err := e.store.ClaimCharges(t.Context(), 2, rules)
	if err != nil || len(claims) != 2 {
		t.Fatalf("%d claims: %v", len(claims), err)
	}
	for _, c := range claims {
		if c.EventID != ids[4] && c.EventID != ids[3] {
			t.Errorf("%s is not among the oldest", c.EventID)
		}
	}
	if claims, err := e.store.ClaimCharges(t.Context(), 0, rules); err != nil || len(claims) != 0 {
		t.Errorf("%d claims when none was asked for: %v", len(claims), err)
	}
}

func TestClaimersNeverShareACharge(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const n = 300
	deliveries := make([]usecase.Delivery, n)
	for i := range deliveries {
		deliveries[i] = event(fmt.Sprint("o-", i))
	}
	want(t, e.reader(t, group, 0).take(t, deliveries...), n, 0)
	var mu sync.Mutex
	seen := map[uuid.UUID]int{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				claims, err := e.store.ClaimCharges(t.Context(), 7, rules)
				if err != nil || len(claims) == 0 {
					if err != nil {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				for _, c := range claims {
					seen[c.EventID]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	e.count(t, n, "SELECT count(*) FROM charge_attempt WHERE attempt = 1")
	if len(seen) != n {
		t.Errorf("%d charges were claimed", len(seen))
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("%s was claimed %d times", id, times)
		}
	}
}

func TestSettledChargeIsAnnouncedOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, status := range []domain.Status{domain.StatusSucceeded, domain.StatusDeclined, domain.StatusParked} {
		id := e.charge(t)
		c := e.claim(t)
		s := settlement(c, map[domain.Status]domain.Outcome{domain.StatusSucceeded: domain.Succeeded, domain.StatusDeclined: domain.Declined, domain.StatusParked: domain.Rejected}[status], status)
		ref := ""
		s.ProviderRef, s.Reason, s.Code, s.Detail, s.HTTPStatus = &ref, "why", "code", "detail", 200
		if report := e.write(t, 0, s); report.ByStatus[status] != 1 || len(report.ByStatus) != 1 {
			t.Errorf("%+v", report)
		}
		e.wantState(t, id, fmt.Sprintf("%s %s 1 1=%s", status, s.Outcome, s.Outcome))
		e.count(t, 1, `SELECT count(*) FROM charge WHERE event_id = $1 AND reason = 'why' AND provider_ref = '' AND holds_order = (status <> 'declined')`, id)
		e.count(t, 1, `SELECT count(*) FROM charge_attempt WHERE event_id = $1 AND finished_at >= started_at AND http_status = 200 AND provider_code = 'code' AND provider_ref = '' AND detail = 'detail'`, id)
		e.count(t, 1, `SELECT count(*) FROM charge_event WHERE event_id = $1 AND version = 1 AND announcement_id = $2 AND type = $3 AND from_status = 'requested' AND to_status = $4
			AND reason = 'why' AND actor = 'billing' AND published_at IS NULL`, id, s.Announcement.ID, s.Announcement.Type, string(status))
		e.count(t, 1, `SELECT count(*) FROM outbox WHERE channel = 'kafka' AND event_id = $1 AND version = 1 AND event_type = $2 AND topic = 'billing.charge-results'`, id, s.Announcement.Type)
		// The answer of the commit was lost: the same again.
		e.write(t, 1, s)
		e.wantState(t, id, fmt.Sprintf("%s %s 1 1=%s", status, s.Outcome, s.Outcome))
		e.count(t, 1, "SELECT count(*) FROM outbox WHERE channel = 'kafka' AND event_id = $1", id)
		e.count(t, 1, "SELECT count(*) FROM charge_event WHERE event_id = $1", id)
	}
	e.count(t, 1, "SELECT count(*) FROM outbox WHERE channel = 'provider'") // of the parked one
	e.nothingDue(t)
}

func TestAnnouncementKeepsItsHeaders(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.charge(t)
	s := settlement(e.claim(t), domain.Succeeded, domain.StatusSucceeded)
	e.write(t, 0, s)
	expected, _ := codec{}.Announcement(*s.Announcement, s.Traceparent)
	messages, err := e.store.ClaimMessages(t.Context(), 10, lease)
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d messages: %v", len(messages), err)
	}
	m := messages[0]
	if m.Topic != expected.Topic || string(m.Key) != string(expected.Key) || string(m.Value) != string(expected.Value) || fmt.Sprint(m.Headers) != fmt.Sprint(expected.Headers) {
		t.Fatalf("%+v, want %+v", m, expected)
	}
}

func TestUnknownChargeIsDueAgainAfterItsDelay(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.charge(t)
	s := settlement(e.claim(t), domain.Unknown, domain.StatusRequested)
	s.Delay = time.Hour
	e.write(t, 0, s)
	e.wantState(t, id, "requested unknown 0 1=unknown")
	e.nothingDue(t)
	e.count(t, 1, "SELECT count(*) FROM outbox WHERE status = 'PENDING' AND run_at > now() + interval '59 minutes'")
	e.expire(t)
	c := e.claim(t)
	if c.Attempt != 2 || c.Step != usecase.StepPost || c.Stamped || c.Reclaimed || c.Tries != 2 || c.LastOutcome != domain.Unknown || c.PostFor > keyWindow/2 || c.Age <= 0 {
		t.Fatalf("%+v", c)
	}
}

func TestExpiredLeaseIsReclaimedAndItsAttemptClosed(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.charge(t)
	first := e.claim(t)
	e.expire(t)
	second := e.claim(t)
	if !second.Reclaimed || second.Attempt != 2 || second.Stamped || second.LastOutcome != domain.Unknown {
		t.Fatalf("%+v", second)
	}
	e.wantState(t, id, "requested unknown 0 1=unknown,2=open")
	// The former owner's decline or failure is journalled and changes nothing else.
	decline := settlement(first, domain.Declined, domain.StatusDeclined)
	decline.HTTPStatus = 402
	e.write(t, 1, decline)
	e.wantState(t, id, "requested unknown 0 1=declined,2=open")
	e.write(t, 0, settlement(second, domain.Succeeded, domain.StatusSucceeded))
	e.wantState(t, id, "succeeded succeeded 1 1=declined,2=succeeded")
}

func TestLateSuccessSettlesWhateverTheClaim(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		meanwhile func(t *testing.T, e env)
		want      string
		events    int
	}{
		"claimed by another, who died": {func(t *testing.T, e env) { t.Helper(); e.claim(t) }, "succeeded succeeded 1 1=succeeded,2=unknown", 1},
		"waiting": {func(t *testing.T, e env) {
			t.Helper()
			e.write(t, 0, settlement(e.claim(t), domain.Unknown, domain.StatusRequested))
		}, "succeeded succeeded 1 1=succeeded,2=unknown", 1},
		"parked": {func(t *testing.T, e env) {
			t.Helper()
			e.write(t, 0, settlement(e.claim(t), domain.Rejected, domain.StatusParked))
		}, "succeeded succeeded 2 1=succeeded,2=rejected", 2},
		"succeeded": {func(t *testing.T, e env) {
			t.Helper()
			e.write(t, 0, settlement(e.claim(t), domain.Succeeded, domain.StatusSucceeded))
		}, "succeeded succeeded 1 1=succeeded,2=succeeded", 1},
		"declined": {func(t *testing.T, e env) {
			t.Helper()
			e.write(t, 0, settlement(e.claim(t), domain.Declined, domain.StatusDeclined))
		}, "declined declined 1 1=succeeded,2=declined", 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			id := e.charge(t)
			late := settlement(e.claim(t), domain.Succeeded, domain.StatusSucceeded)
			ref := "ref"
			late.ProviderRef = &ref
			e.expire(t)
			tt.meanwhile(t, e)
			e.write(t, 1, late)
			e.wantState(t, id, tt.want)
			e.write(t, 1, late) // again, as after a lost answer
			e.wantState(t, id, tt.want)
			e.count(t, tt.events, "SELECT count(*) FROM charge_event WHERE event_id = $1", id)
			e.count(t, tt.events, "SELECT count(*) FROM outbox WHERE channel = 'kafka' AND event_id = $1", id)
			e.count(t, 0, "SELECT count(*) FROM outbox WHERE channel = 'provider'")
			e.count(t, 0, "SELECT count(*) FROM charge_event v JOIN outbox o USING (event_id, version) WHERE convert_from(payload, 'UTF8') NOT LIKE '%\"version\":' || v.version || '}'")
		})
	}
}

// The present owner, whose charge a late success settled, writes what it finds into its own attempt only.
func TestOwnerOvertakenByALateSuccess(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.charge(t)
	first := e.claim(t)
	e.expire(t)
	second := e.claim(t)
	if report := e.write(t, 1, settlement(first, domain.Succeeded, domain.StatusSucceeded)); report.Late != 1 || report.ByStatus[domain.StatusSucceeded] != 1 {
		t.Fatalf("%+v", report)
	}
	again := settlement(second, domain.Succeeded, domain.StatusSucceeded)
	again.HTTPStatus = 200
	e.write(t, 1, again)
	e.wantState(t, id, "succeeded succeeded 1 1=succeeded,2=succeeded")
}

func TestParkedChargeIsNeverClaimed(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.charge(t)
	e.write(t, 0, settlement(e.claim(t), domain.Rejected, domain.StatusParked))
	e.expire(t)
	e.nothingDue(t)
	e.count(t, 1, "SELECT count(*) FROM outbox WHERE channel = 'provider' AND event_id = $1 AND run_at = 'infinity' AND attempt = 1 AND status = 'PENDING'", id)
	e.count(t, 0, "SELECT count(*) FROM outbox_state WHERE channel = 'provider'")
}

func TestUnsentAttemptClearsOnlyItsOwnStamp(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.charge(t)
	stamp := "SELECT concat_ws(' ', first_sent_at IS NOT NULL, provider_account) FROM charge WHERE event_id = $1"
	step := func(outcome domain.Outcome, want string) {
		t.Helper()
		e.expire(t)
		e.write(t, 0, settlement(e.claim(t), outcome, domain.StatusRequested))
		if got := e.text(t, stamp, id); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	step(domain.NotSent, "f")
	step(domain.NotSent, "f")
	step(domain.Unknown, "t default")
	step(domain.NotSent, "t default")
	e.wantState(t, id, "requested not_sent 0 1=not_sent,2=not_sent,3=unknown,4=not_sent")
}

// An operator's retry opens a new window of a charge that was sent: another account must still never send it.
func TestUnsentAttemptOfANewWindowKeepsTheAccount(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.charge(t)
	e.write(t, 0, settlement(e.claim(t), domain.Unknown, domain.StatusRequested))
	e.db.Exec(t, "UPDATE charge SET first_sent_at = NULL")
	e.expire(t)
	e.write(t, 0, settlement(e.claim(t), domain.NotSent, domain.StatusRequested))
	e.count(t, 1, "SELECT count(*) FROM charge WHERE event_id = $1 AND first_sent_at IS NULL AND provider_account = $2", id, account)
}

func TestClaimPassesOverWhatOthersHold(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	held, free := e.charge(t), e.charge(t)
	holder, err := e.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(t.Context()) }()
	if _, err := holder.Exec(t.Context(), "SELECT 1 FROM outbox WHERE event_id = $1 FOR UPDATE", held); err != nil {
		t.Fatal(err)
	}
	if c := e.claim(t); c.EventID != free {
		t.Fatalf("claimed %s", c.EventID)
	}
}

func TestClaimDecidesTheStep(t *testing.T) {
	t.Parallel()
	hours := func(h float64) string {
		return fmt.Sprintf("first_sent_at = clock_timestamp() - interval '%f hours', attempts = 1", h)
	}
	tests := map[string]struct {
		age   time.Duration // of the id
		set   string        // what the charge looks like
		lost  bool          // history
		rules usecase.ClaimRules
		step  usecase.Step
		post  bool // PostFor is positive
	}{
		"new":                                     {0, "", false, rules, usecase.StepPost, true},
		"new, history lost":                       {0, "", true, rules, usecase.StepPost, true},
		"inside the window":                       {0, hours(11.9), false, rules, usecase.StepPost, true},
		"window over":                             {0, hours(12.1), false, rules, usecase.StepLookup, false},
		"never sent, old id":                      {13 * time.Hour, "", false, rules, usecase.StepLookupPost, true},
		"never sent, id inside":                   {11 * time.Hour, "", false, rules, usecase.StepPost, true},
		"sent, old id, inside the window":         {48 * time.Hour, hours(1), false, rules, usecase.StepLookupPost, true},
		"sent, id young at its first send":        {14 * time.Hour, hours(11), false, rules, usecase.StepPost, true},
		"never sent, id ahead, accepted long ago": {-20 * time.Hour, "created_at = now() - interval '13 hours'", false, rules, usecase.StepLookupPost, true},
		"api, accepted long ago":                  {0, "source = 'api', created_at = now() - interval '13 hours'", false, rules, usecase.StepLookupPost, true},
		"api, sent long after":                    {0, hours(1) + ", source = 'api', created_at = now() - interval '20 hours'", false, rules, usecase.StepLookupPost, true},
		"window 0, not sent":                      {0, "", false, usecase.ClaimRules{Account: account, Lease: lease}, usecase.StepLookupPost, true},
		"pending":                                 {0, hours(1) + ", pending_since = clock_timestamp()", false, rules, usecase.StepLookup, true},
		"sent for this account":                   {0, hours(1) + ", provider_account = 'default'", false, rules, usecase.StepPost, true},
		"sent for another account":                {0, hours(1) + ", provider_account = 'other'", false, rules, usecase.StepPark, true},
		"pending at another account":              {0, hours(1) + ", pending_since = now(), provider_account = 'other'", false, rules, usecase.StepPark, true},
		"window 0, sent":                          {0, hours(0), false, usecase.ClaimRules{Account: account, Lease: lease}, usecase.StepLookup, true},
		"api":                                     {0, "source = 'api'", false, rules, usecase.StepPost, true},
		"api, history lost":                       {0, "source = 'api'", true, rules, usecase.StepLookupPost, true},
		"api, sent, history lost":                 {0, hours(1) + ", source = 'api'", true, rules, usecase.StepPost, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			id := e.chargeAt(t, time.Now().Add(-tt.age))
			if tt.set != "" {
				e.db.Exec(t, "UPDATE charge SET "+tt.set)
			}
			if tt.lost {
				if err := e.store.MarkHistoryLost(t.Context(), "restored"); err != nil {
					t.Fatal(err)
				}
			}
			c := e.claimBy(t, tt.rules)
			posts := tt.step == usecase.StepPost || tt.step == usecase.StepLookupPost
			if c.Step != tt.step || c.Journaled != posts || (c.PostFor > 0) != tt.post || c.HistoryLost != tt.lost {
				t.Fatalf("%+v", c)
			}
			n := 0
			if posts {
				n = 1
			}
			e.count(t, n, "SELECT count(*) FROM charge_attempt WHERE event_id = $1 AND outcome IS NULL", id)
		})
	}
}

// The owner that set the stamp may have died before it looked: what an older life of the database sent is not
// sent again by the next owner either.
func TestAnOldChargeIsLookedUpAgainAfterItsOwnerDied(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.chargeAt(t, time.Now().Add(-13*time.Hour))
	for range 2 {
		if c := e.claim(t); c.Step != usecase.StepLookupPost {
			t.Fatalf("%+v", c)
		}
		e.expire(t)
	}
}

func TestOnePostEverWhenTheProviderForgetsAtOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	forgetful := usecase.ClaimRules{Account: account, Lease: lease}
	id := e.charge(t)
	first := e.claimBy(t, forgetful)
	if !first.Journaled || first.PostFor != lease {
		t.Fatalf("%+v", first)
	}
	e.expire(t) // the process died: nobody knows whether it sent
	second := e.claimBy(t, forgetful)
	if second.Step != usecase.StepLookup || second.Journaled || second.LastOutcome != domain.Unknown {
		t.Fatalf("%+v", second)
	}
	e.wantState(t, id, "requested unknown 0 1=unknown")
}

func TestPendingRemembersItsFirstTime(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.charge(t)
	s := settlement(e.claim(t), domain.Pending, domain.StatusRequested)
	s.Pending = true
	e.write(t, 0, s)
	since := e.text(t, "SELECT pending_since FROM charge WHERE event_id = $1", id)
	e.expire(t)
	c := e.claim(t)
	if c.Step != usecase.StepLookup || c.PendingFor <= 0 || c.LastOutcome != domain.Pending {
		t.Fatalf("%+v", c)
	}
	s = settlement(c, domain.Pending, domain.StatusRequested)
	s.Pending = true
	e.write(t, 0, s)
	e.wantState(t, id, "requested pending 0 1=pending")
	if again := e.text(t, "SELECT pending_since FROM charge WHERE event_id = $1", id); again != since {
		t.Fatalf("%s became %s", since, again)
	}
	// A dead look-up leaves the charge pending.
	e.expire(t)
	e.claim(t)
	e.expire(t)
	if c := e.claim(t); !c.Reclaimed || c.LastOutcome != domain.Pending {
		t.Fatalf("%+v", c)
	}
}

func TestNothingIsClaimedWhilePaused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.charge(t)
	e.db.Exec(t, "INSERT INTO control (name, actor, reason) VALUES ('charging_paused', 'me', 'why')")
	e.nothingDue(t)
	e.db.Exec(t, "DELETE FROM control")
	e.claim(t)
}

func TestBatchSettlesEachOnItsOwn(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	deliveries := make([]usecase.Delivery, 4)
	for i := range deliveries {
		deliveries[i] = event(fmt.Sprint("o-", i))
	}
	want(t, e.reader(t, group, 0).take(t, deliveries...), 4, 0)
	claims, err := e.store.ClaimCharges(t.Context(), 4, rules)
	if err != nil || len(claims) != 4 {
		t.Fatal(err)
	}
	e.db.Exec(t, "UPDATE outbox SET attempt = 2 WHERE event_id = $1", claims[3].EventID)
	report := e.write(t, 1,
		settlement(claims[0], domain.Succeeded, domain.StatusSucceeded), settlement(claims[1], domain.Declined, domain.StatusDeclined),
		settlement(claims[2], domain.NotSent, domain.StatusRequested), settlement(claims[3], domain.Declined, domain.StatusDeclined))
	if fmt.Sprint(report.ByStatus) != "map[declined:1 succeeded:1]" {
		t.Fatalf("%+v", report)
	}
	for i, state := range []string{"succeeded succeeded 1 1=succeeded", "declined declined 1 1=declined", "requested not_sent 0 1=not_sent", "requested - 0 1=declined"} {
		e.wantState(t, claims[i].EventID, state)
	}
}

func TestTerminalChargeAndHistoryCannotChange(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.charge(t)
	s := settlement(e.claim(t), domain.Succeeded, domain.StatusSucceeded)
	e.write(t, 0, s)
	refused := map[string]string{
		"UPDATE charge SET status = 'requested'":                                "BL010",
		"UPDATE charge SET status = 'declined', holds_order = false":            "BL010",
		"UPDATE charge SET order_id = 'other'":                                  "BL010",
		"UPDATE charge SET amount_minor = 1":                                    "BL010",
		"UPDATE charge SET currency = 'USD'":                                    "BL010",
		"UPDATE charge SET customer_id = 'other'":                               "BL010",
		"UPDATE charge SET holds_order = false":                                 "23514",
		"UPDATE charge_event SET type = 'ChargeDeclined'":                       "BL011",
		"UPDATE charge_event SET reason = 'other'":                              "BL011",
		"UPDATE charge_event SET announcement_id = gen_random_uuid()":           "BL011",
		"UPDATE charge_event SET at = now()":                                    "BL011",
		"UPDATE charge_event SET version = 2":                                   "BL011",
		"INSERT INTO charge_event SELECT * FROM charge_event":                   "428C9",
		"UPDATE charge_attempt SET outcome = NULL":                              "23514",
		"UPDATE charge_attempt SET outcome = 'other'":                           "23514",
		"UPDATE outbox SET status = 'PUBLISHED'":                                "23514",
		"INSERT INTO control (name, actor, reason) VALUES ('other', 'me', 'x')": "23514",
	}
	for sql, state := range refused {
		_, err := e.pool.Exec(t.Context(), sql)
		if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != state {
			t.Errorf("%s: %v, want %s", sql, err, state)
		}
	}
	if n := e.db.Exec(t, "UPDATE charge SET provider_ref = 'found later', updated_at = now()"); n != 1 {
		t.Error("what is not money may change")
	}
	e.db.Exec(t, "UPDATE charge_event SET published_at = now()")
	if _, err := e.pool.Exec(t.Context(), "UPDATE charge_event SET published_at = NULL"); err == nil {
		t.Error("a publication was taken back")
	}
	e.wantState(t, id, "succeeded succeeded 1 1=succeeded")
}

// On a server of its own, because old versions stay while any session looks at an older snapshot.
func TestSettlingIsAHeapOnlyUpdate(t *testing.T) {
	t.Parallel()
	server := testkit.NewPostgres(t, testkit.PostgresOptions{Settings: map[string]string{"autovacuum": "off"}})
	e := envOn(t, server.NewDB(t), 4)
	const n = 1000
	for i := range 2 {
		deliveries := make([]usecase.Delivery, n/2)
		for j := range deliveries {
			deliveries[j] = event(fmt.Sprint("o-", i, "-", j))
		}
		want(t, e.reader(t, group, int32(i)).take(t, deliveries...), n/2, 0)
	}
	const hot = "SELECT n_tup_hot_upd::int FROM pg_stat_user_tables WHERE relname = 'charge'"
	const all = "SELECT n_tup_upd::int FROM pg_stat_user_tables WHERE relname = 'charge'"
	for settled := 0; settled < n; {
		claims, err := e.store.ClaimCharges(t.Context(), 10, rules)
		if err != nil || len(claims) == 0 {
			t.Fatalf("%d claims: %v", len(claims), err)
		}
		batch := make([]usecase.Settlement, len(claims))
		for i, c := range claims {
			batch[i] = settlement(c, domain.Succeeded, domain.StatusSucceeded)
		}
		e.write(t, 0, batch...)
		settled += len(claims)
	}
	e.pool.Reset() // a session tells its statistics when it ends
	eventually(t, "statistics arrive", func() bool { return e.db.Count(t, all) == 2*n })
	if got := e.db.Count(t, hot); got != 2*n {
		t.Fatalf("%d of %d updates were heap-only", got, 2*n)
	}
}
