package paysim

import (
	"slices"
	"strings"
	"time"
)

// sight is what the script sees of a request.
type sight struct {
	call    Call
	key     string
	orderID string
	amount  int64
	attempt int
}

// director applies a script; it counts how often each rule was used.
type director struct {
	script Script
	used   []int // by rule
}

func newDirector(s Script) *director {
	s.Rules = slices.Clone(s.Rules)
	s.Shares = slices.Clone(s.Shares)
	if s.Hold == (Hold{}) {
		s.Hold = Hold{Lookups: 2}
	}
	return &director{script: s, used: make([]int, len(s.Rules))}
}

func (d *director) add(rules []Rule) {
	d.script.Rules = append(d.script.Rules, rules...)
	d.used = append(d.used, make([]int, len(rules))...)
}

func (d *director) clear() {
	d.script.Rules, d.used = nil, nil
}

// decide is the fault for a request and the latency added to it.
func (d *director) decide(q sight) (Fault, time.Duration) {
	f := d.fault(q)
	delay := f.Latency
	if delay == (Range{}) {
		delay = d.script.Latency
	}
	if delay.Min == delay.Max {
		return f, delay.Min
	}
	return f, delay.at(d.roll("latency", q.call, q.key, q.attempt))
}

func (d *director) fault(q sight) Fault {
	for i, r := range d.script.Rules {
		if r.Match.matches(q) && (r.Max == 0 || d.used[i] < r.Max) {
			d.used[i]++
			return r.Fault
		}
	}
	if len(d.script.Shares) == 0 {
		return Fault{}
	}
	u := d.roll("fault", q.call, q.key, q.attempt)
	for _, share := range d.script.Shares {
		if on := callOr(share.On); on != q.call && on != Anything {
			continue
		}
		if u < share.Of {
			return share.Fault
		}
		u -= share.Of
	}
	return Fault{}
}

// outcome is what a charge becomes that is executed now. The shares go by key alone,
// so a customer who is declined is declined on every attempt.
func (d *director) outcome(f Fault, key string) (Status, Hold) {
	status := f.Outcome
	if status == "" {
		switch u := d.roll("outcome", Charges, key, 0); {
		case u < d.script.DeclineShare:
			status = Declined
		case u < d.script.DeclineShare+d.script.PendingShare:
			status = Pending
		default:
			status = Succeeded
		}
	}
	hold := f.Hold
	if hold == (Hold{}) {
		hold = d.script.Hold
	}
	if hold.Final == "" {
		hold.Final = Succeeded
	}
	return status, hold
}

func (m Match) matches(q sight) bool {
	on := callOr(m.On)
	return (on == q.call || on == Anything) &&
		(m.OrderID == "" || m.OrderID == q.orderID) &&
		strings.HasPrefix(q.orderID, m.OrderPrefix) &&
		(m.Key == "" || m.Key == q.key) &&
		(m.Attempt == 0 || m.Attempt == q.attempt) &&
		(m.Amount == 0 || m.Amount == q.amount)
}

// roll is a number in [0, 1) that depends on nothing but its arguments and the seed:
// FNV-1a over them, then a finalizer, because FNV alone leaves the high bits of
// similar keys alike.
func (d *director) roll(what string, call Call, key string, n int) float64 {
	h := uint64(14695981039346656037) ^ d.script.Seed*0x9e3779b97f4a7c15
	for _, part := range [...]string{what, string(call), key} {
		for i := range len(part) {
			h = (h ^ uint64(part[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211
	}
	h += uint64(n) * 0x9e3779b97f4a7c15 //nolint:gosec // n counts requests and is not negative
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return float64((h^h>>31)>>11) / (1 << 53)
}
