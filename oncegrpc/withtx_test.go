package oncegrpc_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncegrpc"
	"github.com/oncelib/once/oncegrpc/internal/refundsv1"
	"github.com/oncelib/once/oncetest"
	"github.com/oncelib/once/store/memstore"
)

// TestWithTx: without the interceptor a handler finds the transaction of oncetest.WithTx, and inside of it the one of its call.
func TestWithTx(t *testing.T) {
	mine := new(memstore.Tx)
	ctx := oncetest.WithTx(t, t.Context(), mine)
	if tx := oncegrpc.Tx[*memstore.Tx](ctx); tx != mine {
		t.Errorf("%p, and the transaction of the test is %p", tx, mine)
	}
	intercept := oncegrpc.UnaryServerInterceptor(once.New(memstore.New(), once.Config{}), oncegrpc.Config{Principal: oncegrpc.SharedPrincipal()})
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", once.NewKey()))
	info, runs := &grpc.UnaryServerInfo{FullMethod: "/refunds.v1.Refunds/CreateRefund"}, 0
	_, err := intercept(ctx, &refundsv1.CreateRefundRequest{Charge: "ch_1"}, info, func(ctx context.Context, _ any) (any, error) {
		runs++
		tx := oncegrpc.Tx[*memstore.Tx](ctx)
		if tx == mine {
			t.Error("a call has the transaction of the test")
		}
		return &refundsv1.Refund{Id: 1}, tx.Put("k", "v")
	})
	if err != nil || runs != 1 {
		t.Errorf("%d runs, %v", runs, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a transaction of another type is taken")
		}
	}()
	oncegrpc.Tx[*memstore.Tx](oncetest.WithTx(t, t.Context(), "another type"))
}
