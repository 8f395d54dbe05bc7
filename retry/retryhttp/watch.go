package retryhttp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/oncelib/once/retry"
)

// errUnseen and errReset end an attempt over HTTP/2 before net/http repeats it on its own.
var errUnseen = errors.New("retryhttp: the server has refused the request without processing it (HTTP/2 REFUSED_STREAM or GOAWAY)")

var errReset = errors.New("retryhttp: the server has reset the HTTP/2 stream of the request, and net/http does not report whether the server has processed the request")

// notRewound is the text of net/http for a connection that was dead before a byte of the request was sent, if the request has a body but no GetBody.
const notRewound = "cannot rewind body after connection loss"

// unseen reports whether err proves that the server has not read the request.
func unseen(err error) bool {
	if errors.Is(err, errUnseen) || strings.Contains(err.Error(), notRewound) {
		return true
	}
	// net/http returns this text if it would have repeated a request, but the request had no GetBody.
	_, why, found := strings.Cut(err.Error(), "http2: Transport: cannot retry err [")
	return found && (strings.Contains(why, "REFUSED_STREAM") || strings.Contains(why, "GOAWAY") || strings.Contains(why, "not usable"))
}

// watch has the facts about its connection that an attempt learns from net/http.
type watch struct {
	once  sync.Once
	trace *httptrace.ClientTrace // made when net/http asks for it; other implementations of Base do not ask

	looked   atomic.Bool  // net/http has begun to look for a connection
	conns    atomic.Int32 // how many connections net/http has taken for the attempt
	kept     atomic.Bool  // the latest connection had been used before
	idle     atomic.Bool  // no other request was using this connection
	http2    atomic.Bool
	wrote    atomic.Bool // the whole header of the request was written to some connection
	answered atomic.Bool // the first byte of the answer has arrived
}

// keyOfTrace is the key under which a context has the trace of package httptrace.
var keyOfTrace = func() any {
	var p asked
	httptrace.ContextClientTrace(&p)
	return p.key
}()

// asked is a context that stores the key for which it is asked.
type asked struct {
	context.Context //nolint:containedctx // asked is a context, of which only Value is called

	key any
}

func (a *asked) Value(key any) any {
	a.key = key
	return nil
}

// watched returns the trace of the attempt. It also calls the trace of the caller.
func (s *sending) watched() any {
	s.watch.once.Do(func() {
		s.watch.trace = &httptrace.ClientTrace{GetConn: s.getConn, GotConn: s.gotConn, GotFirstResponseByte: s.gotByte, WroteHeaders: func() { s.watch.wrote.Store(true) }}
		if httptrace.ContextClientTrace(s.Parent) != nil {
			s.watch.trace = httptrace.ContextClientTrace(httptrace.WithClientTrace(s.Parent, s.watch.trace))
		}
	})
	return s.watch.trace
}

// gotConn notices that net/http repeats a request without a body. If a kept-alive connection dies, net/http repeats safe methods, and gotConn counts
// this. Over HTTP/2, net/http also repeats a request whose stream was refused, or was reset with PROTOCOL_ERROR. A PROTOCOL_ERROR proves nothing, so
// gotConn ends the attempt, and the call decides about another one.
func (s *sending) gotConn(info httptrace.GotConnInfo) {
	w := &s.watch
	conn, ok := info.Conn.(*tls.Conn)
	http2 := ok && conn.ConnectionState().NegotiatedProtocol == "h2"
	w.http2.Store(http2)
	w.kept.Store(info.Reused)
	w.idle.Store(info.WasIdle)
	// net/http may have begun the request again on this connection.
	w.answered.Store(false)
	switch again := w.conns.Add(1) > 1; {
	case !again || !s.call.body.empty:
	case w.wrote.Load() && !s.call.repeatable:
		s.cancel(errReset)
	case http2:
		s.cancel(errUnseen)
	default:
		s.call.countFree()
		s.call.tell(retry.Event{Type: retry.EventResent})
	}
}

func (s *sending) getConn(string) { s.watch.looked.Store(true) }

// unsent reports whether the request has provably not been sent. Either no connection existed, or the connection was dead before net/http had written
// the header. Only net/http reports this, so with another Base the result is false.
func (s *sending) unsent() bool {
	w := &s.watch
	if !w.looked.Load() {
		return false
	}
	// Another Base may not report that it has written the header.
	_, netHTTP := s.call.t.base().(*http.Transport)
	return w.conns.Load() == 0 || netHTTP && !w.wrote.Load() && s.Err() == nil
}

func (s *sending) gotByte() { s.watch.answered.Store(true) }

// stale reports whether err is the end of a kept-alive connection that has not answered this request with a single byte. Such a connection was
// probably dead before, so its end says nothing about the server.
func (s *sending) stale(err error) bool {
	w := &s.watch
	// No byte was sent, so the connection was dead before.
	if strings.Contains(err.Error(), notRewound) {
		return s.Err() == nil
	}
	return w.kept.Load() && !w.answered.Load() && s.Err() == nil && disconnected(err)
}

// disconnected reports whether err is the end of a connection.
func disconnected(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return (op.Op == "read" || op.Op == "write") && !op.Timeout()
	}
	text := err.Error()
	return strings.Contains(text, "server closed idle connection") || strings.Contains(text, "http2: client conn")
}

// maxStale is how many dead connections one call may find. A further one is an ordinary failure. After manyStale of them all idle connections are
// closed, so that the next attempt gets a new connection.
const maxStale, manyStale = 100, 8

// free reports whether the next attempt is not a retry, but the same attempt on another connection. Over HTTP/2 all requests on a connection fail
// when the connection dies, and several of them may have begun before its first answer. The request that found the connection idle is free. Each of
// the others costs the price of retry.ClassUnseen, and only once.
func (c *call) free(a *answer) bool {
	if !a.stale || c.stale == maxStale || c.nested {
		return false
	}
	if w := &a.sending.watch; w.http2.Load() && !w.idle.Load() {
		if c.shared || !c.policy.Budget.Spend(retry.ClassUnseen) {
			return false
		}
		c.shared = true
	}
	if c.stale++; c.stale == manyStale {
		c.t.CloseIdleConnections()
	}
	c.mu.Lock()
	// The re-send does not count in Policy.Attempts.
	c.unpaid++
	c.mu.Unlock()
	return true
}
