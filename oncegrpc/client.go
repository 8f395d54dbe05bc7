package oncegrpc

import (
	"context"
	"slices"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oncelib/once/internal/rpc"
	"github.com/oncelib/once/retry"
)

// ClientConfig says how a client repeats failed calls. The zero value is ready to use.
type ClientConfig struct {
	// Policy limits the attempts and their time. If Policy.Budget is nil, the budget is [retry.BudgetFor] of the
	// connection's target.
	Policy retry.Policy

	// Keys adds a new key to each call that has no key and is not declared to be harmless (see the package documentation). Do not set Keys for
	// servers that ignore idempotency keys: on such a server a repeated call takes effect twice. Default: false.
	Keys bool
}

// WithKey returns a context that adds key to each call with the returned context, except calls whose metadata already has a key. All calls with
// the returned context have the same key, and so belong to the same operation; make a new context for each operation. Store the key with your
// data, so that a client can use the same key after a crash.
func WithKey(ctx context.Context, key string) context.Context { return rpc.WithKey(ctx, key) }

// UnaryClientInterceptor returns an interceptor that repeats failed unary calls. All attempts of a call have the same key. Streams are not retried.
func UnaryClientInterceptor(cfg ClientConfig) grpc.UnaryClientInterceptor {
	c := &rpc.Client{Policy: cfg.Policy, Keys: cfg.Keys}
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		given, _ := metadata.FromOutgoingContext(ctx)
		s := rpc.Sent{Destination: conn.CanonicalTarget(), Method: method, Keys: given.Get(rpc.KeyHeader), Safe: harmless(method)}
		return c.Do(ctx, s, func(ctx context.Context, n int, key string) *rpc.Fault {
			md := given.Copy()
			if md == nil {
				md = metadata.MD{}
			}
			if key != "" {
				md.Set(rpc.KeyHeader, key)
			}
			md.Set(rpc.AttemptHeader, strconv.Itoa(n))
			var header, trailer metadata.MD
			err := invoke(metadata.NewOutgoingContext(ctx, md), method, req, reply, conn,
				slices.Concat(opts, []grpc.CallOption{grpc.Header(&header), grpc.Trailer(&trailer)})...)
			if err == nil {
				return nil
			}
			return faultOf(err, header, trailer)
		})
	}
}

func faultOf(err error, header, trailer metadata.MD) *rpc.Fault {
	s := status.Convert(err)
	f := &rpc.Fault{
		Err: err, Code: rpc.Code(s.Code()), Pushback: trailer.Get(rpc.PushbackHeader),
		Replayed: len(header.Get(rpc.ReplayedHeader))+len(trailer.Get(rpc.ReplayedHeader)) > 0,
	}
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == rpc.Domain {
				f.Reason, f.Retryable = d.GetReason(), d.GetMetadata()["retryable"] == "true"
			}
		case *errdetails.RetryInfo:
			f.After = d.GetRetryDelay().AsDuration()
		}
	}
	return f
}
