package oncehttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/store"
)

// Exchange is one request and its answer. [Route.Read] makes an Exchange. Only one goroutine at a time may use an Exchange.
type Exchange struct {
	// Operation is the operation that the request asks for, as [once.Engine.Exec] takes it. If the request has no key, Operation has no key, and the
	// engine executes the operation as a plain transaction.
	Operation once.Operation

	route   *Route
	engine  any
	plan    *plan
	w       http.ResponseWriter
	r       *http.Request
	next    http.Handler
	keyed   bool
	key     string
	body    content
	sent    *body // the last result of Body
	lastRun *run  // the last run of the handler

	principal string // "" if the method is not keyed

	incomparable *refusal // the reason why the request cannot be compared

	undoes *store.Result // the result of the undone operation, if it was executed

	deadline time.Time // the time until which the client waits; zero if the client has not said it

	leaveGate func() // nil if no gate was entered
}

// operation reads the request, and returns its operation. The order matters: the principal comes first, and checks that need no body come before the
// body.
func (x *Exchange) operation() (op once.Operation, prob *Problem) {
	refuse := func(code ProblemCode) (once.Operation, *Problem) {
		p := x.plan.problem(code)
		return op, &p
	}
	malformed := func(err error) (once.Operation, *Problem) {
		p := x.plan.problem(ProblemKeyInvalid)
		p.Detail = err.Error()
		var k *wire.KeyError
		p.SafeNewKey = errors.As(err, &k) && !k.MayBeUsed
		return op, &p
	}
	p, r := x.plan, x.r
	if x.keyed {
		if x.principal = p.Principal(r); x.principal == "" {
			return refuse(ProblemUnauthenticated)
		}
		// Config.Key may need the body, which is read later.
		if p.Key == nil {
			var err error
			if x.key, err = p.headerKey(r); err != nil {
				return malformed(err)
			}
			if x.key == "" && p.FormField == "" && !p.Optional {
				return refuse(ProblemKeyMissing)
			}
		}
	}
	if prob := x.admit(); prob != nil {
		return op, prob
	}
	if r.MultipartForm != nil { // the files of a parsed form cannot be compared: a request with another file could count as a retry
		return x.cannotCompare(errParsed), nil
	}
	// The body is read after the gate, so that a refused request costs no memory for its body.
	body, fits, err := readBody(r, p.MaxRequest, p.MaxMemory)
	x.body = body
	var unwritten *spoolError
	switch {
	case errors.As(err, &unwritten):
		return x.cannotCompare(&refusal{ProblemStoreUnavailable, unwritten.Error()}), nil
	// An empty body would make another request look like a retry.
	case fits && x.comparesBody() && bodyWasRead(r, body.size, err):
		return x.cannotCompare(errConsumed), nil
	case fits && err != nil:
		return refuse(ProblemBodyUnreadable)
	case !fits:
		_, prob := refuse(ProblemBodyTooLarge)
		prob.Detail = fmt.Sprintf("At most %d bytes are accepted.", p.MaxRequest)
		return op, prob
	}
	if x.keyed {
		x.key, err = p.bodyKey(r, &x.body, x.key)
	}
	if err != nil {
		return malformed(err)
	}
	op = p.described(r)
	op.Isolation, op.Timeouts = p.Isolation, p.Timeouts
	switch {
	case x.key != "":
	case x.keyed && !p.Optional:
		_, prob := refuse(ProblemKeyMissing)
		// The key may be in a part of the form that cannot be read.
		prob.SafeNewKey = !p.keyMayBeInForm(r, body.memory)
		return op, prob
	default:
		return op, nil // a request without a key is a plain transaction
	}
	var ok bool
	if op.Attempt.FirstSent, ok = wire.FirstSentOrKeyTime(r.Header[wire.FirstSentHeader], x.key, p.KeyTime); !ok {
		return refuse(problemFirstSentInvalid)
	}
	route := p.routeOf(r)
	op.Scope, op.Key = x.names(route)
	if op.Fingerprint, err = x.fingerprint(route); err != nil {
		return x.cannotCompare(&refusal{ProblemStoreUnavailable, (&spoolError{err}).Error()}), nil
	}
	op.Wait, op.Retain, op.Optimistic = p.Wait, p.Retain, p.Optimistic
	op.Attempt.Bytes = body.size // also if the body is in a file, because a waiting request occupies space on the disk
	if p.CaptureRequest {
		op.Request = captured(r, body.memory)
	}
	return op, nil
}

// admit sets the time until which the client waits, and asks the gate. At this point the scope and the key of the operation are known, unless the key
// is in the body.
func (x *Exchange) admit() (refused *Problem) {
	d, ok := wire.Timeout(x.r.Header)
	if !ok {
		p := x.plan.problem(problemTimeoutInvalid)
		return &p
	}
	if d > 0 {
		x.deadline = time.Now().Add(d)
	}
	if x.plan.Gate == nil {
		return nil
	}
	var lookUp limit.Replay // nil if the request is not a retry, or cannot be looked up
	// A first attempt cannot have a record, so the gate need not look it up.
	if x.key != "" && wire.Attempt(x.r.Header[wire.AttemptHeader]) != 1 {
		var op once.Operation
		op.Scope, op.Key = x.names(x.plan.routeOf(x.r))
		lookUp = &replay{cached: x.route.cached, isDone: x.route.isDone, op: op}
	}
	leave, shed := x.plan.Gate.Enter(x.r, lookUp)
	if shed != nil {
		return x.plan.refusedBy(shed)
	}
	x.leaveGate = leave
	return nil
}

// cannotCompare returns an operation without a key. The engine does not execute it, and only tells its observer the reason.
func (x *Exchange) cannotCompare(why *refusal) once.Operation {
	x.incomparable, x.key = why, ""
	return x.plan.described(x.r)
}

// comparesBody reports whether the body must be comparable, because the request has a key or its key may be in the body.
func (x *Exchange) comparesBody() bool {
	return x.keyed && (x.key != "" || x.plan.FormField != "" || x.plan.Key != nil)
}

// execute runs the handler with a new request and a new recorder.
func (x *Exchange) execute(ctx context.Context, tx any) (once.Answer, error) {
	// Each run has its own recorder, because an abandoned handler of an earlier run may still write to its recorder.
	last := &run{Context: ctx, engine: x.engine, key: x.ownKey(), principal: x.principal, tx: tx}
	x.lastRun = last
	before := x.w.Header()
	last.recorder.plan, last.recorder.header = x.plan, before
	if len(before) > 0 {
		last.outer, last.recorder.header, last.recorder.outerEncoding = before, maps.Clone(before), before["Content-Encoding"]
	} else {
		defer clear(before) // the handler writes into this header; afterwards the recorder has copies of its lines
	}
	r := x.r.WithContext(last)
	if x.body.open(&last.body); x.body.size > 0 {
		r.Body, r.ContentLength = &last.body, x.body.size
	} else {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	if x.undoes != nil {
		r.Response = responseOf(x.undoes) //nolint:bodyclose // the body is in memory, so it need not be closed
	}
	x.next.ServeHTTP(&last.recorder, r)
	if x.undoes != nil && last.recorder.status == 0 {
		// An undo that writes no answer has succeeded.
		last.recorder.WriteHeader(http.StatusNoContent)
	}
	// After the handler, the buffer of the body may belong to another request.
	last.body.end()
	if r.MultipartForm != nil && x.r.MultipartForm == nil {
		_ = r.MultipartForm.RemoveAll() // the server removes only the files of its own request, and the handler had a copy
	}
	return last.answer()
}

// captured returns r as the client has sent it, with its body and without credentials, in the form that [http.ReadRequest] reads.
func captured(r *http.Request, body []byte) []byte {
	target := r.RequestURI
	// A request that was made in this process may have no request URI, or an absolute one.
	if !strings.HasPrefix(target, "/") {
		target = r.URL.RequestURI()
	}
	var b bytes.Buffer
	b.WriteString(r.Method + " " + target + " HTTP/1.1\r\nHost: " + r.Host + "\r\n")
	_ = r.Header.WriteSubset(&b, notCaptured) // a write to a bytes.Buffer never fails
	// The captured body is complete, even if the client has sent it in chunks.
	b.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n")
	b.Write(body)
	return b.Bytes()
}

var notCaptured = map[string]bool{
	"Authorization": true, "Proxy-Authorization": true, "Cookie": true,
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Te": true, "Trailer": true, "Upgrade": true,
	"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Expect": true,
}
