package webhook

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/oncelib/once/message"
)

const (
	maxURL         = 2048 // bytes, like maxDescription and maxHeaders
	maxDescription = 512
	maxHeaders     = 4096
	maxConcurrency = fastPlaces / 8
)

// checkedEndpoint returns e in the form in which the database stores it. The error is [ErrInvalid] or [ErrURL],
// and names the wrong setting. The check of the URL asks the resolver.
func (c *Config) checkedEndpoint(ctx context.Context, e Endpoint) (Endpoint, error) {
	var err error
	switch {
	case len(e.URL) > maxURL:
		err = fmt.Errorf("the URL has %d bytes, and at most %d are allowed", len(e.URL), maxURL)
	case e.Concurrency < 0 || e.Concurrency > maxConcurrency:
		err = fmt.Errorf("the concurrency is %d, which is not allowed. Try: 1 to %d deliveries at a time, or 0 for the default", e.Concurrency, maxConcurrency)
	case e.Ordered && e.Concurrency > 1:
		err = fmt.Errorf("the concurrency is %d, but an ordered endpoint gets one delivery at a time. Try: leave the concurrency out", e.Concurrency)
	default:
		err = cmp.Or(checkRate(e.Rate), message.CheckText("description", e.Description, maxDescription))
	}
	if err == nil {
		e.Types, err = checkPatterns(e.Types)
	}
	if err == nil {
		e.Headers, err = checkedHeaders(e.Headers)
	}
	if err != nil {
		return e, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	// The check of the URL is last, because only it needs the network.
	if err := c.Guard.CheckURL(ctx, e.URL); err != nil {
		return e, fmt.Errorf("%w: %w", ErrURL, err)
	}
	return e, nil
}

func checkRate(r float64) error {
	const least, most = 0.001, 1e6
	if r == 0 || r >= least && r <= most {
		return nil
	}
	return fmt.Errorf("the rate is %v, which is not allowed. Try: %v to %.0f deliveries per second, or 0 for no limit", r, least, most)
}

// checkedHeaders returns the headers with names in lower case.
func checkedHeaders(h map[string]string) (map[string]string, error) {
	lower, err := message.CheckHeaders(h)
	if err == nil {
		err = message.CheckHeadersSize(lower, maxHeaders)
	}
	for name := range lower {
		if isReserved(name) {
			err = fmt.Errorf("an endpoint cannot have the header %q, because the relay sets this header. Try: another name for the header", name)
		}
	}
	return lower, err
}

// isReserved reports whether an endpoint cannot set a header. The name is in lower case.
func isReserved(name string) bool {
	switch name {
	case "content-type", "content-encoding", "accept-encoding", "user-agent":
		return true
	}
	return strings.HasPrefix(name, "webhook-") || strings.HasPrefix(name, "webhook_") // some receivers read a hyphen and an underscore as the same character
}
