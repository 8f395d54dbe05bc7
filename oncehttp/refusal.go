package oncehttp

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/oncelib/once"
)

// refuse answers for the handler.
func (x *exchange) refuse(p Problem) {
	if name := x.plan.preset.KeyHeader; name != "" && x.key != "" {
		x.w.Header()[name] = []string{x.key}
	}
	if name := x.plan.preset.RetryHeader; name != "" {
		x.w.Header()[name] = []string{strconv.FormatBool(p.Retryable)}
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
		if e.Effect == once.NotApplied {
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
		}
	}
	p.RetryAfter = e.After
	return p
}

// forgottenError is an answer that is not stored.
type forgottenError struct{ status int }

func (e *forgottenError) Error() string {
	return fmt.Sprintf("oncehttp: an answer that is not stored: status %d", e.status)
}

// Cause names it in the attempt log.
func (e *forgottenError) Cause() string { return fmt.Sprintf("HTTP %d", e.status) }

// forgotten reports whether the handler has answered and its answer is not stored.
func (r *run) forgotten() bool {
	return r.recorder.closed && r.recorder.refused == nil && r.verdict == Forget
}
