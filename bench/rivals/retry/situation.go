package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/PuerkitoBio/rehttp"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

// contender is a client in situations: with its own defaults, or with the default settings of once, four retries with pauses of 100 ms to 2 s.
type contender struct {
	name string
	make func(base http.RoundTripper) http.RoundTripper
}

func contenders() []contender {
	const four, least, most = 4, 100 * time.Millisecond, 2 * time.Second
	return []contender{
		{"once", func(base http.RoundTripper) http.RoundTripper {
			return &retryhttp.Transport{Base: base, Policy: retry.Policy{Budget: &retry.Budget{}}}
		}},
		{"net/http", func(base http.RoundTripper) http.RoundTripper { return base }},
		{"go-retryablehttp, its defaults", func(base http.RoundTripper) http.RoundTripper {
			c := retryablehttp.NewClient()
			c.HTTPClient, c.Logger = &http.Client{Transport: base}, nil
			return &retryablehttp.RoundTripper{Client: c}
		}},
		{"go-retryablehttp, equal settings", func(base http.RoundTripper) http.RoundTripper {
			return &retryablehttp.RoundTripper{Client: newRetryable(base, four, least, most)}
		}},
		{"failsafehttp, its defaults", func(base http.RoundTripper) http.RoundTripper {
			return failsafehttp.NewRoundTripper(base, failsafehttp.NewRetryPolicyBuilder().Build()) //nolint:bodyclose // no body
		}},
		{"failsafehttp, equal settings", func(base http.RoundTripper) http.RoundTripper { return newFailsafe(base, four, least, most) }},
		{"rehttp, equal settings", func(base http.RoundTripper) http.RoundTripper {
			return newRehttp(base, four, rehttp.ExpJitterDelay(least, most))
		}},
		{"resty 2, equal settings", func(base http.RoundTripper) http.RoundTripper {
			c := newResty2(base, four, least, most)
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				return sendResty2(c, r.Context(), r.Method, r.URL.String(), r.Header.Clone(), content(r))
			})
		}},
		{"resty 3, equal settings", func(base http.RoundTripper) http.RoundTripper {
			c := newResty3(base, four, least, most).SetRetryAllowNonIdempotent(true)
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				return sendResty3(c, r.Context(), r.Method, r.URL.String(), r.Header.Clone(), content(r))
			})
		}},
	}
}

// ask sends a POST with a key, or a GET if key is empty, and reports whether it succeeded.
func ask(ctx context.Context, c *http.Client, url, key string) bool {
	method, body := http.MethodGet, io.Reader(nil)
	if key != "" {
		method, body = http.MethodPost, strings.NewReader("{}")
	}
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return false
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := c.Do(r)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode == http.StatusOK
}

// situations are problems of first users.
func situations(ctx context.Context) string {
	var w strings.Builder
	p := func(format string, a ...any) { fmt.Fprintf(&w, format+"\n", a...) }
	p("\n## Situations\n")
	p("Once as it is by default; the others at their defaults where they retry by themselves, and with four retries and pauses")
	p("of 100 ms to 2 s, which is what once has. Rate limit: 500 GETs by 50 workers to a server that allows 100 a second and")
	p("answers the rest with 429 and Retry-After: 1. Dead connections: so many kept-alive connections are reset by what is sent")
	p("on them; ten POSTs with a key, one after the other: how many succeed, and how long the first one takes (median of 21).\n")
	p("| | rate limit: succeed | requests a call | takes | 1 dead connection | 8 | 64 |")
	p("| --- | --: | --: | --: | --: | --: | --: |")
	for _, c := range contenders() {
		good, sent, took := rateLimit(ctx, c)
		cells := []string{c.name, strconv.Itoa(int(good)), fmt.Sprintf("%.2f", float64(sent)/500), fmt.Sprintf("%.1f s", took.Seconds())}
		for _, n := range []int{1, 8, 64} {
			good, times := 10, make([]time.Duration, 21)
			for i := range times {
				var ok int
				ok, times[i] = dead(ctx, c, n)
				good = min(good, ok)
			}
			slices.Sort(times)
			cells = append(cells, fmt.Sprintf("%d of 10, %.1f ms", good, float64(times[10].Microseconds())/1000))
		}
		p("| %s |", strings.Join(cells, " | "))
	}
	p("\n### A blip that hangs\n")
	p("Attempts have 300 ms, and the budget of once is full: 10 retries, or 100. Of n calls at once, so many succeed whose first attempt hangs, of so many.\n")
	p("| n | all hang, 10 | half hang, 10 | all hang, 100 | half hang, 100 |")
	p("| --: | --: | --: | --: | --: |")
	for _, n := range []int{1, 2, 5, 10, 20, 100, 1000} {
		cells := []string{strconv.Itoa(n)}
		for _, burst := range []int{10, 100} {
			for _, h := range []int{n, max(1, n/2)} {
				cells = append(cells, fmt.Sprintf("%d of %d", blip(ctx, n, h, burst), h))
			}
		}
		p("| %s |", strings.Join(cells, " | "))
	}
	p("%s", chosen)
	return w.String()
}

func rateLimit(ctx context.Context, c contender) (good, sent int32, took time.Duration) {
	const rate = 100
	var mu sync.Mutex
	tokens, last := float64(rate), time.Now()
	var n, ok, next atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		mu.Lock()
		now := time.Now()
		tokens, last = min(rate, tokens+now.Sub(last).Seconds()*rate), now
		allowed := tokens >= 1
		if allowed {
			tokens--
		}
		mu.Unlock()
		if !allowed {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	base := &http.Transport{MaxIdleConnsPerHost: 100}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: c.make(base)}
	start := time.Now()
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for next.Add(1) <= 500 {
				if ask(ctx, client, server.URL, "") {
					ok.Add(1)
				}
			}
		})
	}
	all.Wait()
	return ok.Load(), n.Load(), time.Since(start)
}

// doomed is a connection that is reset, from some moment on, by data that arrives on it.
type doomed struct {
	net.Conn

	dead *atomic.Bool
	born bool // after that
}

func (d *doomed) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	if n > 0 && d.dead.Load() && !d.born {
		if tcp, ok := d.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = d.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

type graveyard struct {
	net.Listener

	dead atomic.Bool
}

func (g *graveyard) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &doomed{conn, &g.dead, g.dead.Load()}, nil
}

func dead(ctx context.Context, c contender, connections int) (good int, first time.Duration) {
	entered, leave := make(chan struct{}), make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodGet {
			entered <- struct{}{}
			<-leave
		}
	}))
	g := &graveyard{Listener: server.Listener}
	server.Listener = g
	server.Start()
	defer server.Close()
	base := &http.Transport{MaxIdleConnsPerHost: 100}
	defer base.CloseIdleConnections()
	var all sync.WaitGroup
	for range connections {
		all.Go(func() { ask(ctx, &http.Client{Transport: base}, server.URL, "") })
		<-entered
	}
	close(leave)
	all.Wait()
	g.dead.Store(true)
	client := &http.Client{Transport: c.make(base)}
	for i := range 10 {
		start := time.Now()
		if ask(ctx, client, server.URL, fmt.Sprint("k", i)) {
			good++
		}
		if i == 0 {
			first = time.Since(start)
		}
	}
	return good, first
}

// blip returns how many of h calls succeed whose first attempt hangs, of n at once.
func blip(ctx context.Context, n, h, burst int) int {
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		if retryhttp.ResendCount(r.Context()) == 0 && slices.Contains(r.Header["Idempotency-Key"], "hangs") {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	})
	client := &http.Client{Transport: &retryhttp.Transport{Base: base, Policy: retry.Policy{Timeout: 300 * time.Millisecond, Budget: &retry.Budget{Burst: burst}}}}
	var good atomic.Int32
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			hangs := i*h/n != (i+1)*h/n
			key := map[bool]string{true: "hangs", false: "fine"}[hangs]
			if ask(ctx, client, "http://blip.example", key) && hangs {
				good.Add(1)
			}
		})
	}
	all.Wait()
	return int(good.Load())
}

// chosen describes how the rules were chosen, with the simulator of once storm. Its figures are not measured again here, because no program outside
// of cmd/once can run it.
const chosen = `
### How the rules were chosen

By the presets of ` + "`once storm`" + `, the client's defaults alone (herd, slow, pool: 12 seeds), with limit in front (herd: 3 seeds).

What ends retrying after silence: so many others, apart by a part of the time waited. With 2 at any time, which was the
rule, two of ten calls were retried whose first attempts hang together; with 3 at half of the time all ten are.

| others, apart | herd: well after | slow | pool | amplification of herd, slow |
| --- | --: | --: | --: | --: |
| 2, at any time | 9.89 s | 20.03 s | 0.63 s | 1.000, 1.005 |
| 2, a quarter | 9.89 s | 20.11 s | 0.63 s | 1.000, 1.006 |
| 2, half | 9.89 s | 20.12 s | 0.63 s | 1.000, 1.006 |
| **3, half** | 9.89 s | 20.11 s | 0.63 s | 1.000, 1.006 |
| 5, half | 9.89 s | 20.11 s | 0.64 s | 1.000, 1.006 |
| 6, half | 9.89 s | 20.13 s | 0.62 s | 1.000, 1.007 |
| no rule (3 seeds: 9.83 s, 20.30 s with the old one) | 10.60 s | 20.73 s | 0.80 s | 1.028, 1.014 |

What a refusal costs that says when to come back: 503 with Retry-After half a retry, as before. For a fifth of that, herd
with limit has 1.39 attempts an intent instead of 1.10. 429 with Retry-After has a bucket of its own, so that the storm
figures are as before: herd with limit 1.104, slow with limit 1.025, both well at once.
`
