package retryhttp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/oncelib/once/retry"
)

// answer is what has become of one attempt: a response or an error.
type answer struct {
	resp *http.Response
	err  error

	good  bool // it is for the caller
	class retry.Class
	after time.Duration
	code  string // of a problem
	shut  bool   // the breaker has not allowed the attempt

	number  int64    // that the budget gave it
	sending *sending // nil if it was not made
	runner  int      // of a race
}

// cancel ends the attempt.
func (a *answer) cancel(cause error) {
	if a.sending != nil {
		a.sending.cancel(cause)
	}
}

// StatusError is an answer that was a failure, where an error is asked for.
type StatusError struct {
	Status int
	Code   string // of a problem document, "" if there was none
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("HTTP %d %s", e.Status, http.StatusText(e.Status))
	if e.Code != "" {
		s += " (" + e.Code + ")"
	}
	return s
}

// failure returns the answer as an error.
func (a *answer) failure() error {
	if a.resp == nil {
		return a.err
	}
	return &StatusError{a.resp.StatusCode, a.code}
}

// judge says what a response means.
func (c *call) judge(a *answer) {
	status := a.resp.StatusCode
	if c.keyed {
		if retention := seconds(field(a.resp.Header, headerRetention)); retention > 0 {
			c.advertised(retention)
		}
	}
	if status >= http.StatusBadRequest {
		if err := c.judgeFailure(a); err != nil {
			a.resp.Body.Close()
			a.fail(fmt.Errorf("retryhttp: reading the answer %d: %w", status, err))
			return
		}
	}
	a.good = status < http.StatusBadRequest || a.class == retry.Final && status < http.StatusInternalServerError
	if a.good && c.keyed {
		c.buffer(a)
	}
}

// The code with which oncehttp says that an earlier attempt is still at work.
const codeInFlight = "CONFLICT.idempotency.in_flight"

func (c *call) judgeFailure(a *answer) error {
	h := a.resp.Header
	var p problem
	if c.repeatable { // else it changes nothing
		var err error
		if p, err = peek(a.resp, maxPeek); err != nil {
			return err
		}
	}
	a.code = p.code
	if len(h[headerAfter]) > 0 {
		a.after = retryAfter(h, time.Now())
	}
	a.class = byStatus(a.resp.StatusCode, a.after)
	hint := field(h, headerHint)
	again := strings.EqualFold(hint, "true")
	switch {
	case a.resp.StatusCode == http.StatusConflict && (again || p.code == codeInFlight): // Stripe's idempotency_key_in_use
		a.class = retry.InFlight
	case a.class == retry.Final && again:
		a.class = retry.Unknown
	}
	if strings.EqualFold(hint, "false") || p.final || strings.EqualFold(field(h, headerReplayed), "true") || field(h, headerStatus) == "replayed" {
		a.class = retry.Final // the same key will give the same answer
	}
	return nil
}

func byStatus(status int, after time.Duration) retry.Class {
	switch status {
	case http.StatusTooManyRequests:
		return retry.Throttled
	case http.StatusServiceUnavailable:
		if after > 0 {
			return retry.Throttled
		}
		return retry.Unknown
	case http.StatusRequestTimeout, http.StatusTooEarly:
		return retry.Unknown
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported, http.StatusNetworkAuthenticationRequired:
		return retry.Final
	}
	if status >= http.StatusInternalServerError {
		return retry.Unknown
	}
	return retry.Final
}

// buffer reads a short answer to the end.
func (c *call) buffer(a *answer) {
	most := c.t.Buffer
	if most == 0 {
		most = 64 << 10
	}
	length := a.resp.ContentLength
	if length <= 0 || length > most || a.resp.Body == http.NoBody || c.req.Method == http.MethodHead {
		return
	}
	whole := make([]byte, length)
	n, err := io.ReadFull(a.resp.Body, whole)
	a.resp.Body.Close()
	if err != nil {
		a.fail(fmt.Errorf("retryhttp: the answer was cut after %d of %d bytes: %w", n, length, err))
		return
	}
	a.resp.Body = io.NopCloser(bytes.NewReader(whole))
}

// fail makes a an attempt without an answer.
func (a *answer) fail(err error) {
	if cause := context.Cause(a.sending); cause == errSlow || cause == errUnseen || cause == errLost { //nolint:errorlint // our own
		err = cause
	}
	a.resp, a.err, a.good = nil, err, false
	a.class, a.after = classOf(err)
	a.cancel(nil)
}

// classOf classifies what Base has returned.
func classOf(err error) (retry.Class, time.Duration) {
	if unseen(err) {
		return retry.Unseen, 0
	}
	var op *net.OpError
	if errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect") {
		return retry.Transient, 0
	}
	var (
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
	)
	if errors.As(err, &certificate) || errors.As(err, &record) {
		return retry.Final, 0
	}
	text := err.Error()
	for _, mistake := range mistakes {
		if strings.Contains(text, mistake) {
			return retry.Final, 0
		}
	}
	return retry.Classify(err)
}

// mistakes are what net/http says of requests that cannot be sent. They have no types.
var mistakes = []string{
	"unsupported protocol scheme",
	"http: no Host in request URL",
	"net/http: invalid header",
	"net/http: invalid method",
	"net/http: invalid trailer",
	"http: ContentLength=",
}

// outcome is what the answer, to a caller with ctx, tells a breaker.
func (a *answer) outcome(ctx context.Context) retry.Outcome {
	switch {
	case a.good, a.class == retry.InFlight, a.resp == nil && a.class == retry.Final:
		return retry.Healthy
	case a.resp == nil && (ctx.Err() != nil || errors.Is(a.err, errLost)):
		return retry.Abandoned
	}
	return retry.Unhealthy
}

// keep makes the attempt last until the caller has done with its body.
func (a *answer) keep() {
	switch {
	case a.resp.StatusCode == http.StatusSwitchingProtocols: // its body is a connection, and to be written to
	case a.resp.Body == http.NoBody:
		a.cancel(nil)
	default:
		a.sending.body = handed{a.resp.Body, a.sending}
		a.resp.Body = &a.sending.body
	}
}

// discard reads what is left of the answer, within reason, so that its connection can
// be used again.
func (a *answer) discard() {
	if a.resp != nil && a.resp.Body != http.NoBody {
		on := a.sending
		patience := time.AfterFunc(100*time.Millisecond, func() { on.cancel(errSlow) })
		_, _ = io.CopyN(io.Discard, a.resp.Body, 16<<10)
		a.resp.Body.Close()
		patience.Stop()
	}
	a.cancel(nil)
}
