package oncehttp_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

func TestRequestTimeout(t *testing.T) {
	var left time.Duration
	s := start(t, setup{}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		left = 0
		if d, ok := r.Context().Deadline(); ok {
			left = time.Until(d)
		}
		create(w, r, tx)
	})
	for value, want := range map[string]time.Duration{
		"": 0, "60000": time.Minute, "60s": time.Minute, "1m0.5s": time.Minute + 500*time.Millisecond, "9000000000000": 2500000 * time.Hour,
	} {
		var header []string
		if value != "" {
			header = []string{"X-Request-Timeout", value}
		}
		got := s.post("k"+value, "", header...)
		if got.status != 201 || left > want || left < want-10*time.Second {
			t.Errorf("%q: %d, %v left", value, got.status, left)
		}
	}
	s.runs.Store(0)
	for _, value := range []string{"", "0", "-1", "0s", "-1s", "abc", "1.5", "1e3", "60 s", "9223372036854775807", "99999999999999999999", "10000000h"} {
		got := s.post("k", "", "X-Request-Timeout", value)
		if p := got.problem(t); got.status != 400 || p.Code != problemTimeoutInvalid || p.Retryable || p.SafeNewKey {
			t.Errorf("%q: %+v", value, got)
		}
	}
	if got := s.post("k", "", "X-Request-Timeout", "1s", "X-Request-Timeout", "1s"); got.status != 400 {
		t.Errorf("two lines: %+v", got)
	}
	if s.runs.Load() != 0 {
		t.Error("the handler has run")
	}
}

func TestDeadlineEndsTheHandler(t *testing.T) {
	s := start(t, setup{}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		increment(tx, "n")
		<-r.Context().Done()
		if !errors.Is(r.Context().Err(), context.DeadlineExceeded) {
			t.Error(r.Context().Err())
		}
		oncehttp.Fail(w, r, r.Context().Err())
	})
	synctest.Test(t, func(t *testing.T) { // where the deadline cannot end before the handler begins
		if got := roundTrip(s.handler, "POST", "/refunds", "", "k", "X-Request-Timeout", "20ms"); got.status != 503 || !got.problem(t).Retryable || got.header.Get("Retry-After") == "" {
			t.Errorf("%+v", got)
		}
	})
	s.expect(1, "n", 0)
}

// The deadline is the handler's, not the commit's.
func TestDeadlineDoesNotEndTheCommit(t *testing.T) {
	s := start(t, setup{}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		<-r.Context().Done()
		create(w, r, tx)
	})
	synctest.Test(t, func(t *testing.T) { // as above
		if got := roundTrip(s.handler, "POST", "/refunds", "", "k", "X-Request-Timeout", "20ms"); got.status != 201 || got.idempotency() != "stored" {
			t.Errorf("%+v", got)
		}
	})
	s.expect(1, "n", 1)
}
