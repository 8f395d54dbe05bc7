package faultnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Option configures a [Proxy].
type Option func(*options)

type options struct {
	toServer, toClient time.Duration
	spin               time.Duration
	reset              bool
}

// Delay makes bytes take this long in each direction.
func Delay(toServer, toClient time.Duration) Option {
	return func(o *options) { o.toServer, o.toClient = toServer, toClient }
}

// Spin makes a delay more precise, and uses more CPU time: the proxy waits for the last d of the delay in a loop.
// Without Spin a delay is about 25 µs too long.
func Spin(d time.Duration) Option { return func(o *options) { o.spin = d } }

// Reset makes a cut a TCP reset on both sides instead of an orderly close.
func Reset() Option { return func(o *options) { o.reset = true } }

// Proxy forwards TCP connections from a loopback port to an upstream address.
// Its methods may be called at any time, by several goroutines at once.
type Proxy struct {
	options  options
	listener *net.TCPListener
	armed    atomic.Pointer[Trigger]
	stats    struct{ connections, open, failedDials, fromClient, fromServer, roundTrips atomic.Int64 }
	group    sync.WaitGroup

	mu                 sync.Mutex
	upstream           string
	toServer, toClient time.Duration
	links              map[*link]struct{}
	closed             bool
}

// Stats counts the traffic through a proxy.
type Stats struct {
	Connections int64 // connections that were accepted
	Open        int64 // connections that are still open
	FailedDials int64 // connections that were closed because the upstream could not be reached
	ClientBytes int64 // forwarded to the server
	ServerBytes int64 // forwarded to clients
	RoundTrips  int64 // how often the server has answered something that a client had sent
}

// Listen starts a proxy on a free port of 127.0.0.1. The upstream is host:port.
func Listen(upstream string, opts ...Option) (*Proxy, error) {
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("faultnet: listen: %w", err)
	}
	p := &Proxy{listener: listener, upstream: upstream, links: make(map[*link]struct{})}
	for _, option := range opts {
		option(&p.options)
	}
	p.toServer, p.toClient = p.options.toServer, p.options.toClient
	p.group.Go(p.accept)
	return p, nil
}

// Addr returns the host:port that clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// DialContext connects to the proxy, whatever the address is. Its signature is that of the dial functions of drivers
// and of http.Transport.
func (p *Proxy) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", p.Addr())
}

// Arm sets the fault that will happen. It replaces an earlier fault.
func (p *Proxy) Arm(fault Fault) *Trigger {
	trigger := newTrigger(fault)
	p.armed.Store(trigger)
	return trigger
}

// Disarm removes the fault. An answer that is being lost stays lost.
func (p *Proxy) Disarm() { p.armed.Store(nil) }

// SetDelay changes the delay of connections that are accepted from now on.
func (p *Proxy) SetDelay(toServer, toClient time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.toServer, p.toClient = toServer, toClient
}

// SetUpstream changes the server of connections that are accepted from now on, as a failover does.
func (p *Proxy) SetUpstream(upstream string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = upstream
}

// CutAll cuts all open connections now, on both sides. Bytes on the way are lost. CutAll returns how many connections
// it has cut.
func (p *Proxy) CutAll() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.shut()
	}
	return len(p.links)
}

// Stats returns the counts so far.
func (p *Proxy) Stats() Stats {
	return Stats{
		Connections: p.stats.connections.Load(),
		Open:        p.stats.open.Load(),
		FailedDials: p.stats.failedDials.Load(),
		ClientBytes: p.stats.fromClient.Load(),
		ServerBytes: p.stats.fromServer.Load(),
		RoundTrips:  p.stats.roundTrips.Load(),
	}
}

// Close stops listening, cuts all connections, and waits until all goroutines of the proxy have ended. Close may be
// called twice.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	p.CutAll()
	p.group.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// A client has given up, or no file descriptor is free. The next accept may succeed.
			continue
		}
		p.stats.connections.Add(1)
		p.group.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	server, err := p.dial()
	if err != nil {
		p.stats.failedDials.Add(1)
		_ = client.Close()
		return
	}
	l := newLink(p, client, server)
	if p.add(l) {
		p.stats.open.Add(1)
		l.run()
		p.stats.open.Add(-1)
	}
	// If the proxy was closed meanwhile, CutAll has not seen this connection.
	l.shut()
	p.remove(l)
}

func (p *Proxy) dial() (*net.TCPConn, error) {
	const patience = 5 * time.Second
	p.mu.Lock()
	upstream := p.upstream
	p.mu.Unlock()
	conn, err := net.DialTimeout("tcp", upstream, patience) //nolint:noctx // bounded, on loopback
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil //nolint:forcetypeassert // what "tcp" means
}

func (p *Proxy) delays() (time.Duration, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.toServer, p.toClient
}

// add adds a connection, or returns false if the proxy is closed.
func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.links[l] = struct{}{}
	}
	return !p.closed
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}
