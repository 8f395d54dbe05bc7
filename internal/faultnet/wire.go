package faultnet

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
)

// Wire counts the traffic of all connections that it wraps together, and
// calls hooks at chosen points. The zero value is ready to use.
type Wire struct {
	conns, writes, reads, roundTrips, sent, received atomic.Int64

	mu    sync.Mutex
	hooks []hook
}

// Counts counts the traffic over a wire.
type Counts struct {
	Conns      int64 // connections that were wrapped
	Writes     int64 // calls of Write that have begun
	Reads      int64 // calls of Read that have begun
	RoundTrips int64 // reads that brought bytes after a write on the same connection
	Sent       int64 // bytes handed to Write
	Received   int64 // bytes that Read brought
}

// point is a kind of place where a hook can be called.
type point int

const (
	atWrite point = iota
	atRead
	atByte
)

type hook struct {
	at   point
	n    int64
	call func(*Conn)
}

// BeforeWrite has call run just before the n-th write, counted from 1 and from
// the last Reset. It runs in the goroutine that writes; it may close the
// connection, after which the write fails, or end the process.
func (w *Wire) BeforeWrite(n int64, call func(*Conn)) { w.add(hook{atWrite, n, call}) }

// BeforeRead is BeforeWrite for reads.
func (w *Wire) BeforeRead(n int64, call func(*Conn)) { w.add(hook{atRead, n, call}) }

// BeforeByte has call run when all outgoing bytes before the n-th have been
// written, and neither it nor any later one.
func (w *Wire) BeforeByte(n int64, call func(*Conn)) { w.add(hook{atByte, n, call}) }

// Reset sets the counts to zero and forgets the hooks. It is meant for a moment
// in which nothing is under way, such as after a login.
func (w *Wire) Reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hooks = nil
	for _, count := range []*atomic.Int64{&w.conns, &w.writes, &w.reads, &w.roundTrips, &w.sent, &w.received} {
		count.Store(0)
	}
}

// Counts returns the counts so far.
func (w *Wire) Counts() Counts {
	return Counts{
		Conns:      w.conns.Load(),
		Writes:     w.writes.Load(),
		Reads:      w.reads.Load(),
		RoundTrips: w.roundTrips.Load(),
		Sent:       w.sent.Load(),
		Received:   w.received.Load(),
	}
}

// Wrap puts a connection on the wire.
func (w *Wire) Wrap(conn net.Conn) *Conn {
	w.conns.Add(1)
	return &Conn{Conn: conn, wire: w}
}

// DialContext dials and wraps. It has the shape of the dial functions of drivers
// and of http.Transport.
func (w *Wire) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return w.Wrap(conn), nil
}

func (w *Wire) add(h hook) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hooks = append(w.hooks, h)
}

// take removes and returns the hooks of a kind within from < n <= to, in order.
func (w *Wire) take(at point, from, to int64) []hook {
	w.mu.Lock()
	defer w.mu.Unlock()
	var due []hook
	w.hooks = slices.DeleteFunc(w.hooks, func(h hook) bool {
		hit := h.at == at && from < h.n && h.n <= to
		if hit {
			due = append(due, h)
		}
		return hit
	})
	slices.SortStableFunc(due, func(a, b hook) int { return int(a.n - b.n) })
	return due
}

// CloseConn is a hook that closes the connection.
func CloseConn(c *Conn) { _ = c.Close() }

// KillProcess is a hook that ends this process as kill -9 does: no deferred call
// runs, no buffer is flushed.
func KillProcess(*Conn) {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		// Going on would turn a crash test into a test of nothing.
		fmt.Fprintln(os.Stderr, "faultnet: cannot kill this process:", err)
		os.Exit(1)
	}
	select {} // the signal is on its way
}
