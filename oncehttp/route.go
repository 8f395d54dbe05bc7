package oncehttp

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/engine/voided"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/store"
)

// Route is a checked [Config] for one engine. [Middleware] uses a Route, and programs that are not handlers, such as a gateway, can use a Route too.
// Read turns a request into an [Exchange]; the program executes the Operation of the Exchange with the engine, and Finish writes the answer.
//
//	func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
//		x, ok := g.route.Read(w, r)
//		if !ok {
//			return // it was refused, and answered
//		}
//		defer x.Close()
//		ctx, cancel := x.Context()
//		defer cancel()
//		x.Finish(g.engine.Exec(ctx, x.Operation, func(ctx context.Context, tx TX) (once.Answer, error) {
//			answer, err := g.forward(ctx, tx, x)
//			if err != nil {
//				return once.Answer{}, err
//			}
//			return x.Answer(answer.status, answer.header, answer.body)
//		}))
//	}
//
// Several goroutines may use one Route at the same time.
type Route struct {
	plan   *plan
	engine any
	cached func(once.Operation) bool
	isDone func(context.Context, once.Operation) bool
	read   func(context.Context, once.Operation) (store.Record, error)
	refuse func(context.Context, once.Operation, error) // tells the observer of the engine that a request was refused
	void   func(context.Context, once.Operation) (store.Record, error)
}

// NewRoute returns the route of cfg, for requests that e executes. NewRoute panics if cfg is invalid.
func NewRoute[TX any](e *once.Engine[TX], cfg Config) *Route {
	if isLeased(e) && cfg.Undoes != "" {
		panic("oncehttp: Config.Undoes does not work with an engine of package lease: its work has several commits, so one transaction cannot undo it.\nTry: a saga, in which each step has an undo.")
	}
	if cfg.CaptureRequest && e.Config().Encrypter == nil {
		panic("oncehttp: Config.CaptureRequest is set, but the engine does not store requests, because it has no Encrypter.\nTry: Config.Encrypter of the engine.")
	}
	return &Route{
		plan: compile(cfg, e.Config().Retain), engine: e, cached: e.Cached, isDone: e.IsDone, read: e.ReadRecord,
		refuse: func(ctx context.Context, op once.Operation, why error) {
			_, _, _ = e.Exec(ctx, op, func(context.Context, TX) (once.Answer, error) { return once.Answer{}, why }) // the engine executes nothing, and reports the error to its observer
		},
		void: func(ctx context.Context, op once.Operation) (store.Record, error) {
			rec, _, err := e.Exec(ctx, op, func(context.Context, TX) (once.Answer, error) { return once.Answer{Result: voided.Result()}, nil })
			return rec, err
		},
	}
}

// Read reads r up to the end of its body. Read works in the order of [Middleware]: Read first determines the principal, then reads the key, then asks
// the gate, and then reads the body. If ok is false, r was refused and the answer has been written to w. If ok is true, the caller must call x.Close.
//
// If Config.Optional is set, or the method does not carry keys, a request without a key becomes an Operation without a key.
func (rt *Route) Read(w http.ResponseWriter, r *http.Request) (x *Exchange, ok bool) {
	x = &Exchange{route: rt, plan: rt.plan, engine: rt.engine, w: w, r: r, keyed: rt.plan.keyed(r.Method)}
	defer func() {
		if !ok { // also after a panic in a function of Config
			_ = x.Close()
		}
	}()
	op, prob := x.operation()
	switch {
	case prob != nil:
		x.WriteProblem(*prob)
	case x.incomparable != nil:
		ctx, cancel := x.Context()
		defer cancel()
		rt.refuse(ctx, op, x.incomparable)
		x.WriteProblem(rt.plan.problem(x.incomparable.code))
	default:
		if x.Operation = op; rt.plan.Quota != nil {
			if prob := x.overQuota(); prob != nil {
				x.WriteProblem(*prob)
				return x, false
			}
		}
		return x, rt.plan.Undoes == "" || op.Key == "" || x.findUndone()
	}
	return x, false
}

// Config returns the Config of the route with all defaults filled in, including the defaults of the Preset and of the engine. The field Headers of
// the result has all stored headers. The field Preset.WriteProblem of the result is nil if problems are sent as application/problem+json. The caller
// must not change the maps in the result.
func (rt *Route) Config() Config {
	cfg, preset := rt.plan.Config, rt.plan.preset
	preset.Scope, preset.WriteProblem = rt.plan.scope, cfg.Preset.WriteProblem
	cfg.Preset, cfg.Retain, cfg.Headers = &preset, rt.plan.retention, nil
	for _, name := range slices.Sorted(maps.Keys(rt.plan.storedHeaders)) {
		if rt.plan.storedHeaders[name] {
			cfg.Headers = append(cfg.Headers, name)
		}
	}
	return cfg
}

// Problems returns the problems with which requests of the route can be refused, in the dialect of its Preset. The problems are sorted by status, and
// within a status in the order of this package's codes. Problem.RetryAfter is set if an answer with the problem may have the header Retry-After.
func (rt *Route) Problems() []Problem {
	codes := slices.Sorted(maps.Keys(problems))
	list := make([]Problem, 0, len(codes))
	byCode := map[ProblemCode]ProblemCode{} // this package's, by that of the dialect
	add := func(code ProblemCode, p Problem) {
		list = append(list, p)
		byCode[p.Code] = code
	}
	for _, code := range codes {
		if code == ProblemKeyMissing && rt.plan.Optional || code == problemStoredBytes && (rt.plan.Quota == nil || rt.plan.Undoes != "") {
			continue
		}
		p := rt.plan.problem(code)
		switch code {
		case ProblemInFlight, ProblemConflict, ProblemStoreUnavailable, ProblemTimeout, problemStoredBytes:
			p.RetryAfter = time.Second
		}
		add(code, p)
	}
	if rt.plan.Gate != nil {
		for _, r := range limit.Refusals() {
			r.After = time.Second
			add(ProblemCode(r.Code), *rt.plan.refusedBy(&r))
		}
	}
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(byCode[a.Code], byCode[b.Code]))
	})
	return list
}
