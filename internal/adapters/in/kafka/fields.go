package kafka

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/gofrs/uuid/v5"

	"billing/internal/core/domain"
)

// maxIDBytes bounds order and customer ids: they become index keys, message keys and labels in a
// provider's books, and an id that is longer than this is a mistake.
const maxIDBytes = 255

// fields reads the members of one object. The first refusal stays: every later read returns nothing, so
// that a contract is read from top to bottom without a branch after each member.
type fields struct {
	members []member
	parent  string // the name of the object with a point behind it, for details
	*verdict
}

// verdict is shared by a message's objects. Behind a pointer it may outlive the members, which then need
// no memory of their own.
type verdict struct {
	refusal *domain.Refusal // nil as long as nothing is wrong
}

func (f *fields) refuse(reason domain.Reason, detail string) {
	if f.refusal == nil {
		f.refusal = domain.Refuse(reason, f.parent+detail)
	}
}

// refuseBy takes over the domain's word on a member.
func (f *fields) refuseBy(name string, err error) {
	refusal, ok := errors.AsType[*domain.Refusal](err)
	if !ok {
		refusal = domain.Refuse(domain.ReasonInvalidField, "cannot be read")
	}
	f.refuse(refusal.Reason, name+": "+refusal.Detail)
}

// refuseVariants refuses members whose name is one of these in another case: a reader that does not care
// for case would take such a member for the contract's own.
func (f *fields) refuseVariants(names ...string) {
	for i := range f.members {
		for _, name := range names {
			if variants(f.members[i].name, name) && string(f.members[i].name) != name {
				f.refuse(domain.ReasonInvalidJSON, name+": a key that differs in case only")
				return
			}
		}
	}
}

// find returns the value of a member, nil when it is absent or null.
func (f *fields) find(name string) []byte {
	for i := range f.members {
		if string(f.members[i].name) == name {
			if value := f.members[i].value; value[0] != 'n' {
				return value
			}
			return nil
		}
	}
	return nil
}

// require returns the value of a member that must be there.
func (f *fields) require(name string) []byte {
	if f.refusal != nil {
		return nil
	}
	value := f.find(name)
	if value == nil {
		f.refuse(domain.ReasonMissingField, name+": absent or null")
	}
	return value
}

// quoted returns what a string member says; anything may stand in it.
func (f *fields) quoted(name string) []byte {
	value := f.require(name)
	if value == nil {
		return nil
	}
	if value[0] != '"' {
		f.refuse(domain.ReasonInvalidField, name+": not a string")
		return nil
	}
	return unquote(value)
}

// text returns what a string member says: something, and without NUL, which PostgreSQL does not store.
func (f *fields) text(name string) []byte {
	text := f.quoted(name)
	switch {
	case f.refusal != nil:
		return nil
	case len(text) == 0:
		f.refuse(domain.ReasonInvalidField, name+": empty")
	case bytes.IndexByte(text, 0) >= 0:
		f.refuse(domain.ReasonInvalidField, name+": holds a NUL character")
	}
	return text
}

// eventID reads the identity. A string of any content that is no UUID v7, the empty one included, is an
// invalid id; another type than string is an invalid field.
func (f *fields) eventID(name string) uuid.UUID {
	text := f.quoted(name)
	if f.refusal != nil {
		return uuid.UUID{}
	}
	id, err := domain.ParseEventID(string(text))
	if err != nil {
		f.refuseBy(name, err)
	}
	return id
}

// instant checks a time that must be there. Nothing is decided by it: an event's age is that of its id.
func (f *fields) instant(name string) {
	text := f.text(name)
	if f.refusal == nil && !isRFC3339(text) {
		f.refuse(domain.ReasonInvalidField, name+": not an RFC 3339 time with zone")
	}
}

// stringID reads an id that is a string.
func (f *fields) stringID(name string) string {
	text := f.text(name)
	if len(text) > maxIDBytes {
		f.refuse(domain.ReasonInvalidField, name+": longer than "+strconv.Itoa(maxIDBytes)+" bytes")
	}
	if f.refusal != nil {
		return ""
	}
	return string(text)
}

// numericID reads an id that is a JSON integer of a non-negative int64. Java's generators make no others,
// and -0, 17.0 or 1E1 would be second spellings of one id.
func (f *fields) numericID(name string) string {
	value := f.require(name)
	if f.refusal != nil {
		return ""
	}
	id := string(value)
	if !isDigits(value) {
		f.refuse(domain.ReasonInvalidField, name+": not a non-negative JSON integer")
		return ""
	}
	if _, err := strconv.ParseInt(id, 10, 64); err != nil {
		f.refuse(domain.ReasonInvalidField, name+": more than 64 bits hold")
		return ""
	}
	return id
}

// isDigits reports whether a JSON number is digits only: neither sign nor fraction nor exponent.
func isDigits(value []byte) bool {
	for _, c := range value {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(value) > 0
}
