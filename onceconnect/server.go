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
	// Principal returns the caller: the tenant or account that authentication, which comes
	// before this interceptor, has established. Keys of different principals never meet.
	// "" is answered with unauthenticated. nil is a panic at start-up; where there is
	// really only one caller, write [SharedPrincipal]().
	//
	// An interceptor does not see the path of a request. Where one service is mounted under
	// several prefixes with http.StripPrefix, such as /test and /live, the prefix must be
	// part of the principal: otherwise one call answers for both.
	Principal func(context.Context, connect.AnyRequest) string

	// Protects chooses the calls. Others pass straight through, without a transaction.
	// Default: see the package.
	Protects func(connect.Spec) bool

	// Optional lets calls without a key through. They run in a transaction as well, but a
	// retry of them executes again, and the answer says "Idempotency-Status: ignored".
	// Default: invalid_argument.
	Optional bool

	// Wait is how long a duplicate waits for the call in flight before it receives aborted.
	// A waiting call holds no connection of the database. Default: aborted at once.
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

	// Quota bounds what each principal has stored. A new call beyond it is answered with resource_exhausted, and is not executed.
	// Default: nothing does.
	Quota *limit.Quota

	// Isolation of the transactions. Default: the database's.
	Isolation store.Isolation

	// Timeouts of the transactions, which take precedence over the engine's.
	Timeouts store.Timeouts
}

// SharedPrincipal returns a principal for an API that has only one, or whose clients all trust
// each other: a client that knows a key gets the answer that is stored under it.
func SharedPrincipal() func(context.Context, connect.AnyRequest) string {
	return func(context.Context, connect.AnyRequest) string { return "global" }
}

// NewInterceptor protects the unary RPCs of a handler. It panics if cfg has no Principal.
// Inside of itself, and on a client, it does nothing; inside of one with another Config,
// where its own would have no effect, a call is refused with internal and not executed.
func NewInterceptor[TX any](e *once.Engine[TX], cfg Config) connect.Interceptor {
	if cfg.Principal == nil {
		panic("onceconnect: Config.Principal is not set, so that all callers would share their keys and answers.\n" +
			"Try: a function that returns the authenticated account, or onceconnect.SharedPrincipal() if there is only one.")
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

// Undone returns the answer of the call that the call of ctx undoes: see Config.Undoes. It panics if this call undoes nothing, or if the answer is another message.
func Undone[M proto.Message](ctx context.Context) M {
	a, ok := rpc.UndoneOf(ctx)
	if !ok {
		panic("onceconnect: Undone: this call undoes nothing.\nTry: a method of Config.Undoes.")
	}
	m, err := messageFrom(a)
	if err != nil {
		panic(err.Error())
	}
	message, ok := m.(M)
	if !ok {
		panic(fmt.Sprintf("onceconnect: Undone: the message is a %T.\nTry: onceconnect.Undone[%[1]T](ctx).", m))
	}
	return message
}

// Tx returns the transaction in which the handler that ctx belongs to must do its work:
// it commits together with the key and the answer. Tx panics if ctx has no transaction, or one
// of another type: a handler that went on without it would be executed once only by
// luck.
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
	if answer.Status != nil { // of the first time, too: the handler may return one error to many callers
		err := errorFrom(answer.Status, refused)
		addOutcome(err.Meta(), outcome, says, s.Retention())
		return nil, err
	}
	addOutcome(last.Header(), outcome, says, s.Retention())
	return last, nil
}

// renew restores the request, and clears headers and trailers of the answer, after an
// earlier run of the handler may have changed them.
func renew(ctx context.Context, req connect.AnyRequest, asked []byte) error {
	if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
		clear(info.ResponseHeader())
		clear(info.ResponseTrailer())
	}
	return proto.Unmarshal(asked, req.Any().(proto.Message)) //nolint:forcetypeassert // it was marshalled
}

// addOutcome writes the outcome of the call into the header.
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

// errorOf returns the error to send for a problem. An error that the handler has made for its
// client is sent as it is.
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
