package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"
)

const (
	prefix     = "BILLING_"
	fileSuffix = "_FILE"
	maxSecret  = 64 << 10 // bytes of a secret's file
)

// Fault is one thing wrong with the configuration. Text never holds a value: whoever puts a password
// into the wrong variable must not find it in the log.
type Fault struct {
	Variable string
	Text     string
}

// ConfigError is every fault that was found, in one error.
type ConfigError struct{ Faults []Fault }

// Error lists one fault on a line.
func (e *ConfigError) Error() string {
	var b strings.Builder
	plural := "s"
	if len(e.Faults) == 1 {
		plural = ""
	}
	fmt.Fprintf(&b, "configuration has %d fault%s:", len(e.Faults), plural)
	for _, f := range e.Faults {
		fmt.Fprintf(&b, "\n  %s: %s", f.Variable, f.Text)
	}
	return b.String()
}

// LoadConfig reads the parts of the configuration that a command needs from an environment in the form
// of os.Environ. Its error is a *ConfigError with all faults at once, unknown BILLING_ variables included.
func LoadConfig(environ []string, parts Parts) (Config, error) {
	l := loader{env: environment(environ), parts: parts}
	l.read()
	if parts&PartProvider != 0 {
		l.cfg.ProviderTokenFile = l.env["BILLING_PROVIDER_TOKEN"+fileSuffix]
	}
	l.checkUnknown()
	l.checkRules()
	if len(l.faults) > 0 {
		slices.SortStableFunc(l.faults, func(a, b Fault) int { return cmp.Compare(a.Variable, b.Variable) })
		return Config{}, &ConfigError{Faults: l.faults}
	}
	return l.cfg, nil
}

// variable is one field of Config as its tags describe it.
type variable struct {
	index        int
	name         string
	def          string
	need         string
	desc         string
	secret       bool
	emptyAllowed bool // an empty value has a meaning of its own
	part         Parts
}

func variables() []variable {
	t, parts := reflect.TypeFor[Config](), partNames()
	list := make([]variable, 0, t.NumField())
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		if tag.Get("ignored") == "true" {
			continue
		}
		list = append(list, variable{
			index: i, name: tag.Get("envconfig"), def: tag.Get("default"), need: tag.Get("need"), desc: tag.Get("desc"),
			secret: tag.Get("secret") == "true", part: parts[tag.Get("part")],
			emptyAllowed: tag.Get("empty") != "" || tag.Get("default") == "",
		})
	}
	return list
}

type loader struct {
	env    map[string]string
	parts  Parts
	cfg    Config
	faults []Fault
}

func environment(environ []string) map[string]string {
	env := make(map[string]string)
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, prefix) {
			env[name] = value
		}
	}
	return env
}

func (l *loader) fault(variable, format string, args ...any) {
	l.faults = append(l.faults, Fault{Variable: variable, Text: fmt.Sprintf(format, args...)})
}

// sound reports whether none of the variables has a fault yet, so that a rule between several of
// them does not complain about a value that could not be read.
func (l *loader) sound(variables ...string) bool {
	return !slices.ContainsFunc(l.faults, func(f Fault) bool { return slices.Contains(variables, f.Variable) })
}

func (l *loader) read() {
	fields := reflect.ValueOf(&l.cfg).Elem()
	for _, v := range variables() {
		value, set := v.def, false
		if v.part&l.parts != 0 {
			value, set = l.lookup(v)
		}
		field := fields.Field(v.index)
		switch {
		case v.secret:
			field.SetString(value)
		case set && value == "" && !v.emptyAllowed:
			l.fault(v.name, "is empty, unset it for the default %s", v.def)
		case value != "":
			if err := decode(field, value); err != nil {
				l.fault(v.name, "%s", expectation(field, err))
			}
		}
	}
}

// lookup returns the text of a variable, its default when it is not set, or the content of its file.
func (l *loader) lookup(v variable) (value string, set bool) {
	value, set = l.env[v.name]
	if !v.secret {
		if !set {
			value = v.def
		}
		return value, set
	}
	file := l.env[v.name+fileSuffix]
	if file == "" {
		return value, set
	}
	if value != "" {
		l.fault(v.name, "is set together with %s%s, want one of them", v.name, fileSuffix)
		return "", true
	}
	content, err := readSecret(file)
	if err != nil {
		l.fault(v.name+fileSuffix, "%s", err)
	}
	return content, true
}

// readSecret reads a secret without its last newline. Its errors don't name the path: it may be the
// secret itself, put into the wrong variable.
func readSecret(path string) (string, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return "", unreadable(err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err != nil {
		return "", unreadable(err)
	}
	if len(content) > maxSecret {
		return "", fmt.Errorf("names a file over %d bytes", maxSecret)
	}
	secret := strings.TrimRight(string(content), "\r\n")
	if secret == "" {
		return "", errors.New("names an empty file")
	}
	return secret, nil
}

func unreadable(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("names a file that cannot be read: %w", err)
}

// decode lets envconfig parse one value into one field. Each field is a struct of its own, because
// envconfig stops at the first fault; and the value goes in as its default under a name that no
// environment can hold, because envconfig reads only the process's own environment.
func decode(field reflect.Value, value string) error {
	if octal(field, value) {
		return errors.New("leading zero")
	}
	one := reflect.New(reflect.StructOf([]reflect.StructField{{
		Name: "Value",
		Type: field.Type(),
		Tag:  reflect.StructTag(`envconfig:"=" default:` + strconv.Quote(value)),
	}}))
	if err := envconfig.Process("", one.Interface()); err != nil {
		return err
	}
	field.Set(one.Elem().Field(0))
	return nil
}

// octal reports whether envconfig would read a number with leading zeros in another base than ten.
func octal(field reflect.Value, value string) bool {
	_, duration := reflect.TypeAssert[time.Duration](field)
	return field.CanInt() && !duration && len(value) > 1 && strings.HasPrefix(strings.TrimLeft(value, "+-"), "0")
}

// expectation says what a field wants. Only the text of our own decoders is used: envconfig's prints
// the value, and so do those of strconv and time.
func expectation(field reflect.Value, err error) string {
	if _, ours := reflect.TypeAssert[envconfig.Decoder](field.Addr()); ours {
		if e, ok := errors.AsType[*envconfig.ParseError](err); ok {
			return e.Err.Error()
		}
	}
	switch field.Interface().(type) {
	case time.Duration:
		return "is not a duration, want for example 500ms, 30s or 24h"
	case float64:
		return "is not a number"
	default:
		return "is not a whole decimal number, or too large"
	}
}

// checkUnknown refuses misspelt variables: the default would be used without a word.
func (l *loader) checkUnknown() {
	known := make(map[string]bool)
	for _, v := range variables() {
		known[v.name] = true
		if v.secret {
			known[v.name+fileSuffix] = true
		}
	}
	for name := range l.env {
		if known[name] || l.serviceLink(name) {
			continue
		}
		if near := nearest(name, slices.Sorted(maps.Keys(known))); near != "" {
			l.fault(name, "is unknown, did you mean %s?", near)
		} else {
			l.fault(name, "is unknown, see billing config for the list")
		}
	}
}

// serviceLink reports whether Kubernetes made the variable: it gives every pod X_SERVICE_HOST, X_PORT
// and others for each Service X of the namespace, and one may well be called billing-ops.
func (l *loader) serviceLink(name string) bool {
	for link := range l.env {
		service, ok := strings.CutSuffix(link, "_SERVICE_HOST")
		if !ok {
			continue
		}
		rest, ok := strings.CutPrefix(name, service)
		if ok && (strings.HasPrefix(rest, "_SERVICE_") || rest == "_PORT" || strings.HasPrefix(rest, "_PORT_")) {
			return true
		}
	}
	return false
}
