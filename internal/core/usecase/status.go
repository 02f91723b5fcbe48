package usecase

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"billing/internal/core/domain"
)

// Switch is one of the operator's switches. A switch that is in the table is on.
type Switch string

// The switches.
const (
	ChargingPaused Switch = "charging_paused" // stop charging, keep consuming
	HistoryWasLost Switch = "history_lost"    // the database was restored to an earlier point
)

// ChargeCount counts the charges of one status and last outcome.
type ChargeCount struct {
	Status      domain.Status  `json:"status"`
	LastOutcome domain.Outcome `json:"last_outcome,omitempty"` // empty: none
	N           int64          `json:"charges"`
	Oldest      time.Time      `json:"oldest,omitzero"` // by creation; of charges that are not terminal
}

// OutboxCount counts the rows of one channel and status. Rows of parked charges are not among them.
type OutboxCount struct {
	Channel   string    `json:"channel"`
	Status    string    `json:"status"`
	N         int64     `json:"rows"`
	Expired   int64     `json:"expired_leases"` // of PUBLISHING rows: an owner died or is very late
	Oldest    time.Time `json:"oldest"`         // by creation
	OldestDue time.Time `json:"oldest_due"`     // the earliest due time or end of a lease
}

// Signs are what every process looks at all the time. They cost nothing, whatever else there is.
type Signs struct {
	Now        time.Time        // the database's clock
	Violations map[string]int64 // by rule: those that show without an audit
	Switches   map[Switch]bool
}

// Stats are the figures that metrics show. They cost about as much as there is unfinished work, however
// much is finished.
type Stats struct {
	Waiting         []ChargeCount
	NearestDeadline time.Time // of a sent charge without an answer: when its key is not used any more; zero when there is none
	Outbox          []OutboxCount
}

// StatsReader reads figures.
type StatsReader interface {
	// Signs reads switches and what shows without an audit.
	Signs(ctx context.Context) (Signs, error)
	// Stats counts what is unfinished. It reads all of it.
	Stats(ctx context.Context, keyWindow time.Duration) (Stats, error)
	// Finished counts the terminal charges. It reads the whole table, in pages.
	Finished(ctx context.Context) ([]ChargeCount, error)
}

// SwitchState is a switch that is on.
type SwitchState struct {
	Name   Switch    `json:"name"`
	Actor  string    `json:"actor"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

// PartitionState is a partition's row as an operator sees it.
type PartitionState struct {
	ClusterID   string    `json:"cluster_id"`
	Group       string    `json:"group"`
	Topic       string    `json:"topic"`
	Partition   int32     `json:"partition"`
	Next        int64     `json:"next_offset"`
	RereadBelow int64     `json:"reread_below,omitempty"`
	Gap         string    `json:"gap,omitempty"`
	GapAccepted bool      `json:"gap_accepted,omitempty"`
	Halted      string    `json:"halted,omitempty"`
	Skips       []Span    `json:"skips,omitempty"` // what an operator had passed over
	UpdatedAt   time.Time `json:"updated_at"`

	TopicRetentionMS int64 `json:"topic_retention_ms,omitempty"` // how long the topic keeps messages; negative: without limit
}

// corrupt reports whether records that cannot be read halted the partition.
func (p PartitionState) corrupt() bool { return strings.Contains(p.Halted, ErrCorrupt.Error()) }

// ReasonCount counts open dead letters of one reason.
type ReasonCount struct {
	Reason domain.Reason `json:"reason"`
	N      int64         `json:"open"`
	Oldest time.Time     `json:"oldest"`
}

// InboxDays are the days that the inbox has partitions for.
type InboxDays struct {
	N           int       `json:"days"`
	Oldest      time.Time `json:"oldest,omitzero"`
	Newest      time.Time `json:"newest,omitzero"`
	HasToday    bool      `json:"has_today"`
	HasTomorrow bool      `json:"has_tomorrow"`
}

// Overview is everything `billing status` shows.
type Overview struct {
	Now             time.Time        `json:"now"`
	SchemaVersion   int64            `json:"schema_version"`
	SchemaRequired  int64            `json:"schema_required"`
	Processes       []ProcessState   `json:"processes"`
	Charges         []ChargeCount    `json:"charges"`
	NearestDeadline time.Time        `json:"nearest_key_deadline,omitzero"`
	Outbox          []OutboxCount    `json:"outbox"`
	Partitions      []PartitionState `json:"partitions"`
	Switches        []SwitchState    `json:"switches"`
	DeadLetters     []ReasonCount    `json:"dead_letters"`
	Inbox           InboxDays        `json:"inbox"`
	Stuck           []Trouble        `json:"stuck"`

	Retention time.Duration `json:"-"` // how long the inbox remembers, as configured; 0 not known
}

// Trouble is something that does not move by itself, or not soon enough.
type Trouble struct {
	What  string    `json:"what"`
	Why   string    `json:"why"`
	Since time.Time `json:"since,omitzero"`
	Next  string    `json:"next"` // the command that helps, or shows more
}

// late is how long work may wait before status calls it stuck.
const late = 2 * time.Minute

// FindTrouble says what is stuck, why, since when, and what to do about it: what stops everything first.
func (o Overview) FindTrouble() []Trouble {
	trouble := []Trouble{}
	if o.SchemaVersion < o.SchemaRequired {
		trouble = append(trouble, Trouble{
			What: "everything", Why: fmt.Sprintf("the schema is at version %d, this binary needs %d", o.SchemaVersion, o.SchemaRequired),
			Next: "billing migrate up",
		})
	}
	return slices.Concat(trouble, o.inboxTrouble(), o.switchTrouble(), o.gateTrouble(), o.partitionTrouble(), o.retentionTrouble(), o.chargeTrouble(), o.outboxTrouble(), o.letterTrouble())
}

func (o Overview) inboxTrouble() []Trouble {
	if o.Inbox.HasToday && o.Inbox.HasTomorrow {
		return nil
	}
	return []Trouble{{
		What: "accepting events", Why: "the inbox has no partition for today or tomorrow: the maintenance role does not run or may not create it",
		Next: "billing migrate up",
	}}
}

func (o Overview) switchTrouble() []Trouble {
	trouble := make([]Trouble, 0, len(o.Switches))
	for _, s := range o.Switches {
		t := Trouble{Since: s.Since, Why: fmt.Sprintf("%s by %s: %s", s.Name, s.Actor, s.Reason)}
		switch s.Name {
		case ChargingPaused:
			t.What, t.Next = "charging", "billing resume --reason ..."
		case HistoryWasLost:
			t.What, t.Next = "charges of the time before the restore", "billing audit --provider, then billing history clear --reason ..."
		}
		trouble = append(trouble, t)
	}
	return trouble
}

func (o Overview) partitionTrouble() []Trouble {
	trouble := make([]Trouble, 0, len(o.Partitions))
	for _, p := range o.Partitions {
		t := Trouble{What: fmt.Sprintf("partition %s/%d", p.Topic, p.Partition), Since: p.UpdatedAt}
		id := fmt.Sprintf("%s %d --group %s --cluster %s --reason ...", p.Topic, p.Partition, p.Group, p.ClusterID)
		switch {
		case p.GapAccepted: // its owner goes on in a moment
			continue
		case p.Gap != "":
			t.Why, t.Next = p.Gap, "billing partitions accept-gap "+id
		case p.corrupt():
			t.Why, t.Next = p.Halted, fmt.Sprintf("billing partitions skip %s %d --to ... --group %s --cluster %s --reason ...", p.Topic, p.Partition, p.Group, p.ClusterID)
		case p.Halted != "":
			t.Why, t.Next = p.Halted, "billing partitions release "+id
		default:
			continue
		}
		trouble = append(trouble, t)
	}
	return trouble
}

// retentionTrouble names each topic once that keeps messages longer than the inbox remembers.
func (o Overview) retentionTrouble() []Trouble {
	var trouble []Trouble
	seen := map[string]bool{}
	for _, p := range o.Partitions {
		kept := time.Duration(p.TopicRetentionMS) * time.Millisecond
		if seen[p.Topic] || !OutlivesInbox(kept, o.Retention) {
			continue
		}
		seen[p.Topic] = true
		trouble = append(trouble, Trouble{
			What: "topic " + p.Topic, Why: "it keeps messages for " + keeps(kept) + ", the inbox remembers them for " + o.Retention.String() +
				": read again from its start it would give dead letters for old orders that were never charged",
			Next: "raise BILLING_RETENTION",
		})
	}
	return trouble
}

func (o Overview) chargeTrouble() []Trouble {
	var trouble []Trouble
	for _, c := range o.Charges {
		what := fmt.Sprintf("%d charges %s", c.N, c.Status)
		old := o.Now.Sub(c.Oldest) > late
		switch {
		case c.Status == domain.StatusParked:
			trouble = append(trouble, Trouble{
				What: what, Since: c.Oldest, Why: "a person has to decide; last outcome " + orNone(c.LastOutcome), Next: "billing charges list --status parked",
			})
		case c.Status == domain.StatusRequested && old && !o.paused():
			trouble = append(trouble, Trouble{What: what, Since: c.Oldest, Why: whyWaiting(c.LastOutcome), Next: "billing charges list --status requested"})
		}
	}
	if !o.NearestDeadline.IsZero() && o.NearestDeadline.Before(o.Now) {
		trouble = append(trouble, Trouble{
			What: "sent charges without an answer", Since: o.NearestDeadline, Why: "half of the key window is over: they are looked up, not sent",
			Next: "billing charges list --status requested",
		})
	}
	return trouble
}

func (o Overview) paused() bool {
	return slices.ContainsFunc(o.Switches, func(s SwitchState) bool { return s.Name == ChargingPaused })
}

func orNone(o domain.Outcome) string {
	if o == "" {
		return "none"
	}
	return string(o)
}

// whyWaiting explains a requested charge by the latest word on it.
func whyWaiting(o domain.Outcome) string {
	switch o {
	case domain.Pending:
		return "the provider accepted them and is not done"
	case domain.NotSent:
		return "no connection to the provider, or it refuses the token (401, 403)"
	case domain.Rejected:
		return "the provider refuses the requests themselves: check BILLING_PROVIDER_URL"
	case domain.Unknown:
		return "the provider gives no clear answer; the same key is sent again"
	case domain.Succeeded, domain.Declined:
	}
	return "not tried yet: no charger runs, or it does not keep up"
}

func (o Overview) outboxTrouble() []Trouble {
	var trouble []Trouble
	for _, c := range o.Outbox {
		overdue := o.Now.Sub(c.OldestDue) > late
		switch {
		case c.Expired > 0 && overdue:
			trouble = append(trouble, Trouble{
				What: fmt.Sprintf("%d leases of the %s channel", c.Expired, c.Channel), Since: c.OldestDue,
				Why: "their owner is gone and nobody claims the rows again", Next: "check that a pod with role " + roleOf(c.Channel) + " runs",
			})
		case c.Channel == "kafka" && c.Status == "PENDING" && o.Now.Sub(c.Oldest) > late:
			trouble = append(trouble, Trouble{
				What: fmt.Sprintf("%d messages for Kafka", c.N), Since: c.Oldest,
				Why: "no relay runs, the brokers are away, or a topic is missing", Next: "check that a pod with role relay runs, and its log",
			})
		}
	}
	return trouble
}

func roleOf(channel string) string {
	if channel == "provider" {
		return "charger"
	}
	return "relay"
}

func (o Overview) letterTrouble() []Trouble {
	trouble := make([]Trouble, 0, len(o.DeadLetters))
	for _, d := range o.DeadLetters {
		trouble = append(trouble, Trouble{
			What: fmt.Sprintf("%d dead letters", d.N), Since: d.Oldest, Why: string(d.Reason), Next: "billing deadletters list --reason " + string(d.Reason),
		})
	}
	return trouble
}
