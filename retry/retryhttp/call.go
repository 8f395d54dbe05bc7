package retryhttp

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/oncelib/once/internal/base/atmostonce"
	"github.com/oncelib/once/internal/base/hostname"
	"github.com/oncelib/once/internal/base/lazy"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/retry"
)

// call is one request of the caller, with all its attempts.
type call struct {
	t       *Transport
	req     *http.Request // the request of the caller, which is never changed
	host    string        // the canonical name of the host
	policy  retry.Policy
	breaker retry.Breaker
	start   time.Time

	keyed      bool   // the request has an idempotency key
	key        string // the key, unless the header of the caller contains it already
	once       bool   // the server may see the request at most once, whatever key it has
	repeatable bool   // the request may be repeated, because of its key or its method
	body       source
	since      time.Time // when the key was first sent

	patience time.Duration // the caller's X-Request-Timeout; 0 if the request has no valid one
	asked    time.Time     // the time from which patience counts

	intent *intent // the intent in the journal; nil without a journal

	last   error // the failure of the previous attempt
	hedged bool
	nested bool // an outer Transport already retries
	stale  int  // the number of dead connections in this call
	shared bool // a dead connection was used by other requests too

	mu      sync.Mutex // guards the fields below, because hedged attempts run in parallel
	expires time.Time  // when the key expires
	noted   time.Time  // the expiry that the journal must store
	first   int        // the number of the first attempt
	sent    int        // the number of attempts so far
	unpaid  int        // the number of attempts that are not retries

	one sending // the first attempt, which thus needs no allocation
}

// begin returns a call. If begin returns a call and an error, the call has taken the body of req, and the caller closes this body with body.close.
func (t *Transport) begin(req *http.Request) (*call, error) {
	if req.URL == nil {
		return nil, errors.New("retryhttp: the request has no URL")
	}
	k, in, made, err := t.keyOf(req)
	if err != nil {
		return nil, err
	}
	c := &call{t: t, req: req, host: hostname.Canonical(req.URL.Host), policy: t.policyOf(req.Context()), start: time.Now(), first: 1}
	c.breaker = c.policy.Breaker
	if c.keyed = k.Value != ""; in == "" {
		c.key = k.Value
	}
	c.once = (t.AtMostOnce || atmostonce.Is(req.Context())) && !safe(req.Method)
	c.repeatable = !c.once && (c.keyed || hinted(req))
	c.since = k.Since
	if c.since.IsZero() {
		c.since = c.start
	}
	c.since = c.since.Round(0) // without the monotonic clock, which stops while the machine sleeps
	if c.keyed {
		c.expire(t.retention())
		if c.expired() {
			return nil, c.gaveUp(retry.ReasonExpired, nil)
		}
	}
	if _, c.nested = req.Context().Value(keyOfSending{}).(*sending); c.nested {
		c.policy.Attempts = 1 // retries at two layers would multiply
	}
	// All calls to one host share a budget.
	if c.policy.Budget == nil {
		c.policy.Budget = retry.BudgetFor(c.host)
	}
	if t.Breaker != nil {
		c.breaker = t.Breaker(c.host)
	}
	// The caller waits no longer, so an attempt would only add load.
	if c.listen(req); c.impatient() {
		return nil, c.gaveUp(retry.ReasonTooLate, nil)
	}
	// The caller may already have made attempts of its own.
	if said := field(req.Header, wire.AttemptHeader); said != "" {
		if n, err := strconv.Atoi(said); err == nil && n > 0 {
			c.first = n
		}
	}
	c.body.init(req, c.repeatable)
	// The caller does not know a key that the Transport has made, so its next request would have another key.
	if t.Journal != nil && c.keyed && !made && !c.once {
		return c, c.record(k)
	}
	return c, nil
}

// count counts an attempt, and returns its number.
func (c *call) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent++
	return c.first + c.sent - 1
}

// countFree counts a request that net/http has sent again on its own, because a connection was dead.
func (c *call) countFree() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent++
	c.unpaid++
}

// tries returns the number of attempts that count for the policy.
func (c *call) tries() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(1, c.sent-c.unpaid)
}

func (c *call) attempts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent
}

// due returns the time at which an attempt that begins now must have an answer, or zero if it has no deadline. The result ours reports whether this
// time is before the caller's own deadline.
func (c *call) due() (until time.Time, ours bool) {
	if c.policy.Timeout > 0 {
		until = time.Now().Add(c.policy.Timeout)
	}
	if total := c.total(); total > 0 {
		if end := c.start.Add(total); until.IsZero() || end.Before(until) {
			until = end
		}
	}
	if deadline, ok := c.req.Context().Deadline(); ok && (until.IsZero() || !until.Before(deadline)) {
		return deadline, false
	}
	return until, !until.IsZero()
}

func (c *call) total() time.Duration {
	if c.policy.Total == 0 {
		return 10 * time.Second
	}
	return c.policy.Total
}

// listen stores the X-Request-Timeout of the caller.
func (c *call) listen(req *http.Request) {
	if c.patience, _ = wire.Timeout(req.Header); c.patience <= 0 {
		return
	}
	c.asked = c.start
	if s := sendingOf(req.Response); s != nil && !s.call.asked.IsZero() {
		c.asked = s.call.asked // after a redirect the header still has the time of the first request
	}
}

// impatient reports whether the X-Request-Timeout of the caller has passed or will pass within a millisecond.
func (c *call) impatient() bool {
	return c.patience > 0 && c.patience-time.Since(c.asked) < time.Millisecond
}

// decide returns what follows the failed attempt a.
func (c *call) decide(a answer) (wait time.Duration, stop retry.Reason) {
	ctx := c.req.Context()
	switch {
	case ctx.Err() != nil:
		return 0, retry.ReasonCancelled
	case a.shut:
		return 0, retry.ReasonOpen
	case a.class == retry.ClassFinal:
		return 0, retry.ReasonPointless
	case !c.repeatable && a.class != retry.ClassTransient && a.class != retry.ClassUnseen:
		// Another attempt is allowed only if it is proven that the server has not executed the request.
		return 0, retry.ReasonNotSafe
	// The first attempt has read a body that cannot be read again.
	case !c.body.repeatable():
		return 0, retry.ReasonNotWhole
	// The server may have deleted the record of the key, and would execute the request again.
	case c.expired():
		return 0, retry.ReasonExpired
	}
	elapsed := time.Since(c.start)
	// A dead connection is not a failure of the server, so this attempt costs nothing.
	if total := c.total(); (total < 0 || elapsed < total) && c.free(&a) {
		return 0, ""
	}
	f := retry.FailedAttempt{Attempt: c.tries(), Class: a.class, After: a.after, Elapsed: elapsed, Random: rand.Float64()}
	// Only a timeout counts as silence. A reset shows that the server is alive.
	var late interface{ Timeout() bool }
	if errors.As(a.err, &late) && late.Timeout() {
		f.Silent, f.Begun, f.Now = a.number, a.begun, time.Duration(lazy.Now())
	}
	if deadline, ok := ctx.Deadline(); ok {
		// A deadline of 0 would mean that there is no deadline.
		f.Deadline = max(1, deadline.Sub(c.start))
	}
	if c.patience > 0 {
		end := max(1, c.asked.Add(c.patience).Sub(c.start))
		f.Deadline = min(cmp.Or(f.Deadline, end), end)
	}
	byKey := false
	if expires := c.expiry(); !expires.IsZero() {
		// A value of 0 would mean that there is no deadline.
		fresh := max(1, expires.Sub(c.start))
		total := c.total()
		if byKey = (f.Deadline == 0 || fresh < f.Deadline) && (total < 0 || fresh < total); byKey {
			f.Deadline = fresh
		}
	}
	wait, stop = c.policy.Next(f)
	// The key ends earlier than the time of the call, so the key is the reason.
	if stop == retry.ReasonTooLate && byKey {
		stop = retry.ReasonExpired
	}
	return wait, stop
}
