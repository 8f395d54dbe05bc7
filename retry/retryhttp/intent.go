package retryhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/retry/journal"
)

// intent is the intent of a call in the journal.
type intent struct {
	journal.Intent

	follows bool // the request follows a redirect

	mu    sync.Mutex // guards the fields below, because hedged attempts run in parallel
	doubt bool       // an attempt may have had an effect
	stale bool       // the server says that the key has expired
}

// record stores the intent of the call in the journal. Policy.Total limits its time.
func (c *call) record(k Key) error {
	ctx, cancel := c.limited()
	defer cancel()
	if s := sendingOf(c.req.Response); s != nil { // the request follows a redirect
		switch {
		case s.call.intent != nil && s.call.intent.Key == k.Value && s.call.intent.Method == c.method():
			return c.follow(ctx, s.call.intent)
		case safe(c.req.Method): // this is another request, for example for a login page
			return nil
		}
	}
	// The whole body is read before the first attempt: a process that resumes the intent needs it.
	body, err := c.body.whole(ctx)
	if err != nil {
		return c.late(ctx, err)
	}
	return c.commence(ctx, journal.Intent{
		Key: k.Value, Method: c.method(), URL: c.req.URL.String(), Header: c.req.Header, Body: body,
		Since: c.since, Expires: c.expiry(),
	}, &intent{doubt: !k.Since.IsZero()})
}

// follow begins the intent of the redirected call one more time, because that call does not know whether a redirect follows.
func (c *call) follow(ctx context.Context, from *intent) error {
	from.mu.Lock()
	defer from.mu.Unlock()
	return c.commence(ctx, from.Intent, &intent{follows: true, doubt: from.doubt, stale: from.stale})
}

func (c *call) method() string { return cmp.Or(c.req.Method, http.MethodGet) }

// commence begins the intent in the journal, and sets the expiry of its key.
func (c *call) commence(ctx context.Context, asked journal.Intent, i *intent) error {
	got, err := journal.Begin(ctx, c.t.Journal, asked, c.policy.Budget)
	if err != nil {
		return fmt.Errorf("retryhttp: %w", c.late(ctx, err))
	}
	c.intent, i.Intent = i, got
	if i.follows {
		i.Again = asked.Again // the first request has already stored it
	}
	if i.Again {
		c.first = max(2, c.first) // the number of earlier attempts is not known
	}
	if got.Again || i.follows {
		c.since = got.Since
		c.resume(got.Expires)
	} else {
		c.noted = got.Expires
	}
	switch {
	case got.Held != "":
		why := c.gaveUp(retry.ReasonExpired, nil)
		why.Cause = fmt.Errorf("the journal does not send the intent again until a person decides: %s. Try: find out the outcome of the intent, and then run the command once journal resolve", got.Held)
		return joined(why, c.leave(journal.ProofNone))
	case c.expired():
		c.intent.expired()
		return joined(c.gaveUp(retry.ReasonExpired, nil), c.leave(c.proven()))
	case ctx.Err() != nil:
		return joined(c.late(ctx, ended(ctx)), c.leave(c.proven()))
	}
	return nil
}

// limited returns the context of the caller, limited by Policy.Total.
func (c *call) limited() (context.Context, context.CancelFunc) {
	if total := c.total(); total > 0 {
		return context.WithDeadline(c.req.Context(), c.start.Add(total))
	}
	return c.req.Context(), func() {}
}

var errNotStored = errors.New("Policy.Total has passed before the intent was stored in the journal, so the request was not sent. Try: check that the database of the journal answers, or a larger Policy.Total")

// late returns why the intent was not stored: err, or the end of Policy.Total if ctx, a context of limited, has ended before the context of the caller.
func (c *call) late(ctx context.Context, err error) error {
	if ctx.Err() == nil || c.req.Context().Err() != nil {
		return err
	}
	why := c.gaveUp(retry.ReasonTooLate, err)
	why.Cause = errNotStored
	return why
}

func (c *call) leave(o journal.Proof) error {
	in := c.intent.Intent
	c.mu.Lock()
	in.Expires = c.noted
	c.mu.Unlock()
	return journal.End(c.req.Context(), c.t.Journal, in, o)
}

// run makes the attempts, and tells the journal what they have proved.
func (c *call) run() (resp *http.Response, err error) {
	over := false
	defer func() {
		if !over { // Base has panicked, so nothing is proved
			_ = c.leave(journal.ProofNone)
		}
	}()
	resp, err = c.answer()
	over = true
	if resp == nil {
		if endedBy(err, retry.ReasonExpired) {
			c.intent.expired()
		}
		return nil, joined(err, c.leave(c.proven()))
	}
	if why := GivenUp(resp); why != nil && why.Reason == retry.ReasonExpired {
		c.intent.expired()
	}
	o := c.proven()
	if settles(resp) {
		o = journal.ProofAnswered
	}
	if resp.StatusCode == http.StatusSwitchingProtocols { // the body is a connection of the caller, and not an answer
		_ = c.leave(o)
		return resp, nil
	}
	// Until the caller has closed the body, it may not have the whole answer, so the intent stays open.
	body := &taken{ReadCloser: resp.Body}
	body.end = sync.OnceValue(func() error {
		if body.broken.Load() && o != journal.ProofExpired { // an expired key stays expired, whatever the rest of the answer says
			o = journal.ProofNone
		}
		return c.leave(o)
	})
	resp.Body = body
	return resp, nil
}

// endedBy reports whether err is the end of a call for the given reason.
func endedBy(err error, reason retry.Reason) bool {
	var e *retry.Error
	return errors.As(err, &e) && e.Reason == reason
}

// joined joins an error of the journal with err. Without an error of the journal it returns err unchanged.
func joined(err, more error) error {
	if more == nil {
		return err
	}
	return errors.Join(err, more)
}

// taken is the body of an answer. When the caller closes the body, the journal gets the outcome.
type taken struct {
	io.ReadCloser

	broken atomic.Bool // a read has failed before the end, so the caller does not have the whole answer
	end    func() error
}

func (b *taken) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.broken.Store(true)
	}
	return n, err
}

func (b *taken) Close() error { return joined(b.ReadCloser.Close(), b.end()) }

// proven returns what the attempts prove about the intent, if no answer is a final outcome.
func (c *call) proven() journal.Proof {
	i := c.intent
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.stale && (i.doubt || i.Again):
		return journal.ProofExpired
	case !i.doubt: // other calls may have had an effect, but the journal knows this
		return journal.ProofUntouched
	}
	return journal.ProofNone
}

// Codes in problem documents of package oncehttp about keys.
const (
	codeUnknown     = "CONFLICT.idempotency.unknown"
	codeStale       = "CONFLICT.idempotency.stale"
	codeUnavailable = "CONFLICT.idempotency.result_unavailable"
	codeFirstSent   = "VALIDATION.first_sent_invalid"
)

func (i *intent) expired() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stale = true
}

// unsure records that an attempt may have an effect, although the call does not wait for its answer.
func (i *intent) unsure() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.doubt = true
}

// note records what an attempt proves about the intent.
func (i *intent) note(a *answer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case a.shut, a.resp == nil && (harmless(a.err) || a.sending.unsent()):
	case a.resp == nil, redirects(a.resp), a.resp.StatusCode >= http.StatusInternalServerError, a.resp.StatusCode == http.StatusRequestTimeout,
		a.class == retry.ClassInFlight, a.code == codeInFlight, a.code == codeUnknown:
		i.doubt = true
	case a.code == codeStale:
		i.doubt, i.stale = true, true
	}
}

// harmless reports whether err proves that the server has not seen the request.
func harmless(err error) bool {
	var op *net.OpError
	return unseen(err) || errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
}

// redirects reports whether an answer only names another address.
func redirects(resp *http.Response) bool {
	return resp.StatusCode >= http.StatusMultipleChoices && resp.StatusCode < http.StatusBadRequest
}

// moved reports whether resp redirects the unchanged request to another address. The answer of that address counts.
func moved(resp *http.Response) bool {
	return (resp.StatusCode == http.StatusTemporaryRedirect || resp.StatusCode == http.StatusPermanentRedirect) && resp.Header.Get("Location") != ""
}

// settles reports whether an answer is a final outcome of the operation, whatever earlier attempts have done.
func settles(resp *http.Response) bool {
	h := resp.Header
	if s := h.Get(wire.StatusHeader); s == wire.StatusReplayed || s == wire.StatusStored || s == wire.StatusOmitted || strings.EqualFold(h.Get(wire.ReplayedHeader), "true") {
		return !moved(resp)
	}
	switch {
	case resp.StatusCode < http.StatusMultipleChoices:
		return true
	case redirects(resp), resp.StatusCode >= http.StatusInternalServerError, strings.EqualFold(h.Get(headerHint), "true"):
		return false
	}
	switch sendingOf(resp).code {
	case codeInFlight, codeUnknown, codeStale, codeFirstSent:
		return false
	case codeUnavailable:
		return true
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusConflict, http.StatusPreconditionFailed,
		http.StatusRequestEntityTooLarge, http.StatusMisdirectedRequest, http.StatusLocked, http.StatusTooEarly,
		http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge:
		return false // the server may have refused the request before it looked up the key
	}
	return true
}
