package oncehttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
)

// firstRead limits the memory that a Content-Length alone makes the server allocate. A client that announces many bytes and sends few thus costs
// little memory.
const firstRead = 64 << 10

// readBody reads the body of r, at most limit bytes. The result ok is false if the body is longer. A body that is longer than memory bytes is written
// to a file.
func readBody(r *http.Request, limit, memory int64) (c content, ok bool, err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return c, true, nil
	}
	if r.ContentLength > limit {
		// The Content-Length alone is too large, so the body is not read.
		return c, false, nil
	}
	room := int64(bytes.MinRead)
	if r.ContentLength >= 0 {
		room = min(r.ContentLength+1, firstRead) // one byte more than the body, so that the end is found without a larger buffer
	}
	body := buffer(room)
	for {
		if len(body) == cap(body) {
			// append grows the buffer, and the added byte is cut off again.
			body = append(body, 0)[:len(body)]
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return c, false, nil
		case int64(len(body)) > memory && (err == nil || err == io.EOF):
			// After spool has copied the bytes to the file, the buffer is free.
			defer recycle(body)
			// A body that has reported its end must not be read again.
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

// bodyWasRead reports whether code outside of this package has read or closed the body of r before. The parameter left is the number of bytes that
// were left. A form that was parsed still has its values, and these are compared.
func bodyWasRead(r *http.Request, left int64, err error) bool {
	if errors.Is(err, http.ErrBodyReadAfterClose) {
		return true
	}
	return err == nil && left == 0 && r.ContentLength > 0 && len(r.PostForm) == 0
}

// isTooLarge reports whether the body exceeds a limit that outer middleware has set.
func isTooLarge(err error) bool {
	var limit *http.MaxBytesError
	return errors.As(err, &limit)
}

// buffers has the buffers of finished requests.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// buffer returns an empty buffer with room for n bytes.
func buffer(n int64) []byte {
	b := *buffers.Get().(*[]byte) //nolint:forcetypeassert // the pool has only such values
	if int64(cap(b)) < n {
		b = make([]byte, 0, n)
	}
	return b[:0]
}

// recycle returns an unused buffer to the pool. A large buffer is left to the garbage collector.
func recycle(b []byte) {
	if 0 < cap(b) && cap(b) <= firstRead {
		buffers.Put(&b)
	}
}

// content is the body of a request. It is in memory, or in a file if it is longer than Config.MaxMemory.
type content struct {
	memory []byte
	file   *os.File // nil if the body is in memory
	name   string   // the name of the file, if this system cannot remove an open file
	size   int64
}

func inMemory(b []byte) content { return content{memory: b, size: int64(len(b))} }

// open lets b read the content from its beginning.
func (c *content) open(b *body) {
	b.rest = c.memory
	if c.file != nil {
		b.file = io.NewSectionReader(c.file, 0, c.size)
	}
}

// recycle releases the memory. The caller must not read the content after that.
func (c *content) recycle() {
	recycle(c.memory)
	c.memory = nil
}

func (c *content) close() error {
	if c.file == nil {
		return nil
	}
	err := c.file.Close()
	if c.name != "" {
		// An error of Close does not matter if the file can be removed.
		err = os.Remove(c.name)
	}
	c.file = nil
	return err
}

// spool writes head and then rest to a file. The result ok is false if that is more than limit bytes.
func spool(head []byte, rest io.Reader, limit int64) (c content, ok bool, err error) {
	defer func() {
		if !ok || err != nil {
			_ = c.close()
			c = content{}
		}
	}()
	f, err := os.CreateTemp("", "once-body-") // os.CreateTemp gives only the owner access
	if err != nil {
		return c, true, &spoolError{err}
	}
	if c.file = f; os.Remove(f.Name()) != nil { // a file without a name disappears with the process, even if the process is killed
		c.name = f.Name()
	}
	out := &spoolWriter{file: f}
	// The writer keeps the error, which is checked below.
	_, _ = out.Write(head)
	n, err := io.Copy(out, io.LimitReader(rest, limit-int64(len(head))+1))
	c.size = int64(len(head)) + n
	switch {
	case out.err != nil:
		return c, true, &spoolError{out.err}
	case err != nil:
		return c, !isTooLarge(err), err
	}
	return c, c.size <= limit, nil
}

// spoolWriter stores its own error, so that it is not taken for an error of the client.
type spoolWriter struct {
	file *os.File
	err  error
}

// Write implements [io.Writer].
func (w *spoolWriter) Write(p []byte) (n int, err error) {
	if w.err == nil {
		n, w.err = w.file.Write(p)
	}
	return n, w.err
}

// spoolError says that the file of a body cannot be written or read.
type spoolError struct{ err error }

func (e *spoolError) Error() string {
	return fmt.Sprintf("the body of a request cannot be stored in a temporary file (%v).\nTry: free space in %s, another TMPDIR, or a larger Config.MaxMemory", e.err, os.TempDir())
}

// body is a request body that was already read. As with net/http, it cannot be read after the handler has returned, because its buffer may then
// belong to another request.
type body struct {
	mu    sync.Mutex
	rest  []byte
	file  *io.SectionReader // nil if the body is in memory
	ended bool
}

func newBody(c *content) *body {
	b := &body{}
	c.open(b)
	return b
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ended:
		return 0, http.ErrBodyReadAfterClose
	case b.file != nil:
		return b.file.Read(p)
	case len(b.rest) == 0:
		return 0, io.EOF
	}
	n = copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close implements [io.Closer].
func (*body) Close() error { return nil }

// end makes every later Read return an error.
func (b *body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest, b.file, b.ended = nil, nil, true
}
