package oncehttp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
)

// TestBodiesOfWaitersAreBounded: a duplicate whose body has no room among those of the requests
// that wait is told so at once.
func TestBodiesOfWaitersAreBounded(t *testing.T) {
	h := newHeld()
	s := start(t, setup{Config: oncehttp.Config{Wait: time.Hour}, engine: once.Config{MaxWaitingBytes: 20 << 10}}, h.create)
	body := strings.Repeat("x", 30<<10)
	first := make(chan response)
	go func() { first <- s.post("k", body) }()
	<-h.started
	if got := s.post("k", body); got.status != 409 || got.problem(t).Code != oncehttp.ProblemInFlight || got.header.Get("Retry-After") == "" {
		t.Errorf("%+v", got)
	}
	h.release <- struct{}{}
	if got := <-first; got.status != 201 {
		t.Errorf("%+v", got)
	}
	if got := s.post("k", body); got.status != 201 {
		t.Errorf("its replay: %+v", got)
	}
	s.expect(1, "n", 1)
}
