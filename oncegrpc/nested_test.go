package oncegrpc_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncegrpc"
	"github.com/oncelib/once/oncegrpc/internal/refundsv1"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// An interceptor inside of another one of the same engine is part of its operation. Where
// its own Config would have no effect, the call says so, and nothing is executed.
func TestNestedInterceptors(t *testing.T) {
	e := once.New(memstore.New(), once.Config{})
	cfg := oncegrpc.Config{Principal: oncegrpc.SharedPrincipal()}
	for name, change := range map[string]func(*oncegrpc.Config){
		"":                 func(*oncegrpc.Config) {},
		"Config.Isolation": func(c *oncegrpc.Config) { c.Isolation = store.Serializable },
		"Config.Retain":    func(c *oncegrpc.Config) { c.Retain = time.Hour },
		"Config.Principal": func(c *oncegrpc.Config) { c.Principal = func(context.Context) string { return "other" } },
	} {
		changed := cfg
		change(&changed)
		outer, inner := oncegrpc.UnaryServerInterceptor(e, cfg), oncegrpc.UnaryServerInterceptor(e, changed)
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("idempotency-key", once.NewKey()))
		info := &grpc.UnaryServerInfo{FullMethod: "/refunds.v1.Refunds/CreateRefund"}
		runs := 0
		answer, err := outer(ctx, &refundsv1.CreateRefundRequest{Charge: "ch_1"}, info, func(ctx context.Context, req any) (any, error) {
			return inner(ctx, req, info, func(ctx context.Context, _ any) (any, error) {
				runs++
				return &refundsv1.Refund{Id: 1}, oncegrpc.Tx[*memstore.Tx](ctx).Put("k", "v")
			})
		})
		if name == "" {
			if m, ok := answer.(proto.Message); err != nil || runs != 1 || !ok || m == nil {
				t.Errorf("the same Config: %v, %v, %d runs", answer, err, runs)
			}
		} else if text := status.Convert(err).Message(); status.Code(err) != codes.Internal || runs != 0 || !strings.Contains(text, name+" ") || !strings.Contains(text, "Try: ") {
			t.Errorf("%s: %v, %d runs", name, err, runs)
		}
	}
}
