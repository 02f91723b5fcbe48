package paysim

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	maxBody  = 64 << 10
	maxKey   = 255
	maxLimit = 1000
)

// exchange is one request on its way through the server.
type exchange struct {
	w http.ResponseWriter
	r *http.Request
	// work ends with the listener, not with the client: what the provider began it
	// finishes.
	work context.Context

	entry  *Request
	state  *keyState // of the key, nil without one
	hash   [32]byte
	order  order
	bad    *reply // what is wrong with the request, if anything
	fault  Fault
	delay  time.Duration
	cursor int64
	limit  int
}

// ServeHTTP answers the provider's calls, and under /_sim/ the control calls, which
// ask for no token and are not journalled.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/_sim/") {
		s.control.ServeHTTP(w, r)
		return
	}
	x := &exchange{w: w, r: r, work: workOf(r.Context()), entry: &Request{Method: r.Method, Path: r.URL.Path}}
	x.read()
	authorized := s.authorized(r)
	s.arrive(x, authorized)
	if !authorized {
		s.send(x, codeReply(http.StatusUnauthorized, "unauthorized", ""))
		return
	}
	if x.fault.phase() == Before && !x.fault.Store && !s.before(x) {
		return
	}
	answer, err := s.execute(x)
	if err != nil {
		s.abandon(x, err, 0)
	}
	s.after(x, answer)
}

// read takes everything from the request that the rest needs.
func (x *exchange) read() {
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, maxBody))
	x.hash = sha256.Sum256(body)
	query := x.r.URL.Query()
	switch {
	case x.r.URL.Path != "/charges":
	case x.r.Method == http.MethodPost:
		x.entry.Call = Charges
		// The clone keeps the million keys from keeping their whole requests alive.
		x.entry.Key = strings.Clone(x.r.Header.Get("Idempotency-Key"))
		x.entry.BodySHA256 = hex.EncodeToString(x.hash[:])
		x.readOrder(body, err)
	case x.r.Method == http.MethodGet && query.Has("idempotency_key"):
		x.entry.Call = Lookups
		x.entry.Key = strings.Clone(query.Get("idempotency_key"))
	case x.r.Method == http.MethodGet:
		x.entry.Call = Lists
		x.readPage(query.Get("cursor"), query.Get("limit"))
	}
}

func (x *exchange) readOrder(body []byte, err error) {
	var tooLarge *http.MaxBytesError
	refuse := func(status int, code, message string) {
		r := codeReply(status, code, message)
		x.bad = &r
	}
	o, problem := parseOrder(body)
	x.order, x.entry.OrderID, x.entry.Amount = o, o.OrderID, o.Amount
	kind, _, _ := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	switch {
	case errors.As(err, &tooLarge):
		refuse(http.StatusRequestEntityTooLarge, "too_large", "")
	case err != nil:
		refuse(http.StatusBadRequest, "invalid_request", "the body ended early")
	case !validKey(x.entry.Key):
		refuse(http.StatusBadRequest, "invalid_key", "Idempotency-Key has 1 to 255 printable ASCII characters")
	case kind != "application/json":
		refuse(http.StatusUnsupportedMediaType, "unsupported_media_type", "")
	case problem != nil:
		refuse(http.StatusBadRequest, "invalid_request", problem.Error())
	}
}

func validKey(key string) bool {
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return false
		}
	}
	return key != "" && len(key) <= maxKey
}

func (x *exchange) readPage(cursor, limit string) {
	var err1, err2 error
	x.limit = 100
	if cursor != "" {
		x.cursor, err1 = strconv.ParseInt(cursor, 10, 64)
	}
	if limit != "" {
		x.limit, err2 = strconv.Atoi(limit)
	}
	x.limit = min(x.limit, maxLimit)
	if err1 != nil || err2 != nil || x.cursor < 0 || x.limit < 1 {
		r := codeReply(http.StatusBadRequest, "invalid_request", "cursor or limit is not valid")
		x.bad = &r
	}
}

func (s *Server) authorized(r *http.Request) bool {
	got := []byte(r.Header.Get("Authorization"))
	return s.token == "" || subtle.ConstantTimeCompare(got, []byte("Bearer "+s.token)) == 1
}

// arrive counts the request and lets the script decide about it. A request without a
// valid token never reaches the script, so it is no attempt of its key either.
func (s *Server) arrive(x *exchange, authorized bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := x.entry
	e.Time = s.book.now().UTC()
	s.requests.add(e)
	if authorized {
		q := sight{call: e.Call, key: e.Key, orderID: e.OrderID, amount: e.Amount}
		q.attempt = s.count(x, &q)
		e.Attempt = q.attempt
		x.fault, x.delay = s.director.decide(q)
		x.fault.Store = x.fault.Store && e.Call == Charges
		e.Script = x.fault.String()
	}
	s.notify()
}

// count is the number of the request among those of its call and key. A look-up sees
// the order of the key's charge.
func (s *Server) count(x *exchange, q *sight) int {
	if q.call == Lists {
		s.lists++
		return s.lists
	}
	if !validKey(q.key) {
		return 1
	}
	x.state = s.book.key(q.key)
	if q.call == Charges {
		x.state.attempts++
		return int(x.state.attempts)
	}
	if c := x.state.first; c != nil {
		q.orderID, q.amount = c.OrderID, c.Amount
	}
	x.state.lookups++
	return int(x.state.lookups)
}

// wait lets the latency pass, once.
func (x *exchange) wait() error {
	delay := x.delay
	x.delay = 0
	return sleep(x.work, delay)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	return nil
}
