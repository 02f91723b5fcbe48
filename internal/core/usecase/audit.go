package usecase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"billing/internal/core/domain"
)

// Walk is one way through the data: a table, read in pages by its key.
type Walk string

// The walks. Those behind WalkPositions are made only when the provider's own list, or the topic of results, is compared.
const (
	WalkCharges       Walk = "charges"
	WalkAnnouncements Walk = "announcements"
	WalkAttempts      Walk = "attempts"
	WalkInbox         Walk = "inbox"
	WalkOutbox        Walk = "outbox"
	WalkDeadLetters   Walk = "dead_letters"
	WalkPositions     Walk = "positions"
	WalkEffects       Walk = "effects"           // what the provider lists
	WalkSucceeded     Walk = "succeeded_charges" // what it should list
	WalkResults       Walk = "results"           // what the topic of results holds
	WalkPublished     Walk = "published"         // what it should hold
)

// Rule is one invariant that the audit checks. Its name is the label of the metric of violations.
type Rule struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Walk   Walk   `json:"walk"`
	Checks string `json:"checks"`
}

// RulePositionBeyondLog names the rule that is watched without an audit as well.
const RulePositionBeyondLog = "position_beyond_log"

// needsProvider tells the rules that compare with the provider's own list.
func (r Rule) needsProvider() bool { return r.Walk == WalkEffects || r.Walk == WalkSucceeded }

// needsResults tells the rules that compare with the topic of results.
func (r Rule) needsResults() bool { return r.Walk == WalkResults || r.Walk == WalkPublished }

// Rules lists every rule in the order of its number. Numbers and names are never used again for another check.
func Rules() []Rule {
	return []Rule{
		{"R1", "announced", WalkCharges, "a settled or parked charge has the announcement of its status under its version"},
		{"R2", "published", WalkAnnouncements, "an announcement is published or waits in the outbox"},
		{"R3", "versions", WalkCharges, "the announcements of a charge are numbered 1 to its version without gap"},
		{"R4", "one_charge_per_order", WalkCharges, "an order has at most one charge that is not declined or cancelled"},
		{"R5", "history", WalkCharges, "each move begins where the last one ended, none leaves a terminal status, and the last one led to the present status"},
		{"R6", "provider_row", WalkCharges, "a requested charge has one provider row with a time, a parked one has one at rest, any other has none"},
		{"R7", "lease", WalkOutbox, "no lease ended longer ago than it lasts; those of a paused charger are excused"},
		{"R8", "inbox", WalkInbox, "an event in the inbox is a charge, or the duplicate of one that exists, and not both"},
		{"R9", "inbox_content", WalkInbox, "order, customer, amount and currency of a charge are those of the event that ordered it, and of its duplicates"},
		{"R10", "charge_inbox", WalkCharges, "the event behind a charge from Kafka is in the inbox for as long as that remembers"},
		{"R11", "open_attempt", WalkAttempts, "an attempt without outcome is its claim's, and the claim still holds"},
		{"R12", "money_taken", WalkAttempts, "a charge with a succeeded attempt is succeeded"},
		{"R13", "amount", WalkCharges, "amounts are positive and currencies three upper-case letters"},
		{"R14", "dead_letter", WalkDeadLetters, "the copy of a dead letter is published or waits in the outbox"},
		{"R15", "outbox_target", WalkOutbox, "what a row of the outbox is about exists"},
		{"R16", RulePositionBeyondLog, WalkPositions, "position and log of a partition meet, or an operator accepted the gap"},
		{"R17", "effect_charge", WalkEffects, "money that the provider took belongs to a charge that is succeeded, still being worked on, or parked for a person"},
		{"R18", "effect_content", WalkEffects, "order, amount and currency are the same at the provider"},
		{"R19", "effect_once", WalkEffects, "the provider took money for an order at most once"},
		{"R20", "charge_effect", WalkSucceeded, "a succeeded charge of this provider account is a succeeded charge at the provider"},
		{"R21", "result_known", WalkResults, "a result on the topic is an announcement of the history, by event id, charge, type and version"},
		{"R22", "result_content", WalkResults, "order, customer, amount and currency of a result are those of its charge"},
		{"R23", "result_present", WalkPublished, "an announcement that was published is on the topic, for as long as that is whole"},
	}
}

// AuditLimits are what the rules need to know of the service's configuration.
type AuditLimits struct {
	Grace     time.Duration // 2 x lease: what was touched later is not looked at
	Retention time.Duration // of the inbox
	Account   string        // whose charges the provider lists
}

// Finding is one violation.
type Finding struct {
	Rule    string `json:"rule"`    // its name
	Subject string `json:"subject"` // the id of the charge, the row or the message
	Detail  string `json:"detail"`
}

// AuditPage is what the rules of a walk found in one page of it.
type AuditPage struct {
	Findings []Finding
	Rows     int
	Next     string // where the next page begins, empty behind the last one
}

// AuditStore reads the data page by page, each in a read-only transaction of its own.
type AuditStore interface {
	// AuditPage checks the rules of a walk on at most n rows. The first page begins at the empty string.
	AuditPage(ctx context.Context, walk Walk, after string, n int, limits AuditLimits) (AuditPage, error)
	// OpenEffects makes a private place for what the provider lists; the caller closes it.
	OpenEffects(ctx context.Context) (EffectStore, error)
	// OpenResults makes a private place for what the topic of results holds; the caller closes it.
	OpenResults(ctx context.Context) (ResultStore, error)
}

// EffectStore is the provider's list next to our tables, for the time of one audit. It belongs to one
// session and none of the service's tables is written.
type EffectStore interface {
	// PutEffects adds a page of the list. What was added before is not added again.
	PutEffects(ctx context.Context, effects []Effect) error
	// AuditPage is AuditStore's, for the walks that compare with the provider.
	AuditPage(ctx context.Context, walk Walk, after string, n int, limits AuditLimits) (AuditPage, error)
	// Close forgets the list.
	Close(ctx context.Context) error
}

// Effect is one charge as the provider lists it. The status is the provider's own word.
type Effect struct {
	Key     string
	Ref     string
	Status  string
	OrderID string
	Amount  domain.Money
}

// EffectLister is the provider's own list of charges.
type EffectLister interface {
	// ListEffects returns one page and the cursor of the next, empty behind the last one. domain.ErrOutage:
	// ask again.
	ListEffects(ctx context.Context, cursor string) (effects []Effect, next string, err error)
}

// AuditProgress says how far a walk is.
type AuditProgress struct {
	Walk Walk
	Rows int64
}

// Audit proves, on a live database and without writing to it, that no order was charged twice and none
// was lost. It holds one page at a time in memory, however large the tables are.
type Audit struct {
	Store    AuditStore
	Provider EffectLister // nil: the provider is not asked
	Results  ResultReader // nil: the topic of results is not read
	Limits   AuditLimits
	PageRows int
	Timeout  time.Duration // of one page
	Keep     int           // findings kept of each rule; all are counted
	Clock    Clock
	Random   Random
	Backoff  domain.Backoff      // between tries of the provider's list
	Tries    int                 // of one page of that list
	Progress func(AuditProgress) // called after each page; nil is silence
}

// RuleResult is what one rule found.
type RuleResult struct {
	Rule
	Total    int64     `json:"total"`
	Findings []Finding `json:"findings"` // the first of them
}

// AuditReport is the result of an audit.
type AuditReport struct {
	Results []RuleResult   `json:"results"` // of the rules that were checked
	Rows    map[Walk]int64 `json:"rows"`    // that were looked at
}

// Total is the number of findings of all rules.
func (r AuditReport) Total() int64 {
	var total int64
	for i := range r.Results {
		total += r.Results[i].Total
	}
	return total
}

// Counts are the findings by the name of the rule, those without any included.
func (r AuditReport) Counts() map[string]int64 {
	counts := make(map[string]int64, len(r.Results))
	for i := range r.Results {
		counts[r.Results[i].Name] = r.Results[i].Total
	}
	return counts
}

// Run makes every walk. It returns an error when the audit could not be completed: then its report
// proves nothing.
func (a Audit) Run(ctx context.Context) (AuditReport, error) {
	report := AuditReport{Rows: map[Walk]int64{}}
	for _, rule := range Rules() {
		if (a.Provider != nil || !rule.needsProvider()) && (a.Results != nil || !rule.needsResults()) {
			report.Results = append(report.Results, RuleResult{Rule: rule, Findings: []Finding{}})
		}
	}
	for _, walk := range []Walk{WalkCharges, WalkAnnouncements, WalkAttempts, WalkInbox, WalkOutbox, WalkDeadLetters, WalkPositions} {
		if err := a.walk(ctx, walk, a.Store.AuditPage, &report); err != nil {
			return report, err
		}
	}
	if a.Provider != nil {
		if err := a.compare(ctx, &report); err != nil {
			return report, err
		}
	}
	if a.Results != nil {
		return report, a.compareResults(ctx, &report)
	}
	return report, nil
}

type pageFunc func(ctx context.Context, walk Walk, after string, n int, limits AuditLimits) (AuditPage, error)

func (a Audit) walk(ctx context.Context, walk Walk, page pageFunc, report *AuditReport) error {
	for after, last := "", false; !last; {
		p, err := a.page(ctx, page, walk, after)
		if err != nil {
			return fmt.Errorf("audit %s: %w", walk, err)
		}
		report.Rows[walk] += int64(p.Rows)
		for _, f := range p.Findings {
			report.add(f, a.Keep)
		}
		a.progress(walk, report.Rows[walk])
		after, last = p.Next, p.Next == ""
	}
	return nil
}

func (a Audit) page(ctx context.Context, page pageFunc, walk Walk, after string) (AuditPage, error) {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	return page(ctx, walk, after, a.PageRows, a.Limits)
}

func (a Audit) progress(walk Walk, rows int64) {
	if a.Progress != nil {
		a.Progress(AuditProgress{Walk: walk, Rows: rows})
	}
}

func (r *AuditReport) add(f Finding, keep int) {
	for i := range r.Results {
		if r.Results[i].Name != f.Rule {
			continue
		}
		r.Results[i].Total++
		if len(r.Results[i].Findings) < keep {
			r.Results[i].Findings = append(r.Results[i].Findings, f)
		}
	}
}

// compare brings the provider's list next to our tables and walks through both.
func (a Audit) compare(ctx context.Context, report *AuditReport) (err error) {
	effects, err := a.Store.OpenEffects(ctx)
	if err != nil {
		return fmt.Errorf("compare with the provider: %w", err)
	}
	defer func() {
		if closing := effects.Close(context.WithoutCancel(ctx)); err == nil && closing != nil {
			err = fmt.Errorf("compare with the provider: %w", closing)
		}
	}()
	if err := a.copyEffects(ctx, effects); err != nil {
		return fmt.Errorf("compare with the provider: %w", err)
	}
	for _, walk := range []Walk{WalkEffects, WalkSucceeded} {
		if err := a.walk(ctx, walk, effects.AuditPage, report); err != nil {
			return err
		}
	}
	return nil
}

func (a Audit) copyEffects(ctx context.Context, effects EffectStore) error {
	var rows int64
	for cursor, last := "", false; !last; {
		page, next, err := a.list(ctx, cursor)
		if err != nil {
			return err
		}
		if err := a.put(ctx, effects, page); err != nil {
			return fmt.Errorf("keep %d listed charges: %w", len(page), err)
		}
		rows += int64(len(page))
		a.progress("provider_list", rows)
		cursor, last = next, next == ""
	}
	return nil
}

func (a Audit) put(ctx context.Context, effects EffectStore, page []Effect) error {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	return effects.PutEffects(ctx, page)
}

// list asks for one page, again while the provider is away.
func (a Audit) list(ctx context.Context, cursor string) ([]Effect, string, error) {
	for try := 1; ; try++ {
		page, next, err := a.Provider.ListEffects(ctx, cursor)
		if err == nil {
			return page, next, nil
		}
		if !errors.Is(err, domain.ErrOutage) || try >= a.Tries || !a.Clock.Sleep(ctx, a.Backoff.Delay(try, a.Random())) {
			return nil, "", fmt.Errorf("read the provider's list: %w", err)
		}
	}
}
