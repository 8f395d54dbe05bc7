package retryhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/retryhttp"
)

// flaky fails twice, then answers.
func flaky() *httptest.Server {
	n := 0
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; n < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "refunded, in attempt %d with key %s", n, r.Header.Get("Idempotency-Key"))
	}))
}

func Example() {
	service := flaky()
	defer service.Close()
	client := &http.Client{Transport: &retryhttp.Transport{}}

	ctx := retryhttp.WithKey(context.Background(), retryhttp.Key{Value: "refund:ch_9ab:1000"}) // one per intent
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, service.URL, strings.NewReader(`{"charge":"ch_9ab"}`))
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(string(body))
	// Output: refunded, in attempt 3 with key refund:ch_9ab:1000
}

func ExampleGivenUp() {
	service := flaky()
	defer service.Close()
	client := &http.Client{Transport: &retryhttp.Transport{}}

	resp, err := client.Post(service.URL, "application/json", strings.NewReader("{}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
	fmt.Println(retryhttp.GivenUp(resp))
	// Output:
	// 503
	// retry: not safe after 1 attempt: HTTP 503 Service Unavailable. Try: an idempotency key that is the same in all attempts
}

func ExampleTransport() {
	client := &http.Client{Transport: &retryhttp.Transport{
		Keys: true, // the server knows idempotency keys
		Policy: retry.Policy{Attempts: 3, Observe: func(_ context.Context, e retry.Event) {
			fmt.Println(e.Attempt, e.Type, e.Err)
		}},
	}}
	service := flaky()
	defer service.Close()
	resp, err := client.Post(service.URL, "application/json", strings.NewReader("{}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
	// Output:
	// 1 failed HTTP 503 Service Unavailable
	// 2 failed HTTP 503 Service Unavailable
	// 3 done <nil>
	// 200
}
