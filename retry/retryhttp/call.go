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
	req     *http.Request // the caller's, which is never changed
	host    string        // its canonical name
	policy  retry.Policy
	breaker retry.Breaker
	start   time.Time

	keyed      bool   // it has an idempotency key
	key        string // the key, unless the header has it already
	once       bool   // the server may look at it at most once, whatever its key
	repeatable bool   // by its key or by its method
	body       source
	since      time.Time // of the key

	patience time.Duration // the caller's X-Request-Timeout; 0 if it has none that can be read
	asked    time.Time     // the time from which patience counts

	intent *intent // in the journal; nil if it is not there

	last   error // the failure before this attempt
	hedged bool
	nested bool // an outer Transport retries
	stale  int  // dead connections of this call
	shared bool // a dead connection also had other requests

	mu      sync.Mutex // hedges run in parallel
	expires time.Time  // of the key
	noted   time.Time  // the expiry that the journal must note
	first   int        // the number of the first attempt
	sent    int        // attempts so far
	unpaid  int        // attempts that are not retries

	one sending // the first attempt
}

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
	c.since = c.since.Round(0) // by the wall clock: the monotonic clock stops while the machine sleeps
	if c.keyed {
		c.expire(t.retention())
		if c.expired() {
			return nil, c.gaveUp(retry.ReasonExpired, nil)
		}
	}
	if _, c.nested = req.Context().Value(keyOfSending{}).(*sending); c.nested {
		c.policy.Attempts = 1 // retries of retries multiply
	}
	if c.policy.Budget == nil {
		c.policy.Budget = retry.BudgetFor(c.host)
	}
	if t.Breaker != nil {
		c.breaker = t.Breaker(c.host)
	}
	if c.listen(req); c.impatient() {
		return nil, c.gaveUp(retry.ReasonTooLate, nil)
	}
	if said := field(req.Header, wire.AttemptHeader); said != "" {
		if n, err := strconv.Atoi(said); err == nil && n > 0 {
			c.first = n
		}
	}
	c.body.init(req, c.repeatable)
	if t.Journal != nil && c.keyed && !made && !c.once {
		if err := c.record(k); err != nil {
			c.body.close()
			return nil, err
		}
	}
	return c, nil
}

// count counts an attempt and returns its number.
func (c *call) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent++
	return c.first + c.sent - 1
}

// countFree counts a request that net/http has sent again by itself because a connection was dead.
func (c *call) countFree() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent++
	c.unpaid++
}

// tries returns the number of attempts for the policy.
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

// due returns when an attempt that begins now must have an answer, or zero if it has no deadline. It also reports whether the deadline is before the
// end of the caller's own time.
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

// listen notes the caller's X-Request-Timeout.
func (c *call) listen(req *http.Request) {
	if c.patience, _ = wire.Timeout(req.Header); c.patience <= 0 {
		return
	}
	c.asked = c.start
	if s := sendingOf(req.Response); s != nil && !s.call.asked.IsZero() {
		c.asked = s.call.asked // after a redirect, with the header of the first request
	}
}

// impatient reports whether the caller's X-Request-Timeout is over, or almost over.
func (c *call) impatient() bool {
	return c.patience > 0 && c.patience-time.Since(c.asked) < time.Millisecond
}

// decide decides what follows a failure.
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
		// Another attempt is allowed only after a proof that the server has not executed the request.
		return 0, retry.ReasonNotSafe
	case !c.body.repeatable():
		return 0, retry.ReasonNotWhole
	case c.expired():
		return 0, retry.ReasonExpired
	}
	elapsed := time.Since(c.start)
	if total := c.total(); (total < 0 || elapsed < total) && c.free(&a) {
		return 0, ""
	}
	f := retry.FailedAttempt{Attempt: c.tries(), Class: a.class, After: a.after, Elapsed: elapsed, Random: rand.Float64()}
	var late interface{ Timeout() bool }
	if errors.As(a.err, &late) && late.Timeout() {
		f.Silent, f.Begun, f.Now = a.number, a.begun, time.Duration(lazy.Now())
	}
	if deadline, ok := ctx.Deadline(); ok {
		f.Deadline = max(1, deadline.Sub(c.start))
	}
	if c.patience > 0 {
		end := max(1, c.asked.Add(c.patience).Sub(c.start))
		f.Deadline = min(cmp.Or(f.Deadline, end), end)
	}
	byKey := false
	if expires := c.expiry(); !expires.IsZero() {
		fresh := max(1, expires.Sub(c.start))
		total := c.total()
		if byKey = (f.Deadline == 0 || fresh < f.Deadline) && (total < 0 || fresh < total); byKey {
			f.Deadline = fresh
		}
	}
	wait, stop = c.policy.Next(f)
	if stop == retry.ReasonTooLate && byKey {
		stop = retry.ReasonExpired
	}
	return wait, stop
}
