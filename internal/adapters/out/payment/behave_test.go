package payment

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// answers sends the same bytes to every request and keeps the connection.
func answers(raw string) serve {
	return func(p *peer, c net.Conn, r *bufio.Reader) {
		for {
			if !p.next(r) {
				return
			}
			if _, err := c.Write([]byte(raw)); err != nil {
				return
			}
		}
	}
}

// once sends bytes and closes the connection behind them.
func once(raw string) serve {
	return func(p *peer, c net.Conn, r *bufio.Reader) {
		if p.next(r) {
			_, _ = c.Write([]byte(raw))
		}
	}
}

// resets sends bytes and resets the connection behind them.
func resets(raw string) serve {
	return func(p *peer, c net.Conn, r *bufio.Reader) {
		if p.next(r) {
			_, _ = c.Write([]byte(raw))
			reset(c)
		}
	}
}

// hangs sends bytes and then nothing.
func hangs(raw string) serve {
	return func(p *peer, c net.Conn, r *bufio.Reader) {
		if p.next(r) {
			_, _ = c.Write([]byte(raw))
			p.hang(r)
		}
	}
}

// repeats sends a beginning and then the same bytes again and again, at most n times.
func repeats(begin, more string, pause time.Duration, n int) serve {
	return func(p *peer, c net.Conn, r *bufio.Reader) {
		if !p.next(r) {
			return
		}
		if _, err := c.Write([]byte(begin)); err != nil {
			return
		}
		for range n {
			if _, err := c.Write([]byte(more)); err != nil {
				return
			}
			select {
			case <-p.stop:
				return
			case <-time.After(pause):
			}
		}
	}
}

// reply200 is a whole answer that keeps the connection.
func reply200(body string) string { return whole(http.StatusOK, body) }

func whole(status int, body string, headers ...string) string {
	head := strings.Join(append(headers, ""), "\r\n")
	return fmt.Sprintf("HTTP/1.1 %d Any\r\n%sContent-Length: %d\r\n\r\n%s", status, head, len(body), body)
}

// dead answers the first request of a connection well and resets it at the first byte of the second.
func dead(p *peer, c net.Conn, r *bufio.Reader) {
	if !p.next(r) {
		return
	}
	_, _ = c.Write([]byte(reply200(goodBody)))
	if p.touch(r) {
		reset(c)
	}
}

// deaf is dead, but it reads the second request whole and closes without an answer.
func deaf(p *peer, c net.Conn, r *bufio.Reader) {
	if !p.next(r) {
		return
	}
	_, _ = c.Write([]byte(reply200(goodBody)))
	p.next(r)
}

// leaving answers well and closes at once, without a word of it in the header.
func leaving(p *peer, c net.Conn, r *bufio.Reader) { once(reply200(goodBody))(p, c, r) }

// bomb is a small answer that unpacks to a large one.
func bomb() string {
	var packed strings.Builder
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte(goodBody + strings.Repeat(" ", 4<<20)))
	_ = w.Close()
	return "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: " + strconv.Itoa(packed.Len()) + "\r\n\r\n" + packed.String()
}
