package oncegrpc_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/oncelib/once/oncegrpc"
	"github.com/oncelib/once/oncegrpc/internal/refundsv1"
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
			s := start(t, oncegrpc.Config{MaxStored: test.most}, nil)
			c := s.client()
			first, err := c.CreateRefund(with("k"), test.req)
			s.must(err)
			again, err := c.CreateRefund(with("k"), test.req)
			switch {
			case test.kept && (err != nil || !proto.Equal(first, again)):
				t.Error(err)
			case !test.kept && (status.Code(err) != codes.FailedPrecondition || infoOf(err).GetReason() != "RESULT_UNAVAILABLE" || infoOf(err).GetMetadata()["safe_new_key"] != "false"):
				t.Error(err)
			}
			s.expect(1, 1)
		})
	}
}
