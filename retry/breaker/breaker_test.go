package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/internal/base/instrument"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/breaker"
	"github.com/oncelib/once/retry/retryhttp"
)

var errDown = errors.New("down")

// attempt makes n attempts that end so, and returns how many were allowed.
func attempt(b retry.Breaker, n int, o retry.Health) (allowed int) {
	for range n {
		if done, err := b.Allow(); err == nil {
			allowed++
			done(o)
		}
	}
	return allowed
}

func TestOpensAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker.New(gobreaker.Settings{})
		attempt(b, 10, retry.HealthGood)
		if n := attempt(b, 100, retry.HealthBad); n != 10 {
			t.Errorf("open after %d failures; want when half of 20 have failed", n)
		}
		if n := attempt(b, 10, retry.HealthGood); n != 0 || b.State() != gobreaker.StateOpen {
			t.Errorf("%d allowed while it is %v", n, b.State())
		}
		<-time.After(5*time.Second + 1)
		done, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		if n := attempt(b, 10, retry.HealthGood); n != 0 {
			t.Errorf("%d more are let through to see", n)
		}
		done(retry.HealthGood)
		if b.State() != gobreaker.StateClosed || attempt(b, 10, retry.HealthGood) != 10 {
			t.Errorf("after a good one it is %v", b.State())
		}
	})
}

// What a caller has abandoned says nothing: it opens nothing, and the place of the one
// that looks is free again.
func TestAbandonedCountsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker.New(gobreaker.Settings{})
		if n := attempt(b, 100, retry.HealthUnknown); n != 100 {
			t.Errorf("%d of 100 allowed", n)
		}
		attempt(b, 100, retry.HealthBad)
		<-time.After(5*time.Second + 1)
		if n := attempt(b, 3, retry.HealthUnknown); n != 3 || b.State() != gobreaker.StateHalfOpen {
			t.Errorf("%d of 3 allowed, then %v", n, b.State())
		}
		if n := attempt(b, 1, retry.HealthBad); n != 1 || b.State() != gobreaker.StateOpen {
			t.Errorf("%d allowed, then %v", n, b.State())
		}
	})
}

// Failures that are old do not count.
func TestWindowForgetsOldFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker.New(gobreaker.Settings{})
		attempt(b, 19, retry.HealthBad)
		<-time.After(12 * time.Second)
		if n := attempt(b, 19, retry.HealthBad); n != 19 || b.State() != gobreaker.StateClosed {
			t.Errorf("%d of 19 allowed, %v", n, b.State())
		}
	})
}

// Do stops as soon as the breaker is open, and says so, with the failure before.
func TestDoStopsWhenTheBreakerOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &retry.Policy{
			Budget:  &retry.Budget{Burst: -1},
			Breaker: breaker.New(gobreaker.Settings{ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 3 }}),
		}
		calls := 0
		err := retry.Do(t.Context(), p, func(context.Context, int) error { calls++; return errDown })
		var e *retry.Error
		if !errors.As(err, &e) || e.Reason != retry.ReasonOpen || calls != 3 || !errors.Is(err, errDown) || !errors.Is(err, gobreaker.ErrOpenState) {
			t.Errorf("%v after %d calls", err, calls)
		}
	})
}

func ExampleByHost() {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()

	client := &http.Client{Transport: &retryhttp.Transport{
		Policy:  retry.Policy{Base: -1, Budget: &retry.Budget{Burst: -1}},
		Breaker: breaker.ByHost(gobreaker.Settings{}),
	}}
	for range 10 {
		resp, err := client.Get(server.URL)
		if err != nil {
			break // the breaker is open
		}
		resp.Body.Close()
	}
	fmt.Println(calls, "calls have reached the server")
	// Output: 20 calls have reached the server
}

func TestByHost(t *testing.T) {
	of := breaker.ByHost(gobreaker.Settings{})
	if of("A") != of("a") || of("a") == of("b") {
		t.Error("not one breaker for each host")
	}
	attempt(of("a"), 100, retry.HealthBad)
	if n := attempt(of("b"), 1, retry.HealthGood); n != 1 {
		t.Error("a is down, and b is not allowed")
	}
	for i := range 20_000 {
		of(fmt.Sprint(i))
	}
}

// destination keeps the label of what is measured.
type destination struct{ is *string }

func (d destination) Record(_ context.Context, m instrument.Measurement) { *d.is = m.Labels[0] }

// TestSeriesJoin: whatever the spelling of a host, its breaker, its budget and the measurements of
// its calls have one label, so that they can be compared.
func TestSeriesJoin(t *testing.T) {
	const want = "api.example"
	hosts := breaker.NewHosts(gobreaker.Settings{})
	for _, host := range []string{"api.example", "API.Example", "api.example:443", "api.example.", "api.example.:443"} {
		told := ""
		client := &http.Client{Transport: &retryhttp.Transport{
			Base: refused{}, Breaker: hosts.Of,
			Policy: retry.Policy{Attempts: 1, Observe: retry.Metrics(destination{&told})},
		}}
		if _, err := client.Get("https://" + host + "/x"); err == nil {
			t.Fatal("no error")
		}
		if of, ok := hosts.Of(host).(*breaker.Breaker); !ok || of != hosts.Of(want) || retry.BudgetFor(host).State().Destination != want || told != want {
			t.Errorf("%s: the budget is that of %q, the calls are those of %q", host, retry.BudgetFor(host).State().Destination, told)
		}
	}
	if values, err := hosts.Gauges(t.Context()); err != nil || len(values) != 1 || values[0].Label != want {
		t.Errorf("%+v, %v: want one breaker, of %s", values, err, want)
	}
}

type refused struct{}

func (refused) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("refused") }

// TestGaugesNameOpenBreakers: a gauge tells which destinations are kept away from.
func TestGaugesNameOpenBreakers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := breaker.NewHosts(gobreaker.Settings{})
		want := func(when string, want map[string]float64) {
			t.Helper()
			got := map[string]float64{}
			values, err := hosts.Gauges(t.Context())
			for _, v := range values {
				if got[v.Label] = v.Number; v.Name != gaugename.BreakerOpen {
					t.Errorf("%s: %s", when, v.Name)
				}
			}
			if err != nil || !maps.Equal(got, want) {
				t.Errorf("%s: %v, %v, want %v", when, got, err, want)
			}
		}
		want("no host was called", nil)
		attempt(hosts.Of("b"), 100, retry.HealthBad)
		attempt(hosts.Of("A"), 1, retry.HealthGood)
		want("one is down", map[string]float64{"a": 0, "b": 1})
		<-time.After(5*time.Second + 1)
		want("half-open", map[string]float64{"a": 0, "b": 1})
		attempt(hosts.Of("b"), 1, retry.HealthGood)
		want("it is back", map[string]float64{"a": 0, "b": 0})
	})
}

func ExampleHosts() {
	hosts := breaker.NewHosts(gobreaker.Settings{})
	client := &http.Client{Transport: &retryhttp.Transport{Breaker: hosts.Of}}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	if resp, err := client.Get(server.URL); err == nil {
		resp.Body.Close()
	}
	values, _ := hosts.Gauges(context.Background())
	for _, v := range values {
		fmt.Println(v.Name, v.Number)
	}
	// Output: once_breaker_open 0
}
