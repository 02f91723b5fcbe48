package paysim

import (
	"cmp"
	"net/http"
	"slices"
	"time"
)

// book keeps the keys and the effects. Whatever it must not forget it writes to the
// journal before it changes itself. It is guarded by the server's lock.
type book struct {
	clock  func() time.Time
	offset time.Duration // how far the clock was moved
	window time.Duration // how long a key is remembered
	reused int           // status for a key with another body
	write  func(line) error

	epoch     uint32 // grows when all keys are forgotten
	keys      map[string]*keyState
	effects   []*charge
	pending   map[string]*charge // by charge id
	issued    int64              // highest charge number
	succeeded int
}

// keyState outlives the memory of its key, because look-up and the count of attempts do.
type keyState struct {
	attempts, lookups uint32
	busy              bool    // an execution is in progress
	first             *charge // what look-up shows
	bound             *charge // what a repeat replays
	kept              *kept   // what a repeat replays instead
}

// kept is a scripted answer stored under a key.
type kept struct {
	answer reply
	hash   [32]byte
	at     int64 // Unix nanoseconds
	epoch  uint32
}

func (b *book) now() time.Time { return b.clock().Add(b.offset) }

func (b *book) key(key string) *keyState {
	st := b.keys[key]
	if st == nil {
		st = &keyState{}
		b.keys[key] = st
	}
	return st
}

// begin decides whether a request may execute. When it may, the key is busy until
// finish; when not, the reply says why, or repeats the first answer.
func (b *book) begin(st *keyState, hash [32]byte) *reply {
	var r reply
	switch {
	case st.busy:
		r = codeReply(http.StatusConflict, "in_progress", "")
	case !b.remembers(st):
		st.busy = true
		return nil
	case st.hash() != hash:
		r = codeReply(b.reused, "key_reused", "")
	case st.kept != nil:
		r = st.kept.answer
		r.replayed = true
	default:
		r = st.bound.first()
		r.replayed = true
	}
	return &r
}

func (b *book) remembers(st *keyState) bool {
	var at int64
	var epoch uint32
	switch {
	case st.kept != nil:
		at, epoch = st.kept.at, st.kept.epoch
	case st.bound != nil:
		at, epoch = st.bound.at, st.bound.epoch
	default:
		return false
	}
	return epoch == b.epoch && (b.window < 0 || b.now().UnixNano()-at < int64(b.window))
}

// hash is that of the body the key is bound to.
func (st *keyState) hash() [32]byte {
	if st.kept != nil {
		return st.kept.hash
	}
	return st.bound.hash
}

// execute makes the charge of a request that may execute and binds the key to it.
func (b *book) execute(st *keyState, c *charge, status Status, hold Hold) (reply, error) {
	now := b.now()
	c.number, c.at = b.issued+1, now.UnixNano()
	if status == Pending {
		c.held = &held{hold: hold}
		if err := b.write(line{Accepted: &accepted{Charge: c.effect(), Hold: hold}}); err != nil {
			return reply{}, err
		}
		b.pending[c.id()] = c
	} else if err := b.final(c, status, now); err != nil {
		return reply{}, err
	}
	b.bind(st, c)
	r := c.first()
	r.effect = c.seq
	return r, nil
}

// bind remembers the charge under its key, in the epoch of the moment.
func (b *book) bind(st *keyState, c *charge) {
	b.issued = max(b.issued, c.number)
	if st.first == nil {
		st.first = c
	}
	if !c.open {
		c.epoch, st.bound, st.kept = b.epoch, c, nil
	}
}

// keep remembers a scripted answer under the key.
func (b *book) keep(st *keyState, s stored) error {
	if err := b.write(line{Stored: &s}); err != nil {
		return err
	}
	b.bindStored(st, s)
	return nil
}

func (b *book) bindStored(st *keyState, s stored) {
	st.kept = &kept{answer: s.Answer, hash: unhash(s.BodySHA256), at: s.Time.UnixNano(), epoch: b.epoch}
}

// final is the moment of the effect.
func (b *book) final(c *charge, status Status, now time.Time) error {
	next := *c
	next.seq, next.declined = int64(len(b.effects))+1, status == Declined
	if c.held != nil {
		next.held = &held{hold: c.held.hold, finalAt: now.UnixNano()}
	}
	e := next.effect()
	if err := b.write(line{Effect: &e}); err != nil {
		return err
	}
	*c = next
	b.post(c)
	return nil
}

func (b *book) post(c *charge) {
	b.effects = append(b.effects, c)
	delete(b.pending, c.id())
	if !c.declined {
		b.succeeded++
	}
}

// lookup is the first charge of a key, or nil. It counts for a pending one.
func (b *book) lookup(st *keyState) (*charge, error) {
	c := st.first
	if c == nil || c.seq != 0 {
		return c, nil
	}
	if hold := &c.held.hold; hold.Lookups > 0 {
		if hold.Lookups--; hold.Lookups == 0 {
			return c, b.final(c, hold.Final, b.now())
		}
	}
	return c, b.settleDue(c)
}

// settleDue makes those of the charges final whose time has passed.
func (b *book) settleDue(charges ...*charge) error {
	now := b.now()
	for _, c := range charges {
		if hold := c.held.hold; hold.After > 0 && now.UnixNano()-c.at >= int64(hold.After) {
			if err := b.final(c, hold.Final, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// settleAllDue does so for all pending charges, in the order they were accepted.
func (b *book) settleAllDue() error {
	if len(b.pending) == 0 {
		return nil
	}
	open := make([]*charge, 0, len(b.pending))
	for _, c := range b.pending {
		open = append(open, c)
	}
	slices.SortFunc(open, func(x, y *charge) int { return cmp.Compare(x.number, y.number) })
	return b.settleDue(open...)
}

// page is at most limit effects after the one numbered after.
func (b *book) page(after int64, limit int) []*charge {
	from := min(int(after), len(b.effects))
	return b.effects[from:min(from+limit, len(b.effects))]
}

func (b *book) advance(d time.Duration) error {
	offset := b.offset + d
	if err := b.write(line{Clock: &offset}); err != nil {
		return err
	}
	b.offset = offset
	return b.settleAllDue()
}

func (b *book) forget() error {
	if err := b.write(line{Forgotten: true}); err != nil {
		return err
	}
	b.epoch++
	return nil
}
