package stripe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncehttp/canonical"
)

// V1 returns the dialect of Stripe's API v1. Keys belong to the account and not to a route, so the use of one key at two endpoints is a mismatch, and
// the second request is answered with 400. The answers of handlers are stored for 24 hours, also answers with status 500, but not answers with the
// statuses 401, 403, 408, 409, 423, 425 and 429. Errors have the JSON of Stripe's errors. If client programs compare the message of an error, the
// error also has Stripe's message. The header Stripe-Should-Retry says whether a retry may succeed. Forms are compared by their parameters
// ([canonical.Form]).
//
// If a handler refuses a request before the handler has begun to work, the handler can leave the key unused with oncehttp.Decide(ctx,
// oncehttp.VerdictDiscard). The errors of oncehttp itself are not stored. To accept requests without a key, as Stripe does, set
// [oncehttp.Config].Optional. Stripe's Go client, stripe-go, does not retry a 409 that has a body. Set oncehttp.Config.Wait, so that a 409 is rare.
func V1() *oncehttp.Preset {
	return &oncehttp.Preset{
		Name:       "stripe-v1",
		Methods:    []string{http.MethodPost},
		KeyHeaders: []string{"Idempotency-Key"},
		OpaqueKeys: true,
		Verdicts: map[int]oncehttp.Verdict{
			2: oncehttp.VerdictCommit, 3: oncehttp.VerdictCommit, 4: oncehttp.VerdictAnswerOnly, 5: oncehttp.VerdictAnswerOnly,
			401: oncehttp.VerdictDiscard, 403: oncehttp.VerdictDiscard, 408: oncehttp.VerdictDiscard, 409: oncehttp.VerdictDiscard, 423: oncehttp.VerdictDiscard, 425: oncehttp.VerdictDiscard, 429: oncehttp.VerdictDiscard,
		},
		Problems:       map[oncehttp.ProblemCode]int{oncehttp.ProblemMismatch: http.StatusBadRequest, oncehttp.ProblemConflict: http.StatusTooManyRequests},
		ReplayedHeader: "Idempotent-Replayed",
		KeyHeader:      "Idempotency-Key",
		RetryHeader:    "Stripe-Should-Retry",
		Retain:         24 * time.Hour,
		Route:          func(*http.Request) string { return "stripe" },
		Scope:          []string{"account"},
		Body:           canonical.Form,
		WriteProblem:   writeProblem,
	}
}

// V2 returns the dialect of Stripe's API v2. The dialect of v2 differs from the dialect of v1 in three points: requests with DELETE carry keys as
// well, successful answers are stored for 30 days, and failures are not stored, so that a retry is executed.
func V2() *oncehttp.Preset {
	p := V1()
	p.Name = "stripe-v2"
	p.Methods = append(p.Methods, http.MethodDelete)
	p.Verdicts = map[int]oncehttp.Verdict{2: oncehttp.VerdictCommit, 3: oncehttp.VerdictCommit}
	p.Retain = 30 * 24 * time.Hour
	return p
}

// These are messages of Stripe's errors that programs compare, in Stripe's words. Stripe has another message if the key was used at another endpoint;
// this package does not use that message, because the record does not have the endpoint.
const (
	mismatch = "Keys for idempotent requests can only be used with the same parameters they were first used with."
	otherKey = " Try using a key other than '%s' if you meant to execute a different request."
	inFlight = "There is currently another in-progress request using this Idempotent Key (that probably means you submitted twice, and the other request is still going through)%s. Please try again later."
)

// messageOf returns the message of Stripe for p. The key is "" if the preset does not send keys back.
func messageOf(p oncehttp.Problem, key string) string {
	switch {
	case p.Code == oncehttp.ProblemMismatch && key != "":
		return mismatch + fmt.Sprintf(otherKey, key)
	case p.Code == oncehttp.ProblemMismatch:
		return mismatch
	case p.Code == oncehttp.ProblemInFlight && key != "":
		return fmt.Sprintf(inFlight, ": "+key)
	case p.Code == oncehttp.ProblemInFlight:
		return fmt.Sprintf(inFlight, "")
	}
	return cmp.Or(p.Detail, p.Title+".")
}

// writeProblem sends p in the form of Stripe's errors.
func writeProblem(w http.ResponseWriter, p oncehttp.Problem) {
	type detail struct {
		Type    string `json:"type"`
		Code    string `json:"code,omitempty"`
		DocURL  string `json:"doc_url,omitempty"`
		Message string `json:"message"`
	}
	h := w.Header()
	d := detail{Type: "invalid_request_error", Message: messageOf(p, h.Get("Idempotency-Key"))}
	switch p.Code {
	case oncehttp.ProblemMismatch, oncehttp.ProblemKeyMissing, oncehttp.ProblemKeyInvalid, oncehttp.ProblemUnknown, oncehttp.ProblemStale, oncehttp.ProblemResultUnavailable:
		d.Type = "idempotency_error"
	case oncehttp.ProblemInFlight:
		d.Code = "idempotency_key_in_use"
	case oncehttp.ProblemConflict:
		d.Code = "lock_timeout"
	default:
		if p.Status >= http.StatusInternalServerError {
			d.Type = "api_error"
		}
	}
	if d.Code != "" {
		d.DocURL = "https://stripe.com/docs/error-codes/" + strings.ReplaceAll(d.Code, "_", "-")
	}
	body, err := json.Marshal(map[string]detail{"error": d})
	if err != nil {
		panic(err) // impossible, because the value has only strings
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Stripe-Should-Retry", strconv.FormatBool(p.Retryable)) // also if the program calls this function outside of the middleware
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((p.RetryAfter+time.Second-1)/time.Second), 10))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}
