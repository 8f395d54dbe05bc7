package oncehttp_test

import (
	"testing"

	"github.com/oncelib/once/internal/base/toolarge"
	"github.com/oncelib/once/store"
)

// TestAnswerTooLargeForTheDatabase: a client that came again with the same request would be
// told the same.
func TestAnswerTooLargeForTheDatabase(t *testing.T) {
	s := start(t, setup{faults: func(f *faulty) {
		f.commit = func(store.Change, func() error) error {
			return &store.Error{Err: &toolarge.Error{Bytes: 2, Max: 1, Try: "less"}}
		}
	}}, create)
	got := s.post("k", "")
	if p := got.problem(t); got.status != 500 || p.Code != problemResponseTooLarge || p.Retryable || got.header.Get("Retry-After") != "" {
		t.Errorf("%+v", p)
	}
	s.expect(1, "n", 0)
}
