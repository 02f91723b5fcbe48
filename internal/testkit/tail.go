package testkit

import (
	"bytes"
	"os"
)

// tail is the last n lines of a log file, for an error message.
func tail(file string, n int) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return string(bytes.Join(lines, []byte("\n")))
}
