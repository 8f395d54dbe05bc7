package retryhttp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// source makes the body for each attempt of a request.
type source struct {
	empty bool
	first io.ReadCloser // the body of the caller; nil after its use
	again func() (io.ReadCloser, error)
	tape  *tape      // the recorded body; nil if the body is not recorded
	mu    sync.Mutex // GetBody of a program may not allow two calls at the same time
}

// maxKept is the length up to which a body without GetBody is recorded.
const maxKept = 64 << 10

// init takes the body of req.
func (s *source) init(req *http.Request, repeatable bool) {
	if req.Body == nil || req.Body == http.NoBody {
		s.empty = true
		return
	}
	s.first, s.again = req.Body, req.GetBody
	// The first attempt records such a body while it sends it. A longer one would need too much memory.
	if s.again == nil && repeatable && req.ContentLength > 0 && req.ContentLength <= maxKept {
		s.first, s.tape = nil, record(req.Body, req.ContentLength)
	}
}

func (s *source) repeatable() bool { return s.empty || s.again != nil || s.tape != nil }

// failure returns the reason why the body cannot be read, or nil.
func (s *source) failure() error {
	if s.tape == nil {
		return nil
	}
	return s.tape.failure()
}

// open returns the body for an attempt with the context ctx, or nil for an empty body.
func (s *source) open(ctx context.Context) (io.ReadCloser, error) {
	if s.empty {
		return nil, nil //nolint:nilnil // as in http.Request, nil means an empty body
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The first attempt sends the body of the caller itself.
	if body := s.first; body != nil {
		s.first = nil
		return body, nil
	}
	if s.tape != nil {
		return s.tape.play(ctx), nil
	}
	body, err := s.again()
	if err != nil {
		return nil, fmt.Errorf("retryhttp: the body of the request cannot be read again: %w", err)
	}
	return body, nil
}

// close closes the body of the caller, unless an attempt has taken it.
func (s *source) close() {
	if s.empty {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first != nil {
		s.first.Close()
		s.first = nil
	}
	if s.tape != nil {
		s.tape.release()
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// maxIntent is the length of the longest body that is stored in a journal.
const maxIntent = 32 << 20

// whole returns the complete body. Later attempts read it from memory. It returns an error if ctx ends before the body is complete.
func (s *source) whole(ctx context.Context) ([]byte, error) {
	if s.empty {
		return nil, nil
	}
	body, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	var text []byte
	read := make(chan error, 1)
	// Both the reader and the caller end the body, but a body may be closed only once.
	end := sync.OnceFunc(func() { body.Close() })
	// In a goroutine, because a read of the caller's body may block for ever.
	go func() {
		defer end()
		var err error
		// One byte more than the limit shows that the body is too long.
		text, err = io.ReadAll(io.LimitReader(body, maxIntent+1))
		read <- err
	}()
	select {
	case err = <-read:
		end()
	case <-ctx.Done():
		end()
		return nil, fmt.Errorf("retryhttp: the body of the request was not complete in time: %w", ended(ctx))
	}
	if len(text) > maxIntent {
		return nil, fmt.Errorf("retryhttp: the body of the request is longer than %d MiB, so the journal cannot store it. Try: a Transport without Journal for this request", maxIntent>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("retryhttp: the body of the request cannot be read at byte %d: %w", len(text), err)
	}
	s.again = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	return text, nil
}
