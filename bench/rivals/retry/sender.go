package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/PuerkitoBio/rehttp"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

// side is the answering side: a server, or a base that needs none. A request to /retry is answered 503 first and 200 the next time.
type side struct {
	arrived, retried atomic.Int64
	bytes            atomic.Int64 // of bodies
}

func (s *side) status(path string, body io.Reader) int {
	s.arrived.Add(1)
	if body != nil {
		read, _ := io.Copy(io.Discard, body)
		s.bytes.Add(read)
	}
	if path == "/retry" && s.retried.Add(1)%2 == 1 {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

func (s *side) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(s.status(r.URL.Path, r.Body))
}

func (s *side) RoundTrip(r *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: s.status(r.URL.Path, r.Body), ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header), Body: http.NoBody, Request: r}
	if r.Body != nil {
		r.Body.Close()
	}
	return resp, nil
}

// sender sends a request in the way that the client's documentation shows.
type sender func(ctx context.Context, method, url string, body []byte) (*http.Response, error)

// byClient is how it is done with a RoundTripper.
func byClient(rt http.RoundTripper) sender {
	c := &http.Client{Transport: rt}
	return func(ctx context.Context, method, url string, body []byte) (*http.Response, error) {
		var r io.Reader
		if body != nil {
			r = bytes.NewReader(body)
		}
		req, err := http.NewRequestWithContext(ctx, method, url, r)
		if err != nil {
			return nil, err
		}
		if body != nil {
			req.Header["Idempotency-Key"] = []string{"a-key-of-the-caller"}
		}
		return c.Do(req)
	}
}

// contentOf is the content of a request of resty, or nil for an empty body.
func contentOf(body []byte) (header http.Header, content any) {
	header = make(http.Header)
	if body == nil {
		return header, nil
	}
	header["Idempotency-Key"] = []string{"a-key-of-the-caller"}
	return header, body
}

// The shortest pause that resty accepts: 0 means something else.
const instant = 10 * time.Nanosecond

// senders are the clients of client.go without pauses. The first one does not retry.
func senders(base http.RoundTripper) (names []string, all map[string]sender) {
	hashicorp := newRetryable(base, retries, 0, 0)
	resty2 := newResty2(base, retries, instant, 2*instant)
	resty3 := newResty3(base, retries, instant, 2*instant).SetRetryAllowNonIdempotent(true) // it would not repeat the POST
	all = map[string]sender{
		"net/http":     byClient(base),
		frugal:         byClient(byHand{base}),
		"once":         byClient(&retryhttp.Transport{Base: base, Keys: true, Dialect: retryhttp.Dialect{Announce: true}, Policy: retry.Policy{Base: -1}}),
		"failsafehttp": byClient(newFailsafe(base, retries, 0, 0)),
		"rehttp":       byClient(newRehttp(base, retries, rehttp.ConstDelay(0))),
		"go-retryablehttp": func(ctx context.Context, method, url string, body []byte) (*http.Response, error) {
			var raw any
			if body != nil {
				raw = body
			}
			req, err := retryablehttp.NewRequestWithContext(ctx, method, url, raw)
			if err != nil {
				return nil, err
			}
			if body != nil {
				req.Header["Idempotency-Key"] = []string{"a-key-of-the-caller"}
			}
			return hashicorp.Do(req)
		},
		"resty 2": func(ctx context.Context, method, url string, body []byte) (*http.Response, error) {
			header, content := contentOf(body)
			return sendResty2(resty2, ctx, method, url, header, content)
		},
		"resty 3": func(ctx context.Context, method, url string, body []byte) (*http.Response, error) {
			header, content := contentOf(body)
			return sendResty3(resty3, ctx, method, url, header, content)
		},
	}
	return []string{"net/http", "once", "go-retryablehttp", "rehttp", "failsafehttp", "resty 2", "resty 3", frugal}, all
}

// frugal is a client that sends the number of the attempt and its time, as it must without changing the caller's request, and repeats once after a
// 503: no key, no budget, no deadline, no look at the answer.
const frugal = "by hand: two fields, one repetition"

type byHand struct{ base http.RoundTripper }

func (b byHand) RoundTrip(req *http.Request) (*http.Response, error) {
	start := time.Now()
	for n := 1; ; n++ {
		r := req.WithContext(req.Context())
		if r.Header = maps.Clone(req.Header); r.Header == nil {
			r.Header = make(http.Header, 2)
		}
		left := 10*time.Second - time.Since(start)
		fields := []string{strconv.Itoa(n), strconv.FormatInt(left.Milliseconds(), 10)}
		r.Header["Once-Attempt"], r.Header["X-Request-Timeout"] = fields[:1:1], fields[1:]
		if n > 1 && req.GetBody != nil {
			body, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			r.Body = body
		}
		resp, err := b.base.RoundTrip(r)
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable || n == 2 {
			return resp, err
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return nil, err
		}
		resp.Body.Close()
	}
}

// task is a task for every client.
type task struct {
	name, method, path string
	loopback           bool
}

// requests are all clients at one task; the first one makes the request without a retry.
func requests(ctx context.Context, t task) (field []*runner, end func()) {
	s := new(side)
	end = func() {}
	base, url := http.RoundTripper(s), "http://stub.test:80"
	if t.loopback {
		server := httptest.NewServer(s)
		transport := &http.Transport{DialContext: (&net.Dialer{}).DialContext, MaxIdleConnsPerHost: 16}
		base, url = transport, server.URL
		end = func() { transport.CloseIdleConnections(); server.Close() }
	}
	retry.BudgetFor(strings.TrimPrefix(url, "http://")).Percent = 100 // else it would end this storm of retries
	var body []byte
	if t.method == http.MethodPost {
		body = bytes.Repeat([]byte("x"), 1<<10)
	}
	names, all := senders(base)
	for _, name := range names {
		path, per := t.path, int64(1)
		if name == names[0] {
			path = "/"
		} else if path == "/retry" {
			per = 2
		}
		field = append(field, &runner{name: name, calls: s.arrived.Load, per: per, run: func(n int) error {
			ctx, cancel := context.WithCancel(ctx) // some give their connections back only then
			defer cancel()
			before := s.bytes.Load()
			for range n {
				if err := once(ctx, all[name], t.method, url+path, body); err != nil {
					return err
				}
			}
			if got, want := s.bytes.Load()-before, int64(n)*per*int64(len(body)); got != want {
				return fmt.Errorf("%d bytes of bodies have arrived, not %d", got, want)
			}
			return nil
		}})
	}
	return field, end
}

func once(ctx context.Context, send sender, method, url string, body []byte) error {
	resp, err := send(ctx, method, url, body)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the answer is %s", resp.Status)
	}
	return err
}
