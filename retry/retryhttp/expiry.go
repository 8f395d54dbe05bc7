package retryhttp

import "time"

// expire sets the time at which the key expires, by the given retention. An earlier time that is already set stays.
func (c *call) expire(retention time.Duration) {
	expires := c.until(retention)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expires = sooner(c.expires, expires)
}

// advertised applies a shorter retention that the server has announced. The journal stores the new expiry.
func (c *call) advertised(retention time.Duration) {
	expires := c.until(retention)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expires, c.noted = sooner(c.expires, expires), sooner(c.noted, expires)
}

// resume sets the expiry of the key of an intent that was already in the journal. The stored time was right when it was stored. Therefore Retain can
// only make it earlier, and the default of Retain does not apply.
func (c *call) resume(expires time.Time) {
	c.mu.Lock()
	c.expires, c.noted = expires, expires
	c.mu.Unlock()
	switch {
	case c.t.Dialect.Retain > 0 && expires.IsZero(): // the process that stored the intent did not know the retention
		c.advertised(c.t.Dialect.Retain)
	case c.t.Dialect.Retain > 0 || expires.IsZero():
		c.expire(c.t.retention())
	}
}

// until returns the last time at which a key with this retention is sent. It is a little earlier than the end of the retention, because a request
// arrives later than it is sent.
func (c *call) until(retention time.Duration) time.Time {
	return c.since.Add(retention - min(retention/10, time.Minute))
}

// sooner returns the earlier of two times. A zero time does not count.
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

// expiry returns the time until which the request may be sent. Zero means without end.
func (c *call) expiry() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.expires
}

func (c *call) expired() bool {
	expires := c.expiry()
	return !expires.IsZero() && !time.Now().Before(expires)
}
