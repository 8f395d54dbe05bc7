package retryhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

// BenchmarkPostWithAJournal is a POST to a loopback server that does nothing: bare, with retries,
// and with a journal, by 1 and by 16 callers.
func BenchmarkPostWithAJournal(b *testing.B) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
	}))
	defer service.Close()
	connections := func() *http.Transport { return &http.Transport{MaxIdleConnsPerHost: 16} }
	for _, callers := range []int{1, 16} {
		for _, c := range []struct {
			name string
			make func(b *testing.B) http.RoundTripper
		}{
			{"bare", func(*testing.B) http.RoundTripper { return connections() }},
			{"retries", func(*testing.B) http.RoundTripper {
				return &retryhttp.Transport{Base: connections(), Policy: retry.Policy{Budget: new(retry.Budget)}}
			}},
			{"journal", func(b *testing.B) http.RoundTripper {
				b.Helper()
				f, _ := newJournal(b)
				return &retryhttp.Transport{Base: connections(), Policy: retry.Policy{Budget: new(retry.Budget)}, Journal: f}
			}},
		} {
			b.Run(fmt.Sprintf("%s-%d", c.name, callers), func(b *testing.B) {
				client := &http.Client{Transport: c.make(b)}
				var n atomic.Int64
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
							ctx := retryhttp.WithKey(context.Background(), retryhttp.Key{Value: fmt.Sprint("refund:", i)})
							req, err := http.NewRequestWithContext(ctx, http.MethodPost, service.URL, strings.NewReader(`{"charge":"ch_9ab","amount":1000}`))
							if err != nil {
								b.Error(err)
								return
							}
							resp, err := client.Do(req)
							if err != nil {
								b.Error(err)
								return
							}
							resp.Body.Close()
						}
					})
				}
				all.Wait()
			})
		}
	}
}
