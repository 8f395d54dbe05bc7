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
)

// exchange is one request on its way through.
type exchange struct {
	engine  any
	plan    *plan
	w       http.ResponseWriter
	r       *http.Request
	next    http.Handler
	keyed   bool
	key     string
	body    []byte
	lastRun *run // of the handler

	principal string // "": not keyed

	incomparable *refusal // why the request cannot be compared

	deadline time.Time // until when the client waits; zero: not said

	replayLookUp replay // of the engine, without an operation
	leaveGate    func() // nil: no gate was entered
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
	p, r := x.plan, x.r
	if x.keyed {
		if x.principal = p.Principal(r); x.principal == "" {
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
	if prob := x.admit(); prob != nil {
		return op, prob
	}
	if r.MultipartForm != nil { // its files are not compared: another file could pass for a retry
		return x.cannotCompare(errParsed), nil
	}
	body, fits, err := readBody(r, p.MaxRequest)
	switch {
	case fits && x.comparesBody() && bodyWasRead(r, body, err):
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
	op = described(r)
	op.Isolation, op.Timeouts = p.Isolation, p.Timeouts
	switch {
	case x.key != "":
	case x.keyed && !p.Optional:
		_, prob := refuse(CodeKeyMissing)
		prob.SafeNewKey = !p.keyMayBeInForm(r, body)
		return op, prob
	default:
		return op, nil // a plain transaction
	}
	var ok bool
	if op.FirstSent, ok = wire.FirstSentOrKeyTime(r.Header[wire.FirstSentHeader], x.key, p.KeyTime); !ok {
		return refuse(CodeFirstSentInvalid)
	}
	route := p.routeOf(r)
	op.Scope, op.Key = wire.Scope(x.principal, route), x.key
	op.Fingerprint = x.fingerprint(route)
	op.Wait, op.Retain, op.First = p.Wait, p.Retain, op.Caller.Attempt == 1
	op.Bytes = int64(len(body))
	if p.CaptureRequest {
		op.Request = captured(r, body)
	}
	return op, nil
}

// admit notes how long the client waits and asks the gate. Of the operation the scope
// and the key are known, not the body.
func (x *exchange) admit() (refused *Problem) {
	d, ok := wire.Timeout(x.r.Header)
	if !ok {
		p := x.plan.problem(CodeTimeoutInvalid)
		return &p
	}
	if d > 0 {
		x.deadline = time.Now().Add(d)
	}
	if x.plan.Gate == nil {
		return nil
	}
	var lookUp Replay // nil: the request is no retry, or cannot be looked up
	if x.key != "" && wire.Attempt(x.r.Header[wire.AttemptHeader]) != 1 {
		own := x.replayLookUp
		own.op = once.Operation{Scope: wire.Scope(x.principal, x.plan.routeOf(x.r)), Key: x.key}
		lookUp = &own
	}
	x.leaveGate, refused = x.plan.Gate.Enter(x.r, lookUp)
	return refused
}

func (x *exchange) leave() {
	if x.leaveGate != nil {
		x.leaveGate()
	}
}

// cannotCompare makes a request one of no operation: the engine's observer is told why, and
// nothing else is done.
func (x *exchange) cannotCompare(why *refusal) once.Operation {
	x.incomparable, x.key = why, ""
	return described(x.r)
}

// comparesBody reports whether the body matters: there is a key, or it may be in there.
func (x *exchange) comparesBody() bool {
	return x.keyed && (x.key != "" || x.plan.FormField != "" || x.plan.Key != nil)
}

// execute runs the handler, on a request and a recorder that no earlier run has seen.
func (x *exchange) execute(ctx context.Context, tx any) (once.Answer, error) {
	if x.incomparable != nil {
		return once.Answer{}, x.incomparable
	}
	last := &run{Context: ctx, engine: x.engine, key: x.key, principal: x.principal, tx: tx}
	x.lastRun = last
	before := x.w.Header()
	last.recorder.plan, last.recorder.header = x.plan, before
	if len(before) > 0 {
		last.outer, last.recorder.header, last.recorder.outerEncoding = before, maps.Clone(before), before["Content-Encoding"]
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
