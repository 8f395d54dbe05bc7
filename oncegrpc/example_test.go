package oncegrpc_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncegrpc"
	"github.com/oncelib/once/oncegrpc/internal/refundsv1"
	"github.com/oncelib/once/store/memstore"
)

// refunds is a service as protoc-gen-go-grpc wants it.
type refunds struct {
	refundsv1.UnimplementedRefundsServer
}

func (refunds) CreateRefund(ctx context.Context, req *refundsv1.CreateRefundRequest) (*refundsv1.Refund, error) {
	tx := oncegrpc.Tx[*memstore.Tx](ctx) // pgx.Tx or *sql.Tx in production
	if err := tx.Insert("refund of "+req.GetCharge(), fmt.Sprint(req.GetAmount())); err != nil {
		return nil, err
	}
	fmt.Println("refunding", req.GetAmount())
	return &refundsv1.Refund{Id: 1, Charge: req.GetCharge(), Amount: req.GetAmount()}, nil
}

// A call with the same key gets the first answer.
func Example() {
	engine := once.New(memstore.New(), once.Config{})
	server := grpc.NewServer(grpc.UnaryInterceptor(
		oncegrpc.UnaryServerInterceptor(engine, oncegrpc.Config{Principal: oncegrpc.SharedPrincipal()})))
	refundsv1.RegisterRefundsServer(server, refunds{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = server.Serve(l) }()
	defer server.Stop()

	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableRetry(), grpc.WithUnaryInterceptor(oncegrpc.UnaryClientInterceptor(oncegrpc.ClientConfig{})))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()
	client := refundsv1.NewRefundsClient(conn)

	ctx := oncegrpc.WithKey(context.Background(), "refund:ch_9ab") // one per intent
	for _, amount := range []int64{1000, 1000, 9999} {
		refund, err := client.CreateRefund(ctx, &refundsv1.CreateRefundRequest{Charge: "ch_9ab", Amount: amount})
		fmt.Printf("refund %d %q\n", refund.GetId(), once.CodeOf(err))
	}
	// Output:
	// refunding 1000
	// refund 1 ""
	// refund 1 ""
	// refund 0 "mismatch"
}
