package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"billing/internal/core/domain"
	"billing/internal/core/usecase"
)

// topicOf is a topic of results in memory.
type topicOf struct {
	results []usecase.Result
	since   time.Time
}

func (t *topicOf) ReadResults(_ context.Context, each func([]usecase.Result) error) (time.Time, error) {
	for piece := range slices.Chunk(t.results, 2) {
		if err := each(piece); err != nil {
			return t.since, err
		}
	}
	return t.since, nil
}

// published is the topic as the service wrote it.
func (e env) published(t *testing.T) *topicOf {
	t.Helper()
	rows, err := e.pool.Query(t.Context(), `SELECT e.announcement_id::text, e.type, c.event_id::text, c.order_id, c.customer_id, c.amount_minor, c.currency, e.version
		FROM charge_event e JOIN charge c USING (event_id) WHERE e.published_at IS NOT NULL ORDER BY e.id`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r usecase.Result, err error) {
		err = row.Scan(&r.EventID, &r.Type, &r.Source, &r.OrderID, &r.CustomerID, &r.Amount, &r.Currency, &r.Version)
		return r, err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		list[i].Offset = int64(i)
	}
	return &topicOf{results: list}
}

// compare runs the audit with a topic and returns its findings as rule: subject.
func (e env) compare(t *testing.T, topic *topicOf) []string {
	t.Helper()
	report, err := usecase.Audit{
		Store: e.store, Results: topic, PageRows: 2, Timeout: time.Minute, Keep: 9, Limits: usecase.AuditLimits{Grace: -time.Minute, Retention: limits.Retention},
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, r := range report.Results {
		for _, f := range r.Findings {
			found = append(found, r.Name+": "+f.Subject+": "+f.Detail)
		}
	}
	return found
}

func TestResultsOnTheTopicAreComparedInBothDirections(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	for _, order := range []string{"a", "b", "c"} {
		b.charge(t, order, domain.StatusSucceeded, domain.Succeeded)
	}
	b.charge(t, "d", domain.StatusParked, domain.Rejected)
	b.publish(t)
	b.charge(t, "e", domain.StatusSucceeded, domain.Succeeded) // waits: it need not be there
	whole := b.published(t)
	if len(whole.results) != 4 {
		t.Fatalf("%d results", len(whole.results))
	}
	change := func(do func(r *usecase.Result)) func(*topicOf) {
		return func(topic *topicOf) { do(&topic.results[1]) }
	}
	for name, test := range map[string]struct {
		do   func(topic *topicOf)
		want []string
	}{
		"as it was written": {func(*topicOf) {}, nil},
		"one came twice":    {func(topic *topicOf) { topic.results = append(topic.results, topic.results[0]) }, nil},
		"in upper case":     {change(func(r *usecase.Result) { r.EventID, r.Source = strings.ToUpper(r.EventID), strings.ToUpper(r.Source) }), nil},
		"lost":              {func(topic *topicOf) { topic.results = topic.results[1:] }, []string{"result_present"}},
		"lost, but removed": {func(topic *topicOf) { topic.results, topic.since = topic.results[1:], time.Now() }, nil},
		"other identity":    {change(func(r *usecase.Result) { r.EventID = newID().String() }), []string{"result_known", "result_present"}},
		"other version":     {change(func(r *usecase.Result) { r.Version = 2 }), []string{"result_known"}},
		"other type":        {change(func(r *usecase.Result) { r.Type = "ChargeDeclined" }), []string{"result_known"}},
		"other charge":      {change(func(r *usecase.Result) { r.Source = newID().String() }), []string{"result_known"}},
		"no charge":         {change(func(r *usecase.Result) { r.Source = "x" }), []string{"result_known"}},
		"other amount":      {change(func(r *usecase.Result) { r.Amount++ }), []string{"result_content"}},
		"other currency":    {change(func(r *usecase.Result) { r.Currency = "USD" }), []string{"result_content"}},
		"other order":       {change(func(r *usecase.Result) { r.OrderID = "x" }), []string{"result_content"}},
		"other customer":    {change(func(r *usecase.Result) { r.CustomerID = "x" }), []string{"result_content"}},
		"no result":         {change(func(r *usecase.Result) { *r = usecase.Result{Fault: "not JSON"} }), []string{"result_known", "result_present"}},
	} {
		topic := &topicOf{results: slices.Clone(whole.results)}
		test.do(topic)
		found := b.compare(t, topic)
		if len(found) != len(test.want) {
			t.Errorf("%s: %q", name, found)
			continue
		}
		for i, rule := range test.want {
			if !strings.HasPrefix(found[i], rule+": ") {
				t.Errorf("%s: %q, want %s", name, found, test.want)
			}
		}
	}
	// Where the history was deleted, the charge vouches for its results.
	b.age(t)
	b.sweep(t, 100)
	if found := b.compare(t, whole); len(found) != 0 {
		t.Errorf("after the history was deleted: %q", found)
	}
	b.count(t, 3, "SELECT count(*) FROM charge WHERE history_purged")
}

func TestUnreadableTopicLeavesTheAuditIncomplete(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	_, err := usecase.Audit{Store: e.store, Results: brokenTopic{}, PageRows: 10, Timeout: time.Minute, Limits: usecase.AuditLimits{Retention: limits.Retention}}.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the broker is away") {
		t.Error(err)
	}
}

type brokenTopic struct{}

func (brokenTopic) ReadResults(context.Context, func([]usecase.Result) error) (time.Time, error) {
	return time.Time{}, errors.New("the broker is away")
}
