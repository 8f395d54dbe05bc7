package limit

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/oncelib/once/internal/base/fairqueue"
	"github.com/oncelib/once/internal/base/wire"
)

// Codes of a [Refusal].
const (
	CodeExceeded   = "RATE_LIMIT.exceeded"  // 429: this tenant has more waiting than its share
	CodeOverloaded = "TRANSIENT.overloaded" // 503: there is no room, or not in time
)

// Refusal says why a request was not let in. Nothing was done for it, and it may come again, with the
// same key. That says nothing of an earlier request with this key: another key is not safe.
type Refusal struct {
	Code   string        // for programs, such as CodeOverloaded
	Status int           // of the answer
	Title  string        // of the answer
	Detail string        // for the client
	After  time.Duration // when to come again
}

// Refusals returns the refusals of a [Limiter], for documents: After is not set.
func Refusals() []Refusal { return []Refusal{exceeded, overloaded} }

var (
	exceeded = Refusal{
		Code: CodeExceeded, Status: http.StatusTooManyRequests, Title: "Too many requests",
		Detail: "You have more requests waiting than your share. This one was not begun. Send it again after Retry-After.",
	}
	overloaded = Refusal{
		Code: CodeOverloaded, Status: http.StatusServiceUnavailable, Title: "Overloaded",
		Detail: "The server has too much to do, and has not begun with this request. Send it again after Retry-After.",
	}
)

// refusalOf returns the refusal for a client.
func refusalOf(r fairqueue.Refusal) *Refusal {
	refused := overloaded
	if r.Why == fairqueue.Share {
		refused = exceeded
	}
	refused.After = max(r.After, time.Second)
	return &refused
}

// ServeHTTP answers with r, as package oncehttp does for a handler that it protects. It implements [http.Handler].
func (r *Refusal) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	body, err := json.Marshal(struct {
		Type       string `json:"type"`
		Title      string `json:"title"`
		Status     int    `json:"status"`
		Detail     string `json:"detail"`
		Code       string `json:"code"`
		Retryable  bool   `json:"retryable"`
		SafeNewKey bool   `json:"safe_new_key"`
	}{wire.ProblemType(r.Code), r.Title, r.Status, r.Detail, r.Code, true, false})
	if err != nil {
		panic(err) // texts
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Retry-After", strconv.FormatInt(int64((r.After+time.Second-1)/time.Second), 10))
	w.WriteHeader(r.Status)
	_, _ = w.Write(body)
}
