package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"billing/internal/observe"
	"billing/migrations"
)

// Set by -ldflags "-X main.version=v1.2.3 -X main.commit=abc".
var version, commit string

// buildInfo names this binary: by the linker's flags, else by what the Go tool recorded.
func buildInfo() observe.BuildInfo {
	b := observe.BuildInfo{Version: version, Commit: commit, GoVersion: runtime.Version()}
	if recorded, ok := debug.ReadBuildInfo(); ok {
		if b.Version == "" {
			b.Version = recorded.Main.Version
		}
		for _, setting := range recorded.Settings {
			if setting.Key == "vcs.revision" && b.Commit == "" {
				b.Commit = setting.Value
			}
		}
	}
	if b.Version == "" {
		b.Version = "(devel)"
	}
	if b.Commit == "" {
		b.Commit = "unknown"
	}
	return b
}

func newVersionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the schema version that it needs",
		Example: `  billing version
  billing version --output json`,
	}
	output := outputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		schema, err := migrations.Required()
		if err != nil {
			return fmt.Errorf("read the required schema version: %w", err)
		}
		b := buildInfo()
		if output.value == "json" {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{
				"version": b.Version, "commit": b.Commit, "go": b.GoVersion, "schema": schema,
			})
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "billing %s\ncommit  %s\ngo      %s\nschema  %d\n", b.Version, b.Commit, b.GoVersion, schema)
		return err
	}
	return cmd
}
