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

// V1 returns the dialect of Stripe's API v1: keys belong to the account and not
// to a route, so that one used at another endpoint is a mismatch, which is 400; every
// answer is kept for 24 hours, also 500, as long as the handler has executed; errors
// have Stripe's JSON and, where programs match them, its messages, and Stripe-Should-Retry
// says what to do about them. Forms are compared by their parameters ([canonical.Form]).
//
// A handler that refuses a request before it has begun leaves the key unused with
// oncehttp.Decide(ctx, oncehttp.VerdictDiscard). What oncehttp answers itself is not stored. Stripe asks for
// no key: see oncehttp.Config.Optional. Of its clients, stripe-go does not retry a 409 with a
// body; with a oncehttp.Config.Wait it rarely meets one.
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

// V2 returns the dialect of Stripe's API v2, as far as it differs: DELETE carries
// keys as well, success is kept for 30 days, and failure is not: a retry of it executes.
func V2() *oncehttp.Preset {
	p := V1()
	p.Name = "stripe-v2"
	p.Methods = append(p.Methods, http.MethodDelete)
	p.Verdicts = map[int]oncehttp.Verdict{2: oncehttp.VerdictCommit, 3: oncehttp.VerdictCommit}
	p.Retain = 30 * 24 * time.Hour
	return p
}

// Messages of Stripe's that programs match, as Stripe words them. Which endpoint a key was
// used at before is not known here: Stripe words that mismatch in another way.
const (
	mismatch = "Keys for idempotent requests can only be used with the same parameters they were first used with."
	otherKey = " Try using a key other than '%s' if you meant to execute a different request."
	inFlight = "There is currently another in-progress request using this Idempotent Key (that probably means you submitted twice, and the other request is still going through)%s. Please try again later."
)

// messageOf says p as Stripe does. The key is "" where the preset does not send it back.
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

// writeProblem answers with p as Stripe would say it.
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
		panic(err) // texts
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Stripe-Should-Retry", strconv.FormatBool(p.Retryable)) // also for who calls this outside of the middleware
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((p.RetryAfter+time.Second-1)/time.Second), 10))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}
