package oncehttp

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/internal/engine/voided"
)

// ProblemCode names a kind of problem, for programs: VALIDATION.amount, RATE_LIMIT.exceeded, ... A service can define its own codes in addition to
// the codes of this package.
type ProblemCode string

// The constants are the codes of the problems of this package. The section Problems of the package documentation has a table of the codes with their
// statuses and meanings.
const (
	ProblemUnauthenticated   ProblemCode = "AUTH.unauthenticated"
	ProblemKeyMissing        ProblemCode = "VALIDATION.idempotency_key_missing"
	ProblemKeyInvalid        ProblemCode = "VALIDATION.idempotency_key_invalid"
	problemTimeoutInvalid    ProblemCode = "VALIDATION.request_timeout_invalid"
	problemFirstSentInvalid  ProblemCode = "VALIDATION.first_sent_invalid"
	ProblemBodyUnreadable    ProblemCode = "VALIDATION.body_unreadable"
	ProblemBodyTooLarge      ProblemCode = "VALIDATION.body_too_large"
	ProblemInFlight          ProblemCode = "CONFLICT.idempotency.in_flight"
	ProblemMismatch          ProblemCode = "CONFLICT.idempotency.mismatch"
	ProblemUnknown           ProblemCode = "CONFLICT.idempotency.unknown"
	ProblemStale             ProblemCode = "CONFLICT.idempotency.stale"
	ProblemResultUnavailable ProblemCode = "CONFLICT.idempotency.result_unavailable"
	problemUndone            ProblemCode = voided.Code
	problemStoredBytes       ProblemCode = "RATE_LIMIT.stored_bytes"
	ProblemConflict          ProblemCode = "TRANSIENT.conflict"
	ProblemStoreUnavailable  ProblemCode = "TRANSIENT.store_unavailable"
	ProblemTimeout           ProblemCode = "TRANSIENT.timeout"
	ProblemHandlerFailed     ProblemCode = "INTERNAL.handler_failed"
	problemErrorSwallowed    ProblemCode = "INTERNAL.statement_error_swallowed"
	problemTransactionMisuse ProblemCode = "INTERNAL.transaction_misused"
	problemResponseTooLarge  ProblemCode = "INTERNAL.response_too_large"
	problemStreaming         ProblemCode = "INTERNAL.streaming_refused"
	problemFormParsed        ProblemCode = "INTERNAL.form_parsed"
	problemBodyConsumed      ProblemCode = "INTERNAL.body_consumed"
)

// Problem is an error as a client sees it. A Problem has the members of RFC 9457, and members that say whether a client may try again.
type Problem struct {
	Type   string `json:"type,omitempty"` // a URI that names the kind of problem; "" means about:blank
	Title  string `json:"title,omitempty"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`

	// Instance is a URI that names this occurrence of the problem. The Instance of a problem about a key is "urn:once:key:" followed by the hash of the
	// key. Logs, the console and the command "once keys list --hash" identify the operation by the hash of its key, too.
	Instance string `json:"instance,omitempty"`

	Code ProblemCode `json:"code,omitempty"`

	// Retryable says that the same request, with the same key, may succeed later.
	Retryable bool `json:"retryable"`

	// SafeNewKey says that nothing was applied under the key of this request and nothing can be applied under it later. If SafeNewKey is true, a new
	// attempt under another key repeats no effect.
	SafeNewKey bool `json:"safe_new_key"`

	Errors []FieldError `json:"errors,omitempty"`

	// Extra are further members of the JSON object. If Extra has a member with the name of another member of Problem, the member in Extra is ignored.
	Extra map[string]any `json:"-"`

	// RetryAfter is sent as the header Retry-After, in whole seconds. If RetryAfter is 0, the header is not sent.
	RetryAfter time.Duration `json:"-"`
}

// FieldError says why one field of a request is wrong.
type FieldError struct {
	Pointer string `json:"pointer"` // a JSON Pointer (RFC 6901) to the field in the body, such as "/amount"
	Detail  string `json:"detail"`  // why the value is wrong, for a person
}

// MarshalJSON implements [json.Marshaler].
func (p Problem) MarshalJSON() ([]byte, error) {
	type plain Problem
	body, err := json.Marshal(plain(p))
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(p.Extra)) {
		// A second member with this name would make the document ambiguous.
		if slices.Contains(members, name) {
			continue
		}
		member, err := json.Marshal(map[string]any{name: p.Extra[name]})
		if err != nil {
			return nil, err
		}
		// The comma replaces the closing brace.
		body[len(body)-1] = ','
		body = append(body, member[1:]...) // without the opening brace
	}
	return body, nil
}

var members = []string{"type", "title", "status", "detail", "instance", "code", "retryable", "safe_new_key", "errors"}

// WriteProblem answers with p as application/problem+json. If p.Status is 0, the status is 500; if p.Title is empty, the title is the text of the
// status. Use WriteProblem for a handler's own errors, so that these errors look like the errors of the middleware. If p.Type is the address of a
// page, the address is also sent in a Link header with rel="help". WriteProblem panics if p.Extra cannot be encoded as JSON.
func WriteProblem(w http.ResponseWriter, p Problem) {
	if p.Status == 0 {
		p.Status = http.StatusInternalServerError
	}
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	body, err := json.Marshal(p)
	if err != nil {
		panic("oncehttp: WriteProblem: Problem.Extra cannot be encoded as JSON: " + err.Error()) // a mistake in the program
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if strings.HasPrefix(p.Type, "https://") || strings.HasPrefix(p.Type, "http://") {
		h.Add("Link", "<"+p.Type+`>; rel="help"`)
	}
	retryAfter(h, p)
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}

func retryAfter(h http.Header, p Problem) {
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((p.RetryAfter+time.Second-1)/time.Second), 10))
	}
}

// problem returns the problem of a code in the dialect of the preset.
func (p *plan) problem(code ProblemCode) Problem {
	prob := problems[code]
	prob.Code = code
	if name, differs := p.preset.Codes[code]; differs {
		prob.Code = name
	}
	if code == ProblemKeyMissing && p.Undoes != "" {
		prob.Title, prob.Detail = wire.UndoesHeader+" missing", "This operation needs the header "+wire.UndoesHeader+": the idempotency key of the operation that it undoes."
	}
	if code == ProblemMismatch {
		prob.Detail = "An earlier request with this idempotency key was different. " + p.comparedWords() + " A retry must be equal in all these parts. A different intent needs a different key."
	}
	prob.Type = p.problemType(string(prob.Code))
	if status, differs := p.preset.Problems[code]; differs {
		prob.Status = status
	}
	return prob
}

// problemType returns the URI of a problem's type in the dialect of the preset.
func (p *plan) problemType(code string) string {
	if p.preset.ProblemBase != "" {
		return p.preset.ProblemBase + wire.ProblemPath(code)
	}
	return wire.ProblemType(code)
}

// problems has the problems by code. The package documentation explains Retryable and SafeNewKey.
var problems = map[ProblemCode]Problem{
	ProblemUnauthenticated: {
		Status: 401, Title: "Not authenticated",
		Detail: "This request needs an authenticated caller.",
	},
	ProblemKeyMissing: {
		Status: 400, Title: "Idempotency key missing", SafeNewKey: true,
		Detail: "This operation needs an idempotency key. Send the same key with every retry of the same intent.",
	},
	ProblemKeyInvalid:     {Status: 400, Title: "Idempotency key invalid"},
	problemTimeoutInvalid: {Status: 400, Title: "X-Request-Timeout invalid", Detail: "X-Request-Timeout is a number of milliseconds or a duration such as 1.5s, greater than zero."},
	problemFirstSentInvalid: {
		Status: 400, Title: "Once-First-Sent invalid",
		Detail: "Once-First-Sent is " + wire.FirstSentForm,
	},
	ProblemBodyUnreadable: {Status: 400, Title: "Request body incomplete", Retryable: true, Detail: "The request has ended before its body was complete."},
	ProblemBodyTooLarge:   {Status: 413, Title: "Request body too large"},
	ProblemInFlight: {
		Status: 409, Title: "Operation in flight", Retryable: true,
		Detail: "A request with this idempotency key is being executed. Send the same request again, later.",
	},
	ProblemMismatch: {
		Status: 422, Title: "Idempotency key used for another request",
	},
	ProblemUnknown: {
		Status: 409, Title: "Outcome unknown",
		Detail: "This operation may have taken effect outside of this service. The service does not execute it again before a check or an operator has found out the outcome. Send the same request again later, with the same idempotency key.",
	},
	ProblemStale: {
		Status: 412, Title: "Retry too old",
		Detail: "The service has no record of this operation, and its first attempt is so old that the record may be deleted. This request was not executed. Check whether the first attempt has taken effect.",
	},
	ProblemResultUnavailable: {
		Status: 409, Title: "Result unavailable",
		Detail: "This operation was executed, but its answer is not stored. The operation will not be executed again.",
	},
	problemUndone: {
		Status: 409, Title: "Operation undone",
		Detail: "An undo of this operation has arrived before the operation. The operation was not executed, and will not be executed.",
	},
	problemStoredBytes: {
		Status: 429, Title: "Too many answers stored", Retryable: true,
		Detail: "Your quota of stored answers is used up. This request was not begun. Send it again, with the same idempotency key, when earlier answers have expired, or ask for a larger quota.",
	},
	ProblemConflict: {
		Status: 503, Title: "Conflict with concurrent work", Retryable: true,
		Detail: "Nothing was applied. Send the same request again, with the same idempotency key.",
	},
	ProblemStoreUnavailable: {
		Status: 503, Title: "Temporarily unavailable", Retryable: true,
		Detail: "It is not known whether this operation has taken effect. Send the same request again, with the same idempotency key: it takes effect once.",
	},
	ProblemTimeout: {
		Status: 503, Title: "Not finished in time", Retryable: true,
		Detail: "It is not known whether this operation has taken effect. Send the same request again, with the same idempotency key: it takes effect once.",
	},
	ProblemHandlerFailed: {
		Status: 500, Title: "Internal error", Retryable: true,
		Detail: "Nothing was applied. The same request can be sent again, with the same idempotency key.",
	},
	problemErrorSwallowed: {
		Status: 500, Title: "Internal error", Retryable: true,
		Detail: "Nothing was applied. The same request can be sent again, with the same idempotency key.",
	},
	problemTransactionMisuse: {Status: 500, Title: "Internal error", Detail: "The service has a defect. It is not known whether this operation has taken effect."},
	problemResponseTooLarge:  {Status: 500, Title: "Response too large", Detail: "Nothing was applied: the answer would have been too large."},
	problemStreaming:         {Status: 500, Title: "Internal error", Detail: "Nothing was applied: an idempotent operation cannot stream its answer."},
	problemBodyConsumed:      {Status: 500, Title: "Internal error", Detail: "The service has a defect: it cannot compare this request with an earlier attempt. This request was not executed."},
	problemFormParsed:        {Status: 500, Title: "Internal error", Detail: "The service has a defect: it cannot compare this form with the form of an earlier attempt. This request was not executed."},
}
