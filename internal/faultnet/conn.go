package faultnet

import (
	"net"
	"sync/atomic"
)

// Conn is a connection on a [Wire].
type Conn struct {
	net.Conn

	wire    *Wire
	written atomic.Bool // the client has written since the last read that brought bytes
}

// Write counts the write, calls the hooks that are due, and writes.
func (c *Conn) Write(data []byte) (int, error) {
	n := c.wire.writes.Add(1)
	for _, h := range c.wire.take(atWrite, n-1, n) {
		h.call(c)
	}
	// Set before the bytes go out, so that no answer can come first.
	c.written.Store(true)
	end := c.wire.sent.Add(int64(len(data)))
	begin := end - int64(len(data))
	done := 0
	for _, h := range c.wire.take(atByte, begin, end) {
		upTo := int(h.n - begin - 1)
		if upTo > done { // a write of no bytes would be one write too many
			n, err := c.Conn.Write(data[done:upTo])
			if done += n; err != nil {
				return done, err
			}
		}
		h.call(c)
	}
	rest, err := c.Conn.Write(data[done:])
	return done + rest, err
}

// Read calls the hooks that are due, reads, and counts.
func (c *Conn) Read(data []byte) (int, error) {
	n := c.wire.reads.Add(1)
	for _, h := range c.wire.take(atRead, n-1, n) {
		h.call(c)
	}
	got, err := c.Conn.Read(data)
	if got > 0 {
		c.wire.received.Add(int64(got))
		if c.written.Swap(false) {
			c.wire.roundTrips.Add(1)
		}
	}
	return got, err
}
