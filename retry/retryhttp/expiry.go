package retryhttp

import "time"

// expire sets when the key expires: after the given retention, or sooner if that is known.
func (c *call) expire(retention time.Duration) {
	expires := c.until(retention)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expires = sooner(c.expires, expires)
}

// advertised takes a shorter retention from the server, and lets the journal note it.
func (c *call) advertised(retention time.Duration) {
	expires := c.until(retention)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expires, c.noted = sooner(c.expires, expires), sooner(c.noted, expires)
}

// resume sets when the key of an intent expires that was already in the journal. The stored time was right when it was stored: Retain can only
// shorten it, and the default of Retain is ignored.
func (c *call) resume(expires time.Time) {
	c.mu.Lock()
	c.expires, c.noted = expires, expires
	c.mu.Unlock()
	switch {
	case c.t.Dialect.Retain > 0 && expires.IsZero(): // planned by a process that did not know the retention
		c.advertised(c.t.Dialect.Retain)
	case c.t.Dialect.Retain > 0 || expires.IsZero():
		c.expire(c.t.retention())
	}
}

// until is the last time at which a key with this retention is sent: a request arrives later than it is sent.
func (c *call) until(retention time.Duration) time.Time {
	return c.since.Add(retention - min(retention/10, time.Minute))
}

// sooner returns the sooner one of two times. A zero time is no time.
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

// expiry returns the time until which the request may be sent. Zero means for ever.
func (c *call) expiry() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.expires
}

func (c *call) expired() bool {
	expires := c.expiry()
	return !expires.IsZero() && !time.Now().Before(expires)
}
