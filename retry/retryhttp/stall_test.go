package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
)

// A body that stalls is not waited for longer than the caller does, and is closed.
func TestStalledBody(t *testing.T) {
	intents, err := journal.Open(filepath.Join(t.TempDir(), "intents"), journal.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = intents.Close() }()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/aborts" { // net/http waits for the body all the same
			_, _ = io.ReadFull(r.Body, make([]byte, 5))
			panic(http.ErrAbortHandler)
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer server.Close()
	for name, c := range map[string]struct {
		path      string
		transport *retryhttp.Transport
		late      bool // it is the attempt that ends, not the caller's patience
	}{
		"sent as it comes":    {"/", &retryhttp.Transport{Base: &http.Transport{}}, false},
		"for a journal":       {"/", &retryhttp.Transport{Base: &http.Transport{}, Journal: intents}, false},
		"the server closes":   {"/aborts", &retryhttp.Transport{Base: &http.Transport{}, Policy: retry.Policy{Attempts: 1, Timeout: 300 * ms}}, true},
		"the attempt is over": {"/", &retryhttp.Transport{Base: &http.Transport{}, Policy: retry.Policy{Attempts: 1, Timeout: 300 * ms}}, true},
	} {
		from, to := io.Pipe()
		ctx, cancel := context.WithCancelCause(t.Context())
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+c.path, from)
		r.ContentLength = 10
		r.Header.Set("Idempotency-Key", "k")
		enough := errors.New("enough")
		go func() {
			_, _ = io.WriteString(to, "12345") // comes back when it is read
			if !c.late {
				cancel(enough)
			}
		}()
		done := make(chan error, 1)
		go func() {
			resp, err := c.transport.RoundTrip(r)
			if err == nil {
				resp.Body.Close()
			}
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !c.late && !errors.Is(err, context.Canceled) && !errors.Is(err, enough) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: it waits for the body", name)
		}
		if _, err := io.WriteString(to, "67890"); err == nil {
			t.Errorf("%s: the body is not closed", name)
		}
		cancel(nil)
	}
}

// The server has the begin of a body before its end is there, and what was read of it for
// an attempt that has failed is sent again with the next one.
func TestBodyIsRecordedWhileItIsSent(t *testing.T) {
	from, to := io.Pipe()
	var n atomic.Int32
	bodies := make(chan string, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := make([]byte, 5)
		_, _ = io.ReadFull(r.Body, begin)
		if n.Add(1) == 1 {
			go func() {
				_, _ = io.WriteString(to, "67890")
				_ = to.Close()
			}()
			panic(http.ErrAbortHandler) // it has the begin
		}
		end, _ := io.ReadAll(r.Body)
		bodies <- string(begin) + string(end)
	}))
	defer server.Close()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, from)
	r.ContentLength = 10
	r.Header.Set("Idempotency-Key", "k")
	go func() { _, _ = io.WriteString(to, "12345") }()
	resp, err := (&retryhttp.Transport{Base: &http.Transport{}, Policy: retry.Policy{Base: -1}}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if body := <-bodies; body != "1234567890" || n.Load() != 2 {
		t.Errorf("%q has arrived, in attempt %d", body, n.Load())
	}
	if _, err := from.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the body is not closed: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// What keeps a body from being read keeps all attempts from it.
func TestBodyThatFails(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			<-r.Context().Done() // an answer could arrive before the client has found that its body is too long
		}
	}))
	defer server.Close()
	gone := errors.New("the disk is gone")
	for name, c := range map[string]struct {
		body   io.Reader
		length int64
		says   string
	}{
		"an error":              {io.MultiReader(strings.NewReader("12345"), failing{gone}), 9, "the disk is gone"},
		"shorter than it says":  {strings.NewReader("12345"), 9, "9"},
		"longer than it says":   {strings.NewReader("12345"), 2, "2"},
		"much longer than that": {strings.NewReader(strings.Repeat("x", 10000)), 2, "2"},
	} {
		sent := 0
		transport := &retryhttp.Transport{Policy: retry.Policy{Base: -1, Budget: &retry.Budget{}}, Base: roundTripper(func(r *http.Request) (*http.Response, error) {
			sent++
			return http.DefaultTransport.RoundTrip(r)
		})}
		body := &opaque{Reader: c.body}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL, body)
		r.ContentLength = c.length
		resp, err := transport.RoundTrip(r)
		if err == nil || !strings.Contains(err.Error(), c.says) || sent != 1 || body.closed.Load() != 1 {
			t.Errorf("%s: %v, %v, sent %d, closed %d times", name, resp, err, sent, body.closed.Load())
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
