package oncehttp

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// StripeV1 returns the dialect of Stripe's API v1: keys belong to the account and not
// to a route, so that one used at another endpoint is a mismatch, which is 400; every
// answer is kept for 24 hours, also 500, as long as the handler has executed; errors
// have Stripe's JSON, and Stripe-Should-Retry says what to do about them.
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
			2: Commit, 3: Commit, 4: Store, 5: Store,
			401: Forget, 403: Forget, 408: Forget, 409: Forget, 423: Forget, 425: Forget, 429: Forget,
		},
		Problems:       map[string]int{CodeMismatch: http.StatusBadRequest, CodeConflict: http.StatusTooManyRequests},
		ReplayedHeader: "Idempotent-Replayed",
		KeyHeader:      "Idempotency-Key",
		RetryHeader:    "Stripe-Should-Retry",
		Retain:         24 * time.Hour,
		Route:          func(*http.Request) string { return "stripe" },
		Scope:          []string{"account"},
		WriteProblem:   writeStripeProblem,
	}
}

// StripeV2 returns the dialect of Stripe's API v2, as far as it differs: DELETE carries
// keys as well, success is kept for 30 days, and failure is not: a retry of it executes.
func StripeV2() *Preset {
	p := StripeV1()
	p.Name = "stripe-v2"
	p.Methods = append(p.Methods, http.MethodDelete)
	p.Verdicts = map[int]Verdict{2: Commit, 3: Commit}
	p.Retain = 30 * 24 * time.Hour
	return p
}

// writeStripeProblem answers with p as Stripe would say it.
func writeStripeProblem(w http.ResponseWriter, p Problem) {
	type detail struct {
		Type    string `json:"type"`
		Code    string `json:"code,omitempty"`
		Message string `json:"message"`
	}
	d := detail{Type: "invalid_request_error", Message: p.Detail}
	if d.Message == "" {
		d.Message = p.Title + "."
	}
	switch p.Code {
	case CodeMismatch, CodeKeyMissing, CodeKeyInvalid, CodeUnknown, CodeStale, CodeResultUnavailable:
		d.Type = "idempotency_error"
	case CodeInFlight:
		d.Type, d.Code = "idempotency_error", "idempotency_key_in_use"
	case CodeConflict:
		d.Code = "lock_timeout"
	default:
		if p.Status >= http.StatusInternalServerError {
			d.Type = "api_error"
		}
	}
	body, err := json.Marshal(map[string]detail{"error": d})
	if err != nil {
		panic(err) // texts
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Stripe-Should-Retry", strconv.FormatBool(p.Retryable)) // also for who calls this outside of the middleware
	retryAfter(h, p)
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}
