package retryhttp_test

import (
	"fmt"
	"net/http"

	"github.com/oncelib/once/retry/retryhttp"
)

// counted is what an instrumentation does under the transport: it sees each attempt.
type counted struct{ base http.RoundTripper }

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.base.RoundTrip(r)
	if err == nil {
		fmt.Println("http.request.resend_count", retryhttp.ResendCount(r.Context()), resp.Status)
	}
	return resp, err
}

func ExampleResendCount() {
	service := flaky()
	defer service.Close()
	client := &http.Client{Transport: &retryhttp.Transport{Base: counted{http.DefaultTransport}}}

	resp, err := client.Get(service.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	// Output:
	// http.request.resend_count 0 503 Service Unavailable
	// http.request.resend_count 1 503 Service Unavailable
	// http.request.resend_count 2 200 OK
}
