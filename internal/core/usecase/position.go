package usecase

import (
	"fmt"
	"time"

	"billing/internal/core/domain"
)

// NoOffset stands for "the group has no committed offset".
const NoOffset int64 = -1

// ChooseStart decides where an assignment begins. Starting early is always safe, because known events
// are duplicates; starting late loses orders. stored is nil when the database has no row.
//
//   - Kafka has no offset: at the log's start. A stored position that does not lie in the log shows that
//     the topic was made anew, which is reported until an operator accepts it.
//   - Only Kafka has one: there.
//   - Both: the smaller. A stored position behind Kafka's means that the database was restored to an
//     earlier point; what lies between is marked to be read again with care.
//   - The start lies outside the log: the partition stops until an operator accepts the gap.
//   - What an operator had passed over is passed over again, as long as it is certainly the same log.
func ChooseStart(stored *Position, committed int64, log Bounds) Position {
	if stored == nil {
		stored = &Position{Next: NoOffset}
	}
	if stored.GapAccepted { // the log's start, since known events are only duplicates
		p := Position{Next: log.Start, TopicRetention: log.Retention}
		if stored.Next < log.Start {
			p.RereadBelow = stored.RereadBelow
		}
		return p
	}
	p := Position{
		RereadBelow: stored.RereadBelow, Gap: stored.Gap, Halted: stored.Halted, HaltedBy: stored.HaltedBy, PassBelow: stored.PassBelow,
		TopicRetention: log.Retention,
	}
	if p.PassBelow == PassAll && p.Halted == "" {
		p.PassBelow = log.End
	}
	if committed >= 0 {
		p.Skips = stored.Skips
	}
	switch {
	case committed < 0:
		p.Next = log.Start
		if stored.Next >= 0 {
			p.noteGap(gapOf(stored.Next, log), false)
		}
		return p
	case stored.Next < 0:
		p.Next = committed
	default:
		p.Next = min(stored.Next, committed)
		if stored.Next < committed {
			p.RereadBelow = max(p.RereadBelow, committed)
		}
	}
	p.noteGap(gapOf(p.Next, log), true)
	p.noteGap(gapOf(max(p.Next, stored.Next), log), true)
	return p
}

// gapOf says how a position misses the log; empty when it lies in it.
func gapOf(next int64, log Bounds) string {
	switch {
	case next > log.End:
		return fmt.Sprintf("position %d lies beyond the log's end %d", next, log.End)
	case next < log.Start:
		return fmt.Sprintf("the log starts at %d, after position %d", log.Start, next)
	}
	return ""
}

// noteGap records a gap; without one, an earlier record stays until an operator accepts it.
func (p *Position) noteGap(gap string, halts bool) {
	if gap == "" {
		return
	}
	p.Gap = gap
	p.PassBelow, p.Skips = 0, nil // of a log that is not this one
	if halts {
		p.Halted, p.HaltedBy = gap, ""
	}
}

// OutlivesInbox reports whether a topic keeps messages longer than the inbox remembers them. kept is 0 when it is not known
// and negative when it is without limit.
func OutlivesInbox(kept, remembered time.Duration) bool {
	return remembered > 0 && (kept < 0 || kept > remembered)
}

func keeps(kept time.Duration) string {
	if kept < 0 {
		return "ever"
	}
	return kept.String()
}

// HistoryLost reports whether a stored position shows that the database was restored to an earlier point.
func HistoryLost(stored *Position, committed int64) bool {
	return stored != nil && committed >= 0 && stored.Next < committed
}

// behindSkips returns where reading goes on instead of at next.
func (p *Position) behindSkips(next int64) int64 {
	for _, s := range p.Skips {
		if s.From <= next && next < s.To {
			return s.To
		}
	}
	return next
}

// errHalted stops a partition until an operator acts.
var errHalted = fmt.Errorf("the partition waits for an operator: %w", domain.ErrOutage)
