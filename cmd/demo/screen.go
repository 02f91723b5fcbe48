package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// plainEvery is how often progress is written where it cannot be rewritten.
const plainEvery = time.Second

// screen is where the demo reports: on a terminal the progress is one line that is rewritten, elsewhere it
// is a new line at most once a second. Its methods may be called from several goroutines.
type screen struct {
	live   bool
	colour bool
	begun  time.Time

	mu     sync.Mutex
	out    io.Writer
	unseen func() // called when nobody can read any more
	drawn  bool   // the progress is on the last line
	last   time.Time
}

// newScreen reports on a file; unseen is called when it can no longer be written.
func newScreen(out *os.File, unseen func()) *screen {
	live := terminal(out)
	return &screen{
		live: live, colour: live && os.Getenv("NO_COLOR") == "", begun: time.Now(), out: out, unseen: unseen,
	}
}

// terminal tells a terminal that understands to erase a line.
func terminal(file *os.File) bool {
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "dumb" {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && !os.SameFile(info, null)
}

// printf writes a line that stays.
func (s *screen) printf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(s.erase() + fmt.Sprintf(format, args...) + "\n")
}

// step writes a line that stays, with the time since the start.
func (s *screen) step(format string, args ...any) {
	s.printf("%s  %s", s.dim(fmt.Sprintf("%6.1fs", s.elapsed().Seconds())), fmt.Sprintf(format, args...))
}

// progress shows where things stand.
func (s *screen) progress(text string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live {
		s.write(s.erase() + text)
		s.drawn = true
		return
	}
	if now.Sub(s.last) >= plainEvery {
		s.last = now
		s.write(text + "\n")
	}
}

func (s *screen) elapsed() time.Duration { return time.Since(s.begun) }

func (s *screen) erase() string {
	if !s.drawn {
		return ""
	}
	s.drawn = false
	return "\r\x1b[K"
}

func (s *screen) write(text string) {
	if _, err := io.WriteString(s.out, text); err != nil {
		s.unseen()
	}
}

func (s *screen) good(text string) string { return s.paint("32", text) }
func (s *screen) bad(text string) string  { return s.paint("31", text) }
func (s *screen) dim(text string) string  { return s.paint("2", text) }
func (s *screen) bold(text string) string { return s.paint("1", text) }

func (s *screen) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// bar draws done of all.
func bar(done, all int64, width int) string {
	filled := width
	if all > 0 {
		filled = int(min(done, all) * int64(width) / all)
	}
	return "[" + strings.Repeat("=", filled) + strings.Repeat(" ", width-filled) + "]"
}

// grouped writes a number with commas between thousands.
func grouped[N int | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
