package roundtrippertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"math/big"
	"net"
	"sync"
	"time"
)

// http2Server implements the part of HTTP/2 that is needed to refuse a stream, because a test cannot make a server of the standard library refuse
// one.
type http2Server struct {
	url   string
	trust *tls.Config
	how   refusal

	mu      sync.Mutex
	streams int
	body    string
}

type refusal int

const (
	refuseStream refusal = iota
	goAway
)

// These are the parts of HTTP/2 (RFC 9113) that the test server implements.
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing, frameGoAway = 0, 1, 3, 4, 6, 7

	flagAck, flagEndStream, flagEndHeaders = 1, 1, 4

	codeRefused = 7
)

func (l *lab) serveHTTP2(how refusal) (*http2Server, error) {
	certificate, roots, err := selfSigned()
	if err != nil {
		return nil, err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return nil, err
	}
	s := &http2Server{url: "https://" + listener.Addr().String(), how: how, trust: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	l.atEnd(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s, nil
}

func (s *http2Server) seen() (streams int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams, s.body
}

// serve refuses the first stream of the server and answers all other streams.
func (s *http2Server) serve(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	preface := make([]byte, 24)
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}
	write(conn, frameSettings, 0, 0, nil)
	turnedAway := uint32(0)
	for {
		kind, flags, stream, payload, err := read(conn)
		if err != nil {
			return
		}
		switch {
		case kind == frameSettings && flags&flagAck == 0:
			write(conn, frameSettings, flagAck, 0, nil)
		case kind == framePing && flags&flagAck == 0:
			write(conn, framePing, flagAck, 0, payload)
		case kind == frameHeaders:
			if s.opened() == 1 {
				turnedAway = stream
				s.turnAway(conn, stream)
			}
		case kind == frameData:
			s.mu.Lock()
			if stream != turnedAway {
				s.body += string(payload)
			}
			s.mu.Unlock()
		}
		if (kind == frameHeaders || kind == frameData) && flags&flagEndStream != 0 && stream != turnedAway {
			write(conn, frameHeaders, flagEndStream|flagEndHeaders, stream, []byte{0x88}) // :status 200 in the static table of HPACK
		}
	}
}

func (s *http2Server) opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams++
	return s.streams
}

func (s *http2Server) turnAway(conn net.Conn, stream uint32) {
	if s.how == refuseStream {
		write(conn, frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, codeRefused))
		return
	}
	write(conn, frameGoAway, 0, 0, make([]byte, 8)) // the last stream that was taken is 0, no error
}

func read(r io.Reader) (kind, flags byte, stream uint32, payload []byte, err error) {
	var head [9]byte
	if _, err = io.ReadFull(r, head[:]); err != nil {
		return 0, 0, 0, nil, err
	}
	payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	_, err = io.ReadFull(r, payload)
	return head[3], head[4], binary.BigEndian.Uint32(head[5:]), payload, err
}

func write(w io.Writer, kind, flags byte, stream uint32, payload []byte) {
	n := len(payload)
	frame := append([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}, binary.BigEndian.AppendUint32(nil, stream)...)
	_, _ = w.Write(append(frame, payload...)) // a client that is gone is noticed by read
}

// selfSigned returns a certificate for 127.0.0.1.
func selfSigned() (tls.Certificate, *x509.CertPool, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots, nil
}
