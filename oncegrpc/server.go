package oncegrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/internal/rpc"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/store"
)

// Config says how the calls of a server are protected. Only Principal must be set.
type Config struct {
	// Principal returns the caller: the tenant or account that authentication, which comes
	// before this interceptor, has established. Keys of different principals never meet.
	// "" is answered with Unauthenticated. nil is a panic at start-up; where there is
	// really only one caller, write [SharedPrincipal]().
	Principal func(context.Context) string

	// Protects chooses the methods, such as "/payments.v1.Refunds/CreateRefund". Others
	// pass straight through, without a transaction. Default: see the package.
	Protects func(method string) bool

	// Optional lets calls without a key through. They run in a transaction as well, but a
	// retry of them executes again, and the answer says "idempotency-status: ignored".
	// Default: InvalidArgument.
	Optional bool

	// Wait is how long a duplicate waits for the call in flight before it receives Aborted.
	// A waiting call holds no connection of the database. Default: Aborted at once.
	Wait time.Duration

	// Retain is how long answers are replayed. Default: the engine's.
	Retain time.Duration

	// KeyTime uses the time in a key that is a UUID of version 7 as the time at which
	// the client has sent the call first, unless once-first-sent says it: see
	// [once.Operation]. A key must then not be made long before it is used. Default: keys
	// are opaque.
	KeyTime bool

	// Undoes maps each method that undoes another one to that method: "/bank.v1.Bank/TakeBack": "/bank.v1.Bank/Deposit". See the package. Default: no method.
	Undoes map[string]string

	// MaxStored is the largest message that is stored, in bytes. A larger one is committed and
	// answered once; a retry receives RESULT_UNAVAILABLE and never executes. Default 1 MiB.
	MaxStored int64

	// Quota bounds what each principal has stored. A new call beyond it is answered with ResourceExhausted, and is not executed.
	// Default: nothing does.
	Quota *limit.Quota

	// Isolation of the transactions. Default: the database's.
	Isolation store.Isolation

	// Timeouts of the transactions, which take precedence over the engine's.
	Timeouts store.Timeouts
}

// SharedPrincipal returns a principal for an API that has only one, or whose clients all trust
// each other: a client that knows a key gets the answer that is stored under it.
func SharedPrincipal() func(context.Context) string {
	return func(context.Context) string { return "global" }
}

// UnaryServerInterceptor protects the unary calls of a server. It panics if cfg has no
// Principal. Inside of itself it does nothing; if that has another Config, which would have
// no effect, the call is refused with Internal, and nothing is executed.
func UnaryServerInterceptor[TX any](e *once.Engine[TX], cfg Config) grpc.UnaryServerInterceptor {
	if cfg.Principal == nil {
		panic("oncegrpc: Config.Principal is not set, so that all callers would share their keys and answers.\n" +
			"Try: a function that returns the authenticated account, or oncegrpc.SharedPrincipal() if there is only one.")
	}
	if err := rpc.CheckUndoes(e, cfg.Undoes); err != nil {
		panic("oncegrpc: " + err.Error())
	}
	if cfg.Protects == nil {
		cfg.Protects = hasSideEffects
	}
	s := &rpc.Server[TX]{
		Engine: e, Optional: cfg.Optional, Wait: cfg.Wait, Retain: cfg.Retain, KeyTime: cfg.KeyTime, MaxStored: cfg.MaxStored,
		Isolation: cfg.Isolation, Timeouts: cfg.Timeouts, Quota: cfg.Quota, Undoes: cfg.Undoes, Config: &cfg,
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if cfg.Undoes[info.FullMethod] == "" && !cfg.Protects(info.FullMethod) {
			return next(ctx, req)
		}
		switch inside, err := s.Nested(ctx, "oncegrpc"); {
		case err != nil:
			return nil, status.Error(codes.Internal, err.Error())
		case inside:
			return next(ctx, req)
		}
		asked, err := marshal(req)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		c := rpc.Call{
			Principal: cfg.Principal(ctx), Method: info.FullMethod, Message: asked,
			Header: func(name string) []string { return metadata.ValueFromIncomingContext(ctx, name) },
		}
		if cfg.Undoes[info.FullMethod] != "" {
			c.Output = outputOf(info.FullMethod)
		}
		return serve(ctx, s, c, req, next)
	}
}

func hasSideEffects(method string) bool { return !rpc.Own(method) && !harmless(method) }

// Undone returns the answer of the call that the call of ctx undoes: see Config.Undoes. It panics if this call undoes nothing, or if the answer is another message.
func Undone[M proto.Message](ctx context.Context) M {
	a, ok := rpc.UndoneOf(ctx)
	if !ok {
		panic("oncegrpc: Undone: this call undoes nothing.\nTry: a method of Config.Undoes.")
	}
	m, err := messageFrom(a)
	if err != nil {
		panic(err.Error())
	}
	message, ok := m.(M)
	if !ok {
		panic(fmt.Sprintf("oncegrpc: Undone: the message is a %T.\nTry: oncegrpc.Undone[%[1]T](ctx).", m))
	}
	return message
}

// Tx returns the transaction in which the handler that ctx belongs to must do its work:
// it commits together with the key and the answer. Tx panics if ctx has no transaction, or one
// of another type: a handler that went on without it would be executed once only by
// luck.
func Tx[TX any](ctx context.Context) TX { return rpc.Tx[TX](ctx, "oncegrpc") }

func serve[TX any](ctx context.Context, s *rpc.Server[TX], c rpc.Call, req any, next grpc.UnaryHandler) (any, error) {
	var (
		last    any
		refused error
		sent    *held
	)
	answer, outcome, problem := s.Serve(ctx, c, func(ctx context.Context, _ TX) (a rpc.Answer, err error) {
		if sent != nil { // an earlier run may have changed the request
			if req, err = fresh(req, c.Message); err != nil {
				return a, err
			}
		}
		ctx, sent = hold(ctx)
		last, refused = next(ctx, req)
		if refused == nil {
			return messageOf(last)
		}
		final, ok := status.FromError(refused)
		if !ok || !rpc.Code(final.Code()).Final() {
			return a, refused
		}
		return rpc.Answer{Status: statusOf(final)}, nil
	})
	if problem != nil {
		if problem.Handler && sent != nil {
			sent.send(ctx, "", "", "")
		}
		return nil, errorOf(problem)
	}
	says := cmp.Or(answer.Says, outcome)
	if outcome != wire.StatusReplayed && outcome != wire.StatusNothing {
		sent.send(ctx, outcome, says, s.Retention())
		return last, refused
	}
	(&held{}).send(ctx, outcome, says, s.Retention())
	if answer.Status != nil {
		return nil, status.ErrorProto(protoOf(answer.Status))
	}
	return messageFrom(answer)
}

// problemError is an error of the engine: the client sees its status, and code inside
// of the server sees its cause.
type problemError struct {
	*rpc.Problem

	status *status.Status
}

// GRPCStatus returns the status that gRPC sends for the error.
func (e *problemError) GRPCStatus() *status.Status { return e.status }

// errorOf returns the error to send for a problem. A status that the handler has returned is
// sent as it is.
func errorOf(p *rpc.Problem) error {
	if p.Handler {
		if _, ok := status.FromError(p.Cause); ok {
			return p.Cause
		}
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: p.Reason, Domain: rpc.Domain, Metadata: p.Metadata()}}
	if p.After > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(p.After)})
	}
	s := status.New(codes.Code(p.Code), p.Message)
	if with, err := s.WithDetails(details...); err == nil {
		s = with
	}
	return &problemError{p, s}
}

var errNoMessage = errors.New("oncegrpc: not a protobuf message. Try: Config.Protects, to leave methods with other codecs out")
