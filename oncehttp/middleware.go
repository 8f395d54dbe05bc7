package oncehttp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/wire"
	"github.com/oncelib/once/store"
)

// Middleware protects handlers of the ordinary shape, which get their transaction from
// [Tx]. Methods that are not keyed pass straight through, without a transaction.
//
// Inside of itself, or of a [Handler] or [BatchHandler] of the same engine, it does nothing:
// what is served with the context of a request that is being executed is part of that
// operation. Its own Config then has no effect, so it panics at the first request if that is
// not the same as the one outside. All of this goes for requests that a handler makes in its
// own process, too, whatever their key and route: one that is to be an operation of its own
// needs a context of its own, and must not be waited for inside of the handler.
//
// It panics if cfg is invalid.
func Middleware[TX any](e *once.Engine[TX], cfg Config) func(http.Handler) http.Handler {
	p := compile(cfg, e.Retain())
	return func(next http.Handler) http.Handler {
		return &server[TX]{engine: e, plan: p, next: next}
	}
}

// Handler is [Middleware] for a handler that takes its transaction as an argument. It
// has one for every method: where no key is asked for, the answer is held back until
// the commit all the same, and a retry executes again.
func Handler[TX any](e *once.Engine[TX], cfg Config, h func(w http.ResponseWriter, r *http.Request, tx TX)) http.Handler {
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h(w, r, Tx[TX](r.Context())) })
	return &server[TX]{engine: e, plan: compile(cfg, e.Retain()), next: next, always: true}
}

// server is a protected handler.
type server[TX any] struct {
	engine *once.Engine[TX]
	plan   *plan
	next   http.Handler
	always bool // methods that are not keyed get a transaction as well
	batch  bool // the handler gets a [once.Batch] in place of it
}

// ServeHTTP implements [http.Handler].
func (s *server[TX]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, inside := s.engine.Tx(r.Context())
	if _, batch := s.engine.Batch(r.Context()); inside || batch {
		s.nested(r, batch)
		s.next.ServeHTTP(w, r) // a second claim of the same key would wait for the first, which waits for it
		return
	}
	x := &exchange{engine: s.engine, plan: s.plan, w: w, r: r, next: s.next, keyed: s.plan.keyed(r.Method)}
	if !x.keyed && !s.always {
		if s.plan.keySent(r) && s.plan.preset.StatusHeader != "" {
			w.Header()[s.plan.preset.StatusHeader] = []string{wire.StatusIgnored}
		}
		s.next.ServeHTTP(w, r)
		return
	}
	if s.plan.Gate != nil {
		x.lookUp = replay{cached: s.engine.Cached, known: s.engine.Known}
		defer x.leave()
	}
	op, prob := x.operation()
	if prob != nil {
		x.refuse(*prob)
		return
	}
	ctx := r.Context()
	if !x.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, x.deadline)
		defer cancel()
	}
	rec, again, err := s.exec(ctx, op, x)
	if s.plan.preset.Body == nil { // a function that may have kept it
		recycle(x.body)
	}
	switch {
	case err == nil && again:
		x.replay(&rec.Result)
	case err == nil && op.Key != "":
		x.send(x.last.kept)
	case err == nil:
		x.send(wire.StatusIgnored)
	case x.last != nil && x.last.forgotten() && once.CodeOf(err) == once.CodeFailed:
		status := wire.StatusNotStored
		if op.Key == "" {
			status = wire.StatusIgnored
		}
		x.send(status)
	default:
		x.refuse(x.problemOf(err))
	}
}

func (s *server[TX]) exec(ctx context.Context, op once.Operation, x *exchange) (store.Record, bool, error) {
	if s.batch {
		return s.engine.ExecBatch(ctx, op, func(ctx context.Context, b *once.Batch) (once.Answer, error) { return x.execute(ctx, b) })
	}
	return s.engine.Exec(ctx, op, func(ctx context.Context, tx TX) (once.Answer, error) { return x.execute(ctx, tx) })
}

// exchange is one request on its way through.
type exchange struct {
	engine any
	plan   *plan
	w      http.ResponseWriter
	r      *http.Request
	next   http.Handler
	keyed  bool
	key    string
	body   []byte
	last   *run // of the handler

	unfit *refusal // why the request cannot be compared

	deadline time.Time // until when the client waits; zero: not said

	lookUp replay // of the engine, without an operation
	left   func() // leaves Config.Gate
}

// operation reads the request. The order matters: who asks comes first, and what can
// be refused without its body is.
func (x *exchange) operation() (op once.Operation, prob *Problem) {
	refuse := func(code string) (once.Operation, *Problem) {
		p := x.plan.problem(code)
		return op, &p
	}
	malformed := func(err error) (once.Operation, *Problem) {
		p := x.plan.problem(CodeKeyInvalid)
		p.Detail = err.Error()
		var k *wire.KeyError
		p.SafeNewKey = errors.As(err, &k) && !k.MayBeUsed
		return op, &p
	}
	p, r, principal := x.plan, x.r, ""
	if x.keyed {
		if principal = p.Principal(r); principal == "" {
			return refuse(CodeUnauthenticated)
		}
		if p.Key == nil {
			var err error
			if x.key, err = p.headerKey(r); err != nil {
				return malformed(err)
			}
			if x.key == "" && p.FormField == "" && !p.Optional {
				return refuse(CodeKeyMissing)
			}
		}
	}
	if prob := x.begin(principal); prob != nil {
		return op, prob
	}
	if r.MultipartForm != nil { // its files are not compared: another file could pass for a retry
		return x.cannotCompare(errParsed), nil
	}
	body, fits, err := readBody(r, p.MaxRequest)
	switch {
	case fits && x.compares() && consumed(r, body, err):
		return x.cannotCompare(errConsumed), nil
	case fits && err != nil:
		return refuse(CodeBodyUnreadable)
	case !fits:
		_, prob := refuse(CodeBodyTooLarge)
		prob.Detail = fmt.Sprintf("At most %d bytes are accepted.", p.MaxRequest)
		return op, prob
	}
	x.body = body
	if x.keyed {
		if x.key, err = p.bodyKey(r, body, x.key); err != nil {
			return malformed(err)
		}
	}
	op.Caller, op.Isolation, op.Timeouts = callerOf(r), p.Isolation, p.Timeouts
	switch {
	case x.key != "":
	case x.keyed && !p.Optional:
		_, prob := refuse(CodeKeyMissing)
		prob.SafeNewKey = !p.keyUnread(r, body)
		return op, prob
	default:
		return op, nil // a plain transaction
	}
	var ok bool
	if op.FirstSent, ok = wire.FirstSentOrKeyTime(r.Header[wire.FirstSentHeader], x.key, p.KeyTime); !ok {
		return refuse(CodeFirstSentInvalid)
	}
	route := p.routeOf(r)
	op.Scope, op.Key = wire.Scope(principal, route), x.key
	op.Fingerprint = x.fingerprint(route)
	op.Wait, op.Retain, op.First = p.Wait, p.Retain, op.Caller.Attempt == 1
	op.Bytes = int64(len(body))
	if p.CaptureRequest {
		op.Request = captured(r, body)
	}
	return op, nil
}

// cannotCompare makes a request one of no operation: the engine's observer is told why, and
// nothing else is done.
func (x *exchange) cannotCompare(why *refusal) once.Operation {
	x.unfit, x.key = why, ""
	return once.Operation{Caller: callerOf(x.r)}
}

// compares reports whether the body matters: there is a key, or it may be in there.
func (x *exchange) compares() bool {
	return x.keyed && (x.key != "" || x.plan.FormField != "" || x.plan.Key != nil)
}

// execute runs the handler, on a request and a recorder that no earlier run has seen.
func (x *exchange) execute(ctx context.Context, tx any) (once.Answer, error) {
	if x.unfit != nil {
		return once.Answer{}, x.unfit
	}
	last := &run{Context: ctx, engine: x.engine, key: x.key, tx: tx}
	x.last = last
	before := x.w.Header()
	last.recorder.plan, last.recorder.header = x.plan, before
	if len(before) > 0 {
		last.recorder.header, last.recorder.outer = maps.Clone(before), before["Content-Encoding"]
	} else {
		defer clear(before) // lent: the recorder has noted what was in it
	}
	r := x.r.WithContext(last)
	if last.body.rest = x.body; len(x.body) > 0 {
		r.Body, r.ContentLength = &last.body, int64(len(x.body))
	} else {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	x.next.ServeHTTP(&last.recorder, r)
	last.body.end()
	if r.MultipartForm != nil && x.r.MultipartForm == nil {
		_ = r.MultipartForm.RemoveAll() // the server cleans up after its own request only
	}
	return last.answer()
}

// answer turns what the handler has done into what the engine is to store.
func (r *run) answer() (once.Answer, error) {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	rec := &r.recorder
	if r.failed != nil {
		return once.Answer{}, r.failed
	}
	rec.finish()
	if rec.refused != nil {
		return once.Answer{}, rec.refused
	}
	if !r.decided {
		r.verdict = rec.plan.verdicts[rec.status]
	}
	if r.verdict == Forget {
		return once.Answer{}, &forgottenError{rec.status}
	}
	r.kept = wire.StatusStored
	a := once.Answer{Rollback: r.verdict == Store}
	if a.Result = (store.Result{Status: rec.status, Header: rec.kept, Body: rec.body[:len(rec.body):len(rec.body)]}); rec.size() > rec.plan.MaxStored {
		r.kept = wire.StatusOmitted
		a.Result = store.Result{Kind: store.Omitted, Status: rec.status}
	}
	return a, nil
}
