package oncehttp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/toolarge"
	"github.com/oncelib/once/internal/base/wire"
)

// refusal is the reason why a request cannot be executed, or why its answer cannot be held until the commit.
type refusal struct {
	code ProblemCode
	text string
}

func (e *refusal) Error() string { return "oncehttp: " + e.text }

var (
	errTooLarge = &refusal{problemResponseTooLarge, "the answer is larger than Config.MaxResponse"}
	errParsed   = &refusal{problemFormParsed, "another middleware has parsed the multipart body before oncehttp.\nTry: put this middleware inside of the middleware of oncehttp"}
	errConsumed = &refusal{problemBodyConsumed, "another middleware has read or closed the body before oncehttp, so oncehttp cannot compare the body with a retry.\nTry: put this middleware inside of the middleware of oncehttp, or let it restore the body (r.Body = io.NopCloser(bytes.NewReader(body)))"}
	errStreamed = &refusal{problemStreaming, "a protected handler cannot stream, because its answer is sent only after the commit"}
)

// WriteProblem answers the request with p, in the form that the Preset of the route gives to problems.
func (x *Exchange) WriteProblem(p Problem) {
	if name := x.plan.preset.KeyHeader; name != "" && x.key != "" {
		x.w.Header()[name] = []string{x.key}
	}
	if name := x.plan.preset.RetryHeader; name != "" {
		x.w.Header()[name] = []string{strconv.FormatBool(p.Retryable)}
	}
	// HTTP requires this header in each 401.
	if _, set := x.w.Header()["Www-Authenticate"]; p.Code == ProblemUnauthenticated && !set {
		x.w.Header()["Www-Authenticate"] = []string{x.plan.preset.Challenge}
	}
	// Logs and operators identify the operation by this hash.
	if p.Instance == "" && x.key != "" {
		p.Instance = "urn:once:key:" + keyname.Hash(x.key)
	}
	x.plan.preset.WriteProblem(x.w, p)
}

// operationProblem returns the problem of a code about an existing operation.
func (x *Exchange) operationProblem(code ProblemCode) Problem {
	p := x.plan.problem(code)
	if x.plan.StatusURL != nil && x.key != "" {
		if url := x.plan.StatusURL(x.r, x.key); url != "" {
			p.Extra = map[string]any{"status_url": url}
		}
	}
	return p
}

// Problem returns the problem that a client may see for an error of the engine. The problem never has the cause of the error, because the cause may
// contain internal details.
func (x *Exchange) Problem(err error) Problem {
	var e *once.Error
	if !errors.As(err, &e) {
		return x.plan.problem(ProblemHandlerFailed)
	}
	var p Problem
	switch e.Code {
	case once.CodeInFlight:
		p = x.operationProblem(ProblemInFlight)
	case once.CodeUnknown:
		p = x.operationProblem(ProblemUnknown)
		if e.After > 0 { // the next request asks the called service for the outcome
			p.Retryable, p.Detail = true, "This operation may have taken effect outside of this service, and its outcome is not known yet. Send the same request again, later: it asks for the outcome."
		}
	case once.CodeNoResult:
		p = x.operationProblem(ProblemResultUnavailable)
	case once.CodeMismatch:
		p = x.plan.problem(ProblemMismatch)
	case once.CodeStale:
		p = x.plan.problem(ProblemStale)
	case once.CodeConflict:
		p = x.plan.problem(ProblemConflict)
	case once.CodeUnavailable:
		p = x.plan.problem(ProblemStoreUnavailable)
		if x.timedOut(err) {
			p = x.plan.problem(ProblemTimeout)
		}
		// The effect is known, so the text must not say that it is unknown.
		if e.Effect == once.EffectNotApplied {
			p.Detail = problems[ProblemConflict].Detail
		}
	case once.CodeAborted:
		p = x.plan.problem(problemErrorSwallowed)
	case once.CodeMisuse:
		p = x.plan.problem(problemTransactionMisuse)
	case once.CodeInvalid:
		if errors.Is(err, wire.ErrFuture) {
			p = x.plan.problem(problemFirstSentInvalid)
			break
		}
		p = x.plan.problem(ProblemKeyInvalid)
		p.Detail = "The idempotency key cannot be used"
		if e.Err != nil {
			p.Detail += ": " + e.Err.Error() // this text of the engine is only about the key
		}
	default:
		p = x.plan.problem(ProblemHandlerFailed)
		if r := (*refusal)(nil); errors.As(err, &r) {
			p = x.plan.problem(r.code)
		} else if errors.As(err, new(*toolarge.Error)) {
			p = x.plan.problem(problemResponseTooLarge)
		} else if e.Code == once.CodeFailed && errors.Is(err, context.DeadlineExceeded) { // the deadline belongs to the handler
			p = x.plan.problem(ProblemTimeout)
			p.Detail = problems[ProblemConflict].Detail
		}
		if e.Effect == once.EffectInDoubt { // some phases of the work are committed
			p = x.unfinished(p)
		}
	}
	p.RetryAfter = e.After
	return p
}

// unfinished returns the problem p for work that has stopped after a committed phase. A retry continues after this phase.
func (x *Exchange) unfinished(p Problem) Problem {
	p.Extra = x.operationProblem(ProblemInFlight).Extra
	p.Detail = problems[problemTransactionMisuse].Detail
	if p.Retryable {
		p.Detail = problems[ProblemStoreUnavailable].Detail
	}
	return p
}

// timedOut reports whether err was caused by the end of the request's time. An engine and a store have their own deadlines with the same error, so
// err alone does not say this.
func (x *Exchange) timedOut(err error) bool {
	over := !x.deadline.IsZero() && !time.Now().Before(x.deadline)
	return errors.Is(err, context.DeadlineExceeded) && (over || errors.Is(x.r.Context().Err(), context.DeadlineExceeded))
}

// notStoredError says that an answer is not stored.
type notStoredError struct{ status int }

func (e *notStoredError) Error() string {
	return fmt.Sprintf("oncehttp: the answer of the handler, with status %d, is not stored", e.status)
}

// Cause returns the cause that the attempt log stores for this error.
func (e *notStoredError) Cause() string { return fmt.Sprintf("HTTP %d", e.status) }

// NotStored reports whether the observer gets this error as an answer, and not as a failure of the handler.
func (e *notStoredError) NotStored() bool { return e.status < 500 }
