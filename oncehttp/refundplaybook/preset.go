package refundplaybook

import (
	"maps"
	"net/http"
	"strings"

	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncehttp/canonical"
)

// Preset returns the dialect of refund services behind several gateways. Requests with DELETE carry keys too, because a reversal is a DELETE. A
// mismatch (one key with two different requests) is answered with 409, like an operation in flight; the header error_code, which every problem has,
// distinguishes a mismatch from an operation in flight. JSON bodies are compared by their meaning ([canonical.JSON]), because clients encode the body
// again for every attempt.
//
// Problems have the codes of the playbook, and a member "hint" with advice for the caller. If the playbook has no code for a problem, the problem has
// the code of package oncehttp.
//
//	code                                   status  retryable
//	VALIDATION.*                              400  no
//	AUTH.*                                    401  no
//	CONFLICT.idempotency.payload_mismatch     409  no
//	RATE_LIMIT.exceeded                       429  yes
//	DEPENDENCY.timeout                        504  yes
//	DEPENDENCY.unavailable                    503  yes
//	TRANSIENT.*                               503  yes
//	PROVIDER.duplicate                        409  no
//
// A handler reports its own errors with Preset.WriteProblem. The handler needs to set only a code of the table above: WriteProblem then sets the
// status (if Problem.Status is 0), retryable and the hint.
//
//	playbook.WriteProblem(w, oncehttp.Problem{Code: "PROVIDER.duplicate"})
//
// If a handler answers with 409, its writes are rolled back and the answer is not stored. A handler that must keep its writes, for example because it
// has stored the provider's answer, calls oncehttp.Decide(ctx, oncehttp.VerdictCommit).
func Preset() *oncehttp.Preset {
	p := oncehttp.DefaultPreset()
	p.Name = "refund-playbook"
	p.Methods = append(p.Methods, http.MethodDelete)
	p.Problems = map[oncehttp.ProblemCode]int{oncehttp.ProblemMismatch: http.StatusConflict, oncehttp.ProblemTimeout: http.StatusGatewayTimeout}
	p.Codes = map[oncehttp.ProblemCode]oncehttp.ProblemCode{
		oncehttp.ProblemMismatch:             "CONFLICT.idempotency.payload_mismatch",
		oncehttp.ProblemStoreUnavailable:     "DEPENDENCY.unavailable",
		oncehttp.ProblemTimeout:              "DEPENDENCY.timeout",
		oncehttp.ProblemHandlerFailed:        "TRANSIENT.handler_failed",
		"INTERNAL.statement_error_swallowed": "TRANSIENT.statement_error_swallowed",
	}
	p.Body = canonical.JSON
	p.WriteProblem = func(w http.ResponseWriter, p oncehttp.Problem) {
		p = completed(p)
		w.Header().Set("Error_code", string(p.Code)) // net/http writes error_code in this way
		oncehttp.WriteProblem(w, p)
	}
	return p
}

// taxon is the entry of the playbook for a code or for a class of codes.
type taxon struct {
	status int
	retry  bool
	hint   string
}

var taxonomy = map[oncehttp.ProblemCode]taxon{
	"VALIDATION":                            {http.StatusBadRequest, false, "Correct the request."},
	"AUTH":                                  {http.StatusUnauthorized, false, "Authenticate again, or get the permission."},
	"CONFLICT.idempotency.payload_mismatch": {http.StatusConflict, false, "Generate a new key for the new payload."},
	"RATE_LIMIT":                            {http.StatusTooManyRequests, true, "Wait as long as Retry-After says, then retry with the same key."},
	"DEPENDENCY.timeout":                    {http.StatusGatewayTimeout, true, "Retry with backoff and the same key."},
	"DEPENDENCY":                            {http.StatusServiceUnavailable, true, "Retry with backoff and the same key."},
	"TRANSIENT":                             {http.StatusServiceUnavailable, true, "Retry with backoff and the same key."},
	"PROVIDER.duplicate":                    {http.StatusConflict, false, "The provider has applied this already: show the existing result."},

	// Codes of package oncehttp that the taxonomy does not have.
	oncehttp.ProblemInFlight:          {http.StatusConflict, true, "Wait as long as Retry-After says, then retry with the same key."},
	oncehttp.ProblemUnknown:           {http.StatusConflict, false, "Ask for the outcome. Do not use a new key."},
	oncehttp.ProblemStale:             {http.StatusPreconditionFailed, false, "Look whether the first attempt took effect before you use a new key."},
	oncehttp.ProblemResultUnavailable: {http.StatusConflict, false, "This was applied already: look up the existing result."},
	"INTERNAL":                        {http.StatusInternalServerError, false, "Report the defect to the service. Do not use a new key."},
}

// completed sets the fields of a problem that follow from its code.
func completed(p oncehttp.Problem) oncehttp.Problem {
	t, listed := taxonomy[p.Code]
	if !listed {
		class, _, _ := strings.Cut(string(p.Code), ".")
		if t, listed = taxonomy[oncehttp.ProblemCode(class)]; !listed {
			return p
		}
	}
	p.Retryable = t.retry
	if p.Status == 0 {
		p.Status = t.status
	}
	if _, told := p.Extra["hint"]; !told {
		p.Extra = maps.Clone(p.Extra) // a copy, because the map belongs to the caller
		if p.Extra == nil {
			p.Extra = map[string]any{}
		}
		p.Extra["hint"] = t.hint
	}
	return p
}
