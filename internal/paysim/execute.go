package paysim

import (
	"net/http"
	"strconv"
)

// execute is what an honest provider does.
func (s *Server) execute(x *exchange) (reply, error) {
	if x.entry.Call == Charges && x.bad == nil {
		return s.charge(x)
	}
	if err := x.wait(); err != nil {
		return reply{}, err
	}
	switch {
	case x.bad != nil:
		return *x.bad, nil
	case x.entry.Call == Lookups:
		return s.lookup(x)
	case x.entry.Call == Lists:
		return s.list(x)
	case x.r.URL.Path == "/charges":
		return codeReply(http.StatusMethodNotAllowed, "method_not_allowed", ""), nil
	default:
		return codeReply(http.StatusNotFound, "no_such_path", ""), nil
	}
}

// charge executes once per key. The latency passes while the key is busy.
func (s *Server) charge(x *exchange) (reply, error) {
	s.mu.Lock()
	known := s.book.begin(x.state, x.hash)
	if known == nil {
		s.executing++
		s.notify()
	}
	s.mu.Unlock()
	waited := x.wait()
	if known != nil {
		return *known, waited
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.notify()
	x.state.busy = false
	s.executing--
	if waited != nil {
		return reply{}, waited
	}
	var answer reply
	if !x.fault.Store || x.fault.phase() == After {
		status, hold := s.director.outcome(x.fault, x.entry.Key)
		c := &charge{order: x.order, key: x.entry.Key, hash: x.hash, open: x.fault.NotStored}
		var err error
		if answer, err = s.book.execute(x.state, c, status, hold); err != nil {
			return reply{}, err
		}
	}
	if !x.fault.Store {
		return answer, nil
	}
	kept := x.fault.answer(s.book.now())
	kept.effect = answer.effect
	return kept, s.book.keep(x.state, stored{x.entry.Key, s.book.now(), x.entry.BodySHA256, kept})
}

func (s *Server) lookup(x *exchange) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.notify()
	notFound := codeReply(http.StatusNotFound, "not_found", "")
	if x.state == nil {
		return notFound, nil
	}
	c, err := s.book.lookup(x.state)
	if c == nil {
		return notFound, err
	}
	return jsonReply(http.StatusOK, c.found()), err
}

func (s *Server) list(x *exchange) (reply, error) {
	s.mu.Lock()
	if err := s.book.settleAllDue(); err != nil {
		s.mu.Unlock()
		return reply{}, err
	}
	page := s.book.page(x.cursor, x.limit)
	more := x.cursor+int64(len(page)) < int64(len(s.book.effects))
	s.mu.Unlock()
	var answer struct {
		Data []wireCharge `json:"data"`
		Next string       `json:"next"`
	}
	for _, c := range page { // effects never change, so the lock is not needed
		answer.Data = append(answer.Data, c.found())
	}
	if more {
		answer.Next = strconv.FormatInt(x.cursor+int64(len(page)), 10)
	}
	return jsonReply(http.StatusOK, answer), nil
}
