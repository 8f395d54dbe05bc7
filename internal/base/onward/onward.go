// Package onward prepares a request that is forwarded to another server.
package onward

import (
	"io"
	"net/http"
	"net/textproto"
	"strings"
)

// SendOnce gives a request a body that net/http cannot read again. Otherwise net/http may send a request twice if it has no
// body or has GetBody: a request with an Idempotency-Key on HTTP/1, and any request on HTTP/2 after PROTOCOL_ERROR.
func SendOnce(out *http.Request, body io.ReadCloser) {
	if out.Body, out.GetBody = body, nil; out.ContentLength == 0 {
		out.TransferEncoding = []string{"identity"} // neither a length nor chunks, because some services cannot read chunks
	}
}

// IsCloseDelimited reports whether the end of the connection ends the body. Then a truncated body looks complete.
func IsCloseDelimited(resp *http.Response) bool {
	return resp.ProtoMajor == 1 && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0
}

// hopByHop contains the headers that belong to one connection.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// StripHop removes the headers that belong to one connection, and the headers that the header Connection names.
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
