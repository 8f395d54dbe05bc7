package oncetest

import (
	"net"
	"sync/atomic"
)

// conn is a network connection to a server, with the faults of a test.
type conn struct {
	net.Conn

	process *Process
	answer  atomic.Int32 // what happens to the next bytes that arrive: passes, notAnswered or dies
}

func (c *conn) cut() { _ = c.Close() }

// Write writes data to the connection, unless a fault prevents the write.
func (c *conn) Write(data []byte) (int, error) {
	switch act := c.process.write(); act {
	case notSent:
		c.cut()
		return 0, errCut
	case gone:
		return 0, errDead
	case notAnswered, dies:
		c.answer.Store(int32(act)) // before the bytes go out, so that no answer can come first
	}
	return c.Conn.Write(data)
}

// Read reads from the connection. If the test loses the answer, Read breaks the connection when the answer arrives: the server has then done its work.
func (c *conn) Read(data []byte) (int, error) {
	n, err := c.Conn.Read(data)
	if n == 0 {
		return n, err
	}
	switch action(c.answer.Swap(int32(passes))) {
	case notAnswered:
		c.cut()
		return 0, errCut
	case dies:
		c.process.die()
		return 0, errDead
	}
	return n, err
}
