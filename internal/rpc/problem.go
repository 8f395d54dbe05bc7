package rpc

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/toolarge"
	"github.com/oncelib/once/internal/base/wire"
)

// Problem is an error that the server returns instead of the answer of the handler.
type Problem struct { //nolint:errname // it is an answer that is returned as an error
	Code       Code
	Reason     string // the reason of a google.rpc.ErrorInfo
	Message    string // for the client
	Retryable  bool   // the same call with the same key may succeed later
	SafeNewKey bool   // nothing was applied under this key, and nothing can be applied
	After      time.Duration

	Cause   error // for code inside the server
	Handler bool  // Cause is the error of the handler itself
}

// These are reasons that are not a [once.Code].
const (
	reasonMissing   = "KEY_MISSING"
	reasonInvalid   = "KEY_INVALID"
	reasonFirstSent = "FIRST_SENT_INVALID"
)

// Metadata returns the metadata of the google.rpc.ErrorInfo.
func (p *Problem) Metadata() map[string]string {
	return map[string]string{
		"retryable":    strconv.FormatBool(p.Retryable),
		"safe_new_key": strconv.FormatBool(p.SafeNewKey),
	}
}

// Error returns the text for the client, without the cause.
func (p *Problem) Error() string { return p.Message }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Cause }

func reasonOf(c once.Code) string { return strings.ToUpper(string(c)) }

// problemOf returns the part of an engine's error that a client may see. It never contains the cause.
func problemOf(err error) *Problem {
	var e *once.Error
	// Not an error of the engine, so the handler has failed.
	if !errors.As(err, &e) {
		return &Problem{Code: Internal, Reason: reasonOf(once.CodeFailed), Retryable: true, Message: notApplied, Cause: err}
	}
	p := problems[e.Code]
	p.Reason, p.After, p.Cause = reasonOf(e.Code), e.After, err
	switch e.Code {
	case once.CodeFailed:
		p.Cause, p.Handler = e.Err, true
		if errors.As(err, new(*toolarge.Error)) {
			p.Retryable, p.Handler, p.Message = false, false, tooLarge
		}
		if e.Effect == once.EffectInDoubt { // the finished phases of leased work are committed
			p.Message = problems[once.CodeMisuse].Message
			if p.Retryable {
				p.Message = problems[once.CodeUnavailable].Message
			}
		}
	case once.CodeInvalid:
		if errors.Is(err, wire.ErrFuture) {
			p = firstSentInvalid
			p.Cause = err
			break
		}
		p.Reason = reasonInvalid
		if e.Err != nil {
			p.Message = "The idempotency key cannot be used: " + e.Err.Error() // the text of the engine about the key, which contains no secrets
		}
	case once.CodeUnavailable:
		if e.Effect == once.EffectNotApplied {
			p.Message = notApplied
		}
	}
	return &p
}

const notApplied = "Nothing was applied. The same call can be made again, with the same idempotency key."

const tooLarge = "Nothing was applied: the answer would have been too large."

var firstSentInvalid = Problem{
	Code: InvalidArgument, Reason: reasonFirstSent,
	Message: FirstSentHeader + " is " + wire.FirstSentForm,
}

var problems = map[once.Code]Problem{
	once.CodeInvalid:     {Code: InvalidArgument, Message: "The idempotency key cannot be used."},
	once.CodeInFlight:    {Code: Aborted, Retryable: true, Message: "A call with this idempotency key is being executed. Make the same call again, later."},
	once.CodeMismatch:    {Code: FailedPrecondition, Message: "An earlier call with this idempotency key was different. The method and the message are compared, and no metadata. A retry must have the same method and message. A different intent needs a different key."},
	once.CodeUnknown:     {Code: FailedPrecondition, Message: "This operation may have taken effect outside of this service. The service does not execute it again before a check or an operator has found out the outcome. Make the same call again later, with the same idempotency key."},
	once.CodeStale:       {Code: FailedPrecondition, Message: "The service has no record of this operation, and its first attempt is so old that the record may be deleted."},
	once.CodeFailed:      {Code: Internal, Retryable: true, Message: notApplied},
	once.CodeAborted:     {Code: Internal, Retryable: true, Message: notApplied},
	once.CodeConflict:    {Code: Unavailable, Retryable: true, Message: notApplied},
	once.CodeUnavailable: {Code: Unavailable, Retryable: true, Message: "It is not known whether this call has taken effect. Make the same call again, with the same idempotency key: it takes effect once."},
	once.CodeNoResult:    {Code: FailedPrecondition, Message: "This operation has ended, but its answer is not stored. The operation will not be executed again."},
	once.CodeMisuse:      {Code: Internal, Message: "The service has a defect. It is not known whether this operation has taken effect."},
}
