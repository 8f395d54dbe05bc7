package oncehttp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
)

// refusal is why a request cannot be executed, or its answer not held back until the commit.
type refusal struct{ code, text string }

func (e *refusal) Error() string { return "oncehttp: " + e.text }

var (
	errTooLarge = &refusal{CodeResponseTooLarge, "the answer is larger than Config.MaxResponse"}
	errParsed   = &refusal{CodeFormParsed, "a multipart body was parsed before the middleware has seen it.\nTry: put what parses forms inside of the middleware"}
	errConsumed = &refusal{CodeBodyConsumed, "the body was read or closed before the middleware has seen it, and another one could pass for a retry.\nTry: put what reads bodies inside of the middleware, or let it put back what it has read (r.Body = io.NopCloser(bytes.NewReader(body)))"}
	errStreamed = &refusal{CodeStreaming, "a protected handler cannot stream: its answer is held back until the commit"}
)

// refuse answers for the handler.
func (x *exchange) refuse(p Problem) {
	if name := x.plan.preset.KeyHeader; name != "" && x.key != "" {
		x.w.Header()[name] = []string{x.key}
	}
	if name := x.plan.preset.RetryHeader; name != "" {
		x.w.Header()[name] = []string{strconv.FormatBool(p.Retryable)}
	}
	if _, set := x.w.Header()["Www-Authenticate"]; p.Code == CodeUnauthenticated && !set {
		x.w.Header()["Www-Authenticate"] = []string{x.plan.Challenge}
	}
	x.plan.preset.WriteProblem(x.w, p)
}

// operationProblem is the problem of a code that is about an operation that exists.
func (x *exchange) operationProblem(code string) Problem {
	p := x.plan.problem(code)
	if x.plan.StatusURL != nil && x.key != "" {
		if url := x.plan.StatusURL(x.r, x.key); url != "" {
			p.Extra = map[string]any{"status_url": url}
		}
	}
	return p
}

// problemOf says what a client may know about an error of the engine: never its cause.
func (x *exchange) problemOf(err error) Problem {
	var e *once.Error
	if !errors.As(err, &e) {
		return x.plan.problem(CodeHandlerFailed)
	}
	var p Problem
	switch e.Code {
	case once.CodeInFlight:
		p = x.operationProblem(CodeInFlight)
	case once.CodeUnknown:
		p = x.operationProblem(CodeUnknown)
	case once.CodeNoResult:
		p = x.operationProblem(CodeResultUnavailable)
	case once.CodeMismatch:
		p = x.plan.problem(CodeMismatch)
	case once.CodeStale:
		p = x.plan.problem(CodeStale)
	case once.CodeConflict:
		p = x.plan.problem(CodeConflict)
	case once.CodeUnavailable:
		p = x.plan.problem(CodeStoreUnavailable)
		if x.timedOut(err) {
			p = x.plan.problem(CodeTimeout)
		}
		if e.Effect == once.EffectNotApplied {
			p.Detail = problems[CodeConflict].Detail
		}
	case once.CodeAborted:
		p = x.plan.problem(CodeErrorSwallowed)
	case once.CodeMisuse:
		p = x.plan.problem(CodeTransactionMisuse)
	case once.CodeInvalid:
		if errors.Is(err, once.ErrFuture) {
			p = x.plan.problem(CodeFirstSentInvalid)
			break
		}
		p = x.plan.problem(CodeKeyInvalid)
		p.Detail = "The idempotency key cannot be used"
		if e.Err != nil {
			p.Detail += ": " + e.Err.Error() // the engine's own words about the key
		}
	default:
		p = x.plan.problem(CodeHandlerFailed)
		if r := (*refusal)(nil); errors.As(err, &r) {
			p = x.plan.problem(r.code)
		} else if errors.As(err, new(*store.TooLargeError)) {
			p = x.plan.problem(CodeResponseTooLarge)
		} else if e.Code == once.CodeFailed && errors.Is(err, context.DeadlineExceeded) { // one of the handler's own
			p = x.plan.problem(CodeTimeout)
			p.Detail = problems[CodeConflict].Detail
		}
		if e.Effect == once.EffectInDoubt { // phases of the work stand
			p = x.unfinished(p)
		}
	}
	p.RetryAfter = e.After
	return p
}

// unfinished is the problem p of work that has stopped behind a phase: a retry goes on there.
func (x *exchange) unfinished(p Problem) Problem {
	p.Extra = x.operationProblem(CodeInFlight).Extra
	p.Detail = problems[CodeTransactionMisuse].Detail
	if p.Retryable {
		p.Detail = problems[CodeStoreUnavailable].Detail
	}
	return p
}

// timedOut reports whether err is due to the time of the request. Deadlines of the engine and of
// stores say of themselves that they are over, too.
func (x *exchange) timedOut(err error) bool {
	over := !x.deadline.IsZero() && !time.Now().Before(x.deadline)
	return errors.Is(err, context.DeadlineExceeded) && (over || errors.Is(x.r.Context().Err(), context.DeadlineExceeded))
}

// notStoredError is an answer that is not stored.
type notStoredError struct{ status int }

func (e *notStoredError) Error() string {
	return fmt.Sprintf("oncehttp: an answer that is not stored: status %d", e.status)
}

// Cause names it in the attempt log.
func (e *notStoredError) Cause() string { return fmt.Sprintf("HTTP %d", e.status) }

// NotStored reports whether the observer is told of an answer, and not of a handler that has
// failed.
func (e *notStoredError) NotStored() bool { return e.status < 500 }
