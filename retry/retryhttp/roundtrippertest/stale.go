package roundtrippertest

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
)

// staleChecks are about kept-alive connections that have died without a sign: a NAT
// or a load balancer has forgotten them. The next request on one is answered with a reset.
var staleChecks = []Check{
	{"StaleConnection", "a keyed POST succeeds although the kept-alive connection has died", func(l *lab) error { return l.stale(1, false) }},
	{"StaleConnections8", "a keyed POST succeeds although eight kept-alive connections have died", func(l *lab) error { return l.stale(8, false) }},
	{"StaleConnections64", "a keyed POST succeeds although 64 kept-alive connections have died", func(l *lab) error { return l.stale(64, false) }},
	{"StaleHTTP2", "a keyed POST succeeds although one HTTP/2 connection has died", func(l *lab) error { return l.stale(1, true) }},
	{"StaleHTTP2Connections8", "a keyed POST succeeds although eight HTTP/2 connections with one stream each have died", func(l *lab) error { return l.stale(8, true) }},
	{"StaleHTTP2Connections64", "a keyed POST succeeds although 64 HTTP/2 connections with one stream each have died", func(l *lab) error { return l.stale(64, true) }},
	{"StaleHTTP2Streams", "64 keyed POSTs at the same time succeed although their HTTP/2 connection has died", func(l *lab) error { return l.staleStreams(64) }},
}

// staleSite is a server whose connections can be made to die unnoticed.
type staleSite struct {
	*httptest.Server

	entered chan struct{} // a request is being served
	leave   chan struct{} // and is answered
	posts   atomic.Int32
	died    atomic.Int32

	mu    sync.Mutex
	conns []*staleConn
}

type staleConn struct {
	net.Conn

	site *staleSite
	dead atomic.Bool
	once sync.Once
}

// Read resets a dead connection as soon as a byte arrives on this connection.
func (c *staleConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 || !c.dead.Load() {
		return n, err
	}
	c.once.Do(func() {
		c.site.died.Add(1)
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	})
	return 0, net.ErrClosed
}

type staleListener struct {
	net.Listener

	site *staleSite
}

func (l staleListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &staleConn{Conn: conn, site: l.site}
	l.site.mu.Lock()
	l.site.conns = append(l.site.conns, c)
	l.site.mu.Unlock()
	return c, nil
}

// kill lets all connections die that there are.
func (s *staleSite) kill() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.dead.Store(true)
	}
	return len(s.conns)
}

// serveStale starts a server that answers a POST at once, and a GET when it may.
func (l *lab) serveStale(http2 bool, streams int) (*staleSite, *client) {
	s := &staleSite{entered: make(chan struct{}), leave: make(chan struct{})}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPost {
			s.posts.Add(1)
			return
		}
		s.entered <- struct{}{}
		<-s.leave
	}))
	s.Listener = staleListener{s.Listener, s}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	c := l.client()
	if http2 {
		s.EnableHTTP2 = true
		s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams}
		s.StartTLS()
		trust := s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		c.base.TLSClientConfig, c.base.ForceAttemptHTTP2 = trust, true
	} else {
		s.Start()
	}
	l.atEnd(func() {
		s.kill()
		s.CloseClientConnections()
		s.Close()
	})
	return s, c
}

// connect opens so many connections, which are idle then.
func (l *lab) connect(s *staleSite, c *client, connections int) error {
	answered := make(chan error, connections)
	for range connections {
		go func() { // the connections that there are have a request each
			a, err := l.do(l.ctx, c, http.MethodGet, s.URL, "")
			answered <- wantStatus(a, err, 200)
		}()
		select {
		case <-s.entered:
		case err := <-answered:
			return fmt.Errorf("a connection cannot be opened: %w", err)
		case <-l.ctx.Done():
			return l.ctx.Err()
		}
	}
	close(s.leave)
	var errs []error
	for range connections {
		errs = append(errs, <-answered)
	}
	if n := s.kill(); n < connections {
		errs = append(errs, fmt.Errorf("the client opened only %d connections, not %d: this check proves nothing", n, connections))
	}
	return errors.Join(errs...)
}

// stale sends three requests one after the other when so many connections have died.
func (l *lab) stale(connections int, http2 bool) error {
	s, c := l.serveStale(http2, 1)
	if err := l.connect(s, c, connections); err != nil {
		return err
	}
	for i := range 3 {
		if a, err := l.post(c, s.URL); err != nil || a.status != 200 {
			return fmt.Errorf("request %d has failed, after the client had found %d dead connections: %w", i+1, s.died.Load(), errors.Join(err, wantStatus(a, nil, 200)))
		}
	}
	if died := s.died.Load(); died == 0 {
		return errors.New("no request was sent on a dead connection: this check proves nothing")
	}
	if n := s.posts.Load(); n != 3 {
		return fmt.Errorf("%d requests have arrived, not 3", n)
	}
	return nil
}

// staleStreams sends many requests at once on one connection that has died.
func (l *lab) staleStreams(streams int) error {
	s, c := l.serveStale(true, 2*streams)
	if err := l.connect(s, c, 1); err != nil {
		return err
	}
	errs := make([]error, streams)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			a, err := l.post(c, s.URL)
			errs[i] = wantStatus(a, err, 200)
		})
	}
	all.Wait()
	if s.died.Load() == 0 {
		return errors.New("no request was sent on the dead connection: this check proves nothing")
	}
	return errors.Join(errs...)
}
