package retryhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// tape is a body that can be read only once. The first attempt records it while sending it, so that other attempts can send it as well. The body may
// arrive slowly. An attempt waits for more of it only as long as the attempt lasts.
type tape struct {
	source io.ReadCloser
	length int64
	users  atomic.Int32 // the call, and the attempts that have not closed their copies
	run    sync.Once

	mu   sync.Mutex
	text []byte
	err  error         // io.EOF after the end
	more chan struct{} // closed when text or err has changed
}

func record(body io.ReadCloser, length int64) *tape {
	t := &tape{source: body, length: length, more: make(chan struct{})}
	t.users.Store(1)
	return t
}

// play returns a copy that begins at the start, for an attempt with the context ctx.
func (t *tape) play(ctx context.Context) io.ReadCloser {
	t.users.Add(1)
	return &playing{tape: t, ctx: ctx, closed: make(chan struct{})}
}

// release closes the body of the caller when no reader needs it any more.
func (t *tape) release() {
	if t.users.Add(-1) == 0 {
		t.source.Close()
	}
}

// failure returns why the body is incomplete. It returns nil if the body is complete or still arriving.
func (t *tape) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == io.EOF { //nolint:errorlint // a Reader returns io.EOF itself
		return nil
	}
	return t.err
}

// record reads the body to its end. It reads one byte more than the length, to find a body that is too long.
func (t *tape) record() {
	piece := make([]byte, min(t.length+1, 4<<10))
	for have := int64(0); ; {
		n, err := t.source.Read(piece[:min(int64(len(piece)), t.length+1-have)])
		have += int64(n)
		switch {
		case have > t.length:
			// The byte after the announced length is not a part of the body.
			n--
			err = fmt.Errorf("retryhttp: the body of the request is longer than its Content-Length of %d bytes", t.length)
		case err == io.EOF && have < t.length: //nolint:errorlint // a Reader returns io.EOF itself
			err = fmt.Errorf("retryhttp: the body of the request ends after %d of %d bytes", have, t.length)
		case err != nil && err != io.EOF: //nolint:errorlint // as above
			err = fmt.Errorf("retryhttp: the body of the request cannot be read at byte %d: %w", have, err)
		}
		t.mu.Lock()
		t.text, t.err = append(t.text, piece[:n]...), err
		close(t.more)
		// A closed channel wakes all readers, so the next change needs another channel.
		t.more = make(chan struct{})
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// playing is the body of one attempt.
type playing struct {
	tape   *tape
	ctx    context.Context //nolint:containedctx // the context of the attempt
	at     int
	closed chan struct{}
	once   sync.Once
}

var errClosed = errors.New("retryhttp: the body of the request was read after it was closed")

func (p *playing) Read(into []byte) (int, error) {
	t := p.tape
	// The body of the caller is read only when an attempt reads it.
	t.run.Do(func() { go t.record() })
	for {
		t.mu.Lock()
		n, err, more := copy(into, t.text[p.at:]), t.err, t.more
		t.mu.Unlock()
		p.at += n
		if n > 0 || len(into) == 0 {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		select {
		case <-more:
		case <-p.closed:
			return 0, errClosed
		case <-p.ctx.Done():
			return 0, ended(p.ctx)
		}
	}
}

func (p *playing) Close() error {
	p.once.Do(func() {
		close(p.closed)
		p.tape.release()
	})
	return nil
}
