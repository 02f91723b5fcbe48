package crash_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"billing/internal/paysim"
	"billing/internal/testkit"
)

// member makes a login with the rights of a role.
func (r *rig) member(t *testing.T, role string) *url.Userinfo {
	t.Helper()
	name := strings.ReplaceAll(testkit.UniqueName(role), ".", "_")
	r.db.Exec(t, "CREATE ROLE "+name+" LOGIN IN ROLE "+role)
	t.Cleanup(func() { dropRole(t, r.db, name) })
	return url.User(name)
}

// as is a database's URL for another login.
func as(login *url.Userinfo, address string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err) // it comes from the test kit
	}
	u.User = login
	return u.String()
}

// dropRole works when the context of the test is over, too.
func dropRole(t *testing.T, db *testkit.DB, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, db.URL())
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, "DROP ROLE "+name); err != nil {
		t.Error(err)
	}
}

// start runs a verb with more environment than the rig's.
func (r *rig) start(t *testing.T, env []string, args ...string) *testkit.Process {
	t.Helper()
	return testkit.RunProcess(t, testkit.ProcessOptions{Path: r.binary, Args: args, Env: r.env(env...)})
}

// finish waits for a verb and returns its exit code.
func (r *rig) finish(t *testing.T, p *testkit.Process) int {
	t.Helper()
	code, err := p.Wait(r.patient(t))
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// refusedOrders produces orders that are too dear, each three times: an event, its copy, and a second event.
func (r *rig) refusedOrders(t *testing.T, n int, at time.Time) {
	t.Helper()
	records := make([]*kgo.Record, 0, 3*n)
	for i := range n {
		o := order{event: uuid.Must(uuid.NewV7AtTime(at)), id: fmt.Sprintf("dear-%d-%d", at.Unix(), i), amount: int64(1_000_000 + i)}
		r.orders[o.id] = o
		records = append(records, r.record(o.event, o), r.record(o.event, o), r.record(uuid.Must(uuid.NewV7AtTime(at)), o))
	}
	testkit.Produce(t, r.brokers, records...)
}

// The whole service runs with the rights of billing_app, its auditors with those of billing_readonly.
func TestReplayFromTwoShellsInterruptedAndRepeatedChargesOnce(t *testing.T) {
	t.Parallel()
	const dear, cheap = 60, 40
	r := newRig(t, paysim.Script{Seed: 3}, "BILLING_MAX_AMOUNT_MINOR=1000", "BILLING_DEAD_LETTER_BRAKE=0")
	readonly := "BILLING_DATABASE_URL=" + as(r.member(t, "billing_readonly"), r.db.URL())
	service := r.serve(t)
	r.refusedOrders(t, dear, time.Now())
	r.produce(t, cheap, time.Now())
	r.await(t, "every dear order is refused and every cheap one charged", func() bool {
		return r.db.Count(t, "SELECT count(*) FROM dead_letter WHERE reason = 'invalid_amount' AND published_at IS NOT NULL") == 3*dear &&
			r.db.Count(t, "SELECT count(*) FROM charge WHERE status = 'succeeded'") == cheap
	})
	raised := []string{"BILLING_MAX_AMOUNT_MINOR=1000000000"}
	replay := []string{"deadletters", "replay", "--limit", "1000", "--yes", "--because", "the maximum was raised"}
	if code := r.finish(t, r.start(t, raised, slices.Concat(replay, []string{"--dry-run"})...)); code != 0 {
		t.Errorf("the dry run ended with %d", code)
	}
	if n := r.db.Count(t, "SELECT count(*) FROM dead_letter WHERE status <> 'open'"); n != 0 {
		t.Fatalf("the dry run changed %d letters", n)
	}
	for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		before := r.db.Count(t, "SELECT count(*) FROM dead_letter WHERE status = 'replayed'")
		shells := []*testkit.Process{r.start(t, raised, replay...), r.start(t, raised, replay...)}
		r.await(t, "some letters are replayed", func() bool {
			return r.db.Count(t, "SELECT count(*) FROM dead_letter WHERE status = 'replayed'") >= min(before+5, dear)
		})
		if err := shells[0].Signal(end); err != nil {
			t.Fatal(err)
		}
		r.finish(t, shells[0])
		if code := r.finish(t, shells[1]); code != 1 {
			t.Errorf("the shell that was left ended with %d: copies and second events stay open", code)
		}
	}
	if n := r.db.Count(t, "SELECT count(*) FROM dead_letter WHERE status = 'replayed'"); n != dear {
		t.Errorf("%d letters are replayed, want one for each of %d orders", n, dear)
	}
	r.awaitSettled(t)
	effects := len(r.sim.Journal().Audit().Charged())
	if code := r.finish(t, r.start(t, raised, replay...)); code != 1 {
		t.Errorf("one more replay ended with %d", code)
	}
	if code := r.finish(t, r.start(t, raised, "deadletters", "discard", "--limit", "1000", "--because", "duplicates", "--yes")); code != 0 {
		t.Errorf("discard ended with %d", code)
	}
	if code := r.finish(t, r.start(t, raised, replay...)); code != 0 {
		t.Errorf("a replay of nothing ended with %d", code)
	}
	if after := len(r.sim.Journal().Audit().Charged()); after != effects || after != dear+cheap {
		t.Errorf("%d orders are charged, were %d, want %d", after, effects, dear+cheap)
	}
	r.audit(t)
	republishAndCompare(t, r, readonly)
	stop(t, service)
}

// republishAndCompare sends every result again and compares the topic, as an auditor who may only read.
func republishAndCompare(t *testing.T, r *rig, readonly string) {
	t.Helper()
	before := bodies(t, r)
	if code := r.run(t, "charges", "republish", "--since", "1h", "--yes"); code != 0 {
		t.Errorf("republish ended with %d", code)
	}
	r.await(t, "everything is published", func() bool { return r.db.Count(t, "SELECT count(*) FROM outbox") == 0 })
	after := bodies(t, r)
	if len(after) != len(before) {
		t.Errorf("%d identities are on the topic, were %d", len(after), len(before))
	}
	for id, list := range after {
		if len(list) != 2 || len(before[id]) != 1 || !same(list[0], list[1]) {
			t.Errorf("%s came as %q", id, list)
		}
	}
	for _, args := range [][]string{{"audit", "--provider", "--results", "--grace", "0s"}, {"status"}, {"deadletters", "list", "--status", "any"}} {
		p := r.start(t, []string{readonly}, args...)
		if code := r.finish(t, p); code != 0 {
			t.Errorf("%v as billing_readonly ended with %d: %v", args, code, p.Lines())
		}
	}
	if code := r.finish(t, r.start(t, []string{readonly}, "pause", "--reason", "r", "--yes")); code != 1 {
		t.Errorf("billing_readonly may pause: %d", code)
	}
}

// bodies are the results on the topic by their identity.
func bodies(t *testing.T, r *rig) map[string][]string {
	t.Helper()
	byID := map[string][]string{}
	for _, record := range testkit.ReadTopic(t, r.brokers, r.results, kgo.ReadCommitted()) {
		i := slices.IndexFunc(record.Headers, func(h kgo.RecordHeader) bool { return h.Key == "event-id" })
		byID[string(record.Headers[i].Value)] = append(byID[string(record.Headers[i].Value)], string(record.Value))
	}
	return byID
}

// same compares two messages but for the time to the second: that of the first was told before it was written.
func same(a, b string) bool {
	var x, y map[string]any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	first, errFirst := time.Parse(time.RFC3339, fmt.Sprint(x["occurred_at"]))
	second, errSecond := time.Parse(time.RFC3339, fmt.Sprint(y["occurred_at"]))
	delete(x, "occurred_at")
	delete(y, "occurred_at")
	return errFirst == nil && errSecond == nil && second.Sub(first).Abs() < 5*time.Second && fmt.Sprint(x) == fmt.Sprint(y)
}
