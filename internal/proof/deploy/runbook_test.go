package deploy_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Whoever is woken up must not meet a command that is not there.
func TestCommandsOfTheRunbookExist(t *testing.T) {
	t.Parallel()
	commands := submatches("`(?:kubectl exec deploy/billing -- /)?billing ([a-z][^`]*)`", read(t, "deploy/RUNBOOK.md"))
	slices.Sort(commands)
	commands = slices.Compact(commands)
	if len(commands) < 10 {
		t.Fatalf("found only %d commands", len(commands))
	}
	word := regexp.MustCompile(`^[a-z][a-z-]*$`)
	for _, command := range commands {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			var verbs []string
			for part := range strings.FieldsSeq(command) {
				if !word.MatchString(part) {
					break
				}
				verbs = append(verbs, part)
			}
			code, help := run(t, nil, append(verbs, "--help")...)
			if usage := "billing " + strings.Join(verbs, " "); code != 0 || !strings.Contains(help, "\n  "+usage) {
				t.Errorf("%s is no command: exit code %d", usage, code)
			}
			for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(command, -1) {
				if !strings.Contains(help, flag+" ") {
					t.Errorf("it has no flag %s", flag)
				}
			}
		})
	}
}
