package retryhttp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// source makes a body for each attempt of a request.
type source struct {
	empty bool
	first io.ReadCloser // the caller's; nil after its use
	again func() (io.ReadCloser, error)
	tape  *tape      // of a recorded body; nil if it is not recorded
	mu    sync.Mutex // GetBody need not be safe to run twice at once
}

// A body of a known length up to this is recorded if the caller gives no GetBody.
const maxKept = 64 << 10

// init takes over the body of req.
func (s *source) init(req *http.Request, repeatable bool) {
	if req.Body == nil || req.Body == http.NoBody {
		s.empty = true
		return
	}
	s.first, s.again = req.Body, req.GetBody
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

// open returns the body for an attempt with ctx, or nil for an empty body.
func (s *source) open(ctx context.Context) (io.ReadCloser, error) {
	if s.empty {
		return nil, nil //nolint:nilnil // as in http.Request
	}
	s.mu.Lock()
	defer s.mu.Unlock()
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

// close closes the caller's body if no attempt has taken it.
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

// A body up to this is written to a journal.
const maxIntent = 32 << 20

// whole returns the complete body, which can be read again from then on. It fails if ctx ends before the body is complete.
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
	end := sync.OnceFunc(func() { body.Close() })
	go func() {
		defer end()
		var err error
		text, err = io.ReadAll(io.LimitReader(body, maxIntent+1))
		read <- err
	}()
	select {
	case err = <-read:
		end()
	case <-ctx.Done():
		end()
		return nil, fmt.Errorf("retryhttp: the body of the request was not complete before the context of the request ended: %w", ended(ctx))
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
