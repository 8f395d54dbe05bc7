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
	// Principal returns the caller of a call: the tenant or account that was authenticated before the call reached this interceptor. Each principal
	// has its own keys: if two principals use the same key, the key belongs to two different operations. If Principal returns "", the call is
	// answered with the code Unauthenticated. If Principal is nil, UnaryServerInterceptor panics. For an API that has only one caller, write
	// [SharedPrincipal]().
	Principal func(context.Context) string

	// Protects reports whether a method, such as "/payments.v1.Refunds/CreateRefund", is protected. A call of a method that is not protected
	// is passed to its handler without a transaction. Default: see the section "Which calls" of the package documentation.
	Protects func(method string) bool

	// Optional accepts calls without a key. A call without a key also runs in a transaction, but a retry of the call is executed again. The
	// answer to a call without a key has the metadata "idempotency-status: ignored". Default: a call without a key is answered with the
	// code InvalidArgument.
	Optional bool

	// Wait is how long a duplicate waits while another call with the same key is in flight, before the duplicate receives the code Aborted. A
	// waiting call holds no database connection. Default: 0, the duplicate receives the code Aborted at once.
	Wait time.Duration

	// Retain is how long answers are kept and replayed. Default: the engine's Config.Retain.
	Retain time.Duration

	// KeyTime says that keys contain the time of the first attempt. If a call has no metadata once-first-sent, and its key is a UUID of version 7,
	// the time in the key counts as the time of the first attempt: see [once.Attempt]. If KeyTime is set, clients must make a key when they send
	// the first attempt, and not long before. Default: no time is read from keys.
	KeyTime bool

	// Undoes lists the methods that undo other methods. Each key of the map is an undoing method, and the value is the undone method, such as
	// "/bank.v1.Bank/TakeBack": "/bank.v1.Bank/Deposit". The section Undo of the package documentation explains undoing methods. Default: nil, no
	// method undoes another method.
	Undoes map[string]string

	// MaxStored is the size in bytes of the largest answer that is stored. If an answer is larger than MaxStored, the handler's writes are
	// committed, and the answer is sent only once; a retry receives RESULT_UNAVAILABLE and is never executed. Default: 1 MiB.
	MaxStored int64

	// Quota limits the bytes that are stored for each principal. If a principal has reached its limit, a new call of the principal is answered with
	// the code ResourceExhausted and not executed. Default: nil, no limit.
	Quota *limit.Quota

	// Isolation is the isolation level of the transactions. Default: the default of the database.
	Isolation store.Isolation

	// Timeouts are the time limits of the transactions. Each time limit that is set replaces the same time limit in the
	// engine's Config.Timeouts.
	Timeouts store.Timeouts
}

// SharedPrincipal returns a Config.Principal that gives every call the same principal. Use SharedPrincipal only if the API has one client, or if all
// clients trust each other: with SharedPrincipal, every client that knows a key gets the answer that is stored for this key.
func SharedPrincipal() func(context.Context) string {
	return func(context.Context) string { return "global" }
}

// UnaryServerInterceptor returns an interceptor that protects the unary calls of a server. UnaryServerInterceptor panics if cfg.Principal
// is nil. If two interceptors with the same engine and the same Config are nested, the inner interceptor does nothing. If two nested
// interceptors with the same engine have different Configs, the inner interceptor refuses each call with the code Internal and executes
// nothing, because its Config would have no effect.
func UnaryServerInterceptor[TX any](e *once.Engine[TX], cfg Config) grpc.UnaryServerInterceptor {
	if cfg.Principal == nil {
		panic("oncegrpc: Config.Principal is not set, so all callers would share their keys and answers.\n" +
			"Try: a function that returns the authenticated account, or oncegrpc.SharedPrincipal() if there is only one account.")
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

// Undone returns the answer of the undone call. The parameter ctx is the context of the handler of an undoing method: see Config.Undoes. Undone
// panics if ctx is the context of a handler whose method undoes no other method, or if the answer is not of type M.
func Undone[M proto.Message](ctx context.Context) M {
	a, ok := rpc.UndoneOf(ctx)
	if !ok {
		panic("oncegrpc: Undone: the method of this call is not listed in Config.Undoes, so the call undoes no other call.\nTry: add the method to Config.Undoes.")
	}
	m, err := messageFrom(a)
	if err != nil {
		panic(err.Error())
	}
	message, ok := m.(M)
	if !ok {
		panic(fmt.Sprintf("oncegrpc: Undone: the message has the type %T.\nTry: oncegrpc.Undone[%[1]T](ctx).", m))
	}
	return message
}

// Tx returns the transaction of the call that ctx belongs to. The handler must do its writes in this transaction, which is committed together with
// the key and the answer. Tx panics if ctx has no transaction or a transaction of another type, because without the transaction nothing prevents a
// repetition of the handler's writes.
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

// problemError is an error of the engine. The client receives its status; code in the server can unwrap its cause.
type problemError struct {
	*rpc.Problem

	status *status.Status
}

// GRPCStatus returns the status that gRPC sends for the error.
func (e *problemError) GRPCStatus() *status.Status { return e.status }

// errorOf returns the error to send for a problem. A status that the handler has returned is sent
// unchanged.
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

var errNoMessage = errors.New("oncegrpc: the request or the answer is not a protobuf message. Try: exclude methods with other codecs with Config.Protects")
