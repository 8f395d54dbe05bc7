package onceconnect

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/oncelib/once/internal/rpc"
	"github.com/oncelib/once/retry"
)

// ClientConfig says how a client repeats failed calls. The zero value is ready to use.
type ClientConfig struct {
	// Policy limits the attempts and their time. The default budget is [retry.BudgetFor] of the host and port in the URL.
	Policy retry.Policy

	// Keys adds a new key to each call that has no key and is not declared to be harmless (see the package documentation). Do not set Keys for
	// servers that ignore idempotency keys: on such a server a repeated call takes effect twice. Default: false.
	Keys bool
}

// WithKey returns a context that adds key to each call with the returned context, except calls whose header already has a key. All calls with the
// returned context have the same key, and so belong to the same operation; make a new context for each operation. Store the key with your data, so
// that a client can use the same key after a crash.
func WithKey(ctx context.Context, key string) context.Context { return rpc.WithKey(ctx, key) }

// NewClientInterceptor returns an interceptor that repeats failed unary RPCs. All attempts of a call have the same key. Streams are not retried. If
// the interceptor of a client is added to a handler, the interceptor does nothing.
func NewClientInterceptor(cfg ClientConfig) connect.Interceptor {
	c := &rpc.Client{Policy: cfg.Policy, Keys: cfg.Keys}
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (resp connect.AnyResponse, err error) {
			spec := req.Spec()
			if !spec.IsClient {
				return next(ctx, req)
			}
			s := rpc.Sent{Destination: req.Peer().Addr, Method: spec.Procedure, Keys: keysIn(req.Header()), Safe: harmless(spec)}
			err = c.Do(ctx, s, func(ctx context.Context, n int, key string) *rpc.Fault {
				header := req.Header().Clone() // a copy, because an earlier attempt may still use its header
				header.Del(rpc.KeyHeader)
				delete(header, rpc.KeyHeader)
				if key != "" {
					header[rpc.KeyHeader] = []string{key}
				}
				header.Set(rpc.AttemptHeader, strconv.Itoa(n))
				if resp, err = next(ctx, &attempt{req, header}); err != nil {
					return faultOf(err)
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
			return resp, nil
		}
	})
}

// keysIn returns the keys in a header, also under the name in lower case, which net/http does not look up.
func keysIn(h http.Header) []string {
	keys := h.Values(rpc.KeyHeader)
	return append(keys[:len(keys):len(keys)], h[rpc.KeyHeader]...) //nolint:staticcheck // the other spelling is the point
}

// attempt is a request that has its own header.
type attempt struct {
	connect.AnyRequest

	header http.Header
}

// Header implements [connect.AnyRequest].
func (a *attempt) Header() http.Header { return a.header }

func faultOf(err error) *rpc.Fault {
	f := &rpc.Fault{Err: err, Code: rpc.Code(connect.CodeOf(err))}
	var e *connect.Error
	if !errors.As(err, &e) {
		return f
	}
	f.Replayed = e.Meta().Get(rpc.ReplayedHeader) != ""
	f.Pushback = e.Meta().Values(rpc.PushbackHeader)
	for _, d := range e.Details() {
		m, err := d.Value()
		if err != nil {
			continue
		}
		switch m := m.(type) {
		case *errdetails.ErrorInfo:
			if m.GetDomain() == rpc.Domain {
				f.Reason, f.Retryable = m.GetReason(), m.GetMetadata()["retryable"] == "true"
			}
		case *errdetails.RetryInfo:
			f.After = m.GetRetryDelay().AsDuration()
		}
	}
	return f
}
