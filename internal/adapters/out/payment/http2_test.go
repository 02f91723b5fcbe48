package payment

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"billing/internal/core/domain"
)

// The frames of HTTP/2 that matter here (RFC 9113, section 6).
const (
	frameHeaders  = 0x1
	frameReset    = 0x3
	frameSettings = 0x4
	framePing     = 0x6
	frameGoAway   = 0x7
	flagEndStream = 0x1
	flagAck       = 0x1
)

func writeFrame(w io.Writer, kind, flags byte, stream uint32, payload []byte) {
	head := make([]byte, 9, 9+len(payload))
	head[1], head[2] = byte(len(payload)>>8), byte(len(payload))
	head[3], head[4] = kind, flags
	binary.BigEndian.PutUint32(head[5:], stream)
	_, _ = w.Write(append(head, payload...))
}

// speakHTTP2 counts requests and calls react when one is whole, until react returns false.
func speakHTTP2(react func(c net.Conn, stream uint32) bool) serve {
	return func(p *peer, c net.Conn, r *bufio.Reader) {
		if _, err := r.Discard(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")); err != nil {
			return
		}
		writeFrame(c, frameSettings, 0, 0, nil)
		for {
			head := make([]byte, 9)
			if _, err := io.ReadFull(r, head); err != nil {
				return
			}
			size := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
			payload := make([]byte, size)
			if _, err := io.ReadFull(r, payload); err != nil {
				return
			}
			kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
			switch {
			case kind == frameHeaders:
				p.mu.Lock()
				p.begun++
				p.mu.Unlock()
			case kind == framePing && flags&flagAck == 0:
				writeFrame(c, framePing, flagAck, 0, payload)
			}
			if stream != 0 && flags&flagEndStream != 0 && !react(c, stream) {
				return
			}
		}
	}
}

// TestHTTP2RefusalIsNotRepeated: net/http repeats requests that an HTTP/2 server refused or left behind
// with GOAWAY, when it can read the body again. Here it cannot.
func TestHTTP2RefusalIsNotRepeated(t *testing.T) {
	t.Parallel()
	code := func(c uint32) []byte { return binary.BigEndian.AppendUint32(nil, c) }
	for name, react := range map[string]func(c net.Conn, stream uint32) bool{
		"refused stream": func(c net.Conn, stream uint32) bool {
			writeFrame(c, frameReset, 0, stream, code(7))
			return true
		},
		"protocol error": func(c net.Conn, stream uint32) bool {
			writeFrame(c, frameReset, 0, stream, code(1))
			return true
		},
		"going away": func(c net.Conn, _ uint32) bool {
			writeFrame(c, frameGoAway, 0, 0, append(code(0), code(0)...)) // nothing was worked on, it says
			return true
		},
		"closed": func(net.Conn, uint32) bool { return false },
		"reset":  func(c net.Conn, _ uint32) bool { reset(c); return false },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			certified := httptest.NewUnstartedServer(nil)
			certified.StartTLS()
			certified.Close()
			roots := x509.NewCertPool()
			roots.AddCert(certified.Certificate())
			at := newTLSPeer(t, &tls.Config{Certificates: certified.TLS.Certificates, NextProtos: []string{"h2"}}, speakHTTP2(react))
			g := newGeneric(t, target{url: "https://" + at.listener.Addr().String(), cfg: Config{RootCAs: roots}})
			transportOf(t, g).IdleConnTimeout = time.Second // a call may return before its stream has left the connection
			a := g.Charge(t.Context(), testKey, testRequest, testOrder, "")
			checkAnswer(t, a, domain.Unknown, domain.CauseBroken, 0)
			if n := at.count(); n != 1 {
				t.Errorf("%d POSTs on the wire, want 1", n)
			}
			a = g.Lookup(t.Context(), testKey, testOrder, "")
			checkAnswer(t, a, domain.Unknown, domain.CauseBroken, 0)
			g.Close()
			at.shut()
			if n := at.count(); n > 1+maxConnections+1 {
				t.Errorf("%d requests on the wire for a POST and a look-up", n)
			}
		})
	}
}
