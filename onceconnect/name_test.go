package onceconnect_test

import (
	"strings"
	"testing"

	"github.com/oncelib/once/onceconnect"
)

// TestNameAndTrace: observers are told the method and the trace of the client.
func TestNameAndTrace(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			s := start(t, onceconnect.Config{Optional: true}, nil)
			c := s.client(protocol)
			for _, test := range []struct {
				key, trace []string
				want       string
			}{
				{[]string{"a"}, []string{trace}, trace},
				{[]string{"a"}, nil, ""}, // a replay of another caller
				{[]string{"b"}, []string{"cc" + trace[2:] + "-more"}, trace},
				{[]string{"c"}, []string{strings.ToUpper(trace)}, ""},
				{[]string{"d"}, []string{trace, trace}, ""},
				{nil, []string{trace}, trace},
			} {
				ctx, info := with(test.key...)
				for _, line := range test.trace {
					info.RequestHeader().Add("Traceparent", line)
				}
				_, err := c.CreateRefund(ctx, refund)
				s.must(err)
				s.mu.Lock()
				e := s.begun[len(s.begun)-1]
				s.mu.Unlock()
				if e.Name != "/refunds.v1.Refunds/CreateRefund" || e.Trace != test.want {
					t.Errorf("trace %q: name %q, trace %q", test.trace, e.Name, e.Trace)
				}
			}
		})
	}
}
