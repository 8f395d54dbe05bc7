package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/store/memstore"
)

// bodies of requests, which net/http treats in different ways.
var bodies = map[string]func() io.Reader{
	"body":    func() io.Reader { return strings.NewReader("charge 7") },
	"empty":   func() io.Reader { return strings.NewReader("") },
	"NoBody":  func() io.Reader { return http.NoBody },
	"nil":     func() io.Reader { return nil },
	"unnamed": func() io.Reader { return io.MultiReader() }, // empty, and of unknown length
}

// endings of the first request, by protocol.
var endings = map[string][]string{
	"HTTP/1":        {endClose},
	"HTTP/2":        {endClose, endProtocol, endRefused, endGoAway},
	"HTTP/2, plain": {endClose, endProtocol, endRefused, endGoAway},
}

// charge makes one leased call that sends a POST with its key through client.
func charge(ctx context.Context, client *http.Client, url, header string, body io.Reader, policy lease.CallPolicy) error {
	jobs := once.New(lease.New(memstore.New(), lease.Config{}), once.Config{Observer: once.Discard})
	_, err := once.Do(ctx, jobs, once.Operation{Scope: "acme", Key: "order-42"}, func(ctx context.Context, run *lease.Run) (int, error) {
		return lease.Call(ctx, run, "charge", func(ctx context.Context, key string) (int, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
			if err != nil {
				return 0, lease.NotSent(err)
			}
			r.Header.Set(header, key)
			resp, err := client.Do(r)
			if err != nil {
				return 0, err
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
			return resp.StatusCode, err
		}, policy)
	})
	return err
}

// TestCallIsSentAtMostOnce: a leased call whose key is in its header has its contract over connections that break behind the
// request. Without an option the server looks at it at most once; of a service that dedupes it is asked for again. A client of
// net/http alone sends it twice.
func TestCallIsSentAtMostOnce(t *testing.T) {
	for protocol, ends := range endings {
		for _, end := range ends {
			for name, body := range bodies {
				for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
					t.Run(fmt.Sprintf("%s/%s/%s/%s", protocol, end, name, header), func(t *testing.T) {
						proven := (end == endRefused || end == endGoAway) && name == "body" // the error tells the reason
						s, url, base := newRawServer(t, protocol, end)
						client := retryhttp.NewClient(&retryhttp.Transport{Base: base, Policy: retry.Policy{Base: -1, Budget: &retry.Budget{}}})
						err := charge(t.Context(), client, url, header, body(), lease.CallPolicy{})
						arrived, looked := s.counts()
						switch {
						case proven && (err != nil || arrived != 2 || looked != 1):
							t.Errorf("the server has not looked at the first one: %d arrived, %v", arrived, err)
						case !proven && (once.CodeOf(err) != once.CodeUnknown || arrived != 1 || looked > 1):
							t.Errorf("at most once: %d arrived, %v", arrived, err)
						}

						if name == "unnamed" { // it cannot be sent again
							return
						}
						s, url, base = newRawServer(t, protocol, end)
						client = retryhttp.NewClient(&retryhttp.Transport{Base: base, Policy: retry.Policy{Base: -1, Budget: &retry.Budget{}}})
						if err := charge(t.Context(), client, url, header, body(), lease.CallPolicy{DedupedFor: 24 * time.Hour}); err != nil {
							t.Errorf("deduped: %v", err)
						}
						if arrived, _ := s.counts(); arrived != 2 {
							t.Errorf("deduped: %d arrived", arrived)
						}

						if protocol != "HTTP/1" && end == endClose { // of this net/http repeats nothing
							return
						}
						s, url, base = newRawServer(t, protocol, end)
						if err := charge(t.Context(), &http.Client{Transport: base}, url, header, body(), lease.CallPolicy{}); err != nil {
							t.Errorf("vacuous: net/http: %v", err)
						}
						if arrived, _ := s.counts(); arrived != 2 {
							t.Errorf("vacuous: net/http has sent it %d times", arrived)
						}
					})
				}
			}
		}
	}
}

// TestAtMostOnce: the same for a Transport that is told so, whatever else would have a request repeated.
func TestAtMostOnce(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		ctx    func(context.Context) context.Context
		header string
		failed func(*http.Request) (*http.Response, error)
		sent   int
	}{
		"keyed":              {method: "POST", header: "Idempotency-Key", sent: 1},
		"declared":           {method: "POST", header: "declared", sent: 1},
		"by its method":      {method: "PUT", sent: 1},
		"by its context":     {method: "POST", ctx: retryhttp.WithIdempotent, sent: 1},
		"only reads":         {method: "GET", sent: 3},
		"a 503 with a delay": {method: "POST", header: "Idempotency-Key", failed: func(*http.Request) (*http.Response, error) { return answer(503, "Retry-After", "0"), nil }, sent: 1},
		"never on its way": {method: "POST", header: "Idempotency-Key", failed: func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
		}, sent: 3},
		"would be raced with": {method: "POST", header: "Idempotency-Key", failed: func(*http.Request) (*http.Response, error) {
			<-time.After(20 * ms)
			return answer(200), nil
		}, sent: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := &served{base: func(_ int, r *http.Request) (*http.Response, error) {
				if c.failed != nil {
					return c.failed(r)
				}
				return nil, errors.New("connection reset by peer")
			}}
			ctx := t.Context()
			if c.ctx != nil {
				ctx = c.ctx(ctx)
			}
			r, _ := http.NewRequestWithContext(ctx, c.method, "http://service.example/", strings.NewReader("body"))
			switch c.header {
			case "":
			case "declared":
				r.Header["Idempotency-Key"] = nil
			default:
				r.Header.Set(c.header, "k")
			}
			client := retryhttp.NewClient(&retryhttp.Transport{
				Base: s, AtMostOnce: true, Hedge: ms, Policy: retry.Policy{Base: -1, Attempts: 3, Budget: &retry.Budget{}},
			})
			resp, err := client.Do(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			if n := len(s.requests()); n != c.sent {
				t.Errorf("sent %d times, want %d", n, c.sent)
			}
			var why *retry.Error
			if c.sent == 1 && errors.As(err, &why) && (why.Reason != retry.ReasonNotSafe || strings.Contains(err.Error(), "an idempotency key")) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestResetWithoutAKey: net/http repeats any request that an HTTP/2 server resets with PROTOCOL_ERROR. The server may have
// looked at it, so one without a key is sent once.
func TestResetWithoutAKey(t *testing.T) {
	for name, body := range bodies {
		for _, client := range []http.RoundTripper{nil, &retryhttp.Transport{}} {
			s, url, base := newRawServer(t, "HTTP/2", endProtocol)
			want := 1
			switch client := client.(type) {
			case *retryhttp.Transport:
				client.Base, client.Policy.Budget = base, &retry.Budget{}
			default: // vacuous if it does not
				if want = 2; name == "unnamed" {
					continue
				}
			}
			c := &http.Client{Transport: client}
			if client == nil {
				c.Transport = base
			}
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body())
			resp, err := c.Do(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			if arrived, _ := s.counts(); arrived != want || (err == nil) != (want == 2) {
				t.Errorf("%s, %T: %d arrived, %v", name, client, arrived, err)
			}
		}
	}
}
