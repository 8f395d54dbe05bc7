package retryhttp

import (
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oncelib/once/retry"
)

// call is one request of the caller: all attempts of it.
type call struct {
	t       *Transport
	req     *http.Request // the caller's, which is never changed
	policy  retry.Policy
	breaker retry.Breaker
	start   time.Time

	header     http.Header // of all attempts
	keyed      bool        // there is an idempotency key
	repeatable bool        // by its key or by its method
	body       source
	since      time.Time // of the key

	intent *intent // in the journal; nil: there is none

	last   error // the failure before this attempt
	hedged bool

	mu      sync.Mutex // hedges run in parallel
	expires time.Time  // the key
	noted   time.Time  // what the journal is to know of that
	first   int        // the number of the first attempt
	sent    int        // attempts so far
}

func (t *Transport) begin(req *http.Request) (*call, error) {
	if req.URL == nil {
		return nil, errors.New("retryhttp: the request has no URL")
	}
	k, in, made, err := t.keyOf(req)
	if err != nil {
		return nil, err
	}
	c := &call{t: t, req: req, policy: t.Policy, breaker: t.Policy.Breaker, start: time.Now(), first: 1}
	c.keyed = k.Value != ""
	c.repeatable = c.keyed || idempotent(req.Method)
	c.since = k.Since
	if c.since.IsZero() {
		c.since = c.start
	}
	if c.keyed {
		c.expire(t.retention())
		if c.expired() {
			return nil, c.gaveUp(retry.Expired, nil)
		}
	}
	if _, nested := req.Context().Value(keyOfSending{}).(*sending); nested {
		c.policy.Attempts = 1 // retries of retries multiply
	}
	if c.policy.Budget == nil {
		c.policy.Budget = retry.BudgetFor(req.URL.Host)
	}
	if t.Breaker != nil {
		c.breaker = t.Breaker(req.URL.Host)
	}
	if n, err := strconv.Atoi(req.Header.Get(headerAttempt)); err == nil && n > 0 {
		c.first = n
	}
	if c.body, err = sourceOf(req, c.repeatable); err != nil {
		return nil, err
	}
	if t.Journal != nil && c.keyed && !made {
		if err := c.record(k); err != nil {
			c.body.close()
			return nil, err
		}
	}
	c.head(k, in)
	return c, nil
}

// head sets what the headers of all attempts have in common.
func (c *call) head(k Key, in string) {
	c.header = maps.Clone(c.req.Header)
	if c.header == nil {
		c.header = make(http.Header, 3)
	}
	if c.keyed && in == "" {
		c.header[headerKey] = []string{k.Value}
	}
	c.sentSince()
	if !c.keyed || !c.body.empty {
		return // an attempt with a body has no GetBody, and so net/http cannot repeat it
	}
	// net/http takes a key for the permission to send a request again by itself. It does
	// not see one that is spelt like this, and for a server it is the same.
	for _, name := range [...]string{headerKey, headerKeyX} {
		if lines, ok := c.header[name]; ok {
			delete(c.header, name)
			c.header[strings.ToLower(name)] = lines
		}
	}
}

// count counts an attempt and returns its number.
func (c *call) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent++
	return c.first + c.sent - 1
}

func (c *call) attempts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent
}

// left returns how long an attempt that begins now may take. 0: as long as it likes.
func (c *call) left() (d time.Duration) {
	shorter := func(other time.Duration) {
		if d == 0 || other < d {
			d = max(1, other)
		}
	}
	if c.policy.Timeout > 0 {
		shorter(c.policy.Timeout)
	}
	if total := c.total(); total > 0 {
		shorter(total - time.Since(c.start))
	}
	if deadline, ok := c.req.Context().Deadline(); ok {
		shorter(time.Until(deadline))
	}
	return d
}

func (c *call) total() time.Duration {
	if c.policy.Total == 0 {
		return 10 * time.Second
	}
	return c.policy.Total
}

// decide says what follows a failure.
func (c *call) decide(a answer) (wait time.Duration, stop retry.Reason) {
	ctx := c.req.Context()
	switch {
	case ctx.Err() != nil:
		return 0, retry.Cancelled
	case a.shut:
		return 0, retry.Open
	case a.class == retry.Final:
		return 0, retry.Pointless
	case !c.repeatable && a.class != retry.Transient && a.class != retry.Unseen:
		return 0, retry.NotSafe
	case !c.body.repeatable():
		return 0, retry.NotWhole
	case c.expired():
		return 0, retry.Expired
	}
	f := retry.Failure{Attempt: max(1, c.attempts()), Class: a.class, After: a.after, Elapsed: time.Since(c.start), Random: rand.Float64()}
	var late interface{ Timeout() bool }
	if errors.As(a.err, &late) && late.Timeout() {
		f.Silent = a.number
	}
	if deadline, ok := ctx.Deadline(); ok {
		f.Deadline = max(1, deadline.Sub(c.start))
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
	if stop == retry.TooLate && byKey {
		stop = retry.Expired
	}
	return wait, stop
}
