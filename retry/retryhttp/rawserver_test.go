package retryhttp_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// How a rawServer ends a request.
const (
	endClose    = "close"          // reads it, and closes the connection
	endProtocol = "PROTOCOL_ERROR" // reads it, and resets the stream with a code that says nothing about it
	endRefused  = "REFUSED_STREAM" // resets the stream with the code that says that it has not looked at it
	endGoAway   = "GOAWAY"         // says the same by the number of the last stream that it has looked at
)

// rawServer speaks HTTP/1 or HTTP/2 by hand, because a server of net/http does not misbehave. Its very first request is
// answered, so that there is a connection which is kept alive; the next one is not; and then all are.
type rawServer struct {
	net.Listener

	http2  bool
	ending string

	mu      sync.Mutex
	warm    bool // the very first request was answered
	arrived int  // those behind it
	refused int  // of these the server has said that it has not looked at them
}

// newRawServer returns a server, and a transport that has a connection to it which is kept alive.
func newRawServer(t *testing.T, protocol, ending string) (*rawServer, string, *http.Transport) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{Listener: l, http2: protocol != "HTTP/1", ending: ending}
	url, base := "http://"+l.Addr().String(), &http.Transport{Protocols: new(http.Protocols)}
	switch protocol {
	case "HTTP/1":
		base.Protocols.SetHTTP1(true)
	case "HTTP/2, plain":
		base.Protocols.SetUnencryptedHTTP2(true)
	default:
		lends := httptest.NewUnstartedServer(nil)
		lends.StartTLS()
		lends.Close()
		roots := x509.NewCertPool()
		roots.AddCert(lends.Certificate())
		base.TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: "example.com"}
		base.Protocols.SetHTTP2(true)
		s.Listener = tls.NewListener(l, &tls.Config{Certificates: lends.TLS.Certificates, NextProtos: []string{"h2"}})
		url = "https://" + l.Addr().String()
	}
	var all sync.WaitGroup
	over, end := context.WithCancel(context.Background())
	all.Go(func() {
		for {
			conn, err := s.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer context.AfterFunc(over, func() { _ = conn.Close() })()
				defer conn.Close()
				if s.http2 {
					_ = s.serve2(conn)
					return
				}
				s.serve1(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		end()
		base.CloseIdleConnections()
		all.Wait()
	})
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	resp, err := base.RoundTrip(r)
	if err != nil {
		t.Fatal("the first request of the connection:", err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return s, url, base
}

// arrive counts a request, which is whole, and reports whether to answer it.
func (s *rawServer) arrive() (answer bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.warm {
		s.warm = true
		return true
	}
	s.arrived++
	if s.arrived == 1 && (s.ending == endRefused || s.ending == endGoAway) {
		s.refused++
	}
	return s.arrived > 1
}

func (s *rawServer) counts() (arrived, looked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.arrived, s.arrived - s.refused
}

func (s *rawServer) serve1(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if !s.arrive() {
			return
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
			return
		}
	}
}

// Types of frames, and flags, of RFC 9113.
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing, frameGoAway = 0, 1, 3, 4, 6, 7
	flagEndStream, flagAck, flagEndHeaders                                     = 1, 1, 4
	codeProtocol, codeRefused                                                  = 1, 7
)

func (s *rawServer) serve2(conn net.Conn) error {
	preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if _, err := io.ReadFull(conn, preface); err != nil || !strings.HasPrefix(string(preface), "PRI * HTTP/2.0") {
		return errors.New("no HTTP/2")
	}
	var last uint32 // stream that was answered
	send := func(kind, flags byte, stream uint32, payload []byte) {
		head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
		head = binary.BigEndian.AppendUint32(append(head, flags), stream)
		_, _ = conn.Write(append(head, payload...))
	}
	number := func(n ...uint32) (b []byte) {
		for _, n := range n {
			b = binary.BigEndian.AppendUint32(b, n)
		}
		return b
	}
	send(frameSettings, 0, 0, nil)
	for {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return err
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[:4])>>8)
		if _, err := io.ReadFull(conn, payload); err != nil {
			return err
		}
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		switch {
		case kind == frameSettings && flags&flagAck == 0:
			send(frameSettings, flagAck, 0, nil)
		case kind == framePing && flags&flagAck == 0:
			send(framePing, flagAck, 0, payload)
		case kind != frameData && kind != frameHeaders, flags&flagEndStream == 0:
		case s.arrive():
			last = stream
			send(frameHeaders, flagEndStream|flagEndHeaders, stream, []byte{0x88}) // :status 200
		case s.ending == endProtocol:
			send(frameReset, 0, stream, number(codeProtocol))
		case s.ending == endRefused:
			send(frameReset, 0, stream, number(codeRefused))
		case s.ending == endGoAway:
			send(frameGoAway, 0, 0, number(last, 0))
		default:
			return nil
		}
	}
}
