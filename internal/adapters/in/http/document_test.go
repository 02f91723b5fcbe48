package http_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gofrs/uuid/v5"

	httpin "billing/internal/adapters/in/http"
)

// document is the description of the API, to which every answer of the tests is held.
type document struct{ root map[string]any }

func loadDocument(t *testing.T) document {
	t.Helper()
	return document{readYAML(t, string(httpin.OpenAPI))}
}

// at follows names, and references on the way.
func (d document) at(from any, names ...string) any {
	from = d.resolve(from)
	for _, name := range names {
		m, ok := from.(map[string]any)
		if !ok {
			return nil
		}
		from = d.resolve(m[name])
	}
	return from
}

func (d document) resolve(v any) any {
	for {
		m, ok := v.(map[string]any)
		if !ok {
			return v
		}
		ref, ok := m["$ref"].(string)
		if !ok {
			return v
		}
		v = d.at(d.root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		if v == nil {
			return fmt.Errorf("%s leads nowhere", ref)
		}
	}
}

// operations lists method and path template of everything that is documented.
func (d document) operations() []string {
	var list []string
	paths, _ := d.root["paths"].(map[string]any)
	for path, methods := range paths {
		for method := range methods.(map[string]any) {
			list = append(list, strings.ToUpper(method)+" "+path)
		}
	}
	return slices.Sorted(slices.Values(list))
}

func (d document) statuses(operation string) []string {
	method, path, _ := strings.Cut(operation, " ")
	responses, _ := d.at(d.root, "paths", path, strings.ToLower(method), "responses").(map[string]any)
	return slices.Sorted(maps.Keys(responses))
}

// operationOf returns the operation that a request is one of, empty when it is none.
func (d document) operationOf(method, path string) string {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, operation := range d.operations() {
		m, template, _ := strings.Cut(operation, " ")
		if m == method && matches("^"+strings.ReplaceAll(regexp.QuoteMeta(template), `\{event_id\}`, "[^/]+")+"$", path) {
			return operation
		}
	}
	return ""
}

// check returns what an answer has that the document does not say. A request that is none of the
// operations may only be told so.
func (d document) check(r *http.Request, answer *http.Response, body []byte) error {
	operation := d.operationOf(r.Method, r.URL.Path)
	status := strconv.Itoa(answer.StatusCode)
	said := d.at(d.root, "components", "responses", "Problem")
	if operation != "" {
		method, path, _ := strings.Cut(operation, " ")
		if said = d.at(d.root, "paths", path, strings.ToLower(method), "responses", status); said == nil {
			return fmt.Errorf("%s does not document %s", operation, status)
		}
	} else if !slices.Contains([]string{"401", "404", "405"}, status) {
		return fmt.Errorf("%s for what is no operation", status)
	}
	headers, _ := d.at(said, "headers").(map[string]any)
	for name, header := range headers {
		values := answer.Header.Values(name)
		if len(values) == 0 && d.at(header, "required") != true {
			continue
		}
		if len(values) != 1 {
			return fmt.Errorf("%d headers %s", len(values), name)
		}
		if err := d.valid(d.at(header, "schema"), values[0], name); err != nil {
			return err
		}
	}
	kinds, _ := d.at(said, "content").(map[string]any)
	kind := answer.Header.Get("Content-Type")
	if _, ok := kinds[kind]; !ok {
		return fmt.Errorf("content type %q", kind)
	}
	if kind == "application/yaml" {
		return nil
	}
	value, err := decodeJSON(body)
	if err != nil {
		return err
	}
	if problem, ok := value.(map[string]any); ok && kind == "application/problem+json" && problem["status"] != json.Number(status) {
		return fmt.Errorf("the problem says status %v", problem["status"])
	}
	return d.valid(d.at(kinds[kind], "schema"), value, "body")
}

func decodeJSON(body []byte) (any, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("the body is not JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands behind the body")
	}
	return value, nil
}

// keywords are the words of JSON Schema that valid knows: any other in the document would not be checked.
var keywords = []string{
	"$ref", "type", "enum", "const", "required", "properties", "items", "allOf", "pattern", "format", "minLength", "maxLength", "minimum", "maximum",
	"maxItems", "description", "default",
}

// valid holds a value to a schema.
func (d document) valid(schema, value any, at string) error {
	s, ok := d.resolve(schema).(map[string]any)
	if !ok {
		return fmt.Errorf("%s: no schema: %v", at, d.resolve(schema))
	}
	for word := range s {
		if !slices.Contains(keywords, word) {
			return fmt.Errorf("%s: the tests do not know %s", at, word)
		}
	}
	for _, part := range list(s["allOf"]) {
		if err := d.valid(part, value, at); err != nil {
			return err
		}
	}
	if allowed := list(s["enum"]); allowed != nil && !slices.Contains(allowed, value) {
		return fmt.Errorf("%s: %v is none of %v", at, value, allowed)
	}
	if want, ok := s["const"]; ok && want != value {
		return fmt.Errorf("%s: %v is not %v", at, value, want)
	}
	types := list(s["type"])
	if one, ok := s["type"].(string); ok {
		types = []any{one}
	}
	if types != nil && !slices.Contains(types, any(typeOf(value))) {
		return fmt.Errorf("%s: %v is not of type %v", at, value, types)
	}
	switch v := value.(type) {
	case string:
		return validText(s, v, at)
	case json.Number:
		return validNumber(s, v, at)
	case []any:
		if most, ok := number(s["maxItems"]); ok && int64(len(v)) > most {
			return fmt.Errorf("%s: %d items", at, len(v))
		}
		for i := range v {
			if err := d.valid(s["items"], v[i], fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		return d.validObject(s, v, at)
	}
	return nil
}

func (d document) validObject(s, v map[string]any, at string) error {
	for _, name := range list(s["required"]) {
		if _, ok := v[name.(string)]; !ok {
			return fmt.Errorf("%s: %s is missing", at, name)
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for name, schema := range properties {
		if member, ok := v[name]; ok {
			if err := d.valid(schema, member, at+"."+name); err != nil {
				return err
			}
		}
	}
	return nil
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func typeOf(v any) string {
	switch v := v.(type) {
	case string:
		return "string"
	case json.Number:
		if _, err := v.Int64(); err == nil {
			return "integer"
		}
		return "number"
	case bool:
		return "boolean"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "null"
}

func validText(s map[string]any, v, at string) error {
	if pattern, ok := s["pattern"].(string); ok && !matches(pattern, v) {
		return fmt.Errorf("%s: %q does not match %s", at, v, pattern)
	}
	length := int64(utf8.RuneCountInString(v))
	if least, ok := number(s["minLength"]); ok && length < least {
		return fmt.Errorf("%s: %q is too short", at, v)
	}
	if most, ok := number(s["maxLength"]); ok && length > most {
		return fmt.Errorf("%s: %q is too long", at, v)
	}
	var err error
	switch s["format"] {
	case "uuid":
		var id uuid.UUID
		if id, err = uuid.FromString(v); err == nil && id.String() != v {
			err = errors.New("not canonical")
		}
	case "date-time":
		_, err = time.Parse(time.RFC3339Nano, v)
	}
	if err != nil {
		return fmt.Errorf("%s: %q: %w", at, v, err)
	}
	return nil
}

func validNumber(s map[string]any, v json.Number, at string) error {
	n, err := v.Int64()
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if least, ok := number(s["minimum"]); ok && n < least {
		return fmt.Errorf("%s: %d is below %d", at, n, least)
	}
	if most, ok := number(s["maximum"]); ok && n > most {
		return fmt.Errorf("%s: %d is above %d", at, n, most)
	}
	return nil
}

// patterns keeps what was compiled: the checks match some hundred thousand times.
var patterns sync.Map

func matches(pattern, text string) bool {
	compiled, ok := patterns.Load(pattern)
	if !ok {
		compiled, _ = patterns.LoadOrStore(pattern, regexp.MustCompile(pattern))
	}
	return compiled.(*regexp.Regexp).MatchString(text)
}

func number(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int64()
	return i, err == nil
}

func TestDocumentDescribesEveryRouteAndNoOther(t *testing.T) {
	t.Parallel()
	routes := make([]string, 0, len(httpin.Routes()))
	for _, r := range httpin.Routes() {
		routes = append(routes, r.Method+" "+r.Path)
	}
	slices.Sort(routes)
	if documented := loadDocument(t).operations(); !slices.Equal(documented, routes) {
		t.Errorf("documented %v, registered %v", documented, routes)
	}
}

func TestDocumentIsServedToEverybody(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	answer := a.send(t, request{method: http.MethodGet, path: "/openapi.yaml", token: none})
	if answer.Code != http.StatusOK || !bytes.Equal(answer.Body.Bytes(), httpin.OpenAPI) {
		t.Errorf("got %d, %d bytes", answer.Code, answer.Body.Len())
	}
}

// Every reference leads somewhere, every keyword is one that the checks know.
func TestDocumentIsWholeAndChecked(t *testing.T) {
	t.Parallel()
	d := loadDocument(t)
	var walk func(v any, at string)
	walk = func(v any, at string) {
		switch v := v.(type) {
		case map[string]any:
			if _, ok := v["$ref"]; ok {
				if err, bad := d.resolve(v).(error); bad {
					t.Errorf("%s: %v", at, err)
				}
			}
			for name, member := range v {
				walk(member, at+"/"+name)
			}
		case []any:
			for i := range v {
				walk(v[i], at)
			}
		}
	}
	walk(d.root, "")
	schemas, _ := d.at(d.root, "components", "schemas").(map[string]any)
	for name, schema := range schemas {
		for word := range schema.(map[string]any) {
			if !slices.Contains(keywords, word) {
				t.Errorf("%s uses %s, which no test checks", name, word)
			}
		}
	}
	for name, bad := range map[string]string{
		"missing member": `{"type":"about:blank","title":"t","status":404,"detail":"d","code":"NOT_FOUND"}`,
		"unknown code":   `{"type":"about:blank","title":"t","status":404,"detail":"d","code":"X","trace_id":"0123456789abcdef0123456789abcdef"}`,
		"wrong type":     `{"type":"about:blank","title":"t","status":"404","detail":"d","code":"NOT_FOUND","trace_id":"0123456789abcdef0123456789abcdef"}`,
	} {
		value, err := decodeJSON([]byte(bad))
		if err != nil || d.valid(schemas["Problem"], value, "body") == nil {
			t.Errorf("%s is valid, %v", name, err)
		}
	}
}
