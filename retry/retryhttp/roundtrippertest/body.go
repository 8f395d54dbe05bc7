package roundtrippertest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

// bodyChecks are about the bodies of requests and of answers.
var bodyChecks = []Check{
	{"OpaqueBody", "each request with a body that can be read only one time has the complete body", func(l *lab) error {
		s := l.serve(failThen(503, always))
		a, err := l.do(l.ctx, l.client(), http.MethodPut, s.URL, "", func(r *http.Request) {
			r.Body, r.ContentLength = &witness{Reader: strings.NewReader(testBody)}, -1
		})
		if err == nil && a.status != 503 {
			return wantStatus(a, err, 503)
		}
		if len(s.arrivals()) == 0 {
			return s.wantSends(1)
		}
		return s.same("", testBody)
	}},
	{"LargeBody", "a large body is the same in every attempt", func(l *lab) error {
		s := l.serve(failThen(503, 3))
		large := strings.Repeat("0123456789abcdef", 64<<10)
		a, err := l.do(l.ctx, l.client(), http.MethodPut, s.URL, large)
		return errors.Join(wantStatus(a, err, 200), s.wantSends(3), s.same("", large))
	}},
	{"CutAnswer", "an answer that is cut in the middle never looks complete", func(l *lab) error {
		s := l.serve(func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "20")
			_, _ = io.WriteString(w, "half of it")
			_ = http.NewResponseController(w).Flush()
			reset(w)
		})
		a, err := l.post(l.client(), s.URL)
		if err == nil {
			return fmt.Errorf("the caller reads %q and no error", a.body)
		}
		return nil
	}},
	{"AnswerIntact", "the caller gets the complete body of a refusal, although the client has read a part of the body", func(l *lab) error {
		body := `{"code":"CONFLICT.other","detail":"` + strings.Repeat("x", 100<<10) + `"}`
		s := l.serve(func(_ int, w http.ResponseWriter, _ *http.Request) { problem(w, 409, body) })
		a, err := l.post(l.client(), s.URL)
		if err := errors.Join(wantStatus(a, err, 409), s.wantSends(1)); err != nil {
			return err
		}
		if a.body != body {
			return fmt.Errorf("the body of the answer has %d bytes, not %d", len(a.body), len(body))
		}
		return nil
	}},
	{"LastResponse", "after the last attempt, the caller can read the last answer", func(l *lab) error {
		s := l.serve(failThen(503, always))
		a, err := l.do(l.ctx, l.client(), http.MethodGet, s.URL, "")
		if err := wantStatus(a, err, 503); err != nil {
			return err
		}
		if a.body != "sorry" {
			return fmt.Errorf("the body of the last answer is %q", a.body)
		}
		if n := len(s.arrivals()); n < 2 {
			return fmt.Errorf("the client made %d attempts", n)
		}
		return nil
	}},
	{"EndlessErrorBody", "an error answer with an endless body does not prevent the next attempt", func(l *lab) error {
		s := l.serve(func(n int, w http.ResponseWriter, r *http.Request) {
			if n > 1 {
				return
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "it begins")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done() // when the client closes the connection
		})
		a, err := l.do(l.ctx, l.client(), http.MethodGet, s.URL, "")
		return errors.Join(wantStatus(a, err, 200), s.wantSends(2))
	}},
}

// witness is a body that can be read once, and knows if it was closed.
type witness struct {
	io.Reader

	closed atomic.Bool
}

func (w *witness) Close() error {
	w.closed.Store(true)
	return nil
}

// repeated is a text without end.
type repeated byte

func (c repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(c)
	}
	return len(p), nil
}

func contains(s, part string) bool { return strings.Contains(s, part) }
