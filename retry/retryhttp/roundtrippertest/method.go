package roundtrippertest

import (
	"errors"
	"io"
	"net/http"
)

// methodChecks check which requests may be repeated, and under which key.
var methodChecks = []Check{
	{"KeylessPOST503", "a POST without a key is not repeated after 503", func(l *lab) error {
		s := l.serve(failThen(503, always))
		if a, err := l.do(l.ctx, l.client(), http.MethodPost, s.URL, testBody); err == nil && a.status != 503 {
			return wantStatus(a, err, 503)
		}
		return s.wantSends(1)
	}},
	{"KeylessPOSTReset", "a POST without a key is not repeated after the connection was reset", func(l *lab) error {
		s := l.serve(func(_ int, w http.ResponseWriter, _ *http.Request) { reset(w) })
		if _, err := l.do(l.ctx, l.client(), http.MethodPost, s.URL, testBody); err == nil {
			return errors.New("the client returned no error")
		}
		return s.wantSends(1)
	}},
	{"KeylessPOST425", "a POST without a key is repeated after 425, which says that it was not processed", func(l *lab) error {
		s := l.serve(failThen(425, 2))
		a, err := l.do(l.ctx, l.client(), http.MethodPost, s.URL, testBody)
		return errors.Join(wantStatus(a, err, 200), s.wantSends(2), s.same("", testBody))
	}},
	{"KeyedPOST503", "a POST with a key is repeated after 503, with that key", func(l *lab) error {
		s := l.serve(failThen(503, 3))
		a, err := l.post(l.client(), s.URL)
		return errors.Join(wantStatus(a, err, 200), s.wantSends(3), s.same(testKey, testBody))
	}},
	{"KeyedPOSTReset", "a POST with a key is repeated after the connection was reset", func(l *lab) error {
		s := l.serve(func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				reset(w)
			}
		})
		a, err := l.post(l.client(), s.URL)
		return errors.Join(wantStatus(a, err, 200), s.wantSends(2), s.same(testKey, testBody))
	}},
	{"InFlight409", "after 409 for an operation that is still running, the request is sent again with the same key", func(l *lab) error {
		s := l.serve(func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				w.Header().Set("Retry-After", "1")
				problem(w, 409, inFlight)
			}
		})
		a, err := l.post(l.client(), s.URL)
		return errors.Join(wantStatus(a, err, 200), s.wantSends(2), s.same(testKey, testBody))
	}},
	{"Accepted202", "202 is a final answer, with or without Retry-After", func(l *lab) error {
		s := l.serve(func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusAccepted)
		})
		a, err := l.post(l.client(), s.URL)
		return errors.Join(wantStatus(a, err, 202), s.wantSends(1))
	}},
	{"GeneratedKey", "a client that makes keys makes one key for all attempts", func(l *lab) error {
		c, err := l.clientWithKeys()
		if err != nil {
			return err
		}
		s := l.serve(failThen(503, 3))
		a, err := l.do(l.ctx, c, http.MethodPost, s.URL, testBody)
		if err := errors.Join(wantStatus(a, err, 200), s.wantSends(3)); err != nil {
			return err
		}
		key := s.arrivals()[0].key()
		if key == "" {
			return errors.New("the request has no idempotency key")
		}
		a, err = l.do(l.ctx, c, http.MethodPost, s.URL, testBody)
		if again := s.arrivals()[3].key(); again == key {
			return errors.New("two requests have the same key")
		}
		s.all = s.all[:3]
		return errors.Join(wantStatus(a, err, 200), s.same(key, testBody))
	}},
	{"Redirect", "307 and 308 keep key and body, also if the target fails first", func(l *lab) error {
		for _, status := range []int{307, 308} {
			target := l.serve(failThen(503, 2))
			s := l.serve(func(_ int, w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target.URL, status) })
			a, err := l.post(l.client(), s.URL)
			if err := errors.Join(wantStatus(a, err, 200), s.wantSends(1), target.wantSends(2), s.same(testKey, testBody), target.same(testKey, testBody)); err != nil {
				return err
			}
		}
		return nil
	}},
	{"RedirectGeneratedKey", "a key that the client has made is kept by a redirect", func(l *lab) error {
		c, err := l.clientWithKeys()
		if err != nil {
			return err
		}
		target := l.serve(failThen(503, 2))
		s := l.serve(func(_ int, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, target.URL, http.StatusTemporaryRedirect)
		})
		a, err := l.do(l.ctx, c, http.MethodPost, s.URL, testBody)
		if err := errors.Join(wantStatus(a, err, 200), s.wantSends(1), target.wantSends(2)); err != nil {
			return err
		}
		return target.same(s.arrivals()[0].key(), testBody)
	}},
	{"RequestUntouched", "the caller's request is not changed, and its body is closed", func(l *lab) error {
		s := l.serve(failThen(503, 2))
		req, err := http.NewRequestWithContext(l.ctx, http.MethodPost, s.URL, http.NoBody)
		if err != nil {
			return err
		}
		body := &witness{Reader: io.LimitReader(repeated('x'), 100)}
		req.Body, req.ContentLength = body, 100
		keyed(req)
		resp, err := l.client().Transport.RoundTrip(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if len(req.Header) != 1 || req.Header.Get("Idempotency-Key") != testKey || req.Body != io.ReadCloser(body) || req.Context() != l.ctx {
			return errors.New("the client has changed the request of the caller")
		}
		if !body.closed.Load() {
			return errors.New("the client did not close the body of the request")
		}
		return nil
	}},
}
