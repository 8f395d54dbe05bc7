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

// Wire counts the traffic of all connections that it wraps, and calls hooks at chosen points. The zero value is ready
// to use.
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

// BeforeWrite calls a hook just before the n-th write, counted from 1 since the last Reset. The hook runs in the
// goroutine that writes. It may close the connection, so that the write fails, or end the process.
func (w *Wire) BeforeWrite(n int64, call func(*Conn)) { w.add(hook{atWrite, n, call}) }

// BeforeRead does for reads what BeforeWrite does for writes.
func (w *Wire) BeforeRead(n int64, call func(*Conn)) { w.add(hook{atRead, n, call}) }

// BeforeByte calls a hook when all outgoing bytes before the n-th have been written, and the n-th has
// not.
func (w *Wire) BeforeByte(n int64, call func(*Conn)) { w.add(hook{atByte, n, call}) }

// Reset sets the counts to zero and removes the hooks. Call it when no traffic is under way, such as after a
// login.
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

// Wrap returns conn as a connection of the wire.
func (w *Wire) Wrap(conn net.Conn) *Conn {
	w.conns.Add(1)
	return &Conn{Conn: conn, wire: w}
}

// DialContext dials and wraps. Its signature is that of the dial functions of drivers and of
// http.Transport.
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

// take removes and returns the hooks of a kind with from < n <= to, in order.
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

// KillProcess is a hook that ends this process as kill -9 does: no deferred call runs, and no buffer is
// flushed.
func KillProcess(*Conn) {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		// If the process continued, a crash test would test nothing.
		fmt.Fprintln(os.Stderr, "faultnet: cannot kill this process:", err)
		os.Exit(1)
	}
	select {} // the signal is on its way
}
