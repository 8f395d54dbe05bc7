package oncehttp

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
)

// captured returns r as it came over the wire, without its credentials and with its body
// in one piece: [http.ReadRequest] reads it.
func captured(r *http.Request, body []byte) []byte {
	target := r.RequestURI
	if !strings.HasPrefix(target, "/") {
		target = r.URL.RequestURI()
	}
	var b bytes.Buffer
	b.WriteString(r.Method + " " + target + " HTTP/1.1\r\nHost: " + r.Host + "\r\n")
	_ = r.Header.WriteSubset(&b, notCaptured) // a bytes.Buffer does not fail
	b.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n")
	b.Write(body)
	return b.Bytes()
}

var notCaptured = map[string]bool{
	"Authorization": true, "Proxy-Authorization": true, "Cookie": true,
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Te": true, "Trailer": true, "Upgrade": true,
	"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Expect": true,
}
