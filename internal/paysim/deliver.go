package paysim

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"
)

// before applies a fault that precedes the effect; it tells whether the request goes on.
func (s *Server) before(x *exchange) bool {
	if x.fault.Kind == "" {
		return true
	}
	if err := x.wait(); err != nil {
		s.abandon(x, err, 0)
	}
	switch x.fault.Kind {
	case Answer:
		s.send(x, x.fault.answer(s.now()))
	case Drop:
		s.finish(x, reply{})
		reset(x.w)
	default: // Hang and Informational: the rest exists only after the effect
		if err := s.stall(x); err != nil {
			s.abandon(x, err, 0)
		}
		return true
	}
	return false
}

// after sends the true answer, distorted by a fault that follows the effect. The
// journal shows status 0 where no status line is sent.
func (s *Server) after(x *exchange, answer reply) {
	f := x.fault
	if f.phase() == Before {
		s.send(x, answer)
		return
	}
	switch f.Kind {
	case Answer:
		if !f.Store { // a stored answer has come out of execute
			scripted := f.answer(s.now())
			scripted.effect = answer.effect
			answer = scripted
		}
		s.send(x, answer)
	case Drop:
		s.finish(x, reply{effect: answer.effect})
		reset(x.w)
	case Hang, Informational:
		if err := s.stall(x); err != nil {
			s.abandon(x, err, answer.effect)
		}
		s.send(x, answer)
	default:
		s.finish(x, answer)
		distort(x.w, x.r, f, answer)
	}
}

// send finishes the request and writes the answer.
func (s *Server) send(x *exchange, answer reply) {
	s.finish(x, answer)
	answer.writeTo(x.w)
}

// abandon ends a request without an answer: the client left, the listener closes, or
// the journal could not be written. It never returns: net/http would send 200.
func (s *Server) abandon(x *exchange, err error, effect int64) {
	if x.work.Err() == nil && x.r.Context().Err() == nil {
		s.log.Error("request abandoned", "path", x.r.URL.Path, "error", err)
	}
	s.finish(x, reply{effect: effect})
	panic(http.ErrAbortHandler)
}

// finish puts the request into the journal; from here on it may be answered.
func (s *Server) finish(x *exchange, answer reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.entry.Status, x.entry.Replayed, x.entry.Effect = answer.Status, answer.replayed, answer.effect
	s.requests.answered++
	s.notify()
	if err := s.journal.write(line{Request: x.entry}); err != nil {
		s.log.Error("journal a request", "error", err)
	}
}

func (s *Server) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.now()
}

// stall keeps the client waiting, silently or with informational answers. It returns
// an error when the client or the listener is gone.
func (s *Server) stall(x *exchange) error {
	s.mu.Lock()
	release := s.release
	s.hanging++
	s.notify()
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hanging--
		s.notify()
	}()

	var limit, tick <-chan time.Time
	if x.fault.Limit > 0 {
		timer := time.NewTimer(x.fault.Limit)
		defer timer.Stop()
		limit = timer.C
	}
	if x.fault.Kind == Informational {
		ticker := time.NewTicker(x.fault.interval())
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-x.r.Context().Done():
			return fmt.Errorf("keep waiting: %w", x.r.Context().Err())
		case <-release:
			return nil
		case <-limit:
			return nil
		case <-tick:
			x.w.WriteHeader(http.StatusEarlyHints)
		}
	}
}

// answer is the scripted answer of a fault.
func (f Fault) answer(now time.Time) reply {
	r := codeReply(f.Status, f.Code, "")
	if f.Body != "" {
		r.Body = []byte(f.Body)
	}
	r.Header = map[string]string{}
	if f.RetryAfter != "" {
		r.Header["Retry-After"] = retryAfter(f.RetryAfter, now)
	}
	maps.Copy(r.Header, f.Header)
	return r
}

func retryAfter(text string, now time.Time) string {
	after, dated := strings.CutPrefix(text, "@")
	if !dated {
		return text
	}
	d, err := time.ParseDuration(after)
	if err != nil {
		return text
	}
	return now.Add(d).UTC().Format(http.TimeFormat)
}
