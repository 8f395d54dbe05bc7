package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

func ExampleNewClient() {
	service := flaky()
	defer service.Close()
	client := retryhttp.NewClient(nil)
	resp, err := client.Get(service.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output: 200 OK
}

// An API that allows so many requests a second: as many workers as it can bear, and time to
// wait for their turns.
func TestRecipeRateLimitedAPI(t *testing.T) {
	var asked atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := asked.Add(1); n > 10 && n <= 15 { // what is too much for a second, however slow the machine is
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer api.Close()
	var urls []string
	for range 15 {
		urls = append(urls, api.URL)
	}
	fetch := func(client *http.Client, url string) error {
		resp, err := client.Get(url)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", resp.Status)
		}
		return nil
	}
	failed := func() error {
		client := retryhttp.NewClient(&retryhttp.Transport{Policy: retry.Policy{
			Attempts: 10,
			Total:    time.Minute, // time limit of a call, including the time that it waits for its turn
		}})
		work := make(chan string)
		errs := make(chan error, len(urls))
		var workers sync.WaitGroup
		for range 5 { // half of the requests that the API allows per second
			workers.Go(func() {
				for url := range work {
					errs <- fetch(client, url)
				}
			})
		}
		for _, url := range urls {
			work <- url
		}
		close(work)
		workers.Wait()
		close(errs)
		var all []error
		for err := range errs {
			all = append(all, err)
		}
		return errors.Join(all...)
	}()
	if n := asked.Load(); failed != nil || n != 20 {
		t.Errorf("%v, with %d requests", failed, n)
	}
}

// A job that may take its time has more attempts and longer pauses, for these calls only.
func TestRecipeBatchJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &served{base: func(n int, _ *http.Request) (*http.Response, error) {
			if n < 8 {
				return answer(503), nil
			}
			return answer(200), nil
		}}
		client := retryhttp.NewClient(&retryhttp.Transport{Base: s, Policy: retry.Policy{Budget: &retry.Budget{}}})
		ctx := t.Context()

		ctx = retryhttp.WithPolicy(ctx, retry.Policy{Attempts: 12, Cap: time.Minute, Total: time.Hour, Timeout: 30 * time.Second})
		ctx = retryhttp.WithKey(ctx, retryhttp.Key{Value: once.DeriveKey("invoice", "acme", "2026-11")})

		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://service.example", strings.NewReader("{}"))
		resp, err := client.Do(r)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		resp.Body.Close()
	})
}

// A worker that gets too little through leaves the host alone for a while, instead of
// failing job after job.
func TestRecipeWorkerLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down, start := true, time.Now()
		s := &served{base: func(int, *http.Request) (*http.Response, error) {
			if down = time.Since(start) < time.Minute; down {
				return answer(503), nil
			}
			return answer(200), nil
		}}
		client := retryhttp.NewClient(&retryhttp.Transport{Base: s})
		ctx, jobs := t.Context(), make(chan string, 100)
		for i := range 100 {
			jobs <- fmt.Sprint("job", i)
		}
		done := 0
		do := func(ctx context.Context, job string) error {
			ctx = retryhttp.WithKey(ctx, retryhttp.Key{Value: job})
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://worker-loop.example", strings.NewReader(job))
			if err != nil {
				return err
			}
			resp, err := client.Do(r)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if why := retryhttp.GivenUp(resp); why != nil {
				return why
			}
			return nil
		}

		budget := retry.BudgetFor("worker-loop.example")
		for len(jobs) > 0 {
			if budget.State().Left < 1 { // few calls have succeeded lately: make one call, and then a pause
				<-time.After(5 * time.Second)
			}
			job := <-jobs
			if err := do(ctx, job); err != nil {
				jobs <- job // with the same key
				continue
			}
			done++
		}

		if n := len(s.requests()); done != 100 || n > 140 {
			t.Errorf("%d jobs are done, with %d requests", done, n)
		}
	})
}

// What happened to calls, as numbers.
func TestRecipeMetrics(t *testing.T) {
	var mu sync.Mutex
	calls, retries := map[string]int{}, map[string]int{}
	add := func(to map[string]int, labels ...any) {
		mu.Lock()
		defer mu.Unlock()
		to[fmt.Sprint(labels...)]++
	}
	n := 0
	rt := base(func(int, *http.Request) (*http.Response, error) {
		if n++; n == 1 {
			return nil, io.ErrUnexpectedEOF
		}
		return answer(200), nil
	})

	client := retryhttp.NewClient(&retryhttp.Transport{Base: rt, Policy: retry.Policy{Observe: func(_ context.Context, e retry.Event) {
		if e.Final() {
			add(calls, e.Type, " ", e.Stop) // and a histogram of e.Attempt
		} else {
			add(retries, e.Type, " ", e.Class)
		}
	}}})

	resp, err := client.Get("http://metrics.example")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if calls["done "] != 1 || retries["failed unknown"] != 1 {
		t.Errorf("%v, %v", calls, retries)
	}
}
