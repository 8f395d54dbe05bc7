package integration

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// holdingProxy is a proxy that hides the death of its clients: the server keeps their
// sessions, with the locks that they hold, until it is told. So it is after a power
// failure, or behind a network that has lost the last packet.
type holdingProxy struct {
	listener net.Listener
	target   string
	group    sync.WaitGroup

	mu      sync.Mutex
	quiet   sync.Cond
	clients int        // whose last byte has not been forwarded yet
	held    []net.Conn // sessions of the dead
	pattern []byte     // in what a client sends; nil: none
	before  func()     // runs before it is forwarded, and then the client is cut
}

func newHoldingProxy(tb testing.TB, target string) *holdingProxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	l := &holdingProxy{listener: listener, target: target}
	l.quiet.L = &l.mu
	l.group.Go(l.accept)
	tb.Cleanup(func() {
		_ = listener.Close()
		l.settle()
		l.release()
		l.group.Wait()
	})
	return l
}

// dsn leads to the same database, behind the proxy.
func (l *holdingProxy) dsn(direct string) string {
	return relocated(direct, l.listener.Addr().String())
}

func (l *holdingProxy) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", l.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		l.mu.Lock()
		l.clients++
		l.mu.Unlock()
		l.group.Go(func() { l.forward(client, server) })
		l.group.Go(func() {
			_, _ = io.Copy(client, server)
			_, _ = io.Copy(io.Discard, server) // or the server would wait for us
			_ = client.Close()
		})
	}
}

// forward carries what a client sends, until it is dead or cut.
func (l *holdingProxy) forward(client, server net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		before := l.found(buffer[:n])
		if before != nil {
			before()
		}
		_, _ = server.Write(buffer[:n]) // an error is the server's end, which the client learns
		if before != nil {
			_ = client.Close()
		}
		if err != nil || before != nil {
			break
		}
	}
	l.mu.Lock()
	l.clients--
	l.held = append(l.held, server)
	l.mu.Unlock()
	l.quiet.Broadcast()
}

// found returns what is to be done before data is forwarded and its client is cut.
func (l *holdingProxy) found(data []byte) (before func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pattern == nil || !bytes.Contains(data, l.pattern) {
		return nil
	}
	l.pattern = nil
	return l.before
}

// cutAfter cuts the next client that sends a pattern, once the server has got it.
func (l *holdingProxy) cutAfter(pattern string, before func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pattern, l.before = []byte(pattern), before
}

// settle waits until all that clients have sent is with the server. None of them may
// be alive.
func (l *holdingProxy) settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.clients > 0 {
		l.quiet.Wait()
	}
}

// release lets the server know of the deaths.
func (l *holdingProxy) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, server := range l.held {
		_ = server.Close()
	}
	l.held = nil
}
