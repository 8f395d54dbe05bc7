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
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/retry"
)

// answer is the result of one attempt: a response or an error.
type answer struct {
	resp *http.Response
	err  error

	good  bool // the caller gets it
	class retry.Class
	after time.Duration
	code  string // of a problem document
	shut  bool   // the breaker has refused the attempt
	stale bool   // the connection was already dead

	number  int64         // from Budget.Begin
	begun   time.Duration // as a lazy.Moment
	sending *sending      // nil if no request was made
	runner  int           // number in a race
}

// cancel ends the attempt.
func (a *answer) cancel() {
	if a.sending != nil {
		a.sending.cancel(nil)
	}
}

// StatusError is the error for a failed response, as events and a *[retry.Error] have it.
type StatusError struct {
	Status int
	Code   string // the member "code" of a problem document, or ""
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

// refusal returns a good answer as an error if its status is 400 or higher, else nil.
func (a *answer) refusal() error {
	if a.resp.StatusCode < http.StatusBadRequest {
		return nil
	}
	return a.failure()
}

// judge classifies a response.
func (c *call) judge(a *answer) {
	status := a.resp.StatusCode
	c.meet(a.resp.Header)
	if c.keyed {
		if retention := seconds(field(a.resp.Header, wire.RetentionHeader)); retention > 0 {
			c.advertised(retention)
		}
	}
	if status >= http.StatusBadRequest {
		if err := c.judgeFailure(a); err != nil {
			a.resp.Body.Close()
			a.fail(fmt.Errorf("retryhttp: the body of the answer with status %d cannot be read: %w", status, err))
			return
		}
	}
	a.good = status < http.StatusBadRequest || a.class == retry.ClassFinal && status < http.StatusInternalServerError
	if a.good && c.keyed {
		c.buffer(a)
	}
}

// The code with which oncehttp says that an earlier attempt is still running.
const codeInFlight = "CONFLICT.idempotency.in_flight"

func (c *call) judgeFailure(a *answer) (err error) {
	a.class, a.after, a.code, err = classify(a.resp, c.keyed, c.repeatable)
	return err
}

// classify classifies a failed response to a request with or without a key. If read is true, classify also reads the problem document in the body.
func classify(resp *http.Response, keyed, read bool) (class retry.Class, after time.Duration, code string, err error) {
	h := resp.Header
	var p problem
	if read {
		if p, err = peek(resp, maxPeek); err != nil {
			return retry.ClassUnknown, 0, "", err
		}
	}
	named := false
	if len(h[headerAfter]) > 0 || len(h[headerAfterMs]) > 0 {
		after, named = retryAfter(h, time.Now())
	}
	class = byStatus(resp.StatusCode, after)
	hint := field(h, headerHint)
	again := strings.EqualFold(hint, "true")
	switch {
	case resp.StatusCode != http.StatusConflict:
	case again, p.code == codeInFlight: // Stripe's idempotency_key_in_use
		class = retry.ClassInFlight
	case keyed && (p.again || named): // an earlier request with the key is in flight
		class = retry.ClassInFlight
	}
	if class == retry.ClassFinal && again {
		class = retry.ClassUnknown
	}
	if strings.EqualFold(hint, "false") || p.final || strings.EqualFold(field(h, wire.ReplayedHeader), "true") || field(h, wire.StatusHeader) == wire.StatusReplayed {
		class = retry.ClassFinal // the same key will give the same answer
	}
	return class, after, p.code, nil
}

func byStatus(status int, after time.Duration) retry.Class {
	switch status {
	case http.StatusTooManyRequests:
		if after > 0 {
			return retry.ClassRateLimited
		}
		return retry.ClassThrottled
	case http.StatusServiceUnavailable:
		if after > 0 {
			return retry.ClassThrottled
		}
		return retry.ClassUnknown
	case http.StatusTooEarly: // RFC 8470: it was not processed, because it may be a replay
		return retry.ClassTransient
	case http.StatusRequestTimeout:
		return retry.ClassUnknown
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported, http.StatusNetworkAuthenticationRequired:
		return retry.ClassFinal
	}
	if status >= http.StatusInternalServerError {
		return retry.ClassUnknown
	}
	return retry.ClassFinal
}

// buffer reads a short answer to its end, which may be after its Content-Length: over HTTP/2 trailers may follow, and closing the body before them
// would reset the stream.
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
	if err == nil {
		_, err = io.Copy(io.Discard, a.resp.Body)
	}
	a.resp.Body.Close()
	if err != nil {
		a.fail(fmt.Errorf("retryhttp: the answer was cut after %d of %d bytes: %w", n, length, err))
		return
	}
	a.resp.Body = io.NopCloser(bytes.NewReader(whole))
}

// fail sets a to the result of an attempt that got no answer.
func (a *answer) fail(err error) {
	if cause := context.Cause(a.sending); cause == errSlow || cause == errUnseen || cause == errReset || cause == errLost { //nolint:errorlint // our own
		err = cause
	}
	a.resp, a.err, a.good = nil, err, false
	if a.stale {
		// The connection was dead before the attempt, so only a proof that no byte was sent changes the class.
		a.class = retry.ClassUnknown
		if unseen(err) || a.sending.unsent() {
			a.class = retry.ClassUnseen
		}
		a.cancel()
		return
	}
	a.class, a.after = classOf(err)
	// Nothing was written to the connection, so that the server has not seen the request.
	if a.class == retry.ClassUnknown && a.sending.unsent() {
		a.class = retry.ClassTransient
		if refused(err) {
			a.class = retry.ClassFinal
		}
	}
	a.cancel()
}

// classOf classifies an error of Base.
func classOf(err error) (retry.Class, time.Duration) {
	if unseen(err) {
		return retry.ClassUnseen, 0
	}
	if hopeless(err) {
		return retry.ClassFinal, 0
	}
	var op *net.OpError
	if errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect") {
		return retry.ClassTransient, 0
	}
	return retry.Classify(err)
}

// hopeless reports whether each further attempt would return err again.
func hopeless(err error) bool {
	var (
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		name        *net.DNSError
		op          *net.OpError
	)
	switch {
	case errors.As(err, &certificate), errors.As(err, &record):
		return true
	case errors.As(err, &name):
		return name.IsNotFound && !name.IsTemporary
	case errors.As(err, &op) && op.Op == "remote error": // an alert of TLS
		return !slices.Contains(passingAlerts[:], op.Err.Error())
	}
	text := err.Error()
	for _, mistake := range mistakes {
		if strings.Contains(text, mistake) {
			return true
		}
	}
	return false
}

// passingAlerts are TLS errors that do not prove that the two sides are incompatible.
var passingAlerts = [...]string{"tls: internal error", "tls: user canceled", "tls: unexpected message", "tls: bad record MAC"}

// refused reports whether a proxy has refused CONNECT. net/http returns only the text of its status.
func refused(err error) bool {
	for status := http.StatusBadRequest; status < http.StatusInternalServerError; status++ {
		if text := http.StatusText(status); text != "" && text == err.Error() {
			return status != http.StatusRequestTimeout && status != http.StatusTooEarly && status != http.StatusTooManyRequests
		}
	}
	return false
}

// mistakes are net/http's texts for requests that cannot be sent. These errors have no types.
var mistakes = []string{
	"unsupported protocol scheme",
	"http: no Host in request URL",
	"net/http: invalid header",
	"net/http: invalid method",
	"net/http: invalid trailer",
	"http: ContentLength=",
	"server response headers exceeded",
	"http2: response header list larger than",
	"http2: request header list larger than",
	"tls: server selected unsupported protocol version",
}

// outcome returns what the answer proves about the health of the destination. ctx is the context of the caller.
func (a *answer) outcome(ctx context.Context) retry.Health {
	switch {
	case a.good, a.class == retry.ClassInFlight, a.resp == nil && a.class == retry.ClassFinal:
		return retry.HealthGood
	case a.resp == nil && (a.stale || ctx.Err() != nil || errors.Is(a.err, errLost)):
		return retry.HealthUnknown
	}
	return retry.HealthBad
}

// keep keeps the context of the attempt until the caller has closed the body of the answer.
func (a *answer) keep() {
	switch {
	case a.resp.StatusCode == http.StatusSwitchingProtocols: // its body is a connection, which can also be written to
	case a.resp.Body == http.NoBody:
		a.cancel()
	default:
		a.sending.body = handed{a.resp.Body, a.sending}
		a.resp.Body = &a.sending.body
	}
}

// discard reads the rest of the answer, up to a limit, so that its connection can be used again.
func (a *answer) discard() {
	if a.resp != nil && a.resp.Body != http.NoBody {
		on := a.sending
		patience := time.AfterFunc(100*time.Millisecond, func() { on.cancel(errSlow) })
		_, _ = io.CopyN(io.Discard, a.resp.Body, 16<<10)
		a.resp.Body.Close()
		patience.Stop()
	}
	a.cancel()
}
