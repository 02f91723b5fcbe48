package paysim

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Request is the journal's line of one request received.
type Request struct {
	// Seq counts arrivals from 1; the file has the order of the answers.
	Seq  int64     `json:"seq"`
	Time time.Time `json:"time"`
	// Call is charge, lookup or list; empty for everything else.
	Call   Call   `json:"call,omitzero"`
	Method string `json:"method"`
	Path   string `json:"path"`
	Key    string `json:"key,omitzero"`
	// OrderID and Amount are empty when the body could not be read.
	OrderID    string `json:"order_id,omitzero"`
	Amount     int64  `json:"amount,omitzero"`
	BodySHA256 string `json:"body_sha256,omitzero"`
	// Attempt is the number of this request for its call and key, from 1.
	Attempt int `json:"attempt,omitzero"`
	// Script is the fault that was chosen; empty for none.
	Script string `json:"script,omitzero"`
	// Status is the status answered; 0 when no answer was sent, or not yet.
	Status   int  `json:"status"`
	Replayed bool `json:"replayed,omitzero"`
	// Effect is the sequence number of the effect this request caused, or 0.
	Effect int64 `json:"effect,omitzero"`
}

// Effect is the final word about one charge: money taken or refused.
type Effect struct {
	// Seq counts effects from 1 without gaps, in the order of the list.
	Seq        int64     `json:"seq,omitzero"`
	Time       time.Time `json:"time"`
	Key        string    `json:"key"`
	OrderID    string    `json:"order_id"`
	CustomerID string    `json:"customer_id"`
	Amount     int64     `json:"amount"`
	Currency   string    `json:"currency"`
	ChargeID   string    `json:"charge_id"`
	// Status is Succeeded or Declined.
	Status     Status `json:"status"`
	BodySHA256 string `json:"body_sha256"`
	// NotStored: the script kept the key from being bound by this effect.
	NotStored bool `json:"not_stored,omitzero"`
}

// Journal is what a journal file says.
type Journal struct {
	Requests []Request
	Effects  []Effect
}

// line is one line of the file; exactly one member is set.
type line struct {
	Request  *Request  `json:"request,omitzero"`
	Effect   *Effect   `json:"effect,omitzero"`
	Accepted *accepted `json:"accepted,omitzero"`
	Stored   *stored   `json:"stored,omitzero"`
	// Clock is how far the clock was moved so far.
	Clock *time.Duration `json:"clock,omitzero"`
	// Forgotten marks the point where all keys were forgotten.
	Forgotten bool `json:"forgotten,omitzero"`
}

// accepted is a charge that is not final yet.
type accepted struct {
	Charge Effect `json:"charge"`
	Hold   Hold   `json:"hold"`
}

// stored is a scripted answer kept under a key.
type stored struct {
	Key        string    `json:"key"`
	Time       time.Time `json:"time"`
	BodySHA256 string    `json:"body_sha256"`
	Answer     reply     `json:"answer"`
}

// ReadJournal reads a journal file. A last line without its end, left by a killed
// process, is ignored: nothing was answered because of it.
func ReadJournal(path string) (Journal, error) {
	f, err := os.Open(path) //nolint:gosec // the caller names the file to read
	if err != nil {
		return Journal{}, fmt.Errorf("open journal: %w", err)
	}
	defer f.Close()
	var j Journal
	_, err = scan(f, func(l line) {
		switch {
		case l.Request != nil:
			j.Requests = append(j.Requests, *l.Request)
		case l.Effect != nil:
			j.Effects = append(j.Effects, *l.Effect)
		}
	})
	return j, err
}

// scan gives every complete line to use and returns the length of those lines.
func scan(r io.Reader, use func(line)) (int64, error) {
	var size int64
	for in := bufio.NewReaderSize(r, 1<<16); ; {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return size, fmt.Errorf("read journal: %w", err)
		}
		var l line
		if err := json.Unmarshal(text, &l, durations); err != nil {
			return size, fmt.Errorf("read journal at byte %d: %w", size, err)
		}
		size += int64(len(text))
		use(l)
	}
}

// journal appends lines to the file; without a file it does nothing.
type journal struct {
	file  *os.File
	fsync bool
}

// openJournal opens or creates the file, gives its lines to restore, and cuts an
// unfinished last line off, so that the next one does not become a part of it.
func openJournal(path string, fsync bool, restore func(line)) (*journal, error) {
	if path == "" {
		return &journal{}, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600) //nolint:gosec // the caller names the file
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	size, err := scan(f, restore)
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &journal{file: f, fsync: fsync}, nil
}

// write appends one line with one system call, so that a killed process leaves at
// most its last line unfinished. Requests are not worth an fsync: only what the
// provider must not forget is.
func (j *journal) write(l line) error {
	if j.file == nil {
		return nil
	}
	text, err := json.Marshal(l, durations, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return fmt.Errorf("encode journal line: %w", err)
	}
	if _, err := j.file.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if j.fsync && l.Request == nil {
		if err := j.file.Sync(); err != nil {
			return fmt.Errorf("sync journal: %w", err)
		}
	}
	return nil
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	if err := j.file.Close(); err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	return nil
}
