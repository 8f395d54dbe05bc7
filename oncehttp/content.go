package oncehttp

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
)

// content is the body of a request: in memory, or in a file if it is longer than Config.MaxMemory.
type content struct {
	memory []byte
	file   *os.File // nil: it is in memory
	name   string   // of the file, where one that is open cannot be removed
	size   int64
}

func inMemory(b []byte) content { return content{memory: b, size: int64(len(b))} }

// open makes b a reader from the beginning.
func (c *content) open(b *body) {
	b.rest = c.memory
	if c.file != nil {
		b.file = io.NewSectionReader(c.file, 0, c.size)
	}
}

// recycle gives the memory back, which is not read any more.
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
		err = os.Remove(c.name)
	}
	c.file = nil
	return err
}

// spool writes head, and what rest has behind it, to a file; ok is false if that is more than limit bytes.
func spool(head []byte, rest io.Reader, limit int64) (c content, ok bool, err error) {
	defer func() {
		if !ok || err != nil {
			_ = c.close()
			c = content{}
		}
	}()
	f, err := os.CreateTemp("", "once-body-") // 0600
	if err != nil {
		return c, true, &spoolError{err}
	}
	if c.file = f; os.Remove(f.Name()) != nil { // without a name it ends with the process, however that dies
		c.name = f.Name()
	}
	out := &spoolWriter{file: f}
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

// spoolWriter remembers its own error, which is not that of the client.
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

// spoolError is a file that cannot be written or read.
type spoolError struct{ err error }

func (e *spoolError) Error() string {
	return fmt.Sprintf("the body of a request cannot be kept in a file (%v).\nTry: room in %s, another TMPDIR, or a larger Config.MaxMemory", e.err, os.TempDir())
}

// body is a request body that has been read already. Like that of net/http it cannot be
// read when the handler has returned: its buffer may then have that of another request.
type body struct {
	mu    sync.Mutex
	rest  []byte
	file  *io.SectionReader // nil: the body is in memory
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

// end makes sure that there are no more reads.
func (b *body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest, b.file, b.ended = nil, nil, true
}
