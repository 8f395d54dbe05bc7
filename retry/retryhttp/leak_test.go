package retryhttp_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

// counter is a listener that counts connections.
type counter struct {
	net.Listener

	opened atomic.Int32
}

func (c *counter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.opened.Add(1)
	}
	return conn, err
}

// descriptors returns how many files this process has open, -1 where that is unknown.
func descriptors() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(list)
}

// ends counts the attempts whose context is over.
type ends struct {
	*http.Transport

	n *atomic.Int32
}

func (e ends) RoundTrip(r *http.Request) (*http.Response, error) {
	context.AfterFunc(r.Context(), func() { e.n.Add(1) })
	return e.Transport.RoundTrip(r)
}

// settled polls until there are no more goroutines and descriptors than before.
func settled(t *testing.T, goroutines, files int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		g, f := runtime.NumGoroutine(), descriptors()
		if g <= goroutines && f <= files {
			return
		}
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("there were %d goroutines and %d descriptors, and there are %d and %d\n%s", goroutines, files, g, f, stacks[:runtime.Stack(stacks, true)])
		}
		<-time.After(time.Millisecond)
	}
}

// After 10,000 calls with a retry each, nothing is left of them: while the connections are
// kept there are as many of them as callers, with the goroutines that these have, and when
// they are closed there are neither.
func TestNothingLeaks(t *testing.T) {
	for _, c := range []struct {
		name    string
		calls   int
		http2   bool
		perConn int // goroutines of net/http for each connection, both sides
		hedge   time.Duration
	}{
		{"HTTP/1", 10_000, false, 4, 0},
		{"HTTP/1, hedged", 1000, false, 4, time.Hour}, // it races, and is never late
		{"HTTP/2", 1000, true, 8, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			const callers = 8
			runtime.GC()
			goroutines, files := runtime.NumGoroutine(), descriptors()

			var failed, done, ended atomic.Int32
			var seen sync.Map // keys
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				key := r.Header.Get("Idempotency-Key")
				switch _, again := seen.LoadOrStore(key, true); {
				case err != nil || string(body) != "refund "+key:
					w.WriteHeader(http.StatusBadRequest)
				case again:
					done.Add(1)
					_, _ = io.WriteString(w, "done")
				default:
					failed.Add(1)
					http.Error(w, "sorry", http.StatusServiceUnavailable)
				}
			}))
			listener := &counter{Listener: server.Listener}
			server.Listener, server.EnableHTTP2 = listener, c.http2
			if c.http2 {
				server.StartTLS()
			} else {
				server.Start()
			}
			base := server.Client().Transport.(*http.Transport)
			base.MaxIdleConnsPerHost, base.MaxConnsPerHost = callers, callers
			client := &http.Client{Transport: &retryhttp.Transport{
				Base: ends{base, &ended}, Hedge: c.hedge, Policy: retry.Policy{Base: -1, Timeout: time.Minute, Budget: &retry.Budget{Burst: -1}},
			}}
			if err := inParallel(callers, c.calls, func(i int) error {
				key := strconv.Itoa(i)
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("refund "+key))
				if err != nil {
					return err
				}
				r.Header.Set("Idempotency-Key", key)
				resp, err := client.Do(r)
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "done" {
					return fmt.Errorf("%d %q, %w", resp.StatusCode, text, err)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if f, d := int(failed.Load()), int(done.Load()); f != c.calls || d != c.calls {
				t.Errorf("vacuous: of %d calls %d were failed once, and %d were answered then", c.calls, f, d)
			}
			opened := int(listener.opened.Load())
			// A machine that is busy drains some answers too late to keep their connections.
			if opened == 0 || opened > callers+c.calls/50 {
				t.Errorf("%d connections were opened for %d callers", opened, callers)
			}
			opened = min(opened, callers)
			settled(t, goroutines+opened*c.perConn+2, files+2*opened+8) // a listener, and what the runtime polls with
			client.CloseIdleConnections()
			server.Close()
			settled(t, goroutines, files+2) // the runtime's polling begins with the first connection
			if n := int(ended.Load()); n != 2*c.calls {
				t.Errorf("%d contexts of attempts have ended, of %d", n, 2*c.calls)
			}
		})
	}
}

// inParallel runs f for 0, 1, ... n-1, and returns the first error.
func inParallel(callers, n int, f func(int) error) error {
	var next atomic.Int64
	var all sync.WaitGroup
	first := make(chan error, callers)
	for range callers {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(i); err != nil {
					first <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(first)
	return <-first
}
