package retryhttp

import "time"

// expire sets when the key expires if it is kept for so long, or sooner if that is known.
func (c *call) expire(retention time.Duration) {
	expires := c.until(retention)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expires = sooner(c.expires, expires)
}

// advertised believes the server, if that makes it sooner, and has the journal note it.
func (c *call) advertised(retention time.Duration) {
	expires := c.until(retention)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expires, c.noted = sooner(c.expires, expires), sooner(c.noted, expires)
}

// resume sets when a key expires whose intent was in the journal already. What is there
// was known when it was written down: Retain can only shorten it, and its default says
// nothing then.
func (c *call) resume(expires time.Time) {
	c.mu.Lock()
	c.expires, c.noted = expires, expires
	c.mu.Unlock()
	switch {
	case c.t.Dialect.Retain > 0 && expires.IsZero(): // the plan of a process that did not know
		c.advertised(c.t.Dialect.Retain)
	case c.t.Dialect.Retain > 0 || expires.IsZero():
		c.expire(c.t.retention())
	}
}

// until is when a key that is kept for so long is sent for the last time: what is sent
// then arrives later.
func (c *call) until(retention time.Duration) time.Time {
	return c.since.Add(retention - min(retention/10, time.Minute))
}

// sooner returns the sooner one of two times, of which a zero one is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (t *Transport) retention() time.Duration {
	if t.Dialect.Retain <= 0 {
		return 24 * time.Hour
	}
	return t.Dialect.Retain
}

// expiry returns until when the request may be sent. Zero: for ever.
func (c *call) expiry() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.expires
}

func (c *call) expired() bool {
	expires := c.expiry()
	return !expires.IsZero() && !time.Now().Before(expires)
}
