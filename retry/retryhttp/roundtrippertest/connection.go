package roundtrippertest

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
)

// connectionChecks are about connections, and what happens on them unseen.
var connectionChecks = []Check{
	{"OneConnection", "retries use the existing connection", func(l *lab) error {
		s := l.serve(func(n int, w http.ResponseWriter, _ *http.Request) {
			if n%3 != 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_, _ = w.Write(make([]byte, 2<<10))
		})
		c := l.client()
		for range 4 {
			if a, err := l.do(l.ctx, c, http.MethodGet, s.URL, ""); err != nil || a.status != 200 {
				return wantStatus(a, err, 200)
			}
		}
		if n := s.conns.Load(); n != 1 {
			return fmt.Errorf("the client sent 12 requests one after the other, and opened %d connections", n)
		}
		return s.wantSends(12)
	}},
	{"HealthyHost", "when the client gives up on one host, it keeps its connections to another host", func(l *lab) error {
		healthy, broken := l.serve(failThen(0, 0)), l.serve(failThen(503, always))
		c := l.client()
		for range 5 {
			if a, err := l.do(l.ctx, c, http.MethodGet, healthy.URL, ""); err != nil || a.status != 200 {
				return wantStatus(a, err, 200)
			}
			_, _ = l.do(l.ctx, c, http.MethodGet, broken.URL, "") // may be an error or an answer
		}
		if n := healthy.conns.Load(); n != 1 {
			return fmt.Errorf("the client opened %d connections to the healthy host for 5 requests", n)
		}
		return healthy.wantSends(5)
	}},
	{"HiddenResend", "the client counts a POST with a key that net/http would repeat by itself", func(l *lab) error {
		return l.hidden(testBody, testKey)
	}},
	{"HiddenResendNoBody", "the client counts a POST with a key and without a body that net/http would repeat by itself", func(l *lab) error {
		return l.hidden("", testKey)
	}},
	{"KeyWithoutALine", "the client counts a POST without a key that net/http would repeat by itself, because the header allows this", func(l *lab) error {
		return l.hidden(testBody, "")
	}},
	{"HTTP2Refused", "the client repeats a refused HTTP/2 stream, and counts the attempt", func(l *lab) error {
		return l.refused(refuseStream)
	}},
	{"HTTP2GoAway", "the client repeats a request that got GOAWAY on another connection, and counts the attempt", func(l *lab) error {
		return l.refused(goAway)
	}},
}

// hidden lets a kept-alive connection die under a POST that may be repeated. net/http repeats the POST by itself, if the client has not prevented
// that.
func (l *lab) hidden(body, key string) error {
	var first atomic.Bool
	first.Store(true)
	s := l.serve(func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && first.Swap(false) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			_ = conn.Close()
		}
	})
	c := l.client()
	if a, err := l.do(l.ctx, c, http.MethodGet, s.URL, ""); err != nil || a.status != 200 {
		return wantStatus(a, err, 200)
	}
	a, err := l.do(l.ctx, c, http.MethodPost, s.URL, body, func(r *http.Request) {
		r.Header["Idempotency-Key"] = nil // net/http: it can be repeated, and no key is sent
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
	})
	if err := errors.Join(wantStatus(a, err, 200), s.wantSends(3)); err != nil {
		return err
	}
	if n := s.conns.Load(); n != 2 {
		return fmt.Errorf("the client opened %d connections, not 2: this check proves nothing", n)
	}
	for _, a := range s.arrivals()[1:] {
		if a.key() != key || a.body != body {
			return fmt.Errorf("a repeated request has arrived with the key %q and the body %q, which differ from the first request", a.key(), a.body)
		}
	}
	if sent := c.sent.Load(); sent != 3 {
		return fmt.Errorf("3 requests have reached the server, but the client has counted %d attempts", sent)
	}
	return nil
}

// refused makes an HTTP/2 server refuse a POST with a key.
func (l *lab) refused(how refusal) error {
	s, err := l.serveHTTP2(how)
	if err != nil {
		return err
	}
	c := l.client()
	c.base.TLSClientConfig, c.base.ForceAttemptHTTP2 = s.trust, true
	a, err := l.post(c, s.url)
	if err := wantStatus(a, err, 200); err != nil {
		return err
	}
	arrived, body := s.seen()
	if arrived != 2 || body != testBody {
		return fmt.Errorf("the client opened %d streams, not 2; the body of the last one is %q", arrived, body)
	}
	if sent := c.sent.Load(); sent != 2 {
		return fmt.Errorf("2 streams were opened, but the client has counted %d attempts", sent)
	}
	return nil
}
