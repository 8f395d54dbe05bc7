package oncegrpc_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/oncelib/once/oncegrpc"
)

// TestNameAndTrace: observers are told the method and the trace of the client.
func TestNameAndTrace(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	s := start(t, oncegrpc.Config{Optional: true}, nil)
	c := s.client()
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
		ctx := metadata.NewOutgoingContext(t.Context(), metadata.MD{"idempotency-key": test.key, "traceparent": test.trace})
		_, err := c.CreateRefund(ctx, refund)
		s.must(err)
		s.mu.Lock()
		e := s.begun[len(s.begun)-1]
		s.mu.Unlock()
		if e.Name != "/refunds.v1.Refunds/CreateRefund" || e.Trace != test.want {
			t.Errorf("trace %q: name %q, trace %q", test.trace, e.Name, e.Trace)
		}
	}
}
