package onceconnect_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"connectrpc.com/connect"

	"github.com/oncelib/once"
	"github.com/oncelib/once/onceconnect"
	"github.com/oncelib/once/onceconnect/internal/refundsv1"
	"github.com/oncelib/once/store/memstore"
)

// refunds is a service as protoc-gen-connect-go wants it.
type refunds struct{}

func (refunds) CreateRefund(ctx context.Context, req *refundsv1.CreateRefundRequest) (*refundsv1.Refund, error) {
	tx := onceconnect.Tx[*memstore.Tx](ctx) // pgx.Tx or *sql.Tx in production
	if err := tx.Insert("refund of "+req.GetCharge(), fmt.Sprint(req.GetAmount())); err != nil {
		return nil, err
	}
	fmt.Println("refunding", req.GetAmount())
	return &refundsv1.Refund{Id: 1, Charge: req.GetCharge(), Amount: req.GetAmount()}, nil
}

func (refunds) GetRefund(_ context.Context, req *refundsv1.GetRefundRequest) (*refundsv1.Refund, error) {
	return &refundsv1.Refund{Id: req.GetId()}, nil // needs no key: the .proto file says NO_SIDE_EFFECTS
}

// A call with the same key gets the first answer.
func Example() {
	engine := once.New(memstore.New(), once.Config{})
	mux := http.NewServeMux()
	mux.Handle(refundsv1.NewRefundsHandler(refunds{}, connect.WithInterceptors(
		onceconnect.NewInterceptor(engine, onceconnect.Config{Principal: onceconnect.SharedPrincipal()}))))
	server := httptest.NewServer(mux)
	defer server.Close()

	client := refundsv1.NewRefundsClient(server.Client(), server.URL, connect.WithInterceptors(
		onceconnect.NewClientInterceptor(onceconnect.ClientConfig{})))

	ctx := onceconnect.WithKey(context.Background(), "refund:ch_9ab") // one per intent
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
