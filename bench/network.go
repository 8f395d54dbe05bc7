package main

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// delayed returns a dial function through a network that takes d each way.
func delayed(d time.Duration) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		far, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		near, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
		if err != nil {
			return nil, err
		}
		middle, err := l.Accept()
		if err != nil {
			return nil, err
		}
		go carry(far, middle, d)
		go carry(middle, far, d)
		return near, nil
	}
}

type parcel struct {
	due  time.Time
	data []byte
}

func carry(to, from net.Conn, d time.Duration) {
	way := make(chan parcel, 64)
	go func() {
		defer close(way)
		for {
			b := make([]byte, 4096)
			n, err := from.Read(b)
			if err != nil {
				return
			}
			way <- parcel{time.Now().Add(d), b[:n]}
		}
	}()
	for p := range way {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.data); err != nil {
			break
		}
	}
	_ = to.Close()
	_ = from.Close()
}

// wire counts what a client does with its sockets.
type wire struct{ trips atomic.Int64 }

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &wireConn{Conn: c, wire: w}, nil
}

// wireConn counts a round trip when something is read after something was written.
type wireConn struct {
	net.Conn
	wire  *wire
	wrote atomic.Bool
}

func (c *wireConn) Write(b []byte) (int, error) {
	c.wrote.Store(true)
	return c.Conn.Write(b)
}

func (c *wireConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.wrote.Swap(false) {
		c.wire.trips.Add(1)
	}
	return n, err
}
