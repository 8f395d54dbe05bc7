package retryhttp

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http/httptrace"
	"strings"

	"github.com/oncelib/once/retry"
)

// errUnseen is what we end an HTTP/2 attempt with before net/http repeats it.
var errUnseen = errors.New("retryhttp: the server has not taken the request (HTTP/2 REFUSED_STREAM or GOAWAY)")

// unseen reports whether err proves that the server has not looked at the request.
func unseen(err error) bool {
	if errors.Is(err, errUnseen) {
		return true
	}
	// What net/http says when it would have repeated a request but had no GetBody.
	_, why, found := strings.Cut(err.Error(), "http2: Transport: cannot retry err [")
	return found && (strings.Contains(why, "REFUSED_STREAM") || strings.Contains(why, "GOAWAY") || strings.Contains(why, "not usable"))
}

// watch returns a context with which net/http does not repeat a request without a body
// unseen. It does so for safe methods when a kept-alive connection dies: that is counted
// and paid for. Over HTTP/2 it does so when the stream was refused: that is prevented,
// and the repetition is ours.
func (c *call) watch(on *sending) context.Context {
	return httptrace.WithClientTrace(on, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if on.conns.Add(1) == 1 {
			return
		}
		if conn, ok := info.Conn.(*tls.Conn); ok && conn.ConnectionState().NegotiatedProtocol == "h2" {
			on.cancel(errUnseen)
			return
		}
		c.count()
		c.policy.Budget.Spend(retry.Unknown)
	}})
}
