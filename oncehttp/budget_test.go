package oncehttp_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
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
		if p := got.problem(t); got.status != 400 || p.Code != oncehttp.CodeTimeoutInvalid || p.Retryable || p.SafeNewKey {
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
	if got := s.post("k", "", "X-Request-Timeout", "20ms"); got.status != 503 || !got.problem(t).Retryable || got.header.Get("Retry-After") == "" {
		t.Errorf("%+v", got)
	}
	s.expect(1, "n", 0)
}

// The deadline is the handler's, not the commit's.
func TestDeadlineDoesNotEndTheCommit(t *testing.T) {
	s := start(t, setup{}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		<-r.Context().Done()
		create(w, r, tx)
	})
	if got := s.post("k", "", "X-Request-Timeout", "20ms"); got.status != 201 || got.idempotency() != "stored" {
		t.Errorf("%+v", got)
	}
	s.expect(1, "n", 1)
}

func TestCaller(t *testing.T) {
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	s := start(t, setup{}, create)
	for _, c := range []struct {
		header []string
		caller once.Caller
		first  bool
	}{
		{nil, once.Caller{}, false},
		{[]string{"X-Request-Id", "r", "X-Correlation-Id", "c", "Once-Attempt", "1"}, once.Caller{RequestID: "r", CorrelationID: "c", Attempt: 1}, true},
		{[]string{"Once-Attempt", "2"}, once.Caller{Attempt: 2}, false},
		{[]string{"Traceparent", trace}, once.Caller{CorrelationID: "0af7651916cd43dd8448eb211c80319c"}, false},
		{[]string{"Traceparent", trace, "X-Correlation-Id", "c"}, once.Caller{CorrelationID: "c"}, false},
		{[]string{"Traceparent", strings.ToUpper(trace)}, once.Caller{}, false},
		{[]string{"Traceparent", "00-0af7"}, once.Caller{}, false},
		{[]string{"Traceparent", "x"}, once.Caller{}, false},
		{[]string{"Once-Attempt", "one"}, once.Caller{}, false},
		{[]string{"Once-Attempt", "-1"}, once.Caller{}, false},
		{[]string{"Once-Attempt", "99999999999"}, once.Caller{}, false},
		{[]string{"X-Request-Id", "a b"}, once.Caller{}, false},
		{[]string{"X-Request-Id", strings.Repeat("r", 129)}, once.Caller{}, false},
		{[]string{"X-Request-Id", "a", "X-Request-Id", "b"}, once.Caller{}, false},
	} {
		before := s.store.firsts.Load()
		key := "k"
		if c.first { // one that is known is not asked for as a first one
			key = "first"
		}
		if got := s.post(key, "", c.header...); got.status != 201 {
			t.Errorf("%q: %+v", c.header, got)
		}
		if e := s.log.last(); e.Caller != c.caller {
			t.Errorf("%q: %+v", c.header, e.Caller)
		}
		if first := s.store.firsts.Load() > before; first != c.first {
			t.Errorf("%q: first %v", c.header, first)
		}
	}
	s.expect(2, "n", 2)
}
