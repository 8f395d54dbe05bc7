package faultnet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// serve runs a server that handles each connection with handle, and returns its
// address.
func serve(tb testing.TB, handle func(net.Conn)) string {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				handle(conn)
			}()
		}
	}()
	return listener.Addr().String()
}

// echo answers with what it gets.
func echo(conn net.Conn) { _, _ = io.Copy(conn, conn) }

func listen(tb testing.TB, upstream string, opts ...Option) *Proxy {
	tb.Helper()
	proxy, err := Listen(upstream, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			tb.Error(err)
		}
	})
	return proxy
}

// dial connects to the proxy. A test that hangs on the connection fails.
func dial(tb testing.TB, proxy *Proxy) *net.TCPConn {
	tb.Helper()
	conn, err := proxy.DialContext(tb.Context(), "", "")
	if err != nil {
		tb.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

func send(tb testing.TB, conn net.Conn, text string) {
	tb.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		tb.Fatal(err)
	}
}

func expect(tb testing.TB, conn net.Conn, text string) {
	tb.Helper()
	got := make([]byte, len(text))
	if n, err := io.ReadFull(conn, got); err != nil || string(got) != text {
		tb.Fatalf("got %q (%v), want %q", got[:n], err, text)
	}
}

// expectEnd reads to the end of the connection, which must bring exactly text. A
// reset counts as an end: it is what a cut looks like when bytes cross it.
func expectEnd(tb testing.TB, conn net.Conn, text string) {
	tb.Helper()
	got, err := io.ReadAll(conn)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		tb.Fatalf("the connection is not cut: %v", err)
	}
	if string(got) != text {
		tb.Fatalf("before the cut came %q, want %q", got, text)
	}
}

func await(tb testing.TB, what string, signal <-chan struct{}) {
	tb.Helper()
	select {
	case <-signal:
	case <-time.After(time.Minute):
		tb.Fatal("timed out: ", what)
	}
}

func TestProxyForwardsAndCounts(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]Option{"direct": nil, "delayed": {Delay(time.Millisecond, time.Millisecond)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := listen(t, serve(t, echo), opts...)
			for range 3 {
				conn := dial(t, proxy)
				send(t, conn, "hello")
				expect(t, conn, "hello")
				send(t, conn, "again")
				expect(t, conn, "again")
				// The end of what the client says reaches the server, and the
				// server's end the client.
				if err := conn.CloseWrite(); err != nil {
					t.Fatal(err)
				}
				expectEnd(t, conn, "")
			}
			stats := proxy.Stats()
			if stats.Connections != 3 || stats.ClientBytes != 30 || stats.ServerBytes != 30 || stats.RoundTrips != 6 || stats.FailedDials != 0 {
				t.Errorf("stats = %+v", stats)
			}
		})
	}
}

func TestProxyCarriesALot(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	for name, opts := range map[string][]Option{"direct": nil, "delayed": {Delay(time.Millisecond, 2*time.Millisecond)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := listen(t, serve(t, echo), opts...)
			conn := dial(t, proxy)
			data := bytes.Repeat([]byte("0123456789abcdef"), size/16)
			go func() {
				_, _ = conn.Write(data)
				_ = conn.CloseWrite()
			}()
			if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("%d of %d bytes came back (%v), or changed", len(got), len(data), err)
			}
		})
	}
}

func TestCutAll(t *testing.T) {
	t.Parallel()
	proxy := listen(t, serve(t, echo), Reset())
	first, second := dial(t, proxy), dial(t, proxy)
	for _, conn := range []net.Conn{first, second} {
		send(t, conn, "x")
		expect(t, conn, "x")
	}
	if n := proxy.CutAll(); n != 2 {
		t.Errorf("CutAll = %d, want 2", n)
	}
	for _, conn := range []net.Conn{first, second} {
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after a cut with Reset: %v, want a reset", err)
		}
	}
	third := dial(t, proxy) // the proxy itself goes on
	send(t, third, "x")
	expect(t, third, "x")
}

func TestSetUpstream(t *testing.T) {
	t.Parallel()
	say := func(text string) func(net.Conn) {
		return func(conn net.Conn) { _, _ = io.WriteString(conn, text) }
	}
	proxy := listen(t, serve(t, say("old")))
	expectEnd(t, dial(t, proxy), "old")
	proxy.SetUpstream(serve(t, say("new")))
	expectEnd(t, dial(t, proxy), "new")
}

func TestUnreachableUpstream(t *testing.T) {
	t.Parallel()
	proxy := listen(t, "127.0.0.1:1")
	expectEnd(t, dial(t, proxy), "")
	if stats := proxy.Stats(); stats.FailedDials != 1 {
		t.Errorf("stats = %+v", stats)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	silent := serve(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	proxy := listen(t, silent, Delay(time.Hour, time.Hour), Spin(time.Microsecond))
	direct := listen(t, silent)
	var conns []net.Conn
	for range 5 {
		conns = append(conns, dial(t, proxy), dial(t, direct))
	}
	send(t, conns[1], strings.Repeat("x", 1000))
	for range 2 {
		for _, p := range []*Proxy{proxy, direct} {
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if open := p.Stats().Open; open != 0 {
				t.Errorf("%d connections are open after Close", open)
			}
		}
	}
	for _, conn := range conns {
		expectEnd(t, conn, "")
	}
}
