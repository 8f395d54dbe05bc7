package oncetest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/oncelib/once/oncetest"
)

func post() *http.Request {
	return httptest.NewRequest(http.MethodPost, "http://shop.test/charges", strings.NewReader(`{"amount":5}`))
}

// TestALockThatIsKept: a handler that keeps its lock where its call has failed never answers again. Each kind of fault that shows it says so once, whether the
// handler waits with its context or without it, and the next kind has a new process.
func TestALockThatIsKept(t *testing.T) {
	for _, waitsWithContext := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			over := make(chan struct{}) // ends what waits, as the end of a process would
			var requests atomic.Int64
			texts := complaints(t, func(tb testing.TB) {
				bank := oncetest.NewProvider(tb, oncetest.ProviderConfig{Dedupes: true})
				oncetest.HTTP(tb, oncetest.Service{
					Request: post,
					Skip:    []oncetest.Fault{oncetest.FaultStore, oncetest.FaultStatement, oncetest.FaultMismatch},
					Start: func(p *oncetest.Process) http.Handler {
						lock, client := make(chan struct{}, 1), &http.Client{Transport: p.Transport(bank)}
						return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							requests.Add(1)
							ctx := context.Background()
							if waitsWithContext {
								ctx = r.Context()
							}
							select {
							case lock <- struct{}{}:
							case <-over:
							case <-ctx.Done():
								http.Error(w, "later", http.StatusServiceUnavailable)
								return
							}
							out := r.Clone(r.Context())
							out.RequestURI = ""
							resp, err := client.Do(out)
							if err != nil {
								http.Error(w, "later", http.StatusServiceUnavailable) // and the lock is kept
								return
							}
							_ = resp.Body.Close()
							<-lock
							fmt.Fprint(w, "charged")
						})
					},
				})
			})
			close(over)
			said := fmt.Sprint(texts...)
			if len(texts) != 2 || strings.Count(said, "never answered: by nothing in 10s") != 2 || !strings.Contains(said, "not sent") || !strings.Contains(said, "not answered") {
				t.Errorf("with context, %v: it says %q", waitsWithContext, said)
			}
			if n := requests.Load(); n > 40 {
				t.Errorf("with context, %v: %d requests: one that has no answer is sent again", waitsWithContext, n)
			}
		})
	}
}
