package retryhttp

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/oncelib/once/retry"
)

// sending is the context of one attempt.
type sending struct {
	context.Context //nolint:containedctx // it is one

	resends int
	gaveUp  *retry.Error // set when its answer is the last
	intent  *intent      // of its call
	code    string       // of a problem
}

type keyOfSending struct{}

func (s *sending) Value(key any) any {
	if key == (keyOfSending{}) {
		return s
	}
	return s.Context.Value(key)
}

// ResendCount returns how often the request of an attempt has been sent before, by ctx,
// which is the context of the request that Base is given. It is what OpenTelemetry calls
// http.request.resend_count.
func ResendCount(ctx context.Context) int {
	if s, ok := ctx.Value(keyOfSending{}).(*sending); ok {
		return s.resends
	}
	return 0
}

// send makes one attempt for a caller with ctx.
func (c *call) send(ctx context.Context) (a answer) {
	outcome := retry.Unhealthy // a panic
	if c.breaker != nil {
		done, err := c.breaker.Allow()
		if err != nil {
			return answer{err: err, shut: true, cancel: func(error) {}}
		}
		defer func() { done(outcome) }()
	}
	a.sending = &sending{Context: ctx, resends: c.count() - 1, intent: c.intent}
	ctx, cancel := context.WithCancelCause(a.sending)
	a.cancel = cancel
	limit := c.left()
	inTime := after(ctx, limit, func() { cancel(errSlow) })
	req, err := c.request(ctx, cancel, a.sending.resends+1, limit)
	if err != nil {
		inTime()
		cancel(nil)
		a.err, a.class, outcome = err, retry.Final, retry.Abandoned
		return a
	}
	a.number = c.policy.Budget.Begin()
	a.resp, err = c.t.base().RoundTrip(req) //nolint:bodyclose // closed by whom the answer is handed to
	if err == nil && a.resp == nil {
		err = errors.New("retryhttp: Base has returned neither an answer nor an error")
	}
	if err != nil {
		a.fail(ctx, err)
	} else {
		a.resp.Request = req
		c.judge(ctx, &a)
	}
	if !inTime() && a.resp != nil { // what is left of it cannot be read any more
		a.resp.Body.Close()
		a.fail(ctx, errSlow)
	}
	outcome = a.outcome(c.req.Context())
	if c.intent != nil {
		a.sending.code = a.code
		c.intent.note(&a)
	}
	return a
}

// after calls f after d, unless ctx ends by then, or the returned function is called
// first, which reports whether it was. 0: never.
func after(ctx context.Context, d time.Duration, f func()) (stop func() bool) {
	if deadline, ok := ctx.Deadline(); d == 0 || ok && time.Until(deadline) <= d {
		return func() bool { return true }
	}
	return time.AfterFunc(d, f).Stop
}

// request returns the request of the n-th attempt.
func (c *call) request(ctx context.Context, cancel context.CancelCauseFunc, n int, limit time.Duration) (*http.Request, error) {
	body, err := c.body.open()
	if err != nil {
		return nil, err
	}
	if _, direct := c.t.base().(*http.Transport); direct && c.body.empty {
		ctx = c.watch(ctx, cancel)
	}
	r := c.req.WithContext(ctx)
	r.Header = maps.Clone(c.header)
	r.Header[headerAttempt] = []string{strconv.Itoa(n)}
	if _, said := c.header[headerTimeout]; !said && limit > 0 {
		r.Header[headerTimeout] = []string{strconv.FormatInt(max(1, limit.Milliseconds()), 10)}
	}
	r.Body = body
	if c.keyed {
		r.GetBody = nil // else net/http may send it again by itself
	}
	return r, nil
}

// errSlow is the end of an attempt that has taken too long.
var errSlow error = slow{}

type slow struct{}

func (slow) Error() string        { return "retryhttp: no answer in time" }
func (slow) Timeout() bool        { return true }
func (slow) Is(target error) bool { return target == context.DeadlineExceeded }

var errLost = errors.New("retryhttp: another attempt has been answered first")

// handed is the body of an answer in the caller's hands. The attempt is over with it.
type handed struct {
	io.ReadCloser

	cancel context.CancelCauseFunc
}

func (b *handed) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.cancel(nil)
	}
	return n, err
}

func (b *handed) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
