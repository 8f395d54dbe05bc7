package oncehttp_test

import (
	"strings"
	"testing"

	"github.com/oncelib/once"
)

func TestCallerHeadersAreRead(t *testing.T) {
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	s := start(t, setup{}, create)
	for _, c := range []struct {
		header []string
		caller once.Attempt
		first  bool
	}{
		{nil, once.Attempt{}, false},
		{[]string{"X-Request-Id", "r", "X-Correlation-Id", "c", "Once-Attempt", "1"}, once.Attempt{RequestID: "r", CorrelationID: "c", Number: 1}, true},
		{[]string{"Once-Attempt", "2"}, once.Attempt{Number: 2}, false},
		{[]string{"Traceparent", trace}, once.Attempt{Trace: trace, CorrelationID: "0af7651916cd43dd8448eb211c80319c"}, false},
		{[]string{"Traceparent", trace, "X-Correlation-Id", "c"}, once.Attempt{Trace: trace, CorrelationID: "c"}, false},
		{[]string{"Traceparent", strings.ToUpper(trace)}, once.Attempt{}, false},
		{[]string{"Traceparent", "00-0af7"}, once.Attempt{}, false},
		{[]string{"Traceparent", "x"}, once.Attempt{}, false},
		{[]string{"Once-Attempt", "one"}, once.Attempt{}, false},
		{[]string{"Once-Attempt", "-1"}, once.Attempt{}, false},
		{[]string{"Once-Attempt", "99999999999"}, once.Attempt{}, false},
		{[]string{"X-Request-Id", "a b"}, once.Attempt{}, false},
		{[]string{"X-Request-Id", strings.Repeat("r", 129)}, once.Attempt{}, false},
		{[]string{"X-Request-Id", "a", "X-Request-Id", "b"}, once.Attempt{}, false},
	} {
		before := s.store.firsts.Load()
		key := "k"
		if c.first { // one that is known is not asked for as a first one
			key = "first"
		}
		if got := s.post(key, "", c.header...); got.status != 201 {
			t.Errorf("%q: %+v", c.header, got)
		}
		if e := s.log.last(); e.Attempt != c.caller {
			t.Errorf("%q: %+v", c.header, e.Attempt)
		}
		if first := s.store.firsts.Load() > before; first != c.first {
			t.Errorf("%q: first %v", c.header, first)
		}
	}
	s.expect(2, "n", 2)
}
