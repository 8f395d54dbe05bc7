package oncehttp

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

// firstRead bounds what is set aside for a body on the word of its Content-Length
// alone: a client that announces much and sends little costs little.
const firstRead = 64 << 10

// readBody reads the body of r, at most limit bytes; ok is false if there are more.
func readBody(r *http.Request, limit int64) (body []byte, ok bool, err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, true, nil
	}
	if r.ContentLength > limit {
		return nil, false, nil
	}
	room := int64(bytes.MinRead)
	if r.ContentLength >= 0 {
		room = min(r.ContentLength+1, firstRead) // one more than needed, to see the end without growing
	}
	body = make([]byte, 0, room)
	for {
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return nil, false, nil
		case err == io.EOF:
			return body, true, nil
		case err != nil:
			return nil, !isTooLarge(err), err
		}
	}
}

// isTooLarge reports whether a limit was exceeded that was set before us.
func isTooLarge(err error) bool {
	var limit *http.MaxBytesError
	return errors.As(err, &limit)
}

// body is a request body that has been read already.
type body struct{ bytes.Reader }

func newBody(b []byte) *body {
	r := new(body)
	r.Reset(b)
	return r
}

// Close implements [io.Closer].
func (*body) Close() error { return nil }
