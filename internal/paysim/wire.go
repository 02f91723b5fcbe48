package paysim

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

func (a reply) writeTo(w http.ResponseWriter) {
	a.setHeader(w.Header())
	w.WriteHeader(a.Status)
	// A client that is gone already has lost its answer; that is not our failure.
	_, _ = w.Write(a.Body)
}

func (a reply) setHeader(h http.Header) {
	h.Set("Content-Type", "application/json")
	for name, value := range a.Header {
		h.Set(name, value)
	}
	if a.replayed {
		h.Set("Idempotent-Replayed", "true")
	}
}

// distort writes the true answer in a way that a client must not trust or survive
// badly.
func distort(w http.ResponseWriter, r *http.Request, f Fault, a reply) {
	switch f.Kind {
	case Truncate:
		truncate(w, f, a)
	case Oversize:
		a.setHeader(w.Header())
		w.WriteHeader(a.Status)
		_ = pad(w, a.Body, sizeOr(f.Size, 1<<20))
	case GzipBomb:
		bomb(w, f, a)
	case Drip:
		a.setHeader(w.Header())
		w.WriteHeader(a.Status)
		drip(r.Context(), w, http.NewResponseController(w).Flush, a.Body, f.interval())
	case DripHeader:
		dripAll(w, r, f, a)
	case ResetOnReuse:
		resetOnReuse(w, r, a)
	default:
		a.writeTo(w)
	}
}

// truncate promises the whole body and at least one byte more than it sends.
func truncate(w http.ResponseWriter, f Fault, a reply) {
	sent := len(a.Body) / 2
	if f.Size > 0 {
		sent = min(f.Size, len(a.Body))
	}
	a.setHeader(w.Header())
	w.Header().Set("Content-Length", strconv.Itoa(max(len(a.Body), sent+1)))
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body[:sent])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func bomb(w http.ResponseWriter, f Fault, a reply) {
	a.setHeader(w.Header())
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(a.Status)
	z := gzip.NewWriter(w)
	if pad(z, a.Body, sizeOr(f.Size, 64<<20)) == nil {
		_ = z.Close()
	}
}

func sizeOr(size, fallback int) int {
	if size == 0 {
		return fallback
	}
	return size
}

// pad writes body and white space after it, size bytes in all: JSON that is valid for
// those who read it whole.
func pad(w io.Writer, body []byte, size int) error {
	if _, err := w.Write(body); err != nil {
		return err
	}
	space := bytes.Repeat([]byte{' '}, 32<<10)
	for left := size - len(body); left > 0; left -= len(space) {
		if _, err := w.Write(space[:min(left, len(space))]); err != nil {
			return err
		}
	}
	return nil
}

// drip writes byte by byte until the end, the client's or the listener's.
func drip(ctx context.Context, w io.Writer, flush func() error, text []byte, interval time.Duration) {
	for i := range text {
		if _, err := w.Write(text[i : i+1]); err != nil || flush() != nil {
			return
		}
		if sleep(ctx, interval) != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// dripAll takes the connection over, because net/http sends a head in one piece.
func dripAll(w http.ResponseWriter, r *http.Request, f Fault, a reply) {
	conn, buf := takeOver(w)
	defer conn.Close()
	defer context.AfterFunc(r.Context(), func() { _ = conn.Close() })()
	// Said in the head, or the client would send its next request into a connection that is being closed.
	drip(workOf(r.Context()), buf, buf.Flush, a.raw("Connection: close\r\n"), f.interval())
}

// resetOnReuse waits for the first byte of the next request and then resets, which is
// what a server does that closes an idle connection at the wrong moment.
func resetOnReuse(w http.ResponseWriter, r *http.Request, a reply) {
	conn, buf := takeOver(w)
	defer conn.Close()
	defer context.AfterFunc(workOf(r.Context()), func() { _ = conn.Close() })()
	if _, err := buf.Write(a.raw("")); err != nil || buf.Flush() != nil {
		return
	}
	if _, err := buf.ReadByte(); err == nil {
		linger(conn)
	}
}

// raw is the answer as bytes on the wire, with further header lines, for connections taken over.
func (a reply) raw(more string) []byte {
	h := http.Header{}
	a.setHeader(h)
	h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 " + strconv.Itoa(a.Status) + " " + http.StatusText(a.Status) + "\r\n")
	_ = h.Write(&b) // a bytes.Buffer takes everything
	b.WriteString(more + "\r\n")
	b.Write(a.Body)
	return b.Bytes()
}

// reset closes the connection so that the client sees a reset and not an end.
func reset(w http.ResponseWriter) {
	conn, _ := takeOver(w)
	linger(conn)
	_ = conn.Close()
}

func linger(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
		_ = t.Close() // below TLS, whose own Close would send an orderly end first
	}
}

// takeOver needs HTTP/1 over a real connection; without one the best that can be done
// is to abort.
func takeOver(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return conn, buf
}
