package retryhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// tape is a body that can be read only once. It is recorded while the first attempt sends it, so that other attempts can send it as well. The body
// may arrive slowly; an attempt waits for more of it no longer than the attempt lasts.
type tape struct {
	source io.ReadCloser
	length int64
	users  atomic.Int32 // the call, and attempts that have not closed it
	run    sync.Once

	mu   sync.Mutex
	text []byte
	err  error         // io.EOF at the end
	more chan struct{} // closed when there is more of text, or err
}

func record(body io.ReadCloser, length int64) *tape {
	t := &tape{source: body, length: length, more: make(chan struct{})}
	t.users.Store(1)
	return t
}

// play returns a copy from the begin, for an attempt with ctx.
func (t *tape) play(ctx context.Context) io.ReadCloser {
	t.users.Add(1)
	return &playing{tape: t, ctx: ctx, closed: make(chan struct{})}
}

// release closes the body if no reader needs it any more.
func (t *tape) release() {
	if t.users.Add(-1) == 0 {
		t.source.Close()
	}
}

// failure returns why there is no more of the body, nil if it is whole or not at its end.
func (t *tape) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == io.EOF { //nolint:errorlint // as readers return it
		return nil
	}
	return t.err
}

// record reads the body to its end, or one byte more than its length.
func (t *tape) record() {
	piece := make([]byte, min(t.length+1, 4<<10))
	for have := int64(0); ; {
		n, err := t.source.Read(piece[:min(int64(len(piece)), t.length+1-have)])
		have += int64(n)
		switch {
		case have > t.length:
			n--
			err = fmt.Errorf("retryhttp: the body of the request is longer than its Content-Length of %d bytes", t.length)
		case err == io.EOF && have < t.length: //nolint:errorlint // as readers return it
			err = fmt.Errorf("retryhttp: the body of the request ends after %d of %d bytes", have, t.length)
		case err != nil && err != io.EOF: //nolint:errorlint // as above
			err = fmt.Errorf("retryhttp: the body of the request cannot be read at byte %d: %w", have, err)
		}
		t.mu.Lock()
		t.text, t.err = append(t.text, piece[:n]...), err
		close(t.more)
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
	ctx    context.Context //nolint:containedctx // of the attempt
	at     int
	closed chan struct{}
	once   sync.Once
}

var errClosed = errors.New("retryhttp: the body of the request was read after it was closed")

func (p *playing) Read(into []byte) (int, error) {
	t := p.tape
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
