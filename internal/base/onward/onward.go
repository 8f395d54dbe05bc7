// Package onward prepares a request that is forwarded to another server.
package onward

import (
	"io"
	"net/http"
	"net/textproto"
	"strings"
)

// SendOnce gives a request a body that net/http cannot read again. net/http itself sends a request a second time if it has no body
// or GetBody returns it again: with an Idempotency-Key on HTTP/1, and any request on HTTP/2 after PROTOCOL_ERROR.
func SendOnce(out *http.Request, body io.ReadCloser) {
	if out.Body, out.GetBody = body, nil; out.ContentLength == 0 {
		out.TransferEncoding = []string{"identity"} // neither a length nor chunks, which not every service reads
	}
}

// IsCloseDelimited reports whether the body ends where the connection ends, so that one that is cut off looks whole.
func IsCloseDelimited(resp *http.Response) bool {
	return resp.ProtoMajor == 1 && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0
}

// hopByHop are headers that belong to a connection.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// StripHop removes what belongs to one connection, also what Connection names.
func StripHop(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = textproto.TrimString(name); name != "" {
				h.Del(name)
			}
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
}
