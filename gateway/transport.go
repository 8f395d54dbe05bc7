package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"sync"
	"time"
)

// pingTime is how long an HTTP/2 connection may be silent before the client sends a ping, and how long the
// answer to the ping may take. All requests share the connection, so all of them would wait on a dead
// connection.
const pingTime = 5 * time.Second

// newTransport returns the HTTP client for the service. It asks for no compression, because an answer is stored
// as it was received.
func newTransport(cfg *Config) *http.Transport {
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := cfg.Dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &countedConn{Conn: c}, nil
		},
		TLSClientConfig: cfg.TLS, TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout: cfg.Idle, MaxIdleConns: 0, MaxIdleConnsPerHost: 256,
		DisableCompression: true, MaxResponseHeaderBytes: 256 << 10, ExpectContinueTimeout: time.Second,
		Protocols: new(http.Protocols),
		HTTP2:     &http.HTTP2Config{SendPingTimeout: pingTime, PingTimeout: pingTime},
	}
	switch cfg.Upstream.Scheme {
	case schemeH2C:
		t.Protocols.SetUnencryptedHTTP2(true)
	case "https":
		t.Protocols.SetHTTP1(true)
		t.Protocols.SetHTTP2(true)
	default:
		t.Protocols.SetHTTP1(true)
	}
	return t
}

// countedConn counts the bytes that the kernel has accepted. It is below TLS, so it counts the encrypted bytes.
type countedConn struct {
	net.Conn

	mu      sync.Mutex
	taken   int64
	writing bool
	sealed  bool
}

var errSealed = errors.New("gateway: the gateway writes no more data to this connection, because its request was ended")

// Write implements [net.Conn].
func (c *countedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	if c.sealed {
		c.mu.Unlock()
		return 0, errSealed
	}
	c.writing = true
	c.mu.Unlock()
	// The lock is not held during the write, which may block. The field writing keeps seal from a wrong answer
	// meanwhile.
	n, err := c.Conn.Write(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing, c.taken = false, c.taken+int64(n)
	return n, err
}

func (c *countedConn) count() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken
}

// seal reports whether no byte was written since the number of written bytes was count. In this case all later
// writes fail.
func (c *countedConn) seal(count int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = c.sealed || !c.writing && c.taken == count
	return c.sealed && c.taken == count
}

// sending records what was written to a connection for one request.
type sending struct {
	conn   *countedConn // nil if the request got no connection
	http2  bool
	reused bool
	before int64 // how many bytes the connection had accepted before the request
}

// trace returns a context that makes net/http tell s which connection the request has got.
func (s *sending) trace(ctx context.Context, h2c bool) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		c := info.Conn
		s.http2, s.reused = h2c, info.Reused
		if t, ok := c.(*tls.Conn); ok {
			s.http2 = t.ConnectionState().NegotiatedProtocol == "h2"
			// Only the connection below TLS knows how many bytes were written.
			c = t.NetConn()
		}
		if counted, ok := c.(*countedConn); ok {
			s.conn, s.before = counted, counted.count()
		}
	}})
}

// notOnHTTP2 matches the errors of net/http which say that the server has not read an HTTP/2 stream. Either the
// server has refused the stream, or its GOAWAY names an earlier stream as the last one. The whole text must
// match, because other errors contain text that the server has chosen.
var notOnHTTP2 = regexp.MustCompile(`^http2: Transport: cannot retry err \[(stream error: stream ID \d+; REFUSED_STREAM; received from peer|` +
	`http2: Transport received Server's graceful shutdown GOAWAY)\] after Request\.Body was written; define Request\.GetBody to avoid this error$`)

// isNotSent reports whether the service has not received the request, and never will. The parameter err is the
// error of RoundTrip.
func (s *sending) isNotSent(err error) bool {
	switch {
	case s.conn == nil:
		return true
	case s.http2: // other requests share the connection, so the number of bytes proves nothing
		return notOnHTTP2.MatchString(err.Error())
	}
	return s.conn.seal(s.before)
}
