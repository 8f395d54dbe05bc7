package retryhttp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// source is the body of a request, as often as it is needed.
type source struct {
	empty bool
	first io.ReadCloser // the caller's; nil once it is used
	again func() (io.ReadCloser, error)
	mu    sync.Mutex // nobody has promised that GetBody may run twice at once
}

// A body of a known length up to this is kept if the caller cannot give it again.
const maxKept = 64 << 10

// init takes the body of req over.
func (s *source) init(req *http.Request, repeatable bool) error {
	if req.Body == nil || req.Body == http.NoBody {
		s.empty = true
		return nil
	}
	s.first, s.again = req.Body, req.GetBody
	if s.again != nil || !repeatable || req.ContentLength <= 0 || req.ContentLength > maxKept {
		return nil
	}
	whole := make([]byte, req.ContentLength)
	n, err := io.ReadFull(req.Body, whole)
	if err == nil {
		var more [1]byte
		if n, _ := req.Body.Read(more[:]); n > 0 {
			err = fmt.Errorf("it is longer than its length of %d bytes", req.ContentLength)
		}
	}
	if err != nil {
		return fmt.Errorf("retryhttp: reading the body of the request, byte %d: %w", n, err)
	}
	closeBody(req)
	s.again = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(whole)), nil }
	s.first, _ = s.again()
	return nil
}

func (s *source) repeatable() bool { return s.empty || s.again != nil }

// open returns the body for one attempt, nil if there is none.
func (s *source) open() (io.ReadCloser, error) {
	if s.empty {
		return nil, nil //nolint:nilnil // as in http.Request
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if body := s.first; body != nil {
		s.first = nil
		return body, nil
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
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// A body up to this is written to a journal.
const maxIntent = 32 << 20

// whole returns all of the body, which can be read again from then on.
func (s *source) whole() ([]byte, error) {
	if s.empty {
		return nil, nil
	}
	body, err := s.open()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(body, maxIntent+1))
	body.Close()
	if len(text) > maxIntent {
		return nil, fmt.Errorf("retryhttp: the body of the request is longer than the %d MiB that a journal takes. Try: a Transport without Journal for it", maxIntent>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("retryhttp: reading the body of the request, byte %d: %w", len(text), err)
	}
	s.again = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	return text, nil
}
