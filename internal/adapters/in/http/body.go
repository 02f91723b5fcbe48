package http

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"billing/internal/core/domain"
)

const (
	// maxDepth is how many objects and arrays may stand in each other, as in events.
	maxDepth = 16
	// maxIDBytes bounds order and customer ids, as in events.
	maxIDBytes = 255
)

// content is what the body of a POST says.
type content struct {
	orderID, customerID, currency string
	amount                        int64
}

// decode reads the body of a POST as strictly as an event. Unknown members are accepted.
func decode(body []byte) (content, *domain.Refusal) {
	if refusal := strict(body); refusal != nil {
		return content{}, refusal
	}
	f := fields{members: members(body)}
	if f.members == nil {
		return content{}, domain.Refuse(domain.ReasonInvalidJSON, "not a JSON object")
	}
	f.refuseVariants("order_id", "customer_id", "amount", "currency")
	c := content{orderID: f.id("order_id"), customerID: f.id("customer_id"), amount: f.integer("amount"), currency: f.text("currency")}
	return c, f.refusal
}

// strict refuses what a lax reader could take for something else: equal names, names that differ in case
// only, data behind the document, text that is not Unicode, and nesting that is deeper than any use of it.
func strict(body []byte) *domain.Refusal {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	var names []map[string]struct{} // of each open object; nil for an array
	for done := false; ; done = len(names) == 0 {
		token, err := d.ReadToken()
		switch {
		case done && errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return explain(err)
		case done:
			return domain.Refuse(domain.ReasonInvalidJSON, "data behind the document")
		}
		switch token.Kind() {
		case '{':
			names = append(names, map[string]struct{}{})
		case '[':
			names = append(names, nil)
		case '}', ']':
			names = names[:len(names)-1]
		case '"':
			if kind, n := d.StackIndex(d.StackDepth()); kind == '{' && n%2 == 1 && !add(names[len(names)-1], token.String()) {
				return domain.Refuse(domain.ReasonInvalidJSON, "keys that differ in case only")
			}
		default: // numbers and literals have nothing inside
		}
		if len(names) > maxDepth {
			return domain.Refuse(domain.ReasonInvalidJSON, "more than "+strconv.Itoa(maxDepth)+" levels deep")
		}
	}
}

func add(names map[string]struct{}, name string) bool {
	folded := fold(name)
	_, known := names[folded]
	names[folded] = struct{}{}
	return !known
}

// explain says what is wrong with a document, without a word from it.
func explain(err error) *domain.Refusal {
	what := "not valid JSON"
	switch syntax, ok := errors.AsType[*jsontext.SyntacticError](err); {
	case errors.Is(err, jsontext.ErrDuplicateName):
		what = "duplicate key"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		what = "the document ends too early"
	case ok:
		what += " at byte " + strconv.FormatInt(syntax.ByteOffset, 10)
	}
	return domain.Refuse(domain.ReasonInvalidJSON, what)
}

// members returns the members of a valid document, nil when it is not an object.
func members(body []byte) map[string]jsontext.Value {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	if open, err := d.ReadToken(); err != nil || open.Kind() != '{' {
		return nil
	}
	list := map[string]jsontext.Value{}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil
		}
		text := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil
		}
		list[text] = value.Clone()
	}
	return list
}

// fold returns a name as a reader that does not care for case sees it: upper case first and lower case
// after it, as Java's readers do, then the least letter of those that Go's readers take for equal.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		r = unicode.ToLower(unicode.ToUpper(r))
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return unicode.ToLower(least)
	}, name)
}

// fields reads members from top to bottom; the first refusal stays.
type fields struct {
	members map[string]jsontext.Value
	refusal *domain.Refusal
}

func (f *fields) refuse(reason domain.Reason, detail string) {
	if f.refusal == nil {
		f.refusal = domain.Refuse(reason, detail)
	}
}

// refuseVariants refuses members whose name is one of these in another case.
func (f *fields) refuseVariants(names ...string) {
	for member := range f.members {
		for _, name := range names {
			if member != name && fold(member) == name {
				f.refuse(domain.ReasonInvalidJSON, name+": a key that differs in case only")
			}
		}
	}
}

// require returns a member that must be there and is not null.
func (f *fields) require(name string) jsontext.Value {
	value := f.members[name]
	if value == nil || value.Kind() == 'n' {
		f.refuse(domain.ReasonMissingField, name+": absent or null")
		return nil
	}
	return value
}

// text reads a string that says something, without NUL, which PostgreSQL does not store.
func (f *fields) text(name string) string {
	value := f.require(name)
	if value == nil {
		return ""
	}
	if value.Kind() != '"' {
		f.refuse(domain.ReasonInvalidField, name+": not a string")
		return ""
	}
	text, _ := jsontext.AppendUnquote(nil, value) // read before
	switch {
	case len(text) == 0:
		f.refuse(domain.ReasonInvalidField, name+": empty")
	case bytes.IndexByte(text, 0) >= 0:
		f.refuse(domain.ReasonInvalidField, name+": holds a NUL character")
	}
	return string(text)
}

func (f *fields) id(name string) string {
	id := f.text(name)
	if len(id) > maxIDBytes {
		f.refuse(domain.ReasonInvalidField, name+": longer than "+strconv.Itoa(maxIDBytes)+" bytes")
	}
	return id
}

// integer reads a JSON integer literal: 100.0 and 1E2 are second spellings that only some readers take.
func (f *fields) integer(name string) int64 {
	value := f.require(name)
	if value == nil {
		return 0
	}
	if value.Kind() != '0' || strings.ContainsAny(string(value), ".eE") {
		f.refuse(domain.ReasonInvalidAmount, name+": not a JSON integer")
		return 0
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		f.refuse(domain.ReasonInvalidAmount, name+": more than 64 bits hold")
	}
	return n
}
