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

// readBody reads the body of r, at most limit bytes; ok is false if there are more. A body of more than memory bytes is
// put into a file.
func readBody(r *http.Request, limit, memory int64) (c content, ok bool, err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return c, true, nil
	}
	if r.ContentLength > limit {
		return c, false, nil
	}
	room := int64(bytes.MinRead)
	if r.ContentLength >= 0 {
		room = min(r.ContentLength+1, firstRead) // one more than needed, to see the end without growing
	}
	body := buffer(room)
	for {
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return c, false, nil
		case int64(len(body)) > memory && (err == nil || err == io.EOF):
			defer recycle(body)
			rest := io.Reader(r.Body)
			if err == io.EOF {
				rest = http.NoBody
			}
			return spool(body, rest, limit)
		case err == io.EOF:
			return inMemory(body), true, nil
		case err != nil:
			return c, !isTooLarge(err), err
		}
	}
}

// bodyWasRead reports whether the body of r, of which so many bytes were left, is gone: code outside of the package
// has read or closed it. What is left of a form are its values, which are compared.
func bodyWasRead(r *http.Request, left int64, err error) bool {
	if errors.Is(err, http.ErrBodyReadAfterClose) {
		return true
	}
	return err == nil && left == 0 && r.ContentLength > 0 && len(r.PostForm) == 0
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

// recycle takes a buffer that is no longer in use. Large ones are not worth keeping.
func recycle(b []byte) {
	if 0 < cap(b) && cap(b) <= firstRead {
		buffers.Put(&b)
	}
}
