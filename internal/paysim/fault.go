package paysim

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Kind is what happens to the answer of a request; the empty kind answers normally.
type Kind string

// The kinds of faults. Those that need the true answer exist only after the effect.
const (
	// Answer sends a scripted answer instead of the true one.
	Answer Kind = "answer"
	// Drop resets the connection without an answer.
	Drop Kind = "drop"
	// Hang waits until the client leaves, Limit passes, or hangs are released; then
	// the request goes on, unless the client has left.
	Hang Kind = "hang"
	// Informational sends 103 answers every Interval, for Limit or until the client
	// leaves.
	Informational Kind = "informational"
	// Truncate announces more bytes than it sends: Size bytes, by default half.
	Truncate Kind = "truncate"
	// Oversize sends the true answer followed by white space, Size bytes in all.
	Oversize Kind = "oversize"
	// GzipBomb is Oversize compressed, unasked.
	GzipBomb Kind = "gzip_bomb"
	// Drip sends the body byte by byte, one each Interval.
	Drip Kind = "drip"
	// DripHeader sends the whole answer, head first, byte by byte.
	DripHeader Kind = "drip_header"
	// ResetOnReuse answers well, keeps the connection open, and resets it when the
	// client sends the next request on it.
	ResetOnReuse Kind = "reset_on_reuse"
)

// Phase tells whether a fault comes before or after the effect.
type Phase string

// The phases; an empty phase is Before where the kind can be, else After.
const (
	Before Phase = "before"
	After  Phase = "after"
)

// Status is the state of a charge, in the words of the contract.
type Status string

// The states of a charge; Pending is accepted but not final, and no effect yet.
const (
	Succeeded Status = "succeeded"
	Declined  Status = "declined"
	Pending   Status = "pending"
)

// Hold says how long a pending charge stays pending. With neither a number of
// look-ups nor a time it never becomes final.
type Hold struct {
	// Final is what it becomes; empty means Succeeded.
	Final Status `json:"final,omitzero"`
	// Lookups makes the n-th look-up of the key find it final.
	Lookups int `json:"lookups,omitzero"`
	// After makes it final when so much time has passed on the simulator's clock.
	After time.Duration `json:"after,omitzero"`
}

// Fault is what the script does to one request.
type Fault struct {
	// Kind is what happens to the answer; empty: nothing.
	Kind Kind `json:"kind,omitzero"`
	// Phase says whether the effect happens first.
	Phase Phase `json:"phase,omitzero"`
	// Latency is added; zero means the script's general latency.
	Latency Range `json:"latency,omitzero"`

	// Outcome is what the charge becomes if this request executes it; empty leaves
	// it to the script's shares.
	Outcome Status `json:"outcome,omitzero"`
	// Hold belongs to the outcome pending; zero means the script's hold.
	Hold Hold `json:"hold,omitzero"`
	// NotStored leaves the key unused by the outcome: a repeat executes again.
	NotStored bool `json:"not_stored,omitzero"`

	// Status of an Answer, 200 to 999.
	Status int `json:"status,omitzero"`
	// Header of an Answer, in addition to Content-Type.
	Header map[string]string `json:"header,omitzero"`
	// Code becomes the body {"code":…} of an Answer without Body.
	Code string `json:"code,omitzero"`
	// Body of an Answer, sent as it is.
	Body string `json:"body,omitzero"`
	// RetryAfter of an Answer is sent as it is, however wrong; "@90s" becomes the
	// HTTP date 90 seconds ahead on the simulator's clock.
	RetryAfter string `json:"retry_after,omitzero"`
	// Store keeps an Answer under the key and repeats it, as some providers do even
	// with a 500. It has no meaning for look-ups and lists.
	Store bool `json:"store,omitzero"`

	// Limit ends a Hang or Informational; zero means only the client ends it.
	Limit time.Duration `json:"limit,omitzero"`
	// Interval between bytes or informational answers; zero means 100 ms.
	Interval time.Duration `json:"interval,omitzero"`
	// Size in bytes, see the kinds; zero means 1 MiB, or 64 MiB for a GzipBomb.
	Size int `json:"size,omitzero"`
}

// String names the fault as the journal shows it, such as "drop_after".
func (f Fault) String() string {
	if f.Kind == "" {
		return string(f.Outcome)
	}
	name := string(f.Kind)
	if f.Kind == Answer {
		name = fmt.Sprintf("%s_%d", f.Kind, f.Status)
	}
	return name + "_" + string(f.phase())
}

func (f Fault) phase() Phase {
	if f.Phase == "" && f.needsAnswer() {
		return After
	}
	if f.Phase == "" {
		return Before
	}
	return f.Phase
}

// needsAnswer tells the kinds that distort the true answer, which exists only after
// the effect.
func (f Fault) needsAnswer() bool {
	switch f.Kind {
	case Truncate, Oversize, GzipBomb, Drip, DripHeader, ResetOnReuse:
		return true
	default:
		return false
	}
}

func (f Fault) interval() time.Duration {
	if f.Interval == 0 {
		return 100 * time.Millisecond
	}
	return f.Interval
}

func (f Fault) validate() error {
	switch f.Kind {
	case "", Drop, Hang, Informational:
	case Answer:
		if f.Status < 200 || f.Status > 999 {
			return fmt.Errorf("status %d is not between 200 and 999", f.Status)
		}
	default:
		if !f.needsAnswer() {
			return fmt.Errorf("unknown kind %q", f.Kind)
		}
		if f.Phase == Before {
			return fmt.Errorf("kind %q exists only after the effect", f.Kind)
		}
	}
	if f.Phase != "" && f.Phase != Before && f.Phase != After {
		return fmt.Errorf("unknown phase %q", f.Phase)
	}
	if f.Outcome != "" && f.Outcome != Succeeded && f.Outcome != Declined && f.Outcome != Pending {
		return fmt.Errorf("unknown outcome %q", f.Outcome)
	}
	if f.Store && f.Kind != Answer {
		return errors.New("only an answer can be stored")
	}
	if f.Limit < 0 || f.Interval < 0 || f.Size < 0 {
		return errors.New("limit, interval and size are not negative")
	}
	return errors.Join(f.Latency.validate(), f.Hold.validate())
}

func (h Hold) validate() error {
	if h.Final != "" && h.Final != Succeeded && h.Final != Declined {
		return fmt.Errorf("a pending charge becomes succeeded or declined, not %q", h.Final)
	}
	if h.Lookups < 0 || h.After < 0 {
		return errors.New("look-ups and time of a hold are not negative")
	}
	return nil
}

// Redirect is an answer that sends the client elsewhere, with 307 so that a client that
// follows repeats its POST.
func Redirect(location string) Fault {
	return Fault{Kind: Answer, Status: http.StatusTemporaryRedirect, Header: map[string]string{"Location": location}}
}

// WrongURL is what a server says that knows nothing of charges.
func WrongURL() Rule {
	return Rule{
		Match: Match{On: Anything},
		Fault: Fault{
			Kind: Answer, Status: http.StatusNotFound, Body: "404 page not found\n",
			Header: map[string]string{"Content-Type": "text/plain; charset=utf-8"},
		},
	}
}

// Conflict is a 409 with a code, or without one when it is empty.
func Conflict(code string) Fault {
	return Fault{Kind: Answer, Status: http.StatusConflict, Code: code}
}
