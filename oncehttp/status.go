package oncehttp

import (
	"encoding/json"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/store"
)

// problemNotFound is the code of a problem of [StatusHandler], with the status 404: the operation is not known.
const problemNotFound ProblemCode = "NOT_FOUND.operation"

// StatusHandler returns a handler for the URLs of Config.StatusURL: it serves the state of an operation, for a client whose operation is in flight or
// whose outcome is unknown. cfg is the Config of the route that executes the operations. The parameter "of" is a function that returns which
// operation a request asks for: the name of its route (Config.Route; by default method and pattern) and its key.
//
//	mux.Handle("POST /refunds", authenticate(oncehttp.Handler(engine, cfg, refund)))
//	mux.Handle("GET /refunds/status/{key}", authenticate(oncehttp.StatusHandler(engine, cfg,
//		func(r *http.Request) (route, key string) { return "POST /refunds", r.PathValue("key") })))
//
// The answer of the StatusHandler to a GET is JSON:
//
//	{"state": "running", "since": "2026-01-31T12:00:00Z"}
//	{"state": "unknown", "since": "2026-01-31T12:00:00Z"}
//	{"state": "done", "since": "2026-01-31T12:00:00Z",
//	 "result": {"status": 201, "headers": {"Content-Type": ["application/json"]}, "body": {"id": 7}}}
//
// A stored body that is not JSON is in the member "text" instead of "body", or in the member "base64" if the body is not UTF-8. If the answer about a
// done operation has no member "result", the result of the operation was not stored. An answer with the state "running" has the header Retry-After.
// The state is also "running" if the operation has failed after a phase, or if its process has died: the operation continues when a client sends the
// request again, or when a lease.Completer runs.
//
// An operation belongs to the principal that has requested it. If another principal asks for the state of the operation, the answer is 404. If the
// operation does not exist, the answer is also 404. With an engine without leases, the answer is 404 while the operation is being executed, because
// its record is visible only after the commit.
//
// StatusHandler panics if cfg is invalid or if the parameter "of" is nil.
func StatusHandler[TX any](e *once.Engine[TX], cfg Config, of func(r *http.Request) (route, key string)) http.Handler {
	p := compile(cfg, e.Config().Retain)
	if of == nil {
		panic("oncehttp: StatusHandler: the parameter \"of\" is nil.\nTry: a function that returns the operation of a request, with the key from the path.")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &Exchange{plan: p, w: w, r: r}
		// The state changes, and only its principal may see it.
		w.Header()["Cache-Control"] = []string{"no-store"}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header()["Allow"] = []string{"GET, HEAD"}
			x.WriteProblem(Problem{Status: http.StatusMethodNotAllowed})
			return
		}
		principal := p.Principal(r)
		if principal == "" {
			x.WriteProblem(p.problem(ProblemUnauthenticated))
			return
		}
		route, key := of(r)
		rec, err := e.ReadRecord(r.Context(), once.Operation{Scope: wire.Scope(principal, route), Key: key})
		switch {
		case once.CodeOf(err) == once.CodeUnavailable:
			unavailable := p.problem(ProblemStoreUnavailable)
			unavailable.Detail = "The state of the operation cannot be read now. Send the same request again, later."
			unavailable.RetryAfter = time.Second
			x.WriteProblem(unavailable)
		case err != nil, rec.State == store.StateAbsent: // a key that is not valid cannot name an operation
			x.WriteProblem(Problem{
				Type: p.problemType(string(problemNotFound)), Code: problemNotFound, Status: http.StatusNotFound, Title: "No such operation",
				Detail: "The service has no record of this operation. The operation has not ended, is running now, or its record was deleted.",
			})
		default:
			tell(w, rec)
		}
	})
}

// status is the answer to a client. Clients parse its JSON, so its form must not change.
type status struct {
	State  string        `json:"state"`
	Since  time.Time     `json:"since"`
	Result *statusResult `json:"result,omitempty"`
}

// statusResult is the stored answer, which a retry would get.
type statusResult struct {
	Status  int                 `json:"status,omitempty"`
	Headers map[string][]string `json:"headers,omitempty"`
	Body    json.RawMessage     `json:"body,omitempty"`
	Text    string              `json:"text,omitempty"`
	Base64  []byte              `json:"base64,omitempty"`
	Failure json.RawMessage     `json:"failure,omitempty"` // a [once.Failure]
}

// tell sends the state of an operation.
func tell(w http.ResponseWriter, rec store.Record) {
	if rec.State == store.StateWaiting { // the operation waits for its next owner, which is the same as running for a client
		rec.State = store.StateRunning
	}
	s := status{State: rec.State.String(), Since: rec.Since.UTC()}
	if rec.State == store.StateDone && rec.Result.Kind != store.ResultOmitted {
		s.Result = resultOf(&rec.Result)
	}
	if rec.State == store.StateRunning {
		retryAfter(w.Header(), Problem{RetryAfter: time.Second})
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	_ = json.NewEncoder(w).Encode(s) //nolint:errchkjson // an error is ignored: the client asks again
}

func resultOf(res *store.Result) *statusResult {
	r := &statusResult{Status: res.Status}
	mediaType := ""
	for _, f := range res.Header {
		if name := http.CanonicalHeaderKey(f.Name); !neverStored(name) {
			if r.Headers == nil {
				r.Headers = map[string][]string{}
			}
			r.Headers[f.Name] = append(r.Headers[f.Name], f.Value)
			if name == "Content-Type" {
				mediaType = f.Value
			}
		}
	}
	switch {
	case len(res.Body) == 0:
	case res.Kind == store.ResultFailure:
		r.Failure = res.Body
	case (res.Status == 0 || isJSON(mediaType)) && json.Valid(res.Body):
		r.Body = res.Body
	case utf8.Valid(res.Body):
		r.Text = string(res.Body)
	default:
		r.Base64 = res.Body
	}
	return r
}

// isJSON reports whether a media type is JSON, such as application/problem+json.
func isJSON(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && (mediaType == "application/json" || strings.HasSuffix(mediaType, "+json"))
}
