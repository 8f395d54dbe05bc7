package gateway_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// raw is a server that does with a connection what it is told. It counts the requests that have reached it, whatever is then
// answered: it is the witness.
type raw struct {
	addr  string
	seen  atomic.Int64 // requests that were read
	conns atomic.Int64

	mu   sync.Mutex
	last *http.Request // the last one on HTTP/1, with its body
	body []byte
}

func (s *raw) header() http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.Header
}

func listen(t *testing.T, s *raw, serve func(conn net.Conn)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	var open sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	open.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			open.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		open.Wait()
	})
}

// newRaw1 returns a server of HTTP/1 that answers the request with that number with these bytes. The connection goes on if keep.
func newRaw1(t *testing.T, answer func(n int64) (text string, keep bool)) *raw {
	t.Helper()
	s := &raw{}
	listen(t, s, func(conn net.Conn) {
		for in := bufio.NewReader(conn); ; {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.last, s.body = r, body
			s.mu.Unlock()
			text, keep := answer(s.seen.Add(1))
			if head, rest, whole := strings.Cut(text, "\r\n"); whole && !keep && strings.Contains(rest, "\r\n\r\n") { // so that the connection is not used again
				text = head + "\r\nConnection: close\r\n" + rest
			}
			_, _ = io.WriteString(conn, text)
			if !keep {
				return
			}
		}
	})
	return s
}

// Frames of HTTP/2.
const (
	frameData = iota
	frameHeaders
	_
	frameReset
	frameSettings
	_
	framePing
	frameGoAway
)

func writeFrame(w io.Writer, kind, flags byte, stream uint32, payload []byte) {
	head := make([]byte, 9, 9+len(payload))
	binary.BigEndian.PutUint32(head, uint32(len(payload))<<8)
	head[3], head[4] = kind, flags
	binary.BigEndian.PutUint32(head[5:], stream)
	_, _ = w.Write(append(head, payload...))
}

// newRaw2 returns a server of HTTP/2 that does this with each request that it has read to its end, n being its number. A scheme of https is
// HTTP/2 over TLS, else there is none.
func newRaw2(t *testing.T, scheme string, answer func(w io.Writer, n int64, stream uint32)) *raw {
	t.Helper()
	s := &raw{}
	var cfg *tls.Config
	if scheme == "https" {
		own := httptest.NewTLSServer(nil)
		own.Close()
		cfg = &tls.Config{Certificates: own.TLS.Certificates, NextProtos: []string{"h2"}}
	}
	listen(t, s, func(conn net.Conn) {
		if cfg != nil {
			conn = tls.Server(conn, cfg)
		}
		preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
		if _, err := io.ReadFull(conn, preface); err != nil || !bytes.HasPrefix(preface, []byte("PRI")) {
			return
		}
		writeFrame(conn, frameSettings, 0, 0, nil)
		for head := make([]byte, 9); ; {
			if _, err := io.ReadFull(conn, head); err != nil {
				return
			}
			payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
			if _, err := io.ReadFull(conn, payload); err != nil {
				return
			}
			kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
			switch {
			case kind == frameSettings && flags&1 == 0:
				writeFrame(conn, frameSettings, 1, 0, nil)
			case kind == framePing && flags&1 == 0:
				writeFrame(conn, framePing, 1, 0, payload)
			case (kind == frameData || kind == frameHeaders) && flags&1 != 0: // END_STREAM
				answer(conn, s.seen.Add(1), stream)
			}
		}
	})
	return s
}

// reset is RST_STREAM with an error code.
func reset(w io.Writer, stream, code uint32) {
	writeFrame(w, frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}

// goAway is GOAWAY with the last stream that the server has looked at.
func goAway(w io.Writer, last, code uint32) {
	writeFrame(w, frameGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), code))
}

// ok2 answers 200 without a body.
func ok2(w io.Writer, stream uint32) { writeFrame(w, frameHeaders, 5, stream, []byte{0x88}) }
