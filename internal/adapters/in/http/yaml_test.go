package http_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// readYAML reads the part of YAML that our document is written in: block maps and lists, flow maps and
// lists, plain and double-quoted scalars, and folded text.
func readYAML(t *testing.T, text string) map[string]any {
	t.Helper()
	y := &yaml{t: t}
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n "); strings.TrimSpace(line) != "" && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			y.lines = append(y.lines, line)
		}
	}
	document, ok := y.block(0).(map[string]any)
	if !ok || len(y.lines) > 0 {
		t.Fatalf("the document is not one map; left: %q", y.lines[:min(len(y.lines), 3)])
	}
	return document
}

type yaml struct {
	t     *testing.T
	lines []string
	flow  string // what is left of the line
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

func (y *yaml) block(indent int) any {
	if strings.HasPrefix(y.lines[0][indent:], "- ") {
		return y.list(indent)
	}
	m := map[string]any{}
	for len(y.lines) > 0 && indentOf(y.lines[0]) == indent {
		key, rest, ok := strings.Cut(y.lines[0][indent:], ":")
		if key = strings.Trim(key, `"`); !ok || m[key] != nil {
			y.t.Fatalf("no key, or one that stands there twice: %q", y.lines[0])
		}
		y.lines = y.lines[1:]
		switch rest = strings.TrimSpace(rest); rest {
		case ">-":
			m[key] = y.folded(indent)
		case "":
			m[key] = y.block(indentOf(y.lines[0]))
		default:
			m[key] = y.line(rest)
		}
	}
	return m
}

func (y *yaml) list(indent int) []any {
	var list []any
	for len(y.lines) > 0 && indentOf(y.lines[0]) == indent && strings.HasPrefix(y.lines[0][indent:], "- ") {
		rest := y.lines[0][indent+2:]
		if strings.Contains(rest, ": ") && rest[0] != '{' && rest[0] != '"' {
			y.lines[0] = strings.Repeat(" ", indent+2) + rest
			list = append(list, y.block(indent+2))
			continue
		}
		if strings.HasSuffix(rest, ":") || strings.HasSuffix(rest, ": []") {
			y.lines[0] = strings.Repeat(" ", indent+2) + rest
			list = append(list, y.block(indent+2))
			continue
		}
		y.lines = y.lines[1:]
		list = append(list, y.line(rest))
	}
	return list
}

func (y *yaml) folded(indent int) string {
	var words []string
	for len(y.lines) > 0 && indentOf(y.lines[0]) > indent {
		words = append(words, strings.TrimSpace(y.lines[0]))
		y.lines = y.lines[1:]
	}
	return strings.Join(words, " ")
}

// line reads what stands behind a key, to the end of the line.
func (y *yaml) line(text string) any {
	if !strings.ContainsAny(text[:1], `{["`) {
		return scalar(text)
	}
	y.flow = text
	value := y.value()
	if y.flow != "" {
		y.t.Fatalf("behind %q: %q", text, y.flow)
	}
	return value
}

func scalar(text string) any {
	var value any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if strings.ContainsAny(text[:1], "0123456789tfn") && d.Decode(&value) == nil && !d.More() {
		return value
	}
	return text
}

func (y *yaml) take(n int) string {
	taken := y.flow[:n]
	y.flow = strings.TrimLeft(y.flow[n:], " ")
	return taken
}

func (y *yaml) value() any {
	switch y.flow[0] {
	case '{':
		m := map[string]any{}
		for y.take(1); y.flow[0] != '}'; {
			key := y.take(strings.Index(y.flow, ":"))
			y.take(1)
			m[strings.Trim(key, `"`)] = y.value()
			y.comma('}')
		}
		y.take(1)
		return m
	case '[':
		list := []any{}
		for y.take(1); y.flow[0] != ']'; {
			list = append(list, y.value())
			y.comma(']')
		}
		y.take(1)
		return list
	case '"':
		var text string
		end := 1
		for ; y.flow[end] != '"'; end++ {
			if y.flow[end] == '\\' {
				end++
			}
		}
		if err := json.Unmarshal([]byte(y.take(end+1)), &text); err != nil {
			y.t.Fatal(err)
		}
		return text
	}
	return scalar(strings.TrimSpace(y.take(strings.IndexAny(y.flow, ",]}"))))
}

func (y *yaml) comma(end byte) {
	if y.flow[0] == ',' {
		y.take(1)
	} else if y.flow[0] != end {
		y.t.Fatalf("want a comma or %c: %q", end, y.flow)
	}
}
