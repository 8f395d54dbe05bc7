package oncehttp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// StripeV1 returns the dialect of Stripe's API v1: keys belong to the account and not
// to a route, so that one used at another endpoint is a mismatch, which is 400; every
// answer is kept for 24 hours, also 500, as long as the handler has executed; errors
// have Stripe's JSON and, where programs match them, its messages, and Stripe-Should-Retry
// says what to do about them. Forms are compared by their parameters ([CanonicalForm]).
//
// A handler that refuses a request before it has begun leaves the key unused with
// Decide(ctx, Forget). What this package answers itself is not stored. Stripe asks for
// no key: see Config.Optional. Of its clients, stripe-go does not retry a 409 with a
// body; with a Config.Wait it rarely meets one.
func StripeV1() *Preset {
	return &Preset{
		Name:       "stripe-v1",
		Methods:    []string{http.MethodPost},
		KeyHeaders: []string{"Idempotency-Key"},
		OpaqueKeys: true,
		Verdicts: map[int]Verdict{
			2: VerdictCommit, 3: VerdictCommit, 4: VerdictStore, 5: VerdictStore,
			401: VerdictForget, 403: VerdictForget, 408: VerdictForget, 409: VerdictForget, 423: VerdictForget, 425: VerdictForget, 429: VerdictForget,
		},
		Problems:       map[string]int{CodeMismatch: http.StatusBadRequest, CodeConflict: http.StatusTooManyRequests},
		ReplayedHeader: "Idempotent-Replayed",
		KeyHeader:      "Idempotency-Key",
		RetryHeader:    "Stripe-Should-Retry",
		Retain:         24 * time.Hour,
		Route:          func(*http.Request) string { return "stripe" },
		Scope:          []string{"account"},
		Body:           CanonicalForm,
		WriteProblem:   writeStripeProblem,
	}
}

// StripeV2 returns the dialect of Stripe's API v2, as far as it differs: DELETE carries
// keys as well, success is kept for 30 days, and failure is not: a retry of it executes.
func StripeV2() *Preset {
	p := StripeV1()
	p.Name = "stripe-v2"
	p.Methods = append(p.Methods, http.MethodDelete)
	p.Verdicts = map[int]Verdict{2: VerdictCommit, 3: VerdictCommit}
	p.Retain = 30 * 24 * time.Hour
	return p
}

// Messages of Stripe's that programs match, as Stripe words them. Which endpoint a key was
// used at before is not known here: Stripe words that mismatch in another way.
const (
	stripeMismatch = "Keys for idempotent requests can only be used with the same parameters they were first used with."
	stripeOtherKey = " Try using a key other than '%s' if you meant to execute a different request."
	stripeInFlight = "There is currently another in-progress request using this Idempotent Key (that probably means you submitted twice, and the other request is still going through)%s. Please try again later."
)

// stripeMessage says p as Stripe does. The key is "" where the preset does not send it back.
func stripeMessage(p Problem, key string) string {
	switch {
	case p.Code == CodeMismatch && key != "":
		return stripeMismatch + fmt.Sprintf(stripeOtherKey, key)
	case p.Code == CodeMismatch:
		return stripeMismatch
	case p.Code == CodeInFlight && key != "":
		return fmt.Sprintf(stripeInFlight, ": "+key)
	case p.Code == CodeInFlight:
		return fmt.Sprintf(stripeInFlight, "")
	}
	return cmp.Or(p.Detail, p.Title+".")
}

// writeStripeProblem answers with p as Stripe would say it.
func writeStripeProblem(w http.ResponseWriter, p Problem) {
	type detail struct {
		Type    string `json:"type"`
		Code    string `json:"code,omitempty"`
		DocURL  string `json:"doc_url,omitempty"`
		Message string `json:"message"`
	}
	h := w.Header()
	d := detail{Type: "invalid_request_error", Message: stripeMessage(p, h.Get("Idempotency-Key"))}
	switch p.Code {
	case CodeMismatch, CodeKeyMissing, CodeKeyInvalid, CodeUnknown, CodeStale, CodeResultUnavailable:
		d.Type = "idempotency_error"
	case CodeInFlight:
		d.Code = "idempotency_key_in_use"
	case CodeConflict:
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
	retryAfter(h, p)
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}
