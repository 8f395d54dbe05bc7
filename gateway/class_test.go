package gateway_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/gateway"
)

// What a retry with the key is told, which shows what was made of the first answer.
const (
	replays = "" // the stored answer
	unknown = "CONFLICT.idempotency.unknown"
	omitted = "CONFLICT.idempotency.result_unavailable"
	again   = "again" // the request was forwarded again
)

const ok1 = "HTTP/1.1 201 Created\r\nContent-Length: 4\r\nContent-Type: text/plain\r\n\r\npaid"

func status1(status int, header string) string {
	return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: 1\r\n%s\r\nx", status, header)
}

// TestClassesHTTP1: what a service on HTTP/1 has answered, or not, decides what becomes of the key.
func TestClassesHTTP1(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first  string // answer to the first forward; the connection closes behind it
		status int    // that the client gets
		retry  string
	}{
		"whole":                         {ok1, 201, replays},
		"500":                           {status1(500, ""), 500, replays},
		"409 of the service":            {status1(409, ""), 409, replays},
		"422":                           {status1(422, ""), 422, replays},
		"nothing":                       {"", 409, unknown},
		"half a status line":            {"HTTP/1.1 20", 409, unknown},
		"half a header":                 {"HTTP/1.1 201 Created\r\nContent-Le", 409, unknown},
		"body cut":                      {ok1[:len(ok1)-1], 201, omitted},
		"chunked body cut":              {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npaid\r\n", 200, omitted},
		"body ends with the connection": {"HTTP/1.1 200 OK\r\n\r\npaid", 200, omitted},
		"502":                           {status1(502, ""), 409, unknown},
		"503":                           {status1(503, ""), 409, unknown},
		"504":                           {status1(504, ""), 409, unknown},
		"503 of the service itself":     {status1(503, "Once-Outcome: not-executed\r\n"), 503, again},
		"503 with another outcome":      {status1(503, "Once-Outcome: executed\r\n"), 409, unknown},
		"401":                           {status1(401, ""), 401, again},
		"403":                           {status1(403, ""), 403, again},
		"407":                           {status1(407, ""), 407, again},
		"408":                           {status1(408, ""), 408, again},
		"421":                           {status1(421, ""), 421, again},
		"425":                           {status1(425, ""), 425, again},
		"429":                           {status1(429, "Retry-After: 7\r\n"), 429, again},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRaw1(t, func(n int64) (string, bool) {
				if n == 1 {
					return c.first, false
				}
				return ok1, false
			})
			g := newGateway(t, "http://"+s.addr, nil)
			want(t, "status", ask(g, "k", "1").StatusCode, c.status)
			retry(t, g, s, c.retry)
		})
	}
}

// retry sends the request again and judges by what has reached the service.
func retry(t *testing.T, g *gateway.Gateway, s *raw, expect string) {
	t.Helper()
	before := s.seen.Load()
	resp := ask(g, "k", "1")
	switch expect {
	case again:
		want(t, "requests", s.seen.Load(), before+1)
		want(t, "retried", resp.Header.Get("Idempotency-Status"), "stored")
	case replays:
		want(t, "requests", s.seen.Load(), before)
		want(t, "replayed", resp.Header.Get("Idempotent-Replayed"), "true")
	default:
		want(t, "requests", s.seen.Load(), before)
		want(t, "code", codeOf(t, resp), expect)
	}
}

// TestClassesHTTP2: with and without TLS, only a stream that the service has not looked at was not sent. The gateway then sends it again itself, at most
// three times in all.
func TestClassesHTTP2(t *testing.T) {
	t.Parallel()
	const noError, protocol, internal, refused, cancel = 0, 1, 2, 7, 8
	for name, c := range map[string]struct {
		answer func(w io.Writer, stream uint32)
		seen   int64 // requests that have reached the service
		status int
		retry  string
	}{
		"whole":                {ok2, 1, 200, replays},
		"REFUSED_STREAM":       {func(w io.Writer, s uint32) { reset(w, s, refused) }, 3, 503, again},
		"GOAWAY before":        {func(w io.Writer, s uint32) { goAway(w, max(s, 2)-2, noError) }, 2, 503, again},
		"GOAWAY behind":        {func(w io.Writer, s uint32) { goAway(w, s, noError); reset(w, s, cancel) }, 1, 409, unknown},
		"INTERNAL_ERROR":       {func(w io.Writer, s uint32) { reset(w, s, internal) }, 1, 409, unknown},
		"CANCEL":               {func(w io.Writer, s uint32) { reset(w, s, cancel) }, 1, 409, unknown},
		"PROTOCOL_ERROR":       {func(w io.Writer, s uint32) { reset(w, s, protocol) }, 1, 409, unknown},
		"connection is closed": {func(w io.Writer, _ uint32) { _ = w.(net.Conn).Close() }, 1, 409, unknown},
	} {
		for _, scheme := range []string{"h2c", "https"} {
			t.Run(name+" "+scheme, func(t *testing.T) {
				t.Parallel()
				var well atomic.Bool
				well.Store(true)
				s := newRaw2(t, scheme, func(w io.Writer, _ int64, stream uint32) {
					if well.Load() {
						ok2(w, stream)
						return
					}
					c.answer(w, stream)
				})
				g := newGateway(t, scheme+"://"+s.addr, func(c *gateway.Config) {
					insecure(c)
					c.Idle = time.Hour // so that the second request has the connection of the first, also on a slow machine
				})
				want(t, "status of the first, which opens the connection", ask(g, "first", "1").StatusCode, 200)
				well.Store(false)
				want(t, "status", ask(g, "k", "1").StatusCode, c.status)
				want(t, "requests", s.seen.Load(), 1+c.seen)
				well.Store(true)
				retry(t, g, s, c.retry)
			})
		}
	}
}

// insecure believes the certificate of a test.
func insecure(c *gateway.Config) { c.TLS = &tls.Config{InsecureSkipVerify: true} }

// TestNeverSentTwiceByNetHTTP: a service that closes a connection which was used before, or resets a stream with PROTOCOL_ERROR, gets a request
// once. The control sends it with net/http as it is, and the service gets it twice or more.
func TestNeverSentTwiceByNetHTTP(t *testing.T) {
	t.Parallel()
	const protocol = 1
	services := map[string]func(t *testing.T) (upstream string, s *raw){
		"h1": func(t *testing.T) (string, *raw) {
			s := newRaw1(t, func(n int64) (string, bool) {
				if n == 1 {
					return ok1, true
				}
				return "", false
			})
			return "http://" + s.addr, s
		},
		"h2c": func(t *testing.T) (string, *raw) {
			s := newRaw2(t, "h2c", func(w io.Writer, n int64, stream uint32) {
				if n == 1 || n > 20 {
					ok2(w, stream)
					return
				}
				reset(w, stream, protocol)
			})
			return "h2c://" + s.addr, s
		},
	}
	for name, start := range services {
		for what, body := range map[string]string{"empty": "", "with a body": "1"} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				upstream, s := start(t)
				g := newGateway(t, upstream, nil)
				ask(g, "first", "1")
				want(t, "code", codeOf(t, ask(g, "k", body)), unknown)
				want(t, "requests", s.seen.Load(), int64(2))
			})
			t.Run(name+" "+what+", unlisted route", func(t *testing.T) {
				t.Parallel()
				upstream, s := start(t)
				g := newGateway(t, upstream, func(c *gateway.Config) { c.Routes = nil })
				ask(g, "first", "1")
				want(t, "status", ask(g, "k", body).StatusCode, 502)
				want(t, "requests", s.seen.Load(), int64(2))
			})
			t.Run(name+" "+what+", control", func(t *testing.T) {
				t.Parallel()
				for range 10 { // on a slow machine net/http may send the second request on a new connection, and then only once
					upstream, s := start(t)
					rest, isH2C := strings.CutPrefix(upstream, "h2c")
					client := &http.Transport{Protocols: new(http.Protocols)}
					client.Protocols.SetHTTP1(!isH2C)
					client.Protocols.SetUnencryptedHTTP2(isH2C)
					t.Cleanup(client.CloseIdleConnections)
					for range 2 {
						r, err := http.NewRequest(http.MethodPost, "http"+strings.TrimPrefix(rest, "http")+"/pay", strings.NewReader(body))
						if err != nil {
							t.Fatal(err)
						}
						r.Header.Set("Idempotency-Key", "k")
						if resp, err := client.RoundTrip(r); err == nil {
							_, _ = io.Copy(io.Discard, resp.Body)
							_ = resp.Body.Close()
						}
					}
					if s.seen.Load() > 2 {
						return
					}
				}
				t.Error("net/http has sent each request once: the guard guards against nothing")
			})
		}
	}
}

// TestNotSent: without a connection nothing is sent, and the key is free.
func TestNotSent(t *testing.T) {
	t.Parallel()
	s := newRaw1(t, func(int64) (string, bool) { return ok1, true })
	var refuses atomic.Bool
	refuses.Store(true)
	g := newGateway(t, "http://"+s.addr, func(c *gateway.Config) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if refuses.Load() {
				return nil, errors.New("no route to host")
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	})
	want(t, "code", codeOf(t, ask(g, "k", "1")), "TRANSIENT.upstream_unavailable")
	refuses.Store(false)
	retry(t, g, s, again)
}

// fullConn is a connection whose kernel takes no byte of what is written to it, or half of it.
type fullConn struct {
	net.Conn

	half bool
	full *atomic.Int64 // writes that it has not taken
}

func (c *fullConn) Write(p []byte) (int, error) {
	c.full.Add(1)
	n := 0
	if c.half {
		n, _ = c.Conn.Write(p[:len(p)/2])
	}
	_ = c.Close()
	return n, errors.New("broken pipe")
}

// TestBytesThatTheKernelTook: a request of which the kernel has taken no byte was not sent; one of which it has taken some is unknown.
func TestBytesThatTheKernelTook(t *testing.T) {
	t.Parallel()
	for _, half := range []bool{false, true} {
		for _, scheme := range []string{"http", "https"} {
			t.Run(fmt.Sprint(scheme, " half: ", half), func(t *testing.T) {
				t.Parallel()
				var forwards atomic.Int64
				service := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { forwards.Add(1) }))
				service.Config.ErrorLog = log.New(io.Discard, "", 0)
				if scheme == "https" {
					service.StartTLS()
				} else {
					service.Start()
				}
				t.Cleanup(service.Close)
				var dials, full atomic.Int64
				g := newGateway(t, service.URL, func(c *gateway.Config) {
					c.TLS = &tls.Config{InsecureSkipVerify: true}
					c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
						conn, err := new(net.Dialer).DialContext(ctx, network, address)
						if err != nil || dials.Add(1) > 1 {
							return conn, err
						}
						if scheme == "https" {
							return &afterHandshake{fullConn: fullConn{Conn: conn, half: half, full: &full}}, nil
						}
						return &fullConn{Conn: conn, half: half, full: &full}, nil
					}
				})
				code := unknown
				if !half {
					code = "TRANSIENT.upstream_unavailable"
				}
				want(t, "code", codeOf(t, ask(g, "k", "1")), code)
				want(t, "forwards", forwards.Load(), int64(0))
				if full.Load() == 0 {
					t.Error("the request was not written: nothing was shown")
				}
				resp := ask(g, "k", "1")
				if half {
					want(t, "code of the retry", codeOf(t, resp), unknown)
					return
				}
				want(t, "status of the retry", resp.StatusCode, 200)
				want(t, "forwards", forwards.Load(), int64(1))
			})
		}
	}
}

// afterHandshake lets the two flights of a TLS client through.
type afterHandshake struct {
	fullConn

	writes int
}

func (c *afterHandshake) Write(p []byte) (int, error) {
	if c.writes++; c.writes <= 2 {
		return c.Conn.Write(p)
	}
	return c.fullConn.Write(p)
}
