package main

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"github.com/PuerkitoBio/rehttp"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/go-resty/resty/v2"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/retry/retryhttp/roundtrippertest"
	resty3 "resty.dev/v3"
)

// subject is a client in the judged configuration: two retries with pauses of 10 to 20 ms, and otherwise its own defaults. A client that does not
// retry answers by default is configured to retry 5xx and 429, as its documentation shows.
type subject struct {
	name   string
	module string // whose version is printed
	roundtrippertest.Candidate
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

const (
	retries = 2
	least   = 10 * time.Millisecond
	most    = 20 * time.Millisecond
)

var subjects = []subject{
	{"once", "", roundtrippertest.Candidate{
		New:         func(base http.RoundTripper) http.RoundTripper { return &retryhttp.Transport{Base: base} },
		NewWithKeys: func(base http.RoundTripper) http.RoundTripper { return &retryhttp.Transport{Base: base, Keys: true} },

		NewWithJournal: newWithJournal,
	}},
	{"net/http", "", roundtrippertest.Candidate{New: func(base http.RoundTripper) http.RoundTripper {
		return roundTripper(base.RoundTrip)
	}}},
	{"failsafehttp", "github.com/failsafe-go/failsafe-go", roundtrippertest.Candidate{New: func(base http.RoundTripper) http.RoundTripper {
		return newFailsafe(base, retries, least, most)
	}}},
	{"go-retryablehttp", "github.com/hashicorp/go-retryablehttp", roundtrippertest.Candidate{New: func(base http.RoundTripper) http.RoundTripper {
		return &retryablehttp.RoundTripper{Client: newRetryable(base, retries, least, most)}
	}}},
	{"rehttp", "github.com/PuerkitoBio/rehttp", roundtrippertest.Candidate{New: func(base http.RoundTripper) http.RoundTripper {
		return newRehttp(base, retries, rehttp.ExpJitterDelay(least, most))
	}}},
	{"resty 2", "github.com/go-resty/resty/v2", roundtrippertest.Candidate{New: func(base http.RoundTripper) http.RoundTripper {
		c := newResty2(base, retries, least, most)
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			return sendResty2(c, r.Context(), r.Method, r.URL.String(), r.Header.Clone(), content(r))
		})
	}}},
	{"resty 3", "resty.dev/v3", roundtrippertest.Candidate{New: func(base http.RoundTripper) http.RoundTripper {
		c := newResty3(base, retries, least, most)
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			return sendResty3(c, r.Context(), r.Method, r.URL.String(), r.Header.Clone(), content(r))
		})
	}}},
}

func newWithJournal(dir string, base http.RoundTripper) (roundtrippertest.Journaled, error) {
	intents, err := journal.Open(filepath.Join(dir, "intents"), journal.Config{})
	if err != nil {
		return roundtrippertest.Journaled{}, err
	}
	client := &http.Client{Transport: &retryhttp.Transport{Base: base, Journal: intents}}
	return roundtrippertest.Journaled{RoundTripper: client.Transport, Close: intents.Close, Resume: func(ctx context.Context) error {
		_, err := journal.Resume(ctx, intents, client, journal.Options{})
		return err
	}}, nil
}

func newFailsafe(base http.RoundTripper, retries int, least, most time.Duration) http.RoundTripper {
	b := failsafehttp.NewRetryPolicyBuilder().WithMaxRetries(retries) //nolint:bodyclose // no body
	if most > 0 {
		b = b.WithBackoff(least, most) //nolint:bodyclose // as above
	}
	return failsafehttp.NewRoundTripper(base, b.Build()) //nolint:bodyclose // as above
}

func newRetryable(base http.RoundTripper, retries int, least, most time.Duration) *retryablehttp.Client {
	c := retryablehttp.NewClient()
	c.HTTPClient = &http.Client{Transport: base, CheckRedirect: asItIs}
	c.RetryMax, c.RetryWaitMin, c.RetryWaitMax, c.Logger = retries, least, most, nil
	return c
}

func newRehttp(base http.RoundTripper, retries int, delay rehttp.DelayFn) http.RoundTripper {
	failed := rehttp.RetryAny(rehttp.RetryTemporaryErr(), rehttp.RetryStatusInterval(500, 600), rehttp.RetryStatuses(http.StatusTooManyRequests))
	return rehttp.NewTransport(base, rehttp.RetryAll(rehttp.RetryMaxRetries(retries), failed), delay)
}

// resty is not a RoundTripper: each request is made again.
func newResty2(base http.RoundTripper, retries int, least, most time.Duration) *resty.Client {
	return resty.New().SetTransport(base).SetRetryCount(retries).SetRetryWaitTime(least).SetRetryMaxWaitTime(most).
		SetDoNotParseResponse(true).SetRedirectPolicy(resty.RedirectPolicyFunc(asItIs)).
		AddRetryCondition(func(r *resty.Response, err error) bool { return err != nil || failed(r.StatusCode()) })
}

func sendResty2(c *resty.Client, ctx context.Context, method, url string, header http.Header, body any) (*http.Response, error) { //nolint:revive // a client is no argument
	req := c.R().SetContext(ctx)
	req.Header = header
	if body != nil {
		req.SetBody(body)
	}
	resp, err := req.Execute(method, url)
	if err != nil {
		return nil, err
	}
	return resp.RawResponse, nil
}

func newResty3(base http.RoundTripper, retries int, least, most time.Duration) *resty3.Client {
	return resty3.New().SetTransport(base).SetRetryCount(retries).SetRetryWaitTime(least).SetRetryMaxWaitTime(most).
		SetResponseDoNotParse(true).SetRedirectPolicy(resty3.RedirectPolicyFunc(asItIs)).
		AddRetryConditions(func(r *resty3.Response, err error) bool { return err != nil || failed(r.StatusCode()) })
}

func sendResty3(c *resty3.Client, ctx context.Context, method, url string, header http.Header, body any) (*http.Response, error) { //nolint:revive // as above
	req := c.R().SetContext(ctx)
	req.Header = header
	if body != nil {
		req.SetBody(body)
	}
	resp, err := req.Execute(method, url)
	if err != nil {
		return nil, err
	}
	return resp.RawResponse, nil
}

func failed(status int) bool { return status >= 500 || status == http.StatusTooManyRequests }

// asItIs returns a redirect to the http.Client around the client.
func asItIs(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// content returns the body of r in the form in which users pass it to resty: bytes if they have them.
func content(r *http.Request) any {
	switch {
	case r.Body == nil, r.Body == http.NoBody:
		return nil
	case r.GetBody == nil:
		return r.Body
	}
	body, err := r.GetBody()
	if err != nil {
		return r.Body
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		return r.Body
	}
	return text
}
