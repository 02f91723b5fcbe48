package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// setting is one variable as `billing config` shows it.
type setting struct {
	Name    string `json:"name"`
	File    string `json:"file_variable,omitempty"` // it may come from the file that this variable names
	Default string `json:"default"`
	Need    string `json:"required,omitempty"` // when it has to be set
	Meaning string `json:"meaning"`
	Secret  bool   `json:"secret"`
	Set     bool   `json:"set"`
	Value   string `json:"value"`
}

func newConfigCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print every variable with default, meaning and value, and check the configuration of serve",
		Long: `config prints every variable with its default, its meaning and the value in use, secrets
masked, then checks all of them as serve does: code 78 and a list of faults when serve would
refuse to start. The markdown output is the documentation: without values, nothing is checked.`,
		Example: `  billing config
  billing config --output json
  billing config --output markdown > variables.md`,
	}
	output := outputFlag(cmd, "table", "json", "markdown")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings := describe(environ)
		write := writeTable
		switch output.value {
		case "json":
			write = writeSettingsJSON
		case "markdown":
			return writeMarkdown(cmd.OutOrStdout(), settings)
		}
		if err := write(cmd.OutOrStdout(), settings); err != nil {
			return fmt.Errorf("print the configuration: %w", err)
		}
		_, err := LoadConfig(environ, PartsAll)
		return err
	}
	return cmd
}

func describe(environ []string) []setting {
	env := environment(environ)
	list := make([]setting, 0, len(variables()))
	for _, v := range variables() {
		s := setting{Name: v.name, Default: v.def, Need: v.need, Meaning: v.desc, Secret: v.secret}
		s.Value, s.Set = env[v.name]
		if !s.Set {
			s.Value = v.def
		}
		if v.secret {
			s.File = v.name + fileSuffix
			s.Set = s.Value != "" || env[s.File] != ""
		}
		// An address with an @ has a user, and perhaps a password, that should not be in it.
		if s.Set && (v.secret || strings.Contains(s.Value, "@")) {
			s.Value = mask
		}
		list = append(list, s)
	}
	return list
}

// defaultText is the default for people, or when the variable has to be set.
func (s setting) defaultText() string {
	switch {
	case s.Need == "always":
		return "required"
	case s.Need != "":
		return "required " + s.Need
	case s.Default == "":
		return "empty"
	default:
		return s.Default
	}
}

func writeTable(w io.Writer, settings []setting) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "VARIABLE\tVALUE\tDEFAULT\tMEANING") // errors show at Flush
	for _, s := range settings {
		value := s.Value
		if value == "" {
			value = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", s.Name, printable(value), s.defaultText(), s.Meaning)
	}
	return table.Flush()
}

// printable keeps a value on its line and the terminal in its mode.
func printable(value string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, value)
}

func writeSettingsJSON(w io.Writer, settings []setting) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(settings)
}

func writeMarkdown(w io.Writer, settings []setting) error {
	var b strings.Builder
	b.WriteString("| variable | default | meaning |\n|---|---|---|\n")
	for _, s := range settings {
		name, def := "`"+s.Name+"`", s.defaultText()
		if s.File != "" {
			name += " (`" + fileSuffix + "`)"
		}
		if def == s.Default {
			def = "`" + def + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, def, s.Meaning)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print the table of variables: %w", err)
	}
	return nil
}
