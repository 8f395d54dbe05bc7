package httpbroker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/internal/keyed"
	"github.com/oncelib/once/internal/receiver"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/message/cloudevent"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/retry"
)

// Config configures a [Publisher]. The zero value is ready to use.
type Config struct {
	// Client sends the requests. The publisher never follows a redirect. Default: a client with a time limit for connecting and
	// limits for idle connections.
	Client *http.Client

	// Concurrency is the largest number of concurrent requests. Default: 16.
	Concurrency int

	// Timeout limits one request, from its beginning until its answer is read. Default: 10 s.
	Timeout time.Duration

	// Prepare is called before a request is sent, and may change the request. For example, Prepare may add a token or a signature. If Prepare
	// returns an error, the message counts as failed. Default: nil.
	Prepare func(*http.Request) error

	// Quoted puts the idempotency key in quotation marks: the header has "k" instead of k. The Internet draft of the header Idempotency-Key
	// requires the quotation marks. Set Quoted for receivers that accept only a key in quotation marks. Default: false.
	Quoted bool
}

const (
	defaultConcurrency = 16
	defaultTimeout     = 10 * time.Second

	topicMark   = "{topic}"
	longestRead = 64 << 10 // the largest part of an answer that is read; the connection of a longer answer is closed
	longestText = 200      // the largest part of an answer in an error
)

// Publisher returns a publisher that sends each message in a POST to the URL target. In target, the topic of the message replaces the text {topic}.
func Publisher(target string, cfg Config) outbox.Publisher {
	p := &publisher{target: target, cfg: cfg}
	if cfg.Concurrency <= 0 {
		p.cfg.Concurrency = defaultConcurrency
	}
	if cfg.Client != nil {
		p.client = *cfg.Client
	} else {
		p.client.Transport = newTransport(p.cfg.Concurrency)
	}
	if p.cfg.Timeout <= 0 {
		p.cfg.Timeout = defaultTimeout
	}
	p.sender = keyed.NewSender(p.cfg.Concurrency)
	// A redirect could send the message to a service that the operator has not configured.
	p.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return p
}

func newTransport(connections int) *http.Transport {
	const dial, idle = 5 * time.Second, 60 * time.Second
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dial}).DialContext,
		TLSHandshakeTimeout: dial,
		IdleConnTimeout:     idle,
		MaxIdleConnsPerHost: connections,
		ForceAttemptHTTP2:   true,
	}
}

type publisher struct {
	target string
	cfg    Config
	client http.Client
	sender *keyed.Sender
}

// Publish implements [outbox.Publisher].
func (p *publisher) Publish(ctx context.Context, messages []message.Message) []error {
	return p.sender.Publish(ctx, messages, func(m *message.Message) error { return p.send(ctx, m) })
}

func (p *publisher) send(ctx context.Context, m *message.Message) error {
	limited, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	req, err := p.request(limited, m)
	if err != nil {
		return err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return unanswered(ctx, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, longestRead))
	if confirmed(resp.StatusCode) {
		return nil // the status decides, even if the rest of the answer is lost
	}
	// The text is only for the error, so a part of it is not shown.
	if err != nil {
		text = nil
	}
	return refused(resp, text)
}

func (p *publisher) request(ctx context.Context, m *message.Message) (*http.Request, error) {
	target := p.target
	if strings.Contains(target, topicMark) {
		// A client would remove these from the path, and send the request to another URL.
		if m.Topic == "." || m.Topic == ".." {
			return nil, retry.Permanent(fmt.Errorf("httpbroker: the topic %q cannot be a part of the path of a URL. Try: another topic", m.Topic))
		}
		target = strings.ReplaceAll(target, topicMark, url.PathEscape(m.Topic))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(m.Payload))
	if err != nil {
		return nil, outbox.Unavailable(fmt.Errorf("httpbroker: the URL of the receiver is not valid: %w. Try: a URL such as https://example.com/events/{topic}", err))
	}
	for name, value := range cloudevent.Headers(m, cloudevent.HTTP) {
		req.Header.Set(name, value)
	}
	req.Header.Set(receiver.TopicHeader, cloudevent.Escape(m.Topic))
	key := m.ID
	if m.Type == message.TypeSkipped { // the marker is another request: a receiver would refuse another body under the key of the message
		key += ".skipped"
	}
	if p.cfg.Quoted {
		key = wire.QuoteKey(key)
	}
	req.Header.Set(wire.KeyHeader, key)
	if p.cfg.Prepare != nil {
		if err := p.cfg.Prepare(req); err != nil {
			return nil, fmt.Errorf("httpbroker: Config.Prepare: %w", err)
		}
	}
	return req, nil
}

// unanswered returns the error of a request without an answer. If the receiver was connected and did not answer, this message may be
// the cause. If no connection was made, or if it was reset, the message is not the cause.
func unanswered(ctx context.Context, err error) error {
	var ofConnection *net.OpError
	switch {
	case ctx.Err() != nil, // the caller of Publish has ended
		errors.As(err, &ofConnection) && (ofConnection.Op == "dial" || ofConnection.Op == "proxyconnect"),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		strings.Contains(err.Error(), "tls: "), strings.Contains(err.Error(), "x509: "),
		strings.Contains(err.Error(), "unsupported protocol scheme"), strings.Contains(err.Error(), "no Host in request URL"):
		return outbox.Unavailable(fmt.Errorf("httpbroker: %w", err))
	case strings.Contains(err.Error(), "invalid header field"):
		return retry.Permanent(fmt.Errorf("httpbroker: the request cannot be sent: %w. Try: message headers without control characters", err))
	}
	return fmt.Errorf("httpbroker: %w", err)
}

func confirmed(status int) bool { return status >= 200 && status < 300 }

// refused returns the error of an answer that is not a confirmation.
func refused(resp *http.Response, text []byte) error {
	err := fmt.Errorf("httpbroker: the receiver answered %s: %.*q", resp.Status, longestText, text)
	after, said := retryAfter(resp.Header.Get("Retry-After"))
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout: // these concern all messages of the topic
		if said {
			return outbox.Unavailable(retry.After(err, after))
		}
		// A 429 without Retry-After may concern only this message.
		if resp.StatusCode != http.StatusTooManyRequests {
			return outbox.Unavailable(err)
		}
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity, http.StatusRequestHeaderFieldsTooLarge:
		return retry.Permanent(err)
	}
	if said {
		return retry.After(err, after)
	}
	return err
}

// retryAfter reads a Retry-After header: a number of seconds, or a time.
func retryAfter(value string) (time.Duration, bool) {
	const longest = 24 * time.Hour
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, longest), true
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(time.Until(at), 0), longest), true
	}
	return 0, false
}
