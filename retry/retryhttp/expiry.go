package retryhttp

import "time"

// expire sets when the key expires if it is kept for so long, or sooner if that is known.
func (c *call) expire(retention time.Duration) {
	// What is sent now arrives later.
	expires := c.since.Add(retention - min(retention/10, time.Minute))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expires.IsZero() || expires.Before(c.expires) {
		c.expires = expires
	}
}

func (t *Transport) retention() time.Duration {
	if t.Retention <= 0 {
		return 24 * time.Hour
	}
	return t.Retention
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
