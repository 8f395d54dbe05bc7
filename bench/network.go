package main

import (
	"context"
	"errors"
	"net"
	"time"
)

// network is a slow network to the server: the client's side of a connection delays received data. A process in between would take CPU time from
// client and server, with which it shares the machine, and would be late when they are busy.
type network struct{ delay time.Duration }

func (n network) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	a, err := newAlarm()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &distant{c, a, n.delay}, nil
}

// distant is a connection to a distant server. An answer must fit into one read: each read has the delay.
type distant struct {
	net.Conn

	alarm *alarm
	delay time.Duration
}

func (d *distant) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	if err == nil {
		err = d.alarm.wait(d.delay)
	}
	return n, err
}

func (d *distant) Close() error { return errors.Join(d.Conn.Close(), d.alarm.Close()) }
