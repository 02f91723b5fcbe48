package paysim

import "fmt"

// restore brings one line of the journal back into the book and the log of requests.
func (s *Server) restore(l line) error {
	b := s.book
	switch {
	case l.Request != nil:
		s.requests.restore(*l.Request)
		if l.Request.Key != "" {
			b.restoreCount(*l.Request)
		}
	case l.Effect != nil:
		return b.restoreEffect(*l.Effect)
	case l.Accepted != nil:
		c, err := chargeOf(l.Accepted.Charge)
		if err != nil {
			return err
		}
		c.held = &held{hold: l.Accepted.Hold}
		b.pending[c.id()] = c
		b.bind(b.key(c.key), c)
	case l.Stored != nil:
		b.bindStored(b.key(l.Stored.Key), *l.Stored)
	case l.Clock != nil:
		b.offset = *l.Clock
	case l.Forgotten:
		b.epoch++
	}
	return nil
}

// restoreEffect either ends a pending charge or brings a whole one.
func (b *book) restoreEffect(e Effect) error {
	if want := int64(len(b.effects)) + 1; e.Seq != want {
		return fmt.Errorf("effect %d follows effect %d", e.Seq, want-1)
	}
	c, err := chargeOf(e)
	if err != nil {
		return err
	}
	if open := b.pending[c.id()]; open != nil {
		open.seq, open.declined, open.held.finalAt = c.seq, c.declined, c.at
		b.post(open)
		return nil
	}
	b.post(c)
	b.bind(b.key(c.key), c)
	return nil
}

func (b *book) restoreCount(r Request) {
	st := b.key(r.Key)
	switch n := uint32(r.Attempt); r.Call { //nolint:gosec // written by this package from a uint32
	case Charges:
		st.attempts = max(st.attempts, n)
	case Lookups:
		st.lookups = max(st.lookups, n)
	default:
	}
}
