package retryhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

// opaque can be read once.
type opaque struct {
	io.Reader

	closed atomic.Int32
}

func (o *opaque) Close() error {
	o.closed.Add(1)
	return nil
}

func TestOpaqueBodies(t *testing.T) {
	for _, c := range []struct {
		name   string
		length int64
		size   int
		key    string
		sends  int
		reason retry.Reason
	}{
		{"short, of known length", 5, 5, "k", 3, retry.ReasonExhausted},
		{"long", 1 << 20, 1 << 20, "k", 1, retry.ReasonNotWhole},
		{"of unknown length", -1, 5, "k", 1, retry.ReasonNotWhole},
		{"without a key", 5, 5, "", 1, retry.ReasonNotSafe},
	} {
		t.Run(c.name, func(t *testing.T) {
			var bodies []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				bodies = append(bodies, string(body))
				w.WriteHeader(http.StatusServiceUnavailable)
			}))
			defer server.Close()
			body := &opaque{Reader: strings.NewReader(strings.Repeat("x", c.size))}
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
			r.ContentLength = c.length
			if c.key != "" {
				r.Header.Set("Idempotency-Key", c.key)
			}
			client := &http.Client{Transport: &retryhttp.Transport{Base: &http.Transport{}, Policy: retry.Policy{Attempts: 3, Base: -1}}}
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			wantGivenUp(t, resp, err, c.reason, c.sends)
			for i, b := range bodies {
				if len(b) != c.size {
					t.Errorf("attempt %d has sent %d bytes of %d", i+1, len(b), c.size)
				}
			}
			if body.closed.Load() == 0 {
				t.Error("the body was not closed")
			}
		})
	}
}

func TestGetBodyFails(t *testing.T) {
	gone := errors.New("the file is gone")
	s := &served{base: always(503)}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://service.example", strings.NewReader("x"))
	r.GetBody = func() (io.ReadCloser, error) { return nil, gone }
	_, err := (&retryhttp.Transport{Base: s, Policy: retry.Policy{Base: -1, Budget: &retry.Budget{}}}).RoundTrip(r)
	if !errors.Is(err, gone) || len(s.requests()) != 1 {
		t.Errorf("%v, sent %d", err, len(s.requests()))
	}
}

// A body that no attempt has taken is closed all the same.
func TestBodyIsClosedWithoutAnAttempt(t *testing.T) {
	shut := breakerFunc(func() (func(retry.Health), error) { return nil, errors.New("shut") })
	for name, transport := range map[string]*retryhttp.Transport{
		"breaker": {Policy: retry.Policy{Breaker: shut}},
		"key":     {},
	} {
		body := &opaque{Reader: strings.NewReader("x")}
		ctx := t.Context()
		if name == "key" {
			ctx = retryhttp.WithKey(ctx, retryhttp.Key{})
		}
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://service.example", body)
		if _, err := transport.RoundTrip(r); err == nil || body.closed.Load() != 1 {
			t.Errorf("%s: %v, closed %d times", name, err, body.closed.Load())
		}
	}
}

// An answer to a request with a key that is cut is asked for again. Without a key, or if
// it is too long to be kept, the caller sees what has happened.
func TestCutAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		key    string
		buffer int64
		size   int
		whole  bool
	}{
		{"with a key", "k", 0, 1000, true},
		{"without", "", 0, 1000, false},
		{"too long", "k", 0, 100 << 10, false},
		{"longer are allowed", "k", 1 << 20, 100 << 10, true},
		{"not wanted", "k", -1, 1000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", fmt.Sprint(c.size))
				if n.Add(1) == 1 {
					_, _ = io.WriteString(w, strings.Repeat("x", c.size/2))
					_ = http.NewResponseController(w).Flush()
					panic(http.ErrAbortHandler)
				}
				_, _ = io.WriteString(w, strings.Repeat("x", c.size))
			}))
			defer server.Close()
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
			if c.key != "" {
				r.Header.Set("Idempotency-Key", c.key)
			}
			client := &http.Client{Transport: &retryhttp.Transport{Base: &http.Transport{}, Buffer: c.buffer, Policy: retry.Policy{Base: -1}}}
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if whole := err == nil && len(body) == c.size; whole != c.whole || err == nil && !whole {
				t.Errorf("%d bytes, %v", len(body), err)
			}
			if want := map[bool]int32{true: 2, false: 1}[c.whole]; n.Load() != want {
				t.Errorf("sent %d times, want %d", n.Load(), want)
			}
		})
	}
}

func TestUpgradedConnectionPassesThrough(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, _ := http.NewResponseController(w).Hijack()
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString(line)
		_ = rw.Flush()
	}))
	defer server.Close()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	resp, err := (&retryhttp.Transport{}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	conn, ok := resp.Body.(io.ReadWriter)
	if !ok {
		t.Fatalf("%T cannot be written to", resp.Body)
	}
	_, _ = io.WriteString(conn, "hello\n")
	if echo, err := io.ReadAll(conn); err != nil || string(echo) != "hello\n" {
		t.Errorf("%q, %v", echo, err)
	}
}

// TestBodyIsClosedOnceWithAJournal: if the journal refuses an intent, the body of the request is closed one time.
func TestBodyIsClosedOnceWithAJournal(t *testing.T) {
	f, _ := newJournal(t)
	_ = f.Close()
	for name, length := range map[string]int64{"of known length": 1, "of unknown length": -1} {
		body := &opaque{Reader: strings.NewReader("x")}
		ctx := retryhttp.WithKey(t.Context(), retryhttp.Key{Value: "k"})
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://service.example", body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = length
		if _, err := (&retryhttp.Transport{Journal: f}).RoundTrip(r); err == nil || body.closed.Load() != 1 {
			t.Errorf("%s: %v, closed %d times", name, err, body.closed.Load())
		}
	}
}
