package onceconnect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/internal/rpc"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/store"
)

// Config says how the calls of a handler are protected. Only Principal must be set.
type Config struct {
	// Principal returns the caller of a call: the tenant or account that was authenticated before the call reached this interceptor. Each principal
	// has its own keys: if two principals use the same key, the key belongs to two different operations. If Principal returns "", the call is
	// answered with the code unauthenticated. If Principal is nil, NewInterceptor panics. For an API that has only one caller, write
	// [SharedPrincipal]().
	//
	// An interceptor does not see the path of a request. If one service is mounted under several prefixes with http.StripPrefix, such as /test and
	// /live, make the prefix part of the principal. If the principal does not contain the prefix, a call under one prefix can get the stored
	// answer of a call under another prefix with the same key.
	Principal func(context.Context, connect.AnyRequest) string

	// Protects reports whether calls of a method are protected. A call that is not protected is passed to its handler without a transaction.
	// Default: see the section "Which calls" of the package documentation.
	Protects func(connect.Spec) bool

	// Optional accepts calls without a key. A call without a key also runs in a transaction, but a retry of this call is executed again, and the
	// answer has the header "Idempotency-Status: ignored". Default: a call without a key is answered with the code invalid_argument.
	Optional bool

	// Wait is how long a duplicate waits while another call with the same key is in flight, before the duplicate receives the code aborted. A waiting
	// call holds no database connection. Default: 0, the duplicate receives the code aborted at once.
	Wait time.Duration

	// Retain is how long answers are kept and replayed. Default: the engine's Config.Retain.
	Retain time.Duration

	// KeyTime says that keys contain the time of the first attempt. If a call has no header Once-First-Sent, and its key is a UUID of version 7, the
	// time in the key counts as the time of the first attempt: see [once.Attempt]. If KeyTime is set, clients must make a key when they send the
	// first attempt, and not long before. Default: no time is read from keys.
	KeyTime bool

	// Undoes lists the methods that undo other methods. Each key of the map is an undoing method, and the value is the undone method, such as
	// "/bank.v1.Bank/TakeBack": "/bank.v1.Bank/Deposit". The section Undo of the package documentation explains undoing methods. Default: nil, no
	// method undoes another method.
	Undoes map[string]string

	// MaxStored is the size in bytes of the largest answer that is stored. If an answer is larger than MaxStored, the handler's writes are
	// committed, and the answer is sent only once; a retry receives RESULT_UNAVAILABLE and is never executed. Default: 1 MiB.
	MaxStored int64

	// Quota limits the bytes that are stored for each principal. If a principal has reached its limit, a new call of the principal is answered
	// with the code resource_exhausted and not executed. Default: nil, no limit.
	Quota *limit.Quota

	// Isolation is the isolation level of the transactions. Default: the default of the database.
	Isolation store.Isolation

	// Timeouts are the time limits of the transactions. Each time limit that is set replaces the same time limit in the
	// engine's Config.Timeouts.
	Timeouts store.Timeouts
}

// SharedPrincipal returns a Config.Principal that gives every call the same principal. Use SharedPrincipal only if the API has one client, or if all
// clients trust each other: with SharedPrincipal, every client that knows a key gets the answer that is stored for this key.
func SharedPrincipal() func(context.Context, connect.AnyRequest) string {
	return func(context.Context, connect.AnyRequest) string { return "global" }
}

// NewInterceptor returns an interceptor that protects the unary RPCs of a handler. NewInterceptor panics if cfg.Principal is nil. If the interceptor
// of a handler is added to a client, the interceptor does nothing. If two interceptors with the same engine and the same Config are nested, the
// inner interceptor does nothing. If two nested interceptors with the same engine have different Configs, the inner interceptor refuses each call
// with the code internal and executes nothing, because its Config would have no effect.
func NewInterceptor[TX any](e *once.Engine[TX], cfg Config) connect.Interceptor {
	if cfg.Principal == nil {
		panic("onceconnect: Config.Principal is not set, so all callers would share their keys and answers.\n" +
			"Try: a function that returns the authenticated account, or onceconnect.SharedPrincipal() if there is only one account.")
	}
	if err := rpc.CheckUndoes(e, cfg.Undoes); err != nil {
		panic("onceconnect: " + err.Error())
	}
	if cfg.Protects == nil {
		cfg.Protects = hasSideEffects
	}
	s := &rpc.Server[TX]{
		Engine: e, Optional: cfg.Optional, Wait: cfg.Wait, Retain: cfg.Retain, KeyTime: cfg.KeyTime, MaxStored: cfg.MaxStored,
		Isolation: cfg.Isolation, Timeouts: cfg.Timeouts, Quota: cfg.Quota, Undoes: cfg.Undoes, Config: &cfg,
	}
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			spec := req.Spec()
			if spec.IsClient || cfg.Undoes[spec.Procedure] == "" && !cfg.Protects(spec) {
				return next(ctx, req)
			}
			switch inside, err := s.Nested(ctx, "onceconnect"); {
			case err != nil:
				return nil, connect.NewError(connect.CodeInternal, err)
			case inside:
				return next(ctx, req)
			}
			asked, err := marshal(req.Any())
			if err != nil {
				return nil, connect.NewError(connect.CodeInternal, err)
			}
			c := rpc.Call{Principal: cfg.Principal(ctx, req), Method: spec.Procedure, Message: asked, Header: req.Header().Values}
			if cfg.Undoes[spec.Procedure] != "" {
				c.Output = outputOf(spec.Procedure)
			}
			return serve(ctx, s, c, req, next)
		}
	})
}

func hasSideEffects(s connect.Spec) bool { return !rpc.Own(s.Procedure) && !harmless(s) }

func harmless(s connect.Spec) bool { return s.IdempotencyLevel != connect.IdempotencyUnknown }

// Undone returns the answer of the undone call. The parameter ctx is the context of the handler of an undoing method: see Config.Undoes. Undone
// panics if ctx is the context of a handler whose method undoes no other method, or if the answer is not of type M.
func Undone[M proto.Message](ctx context.Context) M {
	a, ok := rpc.UndoneOf(ctx)
	if !ok {
		panic("onceconnect: Undone: the method of this call is not listed in Config.Undoes, so the call undoes no other call.\nTry: add the method to Config.Undoes.")
	}
	m, err := messageFrom(a)
	if err != nil {
		panic(err.Error())
	}
	message, ok := m.(M)
	if !ok {
		panic(fmt.Sprintf("onceconnect: Undone: the message has the type %T.\nTry: onceconnect.Undone[%[1]T](ctx).", m))
	}
	return message
}

// Tx returns the transaction of the call that ctx belongs to. The handler must do its writes in this transaction, which is committed together with
// the key and the answer. Tx panics if ctx has no transaction or a transaction of another type, because without the transaction nothing prevents a
// repetition of the handler's writes.
func Tx[TX any](ctx context.Context) TX { return rpc.Tx[TX](ctx, "onceconnect") }

func serve[TX any](ctx context.Context, s *rpc.Server[TX], c rpc.Call, req connect.AnyRequest, next connect.UnaryFunc) (connect.AnyResponse, error) {
	var (
		last    connect.AnyResponse
		refused error
		runs    int
	)
	answer, outcome, problem := s.Serve(ctx, c, func(ctx context.Context, _ TX) (a rpc.Answer, err error) {
		if runs++; runs > 1 {
			if err := renew(ctx, req, c.Message); err != nil {
				return a, err
			}
		}
		last, refused = next(ctx, req)
		if refused == nil {
			return messageOf(last.Any())
		}
		var final *connect.Error
		if !errors.As(refused, &final) || !rpc.Code(final.Code()).Final() {
			return a, refused
		}
		return rpc.Answer{Status: statusOf(final)}, nil
	})
	if problem != nil {
		return nil, errorOf(problem)
	}
	says := cmp.Or(answer.Says, outcome)
	if (outcome == wire.StatusReplayed || outcome == wire.StatusNothing) && answer.Status == nil {
		m, err := messageFrom(answer)
		if err != nil {
			return nil, connect.NewError(connect.CodeInternal, err)
		}
		last = replay(m)
	}
	if answer.Status != nil { // also when the call is executed, because the handler may return the same error value to many callers
		err := errorFrom(answer.Status, refused)
		addOutcome(err.Meta(), outcome, says, s.Retention())
		return nil, err
	}
	addOutcome(last.Header(), outcome, says, s.Retention())
	return last, nil
}

// renew prepares another run of the handler. It restores the request and clears the headers and trailers of the answer, which
// the earlier run may have changed.
func renew(ctx context.Context, req connect.AnyRequest, asked []byte) error {
	if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
		clear(info.ResponseHeader())
		clear(info.ResponseTrailer())
	}
	return proto.Unmarshal(asked, req.Any().(proto.Message)) //nolint:forcetypeassert // it was marshalled
}

// addOutcome sets the headers that tell the outcome of the call.
func addOutcome(h http.Header, outcome, says, retention string) {
	h.Del(rpc.ReplayedHeader)
	h.Del(rpc.RetentionHeader)
	h.Set(rpc.StatusHeader, says)
	if outcome == wire.StatusReplayed {
		h.Set(rpc.ReplayedHeader, "true")
	}
	if outcome != wire.StatusIgnored && outcome != wire.StatusNothing {
		h.Set(rpc.RetentionHeader, retention)
	}
}

// errorOf returns the error to send for a problem. An error that the handler has made for its client is sent
// unchanged.
func errorOf(p *rpc.Problem) error {
	if own := (*connect.Error)(nil); p.Handler && errors.As(p.Cause, &own) {
		return p.Cause
	}
	err := connect.NewError(connect.Code(p.Code), p)
	add := func(m proto.Message) {
		if d, failed := connect.NewErrorDetail(m); failed == nil {
			err.AddDetail(d)
		}
	}
	add(&errdetails.ErrorInfo{Reason: p.Reason, Domain: rpc.Domain, Metadata: p.Metadata()})
	if p.After > 0 {
		add(&errdetails.RetryInfo{RetryDelay: durationpb.New(p.After)})
	}
	return err
}
