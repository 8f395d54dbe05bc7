//go:build !linux

package main

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
)

const networkCommand = "network"

var errNoNetwork = errors.New("only on Linux is the network a process of its own")

// network delays what passes through it, at the price of CPU time of the client.
type network struct{ proxy *faultnet.Proxy }

func startNetwork(_ context.Context, pg *testenv.Postgres, delay time.Duration) (*network, error) {
	p, err := faultnet.Listen(pg.Addr(), faultnet.Delay(delay, delay))
	return &network{p}, err
}

func (n *network) close() error { return n.proxy.Close() }

func (n *network) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return n.proxy.DialContext(ctx, network, addr)
}

func serveNetwork(string, time.Duration) error { return errNoNetwork }
