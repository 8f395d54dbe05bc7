package oncehttp

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
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
	body = buffer(room)
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

// bodyWasRead reports whether the body of r, of which this was left, is gone: somebody outside
// has read or closed it. What is left of a form are its values, which are compared.
func bodyWasRead(r *http.Request, left []byte, err error) bool {
	if errors.Is(err, http.ErrBodyReadAfterClose) {
		return true
	}
	return err == nil && len(left) == 0 && r.ContentLength > 0 && len(r.PostForm) == 0
}

// isTooLarge reports whether a limit was exceeded that was set before us.
func isTooLarge(err error) bool {
	var limit *http.MaxBytesError
	return errors.As(err, &limit)
}

// buffers are those of requests that are over.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// buffer returns an empty one with room for n bytes.
func buffer(n int64) []byte {
	b := *buffers.Get().(*[]byte) //nolint:forcetypeassert // nothing else is in there
	if int64(cap(b)) < n {
		b = make([]byte, 0, n)
	}
	return b[:0]
}

// recycle takes a buffer that nobody looks at any more. Large ones are not worth keeping.
func recycle(b []byte) {
	if 0 < cap(b) && cap(b) <= firstRead {
		buffers.Put(&b)
	}
}

// body is a request body that has been read already. Like that of net/http it cannot be
// read when the handler has returned: its buffer may then have that of another request.
type body struct {
	mu    sync.Mutex
	rest  []byte
	ended bool
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ended:
		return 0, http.ErrBodyReadAfterClose
	case len(b.rest) == 0:
		return 0, io.EOF
	}
	n = copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close implements [io.Closer].
func (*body) Close() error { return nil }

// end makes sure that nobody reads any more.
func (b *body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest, b.ended = nil, true
}
