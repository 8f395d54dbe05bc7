package onceconnect_test

import (
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/oncelib/once/onceconnect"
	"github.com/oncelib/once/onceconnect/internal/refundsv1"
)

// A message that is too large is committed and answered once, and never made again. What
// is too large is for the owner to say.
func TestMaxStored(t *testing.T) {
	large := &refundsv1.CreateRefundRequest{Charge: strings.Repeat("c", 1<<20+1), Amount: 1000}
	for name, test := range map[string]struct {
		most int64
		req  *refundsv1.CreateRefundRequest
		kept bool
	}{
		"small":              {0, refund, true},
		"large":              {0, large, false},
		"large, and allowed": {2 << 20, large, true},
		"small, and too big": {3, refund, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, onceconnect.Config{MaxStored: test.most}, nil)
			c := s.client()
			ctx, _ := with("k")
			first, err := c.CreateRefund(ctx, test.req)
			s.must(err)
			ctx, _ = with("k")
			again, err := c.CreateRefund(ctx, test.req)
			switch {
			case test.kept && (err != nil || !proto.Equal(first, again)):
				t.Error(err)
			case !test.kept && (connect.CodeOf(err) != connect.CodeFailedPrecondition || infoOf(err).GetReason() != "RESULT_UNAVAILABLE" || infoOf(err).GetMetadata()["safe_new_key"] != "false"):
				t.Error(err)
			}
			s.expect(1, 1)
		})
	}
}
