package receipt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/oncelib/once/gateway"
)

// ClientConfig configures a [Client]. The zero value is ready to use.
type ClientConfig struct {
	// Header is sent with each request. An example is the header Authorization, if the endpoint requires it.
	// Default: no header.
	Header http.Header

	// Timeout limits the time of each request. Timeout should be longer than the time for which the endpoint
	// waits for a transaction of the service. Default 10 s.
	Timeout time.Duration

	// MaxAnswer is the size in bytes of the longest answer that the client reads. An answer contains the body of
	// a receipt as base64, which makes the body a third longer. Default 24 MiB.
	MaxAnswer int64

	// Transport sends the requests. Default: a new http.Transport without a proxy.
	Transport http.RoundTripper
}

const (
	defaultTimeout   = 10 * time.Second
	defaultMaxAnswer = 24 << 20
)

// Client asks an endpoint of a service for the receipts of the service. Client implements [gateway.Receipts].
// The methods of Client can be called concurrently.
type Client struct {
	url  *url.URL
	cfg  ClientConfig
	http *http.Client
}

var _ gateway.Receipts = (*Client)(nil)

// NewClient returns a client of the endpoint at a URL, such as http://127.0.0.1:3000/once-receipt: see [Handler].
func NewClient(endpoint string, cfg ClientConfig) (*Client, error) {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return nil, errors.New("receipt: the address of the endpoint is not a URL. Try: http://127.0.0.1:3000/once-receipt")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("receipt: the URL %s is not a possible endpoint. Try: http://127.0.0.1:3000/once-receipt", u.Redacted())
	case cfg.Timeout < 0 || cfg.MaxAnswer < 0:
		return nil, fmt.Errorf("receipt: Timeout %v and MaxAnswer %d must not be negative", cfg.Timeout, cfg.MaxAnswer)
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.MaxAnswer = cmp.Or(cfg.MaxAnswer, defaultMaxAnswer)
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Second} // shorter than the keep-alive time of most servers, so that the client does not use a connection that the server closes
	}
	// A redirect may lead to an endpoint of another service, whose answer would be wrong.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{u, cfg, &http.Client{Transport: cfg.Transport, CheckRedirect: stay}}, nil
}

// Look implements [gateway.Receipts].
func (c *Client) Look(ctx context.Context, operation string) (r gateway.Receipt, found bool, err error) {
	return c.ask(ctx, http.MethodGet, operation)
}

// Settle implements [gateway.Receipts].
func (c *Client) Settle(ctx context.Context, operation string) (gateway.Receipt, error) {
	r, found, err := c.ask(ctx, http.MethodPost, operation)
	if err == nil && !found {
		err = fmt.Errorf("receipt: %s: the endpoint has answered POST with neither a receipt nor a tombstone", c.url.Redacted())
	}
	return r, err
}

func (c *Client) ask(ctx context.Context, method, operation string) (r gateway.Receipt, found bool, err error) {
	if err := checkOperation(operation); err != nil {
		return r, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.url.JoinPath(operation).String(), nil) //nolint:gosec // G704: the operator names the endpoint, and checkOperation keeps within it
	if err != nil {
		return r, false, err
	}
	maps.Copy(req.Header, c.cfg.Header)
	req.Header.Set("Accept", "application/json")
	// An old answer from a cache would prove nothing.
	req.Header.Set("Cache-Control", "no-store")
	text, err := c.send(req)
	if err == nil {
		r, found, err = parseAnswer(text, operation)
	}
	if err != nil {
		return gateway.Receipt{}, false, fmt.Errorf("receipt: %s %s: %w", method, c.url.Redacted(), err)
	}
	return r, found, nil
}

// send sends a request, and returns the body of the answer.
func (c *Client) send(req *http.Request) ([]byte, error) {
	answer, err := c.http.Do(req) //nolint:gosec // G704: see ask
	if err != nil {
		return nil, errors.Unwrap(err) // without the URL: the caller adds the URL without the operation
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the endpoint has answered %s", answer.Status)
	}
	if media, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, fmt.Errorf("the answer has the content type %q, not application/json. Try: check that the URL is the endpoint for receipts", answer.Header.Get("Content-Type"))
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, c.cfg.MaxAnswer+1))
	if err == nil && int64(len(text)) > c.cfg.MaxAnswer {
		err = fmt.Errorf("the answer of the endpoint is longer than %d bytes. Try: a larger MaxAnswer", c.cfg.MaxAnswer)
	}
	return text, err
}
