package limit

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/oncelib/once/internal/base/fairqueue"
	"github.com/oncelib/once/internal/base/wire"
)

// The constants are the codes of a [Refusal].
const (
	CodeExceeded   = "RATE_LIMIT.exceeded"  // 429: this tenant has more waiting requests than its share of the queue
	CodeOverloaded = "TRANSIENT.overloaded" // 503: the queue is full, or the answer would come too late
)

// Refusal says why a request was not admitted. Nothing was done for the request, and the client may send the request again with the same key. A new
// key is not safe, because an earlier request with the old key may have been executed.
type Refusal struct {
	Code   string        // the code for programs, such as CodeOverloaded
	Status int           // the HTTP status of the answer
	Title  string        // the title of the problem, as in RFC 9457
	Detail string        // a text for the client
	After  time.Duration // the time after which the client may try again
}

// Refusals returns the refusals that a [Limiter] can return, for documentation. The field After of the returned refusals is 0.
func Refusals() []Refusal { return []Refusal{exceeded, overloaded} }

var (
	exceeded = Refusal{
		Code: CodeExceeded, Status: http.StatusTooManyRequests, Title: "Too many requests",
		Detail: "Too many of your requests are waiting. This request was not begun. Send it again after the time in Retry-After.",
	}
	overloaded = Refusal{
		Code: CodeOverloaded, Status: http.StatusServiceUnavailable, Title: "Overloaded",
		Detail: "The server is overloaded. This request was not begun. Send it again after the time in Retry-After.",
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

// ServeHTTP implements [http.Handler]. ServeHTTP answers with r as application/problem+json, as package oncehttp
// does.
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
		panic(err) // cannot happen: all fields are texts and numbers
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Retry-After", strconv.FormatInt(int64((r.After+time.Second-1)/time.Second), 10))
	w.WriteHeader(r.Status)
	_, _ = w.Write(body)
}
