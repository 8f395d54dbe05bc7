package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once/gateway"
)

// dying is a service that is killed at a byte of its answer to the first request with a key.
type dying struct {
	mu   sync.Mutex
	died map[string]bool
}

// dies reports whether this is the first request with a key.
func (d *dying) dies(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.died == nil {
		d.died = map[string]bool{}
	}
	first := !d.died[key]
	d.died[key] = true
	return first
}

// fates are what becomes of a key after a cut in the head of an answer, in its body, and after its last byte.
type fates struct{ head, body, whole string }

func (f fates) at(cut, head, whole int) string {
	switch {
	case cut < head:
		return f.head
	case cut < whole:
		return f.body
	}
	return f.whole
}

// judge sends a request whose answer is cut, and the retry.
func (f fates) judge(t *testing.T, g *gateway.Gateway, s *raw, cut, head, whole int, contentType string) {
	t.Helper()
	key := fmt.Sprint("cut ", cut)
	expect := f.at(cut, head, whole)
	before := s.seen.Load()
	first := ask(g, key, "1", "Content-Type", contentType)
	want(t, key+": forwards", s.seen.Load(), before+1)
	if got := bodyOf(t, first); cut < whole && f.whole == replays && first.StatusCode < 400 && first.Header.Get("Grpc-Status") == "" && !strings.HasSuffix(got, "(cut)") {
		t.Errorf("%s: the answer looks whole: %q", key, got)
	}
	second := ask(g, key, "1", "Content-Type", contentType)
	told := codeOf(t, second)
	switch forwarded := s.seen.Load() - before - 1; {
	case expect == again:
		want(t, key+": forwards of the retry", forwarded, int64(1))
		return
	case forwarded != 0:
		t.Errorf("%s: the retry was forwarded", key)
	}
	if status := second.Header.Get("Grpc-Status"); status == "9" { // a problem, for a client of gRPC
		told, _, _ = strings.Cut(second.Header.Get("Grpc-Message"), ":")
	}
	want(t, key+": what the retry is told", told, expect)
	want(t, key+": replayed", second.Header.Get("Idempotent-Replayed") != "", expect == replays)
}

// TestCutAtEveryByteHTTP1: a service is killed at each byte of its answer.
func TestCutAtEveryByteHTTP1(t *testing.T) {
	t.Parallel()
	const grpc, closes = "application/grpc", "Connection: close\r\n"
	for name, c := range map[string]struct {
		answer, contentType string
		fates               fates
	}{
		"length":         {"HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 4\r\n\r\npaid", "", fates{unknown, omitted, replays}},
		"chunks":         {"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\npa\r\n2\r\nid\r\n0\r\n\r\n", "", fates{unknown, omitted, replays}},
		"trailer":        {"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n4\r\npaid\r\n0\r\nX: 1\r\n\r\n", "", fates{unknown, omitted, replays}},
		"close":          {"HTTP/1.1 200 OK\r\n\r\npaid", "", fates{unknown, omitted, omitted}},
		"nothing inside": {"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", "", fates{unknown, "", replays}},
		"early hints":    {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 4\r\n\r\npaid", "", fates{unknown, omitted, replays}},
		"500":            {status1(500, closes), "", fates{unknown, omitted, replays}},
		"503":            {status1(503, closes), "", fates{unknown, unknown, unknown}},
		"not executed":   {status1(503, closes+"Once-Outcome: not-executed\r\n"), "", fates{unknown, again, again}},
		"429":            {status1(429, closes), "", fates{unknown, again, again}},
		"gRPC":           {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\nTrailer: Grpc-Status\r\n\r\n4\r\npaid\r\n0\r\nGrpc-Status: 0\r\n\r\n", grpc, fates{unknown, unknown, replays}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *raw
			d, cut := &dying{}, 0
			s = newRaw1(t, func(int64) (string, bool) {
				if d.dies(s.header().Get("Idempotency-Key")) {
					return c.answer[:cut], false
				}
				return ok1, false
			})
			g := newGateway(t, "http://"+s.addr, nil)
			final := max(0, strings.LastIndex(c.answer, "HTTP/1.1")) // behind the early hints
			head := final + strings.Index(c.answer[final:], "\r\n\r\n") + 4
			for cut = range len(c.answer) + 1 {
				c.fates.judge(t, g, s, cut, head, len(c.answer), c.contentType)
			}
		})
	}
}

// field is a header of HTTP/2 as HPACK has it without a table.
func field(name, value string) []byte {
	return []byte("\x00" + string(rune(len(name))) + name + string(rune(len(value))) + value)
}

// TestCutAtEveryByteHTTP2: a service is killed at each byte of the frames of its answer, with and without TLS.
func TestCutAtEveryByteHTTP2(t *testing.T) {
	t.Parallel()
	const endStream, endHeaders, grpc = 1, 4, "application/grpc"
	ok := []byte{0x88}
	for name, c := range map[string]struct {
		head, body  func(w io.Writer, stream uint32)
		contentType string
		fates       fates
	}{
		"message": {
			func(w io.Writer, n uint32) { writeFrame(w, frameHeaders, endHeaders, n, ok) },
			func(w io.Writer, n uint32) {
				writeFrame(w, frameData, 0, n, []byte("pa"))
				writeFrame(w, frameData, endStream, n, []byte("id"))
			}, "", fates{unknown, omitted, replays},
		},
		"nothing inside": {
			func(w io.Writer, n uint32) { writeFrame(w, frameHeaders, endHeaders|endStream, n, ok) },
			func(io.Writer, uint32) {}, "", fates{unknown, "", replays},
		},
		"gRPC": {
			func(w io.Writer, n uint32) {
				writeFrame(w, frameHeaders, endHeaders, n, append(ok, field("content-type", grpc)...))
			},
			func(w io.Writer, n uint32) {
				writeFrame(w, frameData, 0, n, []byte("paid"))
				writeFrame(w, frameHeaders, endHeaders|endStream, n, field("grpc-status", "0"))
			}, grpc, fates{unknown, unknown, replays},
		},
	} {
		for _, scheme := range []string{"h2c", "https"} {
			t.Run(name+" "+scheme, func(t *testing.T) {
				t.Parallel()
				var at atomic.Int64 // a write that fails tells the client that the connection has ended, and not what was done before
				s := newRaw2(t, scheme, func(w io.Writer, _ int64, stream uint32) {
					var answer bytes.Buffer
					c.head(&answer, stream)
					c.body(&answer, stream)
					_, _ = w.Write(answer.Bytes()[:at.Load()])
					_ = w.(net.Conn).Close()
				})
				g := newGateway(t, scheme+"://"+s.addr, insecure)
				var head, body bytes.Buffer
				c.head(&head, 1)
				c.body(&body, 1)
				whole := head.Len() + body.Len()
				for cut := range whole + 1 {
					at.Store(int64(cut))
					c.fates.judge(t, g, s, cut, head.Len(), whole, c.contentType)
				}
			})
		}
	}
}

// TestReceiptAfterACutAtEveryByte: whichever byte of the answer the service is killed at, the receipt that it has committed is the answer, with a
// store and without one. If it has committed nothing, the request is forwarded again under a store, which has written a tombstone.
func TestReceiptAfterACutAtEveryByte(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{false, true} {
		for _, commits := range []bool{true, false} {
			t.Run(fmt.Sprintf("alone: %t, commits: %t", alone, commits), func(t *testing.T) {
				t.Parallel()
				var s *raw
				m, d, cut := &memory{}, &dying{}, 0
				s = newRaw1(t, func(int64) (string, bool) {
					dies := s.header().Get("X-Warm") == "" && d.dies(s.header().Get("Idempotency-Key"))
					if commits || !dies {
						m.put(gateway.Receipt{Operation: s.header().Get(gateway.OperationHeader), Status: 201, Body: []byte("paid")})
					}
					if dies {
						return ok1[:cut], false
					}
					return ok1, false
				})
				g := newGateway(t, "http://"+s.addr, func(c *gateway.Config) {
					if c.Receipts, c.Routes[0].OnUnknown = m, gateway.PolicyCheck; alone {
						c.Store = nil
					}
				})
				warm(t, g, "/pay")
				for ; cut < len(ok1); cut++ {
					key, before := fmt.Sprint("cut ", cut), s.seen.Load()
					a := ask(g, key, "1")
					if alone && !commits { // nothing is known, and the next request is forwarded under the same id
						a = ask(g, key, "1")
					}
					body := bodyOf(t, a)
					inBody := cut >= strings.Index(ok1, "paid") && !commits && !alone // executed, as it says, and there is no receipt
					want(t, key+": the answer", a.StatusCode == http.StatusCreated && (body == "paid" || inBody && strings.HasSuffix(body, "(cut)")), true)
					forwards := int64(1)
					if !commits && !inBody {
						forwards = 2
					}
					want(t, key+": forwards", s.seen.Load()-before, forwards)
				}
			})
		}
	}
}
