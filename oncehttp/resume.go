package oncehttp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/wire"
)

// Resume returns a function that finishes operations of a route after the process that executed them has died. Put the function into the Handlers of
// a lease.Completer, under the pattern of the route. e, cfg and h are the same as for [Handler]:
//
//	mux.Handle("POST /orders", authenticate(oncehttp.Handler(engine, cfg, order)))
//	completer := lease.Completer{Store: leases, Encrypter: encrypter, Handlers: lease.Handlers{
//		"POST /orders": oncehttp.Resume(engine, cfg, order),
//	}}
//
// The handler gets the captured request (Config.CaptureRequest), which has no credentials. For a resumed request neither Config.Principal nor
// middleware around the route is called. The principal of a resumed request is taken from the scope of the operation. So a handler that may be
// resumed must call the function [Principal], and must not use values that authentication puts into the context. The answer of the handler is stored,
// and the client's retry gets the stored answer.
//
// The scope of the operation contains the pattern of the route. Resume sets [http.Request.Pattern] and the values of [http.Request.PathValue] from
// the pattern of the route. If Config.Route is set, or if the pattern is not a pattern of [http.ServeMux], the resumed request has no pattern. If the
// resumed request has no pattern, the handler h should pass the request to a router. If several routes have the same name, as with a router inside of
// the middleware, use the type [Routes].
//
// Resume panics if cfg is invalid or does not set CaptureRequest, or if the engine does not come from package lease, has no Encrypter, or hashes its
// keys.
func Resume[TX any](e *once.Engine[TX], cfg Config, h func(w http.ResponseWriter, r *http.Request, tx TX)) func(context.Context, once.Operation) error {
	p := compile(cfg, e.Config().Retain)
	switch engine := e.Config(); {
	case !isLeased(e):
		panic("oncehttp: Resume: the store of the engine is not a store of package lease, so no unfinished work is stored.\nTry: lease.New as the store of the engine.")
	case engine.Encrypter == nil:
		panic("oncehttp: Resume: the engine does not store requests, because it has no Encrypter.\nTry: Config.Encrypter of the engine.")
	case engine.HashKeys:
		panic("oncehttp: Resume: the engine stores only hashes of the keys.\nTry: an engine without HashKeys.")
	}
	if !cfg.CaptureRequest {
		panic("oncehttp: Resume: Config.CaptureRequest is not set, so the requests of the route are not stored.\nTry: set CaptureRequest for the route and for Resume.")
	}
	next := &withTx{func(w http.ResponseWriter, r *http.Request) { h(w, r, Tx[TX](r.Context())) }}
	return func(ctx context.Context, op once.Operation) error {
		x, err := p.restore(op, next)
		if err != nil {
			return fmt.Errorf("oncehttp: Resume cannot resume an operation in scope %q: %w", op.Scope, err)
		}
		x.engine = e
		_, _, err = e.Exec(ctx, x.resumed(op), func(ctx context.Context, tx TX) (once.Answer, error) { return x.execute(ctx, tx) })
		return err
	}
}

// Routes resumes operations of several routes that have the same [once.Operation].Name. With a router inside of the middleware, the name of an
// operation is only its HTTP method, and only the scope of the operation contains the route. The keys of the map are the names of the routes, as the
// scopes of the operations contain them: the results of Config.Route, or by default the method and the pattern or path. The values of the map are
// results of the function [Resume].
//
//	lease.Handlers{"POST": oncehttp.Routes{
//		"orders":  oncehttp.Resume(engine, cfg, order),
//		"refunds": oncehttp.Resume(engine, cfg, refund),
//	}.Resume}
type Routes map[string]func(context.Context, once.Operation) error

// Resume calls the function of the route that the scope of op names. Use the method Resume as a handler of a lease.Completer.
func (routes Routes) Resume(ctx context.Context, op once.Operation) error {
	_, route, _ := wire.ParseScope(op.Scope)
	resume := routes[route]
	if resume == nil {
		return fmt.Errorf("oncehttp: Routes has no entry for the operations of scope %q. Try: an entry for %q", op.Scope, route)
	}
	return resume(ctx, op)
}

// restore returns an exchange without a client, from the captured request.
func (p *plan) restore(op once.Operation, next *withTx) (*Exchange, error) {
	principal, route, ok := wire.ParseScope(op.Scope)
	if !ok {
		return nil, errors.New("the scope does not consist of a principal and a route. Try: a separate function for operations that do not come from a request")
	}
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(op.Request)))
	if err != nil {
		return nil, fmt.Errorf("the stored request cannot be read: %w", err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("the body of the stored request cannot be read: %w", err)
	}
	x := &Exchange{plan: p, w: noClient{}, r: r, next: next, keyed: true, key: op.Key, principal: principal, body: inMemory(body)}
	// Config.Route names routes in its own way, so such a name is not a pattern.
	if p.Route == nil {
		if mux := routed(route, r, next); mux != nil {
			r.Pattern, x.next = route, mux
		}
	}
	// The request must belong to the operation. With another Config its scope would be another one.
	if wire.Scope(principal, p.routeOf(r)) != op.Scope {
		return nil, fmt.Errorf("the stored request belongs to the route %q. Try: the Config of this route; Config.Route for a route behind http.StripPrefix or in another router; a shorter principal if the scope ends with a hash", p.routeOf(r))
	}
	return x, nil
}

// routed returns a router with one pattern, or nil if r does not match the pattern.
func routed(pattern string, r *http.Request, next *withTx) (mux *http.ServeMux) {
	defer func() {
		if recover() != nil { // the text is not a pattern of a ServeMux
			mux = nil
		}
	}()
	mux = http.NewServeMux()
	mux.Handle(pattern, next)
	if h, _ := mux.Handler(r); h != http.Handler(next) { // the router would answer "not found", or would redirect
		return nil
	}
	return mux
}

// resumed sets the fields of the operation that are not stored.
func (x *Exchange) resumed(op once.Operation) once.Operation {
	said := x.plan.described(x.r)
	op.Name = said.Name
	op.Attempt.RequestID, op.Attempt.CorrelationID = said.Attempt.RequestID, said.Attempt.CorrelationID // the stored request has the number of an earlier attempt, so the number is left out
	op.Isolation, op.Timeouts, op.Attempt.Bytes = x.plan.Isolation, x.plan.Timeouts, x.body.size
	if op.Retain == 0 {
		op.Retain = x.plan.Retain
	}
	return op
}

// withTx is a handler type that can be compared with ==.
type withTx struct{ http.HandlerFunc }

// noClient is a ResponseWriter that drops the answer. The answer of the handler is stored, and no client waits for it.
type noClient struct{}

func (noClient) Header() http.Header         { return http.Header{} }
func (noClient) Write(b []byte) (int, error) { return len(b), nil }
func (noClient) WriteHeader(int)             {}
