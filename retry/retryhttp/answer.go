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

	good  bool // the answer goes to the caller, without another attempt
	class retry.Class
	after time.Duration
	code  string // the code in the problem document
	shut  bool   // the breaker has refused the attempt
	stale bool   // the connection was already dead

	number  int64         // the number from Budget.Begin
	begun   time.Duration // when the attempt began, as a lazy.Moment
	sending *sending      // nil if no request was made
	runner  int           // the number of the runner in a race
}

// cancel ends the context of the attempt.
func (a *answer) cancel() {
	if a.sending != nil {
		a.sending.cancel(nil)
	}
}

// StatusError is the error of a failed response. Events and a *retry.Error contain a StatusError.
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

// refusal returns an error if the status of a good answer is 400 or higher, and nil otherwise.
func (a *answer) refusal() error {
	if a.resp.StatusCode < http.StatusBadRequest {
		return nil
	}
	return a.failure()
}

// judge sets the class of a response, and whether the caller gets it.
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
	// A final refusal such as 422 is an answer for the caller. A final 501 is a failure.
	a.good = status < http.StatusBadRequest || a.class == retry.ClassFinal && status < http.StatusInternalServerError
	if a.good && c.keyed {
		c.buffer(a)
	}
}

// codeInFlight is the code with which package oncehttp says that an earlier attempt is running.
const codeInFlight = "CONFLICT.idempotency.in_flight"

func (c *call) judgeFailure(a *answer) (err error) {
	a.class, a.after, a.code, err = classify(a.resp, c.keyed, c.repeatable)
	return err
}

// classify returns the class of a failed response. The parameter keyed says whether the request has a key. If read is true, classify reads the
// problem document in the body.
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
	// The regions of a service do not yet agree who executes the request (package home), and none has executed it.
	if resp.StatusCode == http.StatusMisdirectedRequest && p.again && strings.HasPrefix(p.code, "TRANSIENT.") {
		class = retry.ClassTransient
	}
	hint := field(h, headerHint)
	again := strings.EqualFold(hint, "true")
	switch {
	case resp.StatusCode != http.StatusConflict:
	case again, p.code == codeInFlight: // for example idempotency_key_in_use of Stripe
		class = retry.ClassInFlight
	case keyed && (p.again || named): // an earlier request with the key is in flight
		class = retry.ClassInFlight
	}
	// The server asks for a retry, although such a status is usually final.
	if class == retry.ClassFinal && again {
		class = retry.ClassUnknown
	}
	if strings.EqualFold(hint, "false") || p.final || strings.EqualFold(field(h, wire.ReplayedHeader), "true") || field(h, wire.StatusHeader) == wire.StatusReplayed {
		class = retry.ClassFinal // the same key gets the same answer again
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
	// A 503 without a time may come from a proxy that has lost the answer of the server.
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

// buffer reads a short answer to its end. The end may come after the Content-Length: on HTTP/2 trailers may follow, and closing the body before them
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
		// The same key gets the complete answer again, so the attempt counts as failed.
		a.fail(fmt.Errorf("retryhttp: the answer was cut after %d of %d bytes: %w", n, length, err))
		return
	}
	a.resp.Body = io.NopCloser(bytes.NewReader(whole))
}

// fail makes a the result of an attempt without an answer.
func (a *answer) fail(err error) {
	if cause := context.Cause(a.sending); cause == errSlow || cause == errUnseen || cause == errReset || cause == errLost { //nolint:errorlint // a cause that this package has set says more than the error of net/http
		err = cause
	}
	a.resp, a.err, a.good = nil, err, false
	if a.stale {
		// The connection was already dead, so only a proof that no byte was sent changes the class.
		a.class = retry.ClassUnknown
		if unseen(err) || a.sending.unsent() {
			a.class = retry.ClassUnseen
		}
		a.cancel()
		return
	}
	a.class, a.after = classOf(err)
	// If nothing was written to the connection, the server has not seen the request.
	if a.class == retry.ClassUnknown && a.sending.unsent() {
		a.class = retry.ClassTransient
		if refused(err) {
			a.class = retry.ClassFinal
		}
	}
	a.cancel()
}

// classOf returns the class of an error of Base.
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

// hopeless reports whether every further attempt would return the same error.
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
		// Only a resolver that has answered proves that the name does not exist.
		return name.IsNotFound && !name.IsTemporary
	case errors.As(err, &op) && op.Op == "remote error": // a TLS alert of the server
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

// passingAlerts has the TLS alerts that do not prove that client and server are incompatible.
var passingAlerts = [...]string{"tls: internal error", "tls: user canceled", "tls: unexpected message", "tls: bad record MAC"}

// refused reports whether a proxy has refused CONNECT. net/http returns only the status text of the proxy.
func refused(err error) bool {
	for status := http.StatusBadRequest; status < http.StatusInternalServerError; status++ {
		if text := http.StatusText(status); text != "" && text == err.Error() {
			// A later attempt may get past a proxy with one of these statuses.
			return status != http.StatusRequestTimeout && status != http.StatusTooEarly && status != http.StatusTooManyRequests
		}
	}
	return false
}

// mistakes has texts of net/http for requests that cannot be sent. These errors have no types.
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

// outcome returns the health of the destination that the answer proves. The parameter ctx is the context of the caller.
func (a *answer) outcome(ctx context.Context) retry.Health {
	switch {
	case a.good, a.class == retry.ClassInFlight, a.resp == nil && a.class == retry.ClassFinal:
		return retry.HealthGood
	// This side has ended the attempt, or the connection was already dead.
	case a.resp == nil && (a.stale || ctx.Err() != nil || errors.Is(a.err, errLost)):
		return retry.HealthUnknown
	}
	return retry.HealthBad
}

// keep keeps the context of the attempt alive until the caller has closed the body.
func (a *answer) keep() {
	switch {
	case a.resp.StatusCode == http.StatusSwitchingProtocols: // the body is a connection to which the caller can also write
	case a.resp.Body == http.NoBody:
		a.cancel()
	default:
		a.sending.body = handed{a.resp.Body, a.sending}
		a.resp.Body = &a.sending.body
	}
}

// discard reads the rest of the answer, up to a limit, so that the connection can be used again.
func (a *answer) discard() {
	if a.resp != nil && a.resp.Body != http.NoBody {
		on := a.sending
		// A slow body must not delay the next attempt.
		patience := time.AfterFunc(100*time.Millisecond, func() { on.cancel(errSlow) })
		_, _ = io.CopyN(io.Discard, a.resp.Body, 16<<10)
		a.resp.Body.Close()
		patience.Stop()
	}
	a.cancel()
}
