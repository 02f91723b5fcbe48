package kafka

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"billing/internal/core/domain"
)

// maxDepth is how many objects and arrays may stand in each other, contract §2.
const maxDepth = 16

// member is one name and value of a JSON object.
type member struct {
	name  []byte // unescaped
	value []byte // as it stands in the document, always of at least one byte
}

// parseObject appends the members of the one object in data to members. It holds the document to the
// strict grammar first (one pass of jsontext, which needs no memory), so that the second pass, which
// looks at names, depth and the values, may walk over text that is known to be valid.
func parseObject(data []byte, members []member) ([]member, *domain.Refusal) {
	if !jsontext.Value(data).IsValid() {
		return nil, domain.Refuse(domain.ReasonInvalidJSON, explainInvalid(data))
	}
	w := walker{data: data}
	w.skipSpace()
	if w.data[w.pos] != '{' {
		return nil, domain.Refuse(domain.ReasonInvalidJSON, "not a JSON object")
	}
	members = w.object(1, members, true)
	if w.fault != "" {
		return nil, domain.Refuse(domain.ReasonInvalidJSON, w.fault)
	}
	return members, nil
}

// explainInvalid says where a document leaves the grammar, without a word from it.
func explainInvalid(data []byte) string {
	decoder := jsontext.NewDecoder(bytes.NewReader(data))
	_, err := decoder.ReadValue()
	if err == nil {
		_, err = decoder.ReadToken()
		if err == nil {
			return "data behind the document"
		}
	}
	at := " at byte " + strconv.FormatInt(decoder.InputOffset(), 10)
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = " at byte " + strconv.FormatInt(syntax.ByteOffset, 10)
	}
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return "duplicate key" + at
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "the document ends too early"
	default:
		return "not valid JSON" + at
	}
}

// walker steps over JSON text that is known to be valid. After a fault it only has to come to an end.
type walker struct {
	data  []byte
	pos   int
	fault string // why the document is refused, empty while it is not
}

func (w *walker) skipSpace() {
	for w.pos < len(w.data) && (w.data[w.pos] == ' ' || w.data[w.pos] == '\n' || w.data[w.pos] == '\t' || w.data[w.pos] == '\r') {
		w.pos++
	}
}

// value steps over the value at pos, which lies inside of depth objects and arrays.
func (w *walker) value(depth int) []byte {
	start := w.pos
	switch w.data[w.pos] {
	case '{':
		w.object(depth+1, nil, false)
	case '[':
		w.array(depth + 1)
	case '"':
		w.text()
	default: // a number or a literal ends where punctuation or space begins
		for w.pos < len(w.data) && w.data[w.pos] > ' ' && w.data[w.pos] != ',' && w.data[w.pos] != '}' && w.data[w.pos] != ']' {
			w.pos++
		}
	}
	return w.data[start:w.pos]
}

// text steps over a string and returns it with its quotes.
func (w *walker) text() []byte {
	start := w.pos
	for w.pos++; w.data[w.pos] != '"'; w.pos++ {
		if w.data[w.pos] == '\\' {
			w.pos++
		}
	}
	w.pos++
	return w.data[start:w.pos]
}

func (w *walker) tooDeep(depth int) bool {
	if depth > maxDepth && w.fault == "" {
		w.fault = "more than " + strconv.Itoa(maxDepth) + " levels deep"
	}
	return w.fault != ""
}

func (w *walker) array(depth int) {
	if w.tooDeep(depth) {
		return
	}
	for w.pos++; ; w.pos++ {
		w.skipSpace()
		if w.data[w.pos] == ']' { // only an empty array gets here
			break
		}
		w.value(depth)
		if w.fault != "" {
			return
		}
		w.skipSpace()
		if w.data[w.pos] == ']' {
			break
		}
	}
	w.pos++
}

// object steps over an object and appends its members when it is asked to keep them. The strict pass
// has refused equal names already; left are names that differ in case only, and those can exist only where
// a name is not in folded form.
func (w *walker) object(depth int, members []member, keep bool) []member {
	if w.tooDeep(depth) {
		return nil
	}
	var space [12][]byte
	names, plain := space[:0], true
	for w.pos++; ; w.pos++ {
		w.skipSpace()
		if w.data[w.pos] == '}' {
			break
		}
		m := member{name: unquote(w.text())}
		names, plain = append(names, m.name), plain && isFolded(m.name)
		w.skipSpace()
		w.pos++ // the colon
		w.skipSpace()
		m.value = w.value(depth)
		if w.fault != "" {
			return nil
		}
		if keep {
			members = append(members, m)
		}
		w.skipSpace()
		if w.data[w.pos] == '}' {
			break
		}
	}
	w.pos++
	if !plain && repeats(names) {
		w.fault = "keys that differ in case only"
	}
	return members
}

// unquote returns what a JSON string says. Without escapes it is a part of the text itself.
func unquote(text []byte) []byte {
	if bytes.IndexByte(text, '\\') < 0 {
		return text[1 : len(text)-1]
	}
	plain, err := jsontext.AppendUnquote(nil, text)
	if err != nil { // the strict pass has read this string before
		return nil
	}
	return plain
}
