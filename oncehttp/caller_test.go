package oncehttp_test

import (
	"strings"
	"testing"

	"github.com/oncelib/once"
)

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
