// Package duplicates does to a service what impatient clients and bad networks do. It is
// what the tests of the examples have in common.
package duplicates

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

// Answer is what a client has got.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Post sends one POST, under one key, eight times at once, then over a network that
// loses the first answer, and returns what the client has got in the end. The caller
// counts the effects: there must be one.
func Post(tb testing.TB, url, contentType, body string) Answer {
	tb.Helper()
	key := once.NewKey()
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		done []Answer
	)
	for range 8 {
		all.Go(func() {
			a, err := send(http.DefaultTransport, key, url, contentType, body)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				tb.Error(err)
			case a.Status < http.StatusBadRequest:
				done = append(done, a)
			case a.Status != http.StatusConflict: // in flight
				tb.Errorf("%d %s", a.Status, a.Body)
			}
		})
	}
	all.Wait()
	network := &lossy{}
	last, err := send(&retryhttp.Transport{Base: network, Policy: retry.Policy{Base: -1}}, key, url, contentType, body)
	if err != nil {
		tb.Fatal(err)
	}
	if !network.lost || last.Header.Get("Idempotency-Status") != "replayed" {
		tb.Errorf("an answer was lost: %v; then %d %v %s", network.lost, last.Status, last.Header, last.Body)
	}
	if len(done) == 0 {
		tb.Error("none of the duplicates has succeeded")
	}
	for _, a := range done {
		if a.Status != last.Status || a.Body != last.Body {
			tb.Errorf("%d %q, and %d %q", a.Status, a.Body, last.Status, last.Body)
		}
	}
	if other, err := send(http.DefaultTransport, key, url, contentType, strings.Replace(body, "1000", "1001", 1)); err != nil || other.Status != http.StatusUnprocessableEntity {
		tb.Errorf("the same key for another amount: %+v, %v", other, err)
	}
	return last
}

func send(transport http.RoundTripper, key, url, contentType, body string) (a Answer, err error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Content-Type", contentType)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, resp.Header, string(b)}, err
}

// lossy loses the first answer, when its server has done all that it does.
type lossy struct{ lost bool }

func (l *lossy) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	if !l.lost {
		l.lost = true
		return nil, errors.New("the answer was lost")
	}
	resp.Body = io.NopCloser(bytes.NewReader(b))
	return resp, nil
}
