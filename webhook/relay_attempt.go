package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"github.com/oncelib/once/webhook/ssrf"
)

const (
	keptAnswer  = 1 << 10  // bytes of an answer that are kept
	readAnswer  = 16 << 10 // bytes of an answer that are read, so that the connection can be used again
	contentType = "application/json"
)

// request holds the parts of a delivery that are the same in each attempt.
type request struct {
	url     string
	headers map[string]string
	signer  *Signer
	id      string // the ID of the event
	data    []byte
}

// answer is the result of one attempt.
type answer struct {
	Attempt

	retryAfter time.Duration
	err        error // the reason why no answer was received
	fresh      bool  // the answer came on a new connection
}

// delivered reports whether the endpoint has confirmed the delivery.
func (a *answer) delivered() bool { return a.Status >= 200 && a.Status < 300 }

// send makes one attempt.
func (q *request) send(ctx context.Context, client *http.Client) (a answer) {
	began := time.Now()
	a.At = began
	defer func() { a.Duration = time.Since(began) }()
	// Only an answer on a new connection proves that the network works.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { a.fresh = !c.Reused }})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, q.url, bytes.NewReader(q.data))
	if err != nil {
		a.Error, a.err = "url", hostOf(err, nil)
		return a
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("User-Agent", "once-webhook")
	for name, value := range q.headers {
		// A header such as Host or Content-Length would change the request itself.
		if mayAdd(name) {
			r.Header.Set(name, value)
		}
	}
	if err := q.signer.Sign(r.Header, q.id, began, q.data); err != nil {
		a.Error, a.err = "signature", err
		return a
	}
	resp, err := client.Do(r)
	if err != nil {
		a.Error, a.err = errorClass(err), hostOf(err, r.URL)
		return a
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode < 100 || resp.StatusCode > 999 { // the HTTP/2 client of net/http accepts any number
		a.Error, a.err = "closed", fmt.Errorf("HTTP %d", resp.StatusCode)
		return a
	}
	a.Host = r.URL.Hostname()
	a.Status, a.retryAfter = resp.StatusCode, retryAfter(resp.Header, time.Now())
	// An error after the status is ignored: an endpoint that has answered 2xx has received the event.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, readAnswer))
	a.Size, a.Answer = int64(len(body)), body[:min(len(body), keptAnswer)]
	return a
}

// hostOf returns the error of a request with only the host of the URL, because the path of a URL often contains
// a password.
func hostOf(err error, u *url.URL) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		if failed.URL = ""; u != nil {
			failed.URL = u.Host
		}
	}
	return err
}

// mayAdd reports whether the settings of an endpoint may add a header with this name.
func mayAdd(name string) bool {
	name = textproto.CanonicalMIMEHeaderKey(name)
	switch name {
	case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Te", "Trailer", "Upgrade", "Expect", "Accept-Encoding":
		return false
	}
	// A second header of the signature scheme would make the signature ambiguous.
	return !strings.HasPrefix(name, "Webhook-")
}

// errorClass returns the reason of a missing answer in one word. The text of the error must stay secret,
// because it may contain addresses of this network.
func errorClass(err error) string {
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid *tls.CertificateVerificationError
	var timeout net.Error
	var op *net.OpError
	switch {
	// This case is first, because the refusal is wrapped in an error of dialing.
	case errors.Is(err, ssrf.ErrRefused):
		return "refused"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.As(err, &dns):
		return "name"
	case errors.As(err, &invalid), errors.As(err, &unknown), errors.As(err, &host):
		return "certificate"
	case errors.As(err, &op) && op.Op == "dial":
		return "connect"
	}
	return "closed"
}
