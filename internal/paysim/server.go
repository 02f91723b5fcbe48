package paysim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Options of a server; the zero value is an honest provider without a journal file.
type Options struct {
	// Now is the clock that the key window runs on, together with Advance. Nil is a
	// clock that only Advance moves.
	Now func() time.Time
	// KeyWindow is how long a key is remembered after its first answer: zero means
	// 24 hours, negative means for ever.
	KeyWindow time.Duration
	// Token is the bearer token asked for; empty asks for none.
	Token string
	// ReuseStatus is answered for a key with another body; zero means 409.
	ReuseStatus int
	// Journal is the path of the journal file; empty keeps it in memory only.
	Journal string
	// Fsync makes every effect durable against a power failure before its answer.
	Fsync bool
	// KeepRequests is how many of the latest requests Requests returns; zero means
	// 100,000. The journal file has all.
	KeepRequests int
	// Script is what goes wrong from the start.
	Script Script
	// Log receives failures of the journal; nil discards them.
	Log *slog.Logger
}

// Server is the simulated provider, an [http.Handler]. Its methods may be called at
// any time, from any goroutine.
type Server struct {
	token   string
	log     *slog.Logger
	journal *journal
	control http.Handler

	mu        sync.Mutex
	book      *book
	director  *director
	requests  requestLog
	lists     int
	hanging   int
	executing int
	release   chan struct{} // closed to let hanging requests go on
	changed   chan struct{} // closed when Stats change; nil while nobody waits
}

// New makes a server and restores what its journal file holds.
func New(o Options) (*Server, error) {
	if err := o.Script.Validate(); err != nil {
		return nil, fmt.Errorf("validate script: %w", err)
	}
	if o.Now == nil {
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		o.Now = func() time.Time { return start }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		token:    o.Token,
		log:      o.Log,
		director: newDirector(o.Script),
		requests: requestLog{keep: cmp.Or(o.KeepRequests, 100_000)},
		release:  make(chan struct{}),
		book: &book{
			clock:   o.Now,
			window:  cmp.Or(o.KeyWindow, 24*time.Hour),
			reused:  cmp.Or(o.ReuseStatus, http.StatusConflict),
			keys:    map[string]*keyState{},
			pending: map[string]*charge{},
		},
	}
	s.control = s.controls()
	if err := s.open(o.Journal, o.Fsync); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) open(path string, fsync bool) error {
	var broken error
	j, err := openJournal(path, fsync, func(l line) {
		if broken == nil {
			broken = s.restore(l)
		}
	})
	if err != nil {
		return err
	}
	if broken != nil {
		return errors.Join(fmt.Errorf("restore journal: %w", broken), j.close())
	}
	s.journal, s.book.write = j, j.write
	return nil
}

// Close writes down what became due and closes the journal file. Listeners have to be
// closed first; requests that come later get no effect.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.book.settleAllDue(), s.journal.close())
}

// Requests are the latest requests in the order of arrival; one that was not answered
// yet has status 0.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests.snapshot()
}

// Effects are all effects in order. Pending charges that became due are among them.
func (s *Server) Effects() []Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleDue()
	effects := make([]Effect, len(s.book.effects))
	for i, c := range s.book.effects {
		effects[i] = c.effect()
	}
	return effects
}

// Journal is what the server remembers, as ReadJournal gives it for a file.
func (s *Server) Journal() Journal {
	return Journal{Requests: s.Requests(), Effects: s.Effects()}
}

// settleDue is for readers, who can do nothing about a journal that fails.
func (s *Server) settleDue() {
	if err := s.book.settleAllDue(); err != nil {
		s.log.Error("settle pending charges", "error", err)
	}
}

// SetScript replaces the whole script.
func (s *Server) SetScript(script Script) error {
	if err := script.Validate(); err != nil {
		return fmt.Errorf("set script: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.director = newDirector(script)
	return nil
}

// Script is the script as it is now.
func (s *Server) Script() Script {
	s.mu.Lock()
	defer s.mu.Unlock()
	script := s.director.script
	script.Rules = slices.Clone(script.Rules)
	return script
}

// AddRules appends rules to the script: those that are there already win.
func (s *Server) AddRules(rules ...Rule) error {
	for i, r := range rules {
		if err := r.validate(); err != nil {
			return fmt.Errorf("add rule %d: %w", i+1, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.director.add(rules)
	return nil
}

// ClearRules removes every rule; shares stay.
func (s *Server) ClearRules() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.director.clear()
}

// Advance moves the clock forward: keys grow old, pending charges become final.
func (s *Server) Advance(d time.Duration) error {
	if d < 0 {
		return errors.New("advance clock: time does not run backwards")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.notify()
	return s.book.advance(d)
}

// ForgetKeys forgets all keys at once, as a provider does that fails over to an older
// copy: a repeat is a second effect. Effects stay.
func (s *Server) ForgetKeys() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.forget()
}

// ReleaseHangs lets every request that hangs at this moment go on.
func (s *Server) ReleaseHangs() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.release)
	s.release = make(chan struct{})
}

// Stats counts what the server has seen and done.
type Stats struct {
	// Received counts requests, Answered those that are over, with an answer or not.
	Received int64 `json:"received"`
	Answered int64 `json:"answered"`
	// Hanging requests wait for their client, their limit or ReleaseHangs.
	Hanging int `json:"hanging"`
	// Executing requests keep their key busy while their latency passes.
	Executing int `json:"executing"`
	// Effects counts all effects, Succeeded those that took money.
	Effects   int       `json:"effects"`
	Succeeded int       `json:"succeeded"`
	Pending   int       `json:"pending"`
	Keys      int       `json:"keys"`
	Now       time.Time `json:"now"`
}

// Stats are the counts of this moment.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats()
}

func (s *Server) stats() Stats {
	return Stats{
		Received: s.requests.received, Answered: s.requests.answered, Hanging: s.hanging, Executing: s.executing,
		Effects: len(s.book.effects), Succeeded: s.book.succeeded, Pending: len(s.book.pending),
		Keys: len(s.book.keys), Now: s.book.now(),
	}
}

// Wait returns when the counts satisfy the condition, or with the context's error.
func (s *Server) Wait(ctx context.Context, until func(Stats) bool) error {
	for {
		s.mu.Lock()
		if until(s.stats()) {
			s.mu.Unlock()
			return nil
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the payment simulator: %w", ctx.Err())
		}
	}
}

// WaitRequests returns when at least n requests have been received.
func (s *Server) WaitRequests(ctx context.Context, n int64) error {
	return s.Wait(ctx, func(st Stats) bool { return st.Received >= n })
}

// WaitEffects returns when there are at least n effects.
func (s *Server) WaitEffects(ctx context.Context, n int) error {
	return s.Wait(ctx, func(st Stats) bool { return st.Effects >= n })
}

// WaitHanging returns when at least n requests hang.
func (s *Server) WaitHanging(ctx context.Context, n int) error {
	return s.Wait(ctx, func(st Stats) bool { return st.Hanging >= n })
}

// notify wakes those who wait; the lock is held.
func (s *Server) notify() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}
