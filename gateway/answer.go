package gateway

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
)

// answer is the result of a forward. The store saves its JSON without the body. The body is part of the stored
// result, which the same transaction commits.
type answer struct {
	Class     class  `json:"class"`
	Status    int    `json:"status,omitempty"`
	Operation string `json:"operation"` // the ID under which the request was forwarded

	said            int // the status that decides: the status of gRPC for a gRPC answer, otherwise the HTTP status
	header, trailer http.Header
	body            []byte
	hasBody         bool // the body was read; a later run knows only the saved fields
	cut             bool // the body has ended too early
	streamed        bool // the client has already received the answer
	fromReceipt     bool
	err             error // the reason why no answer was received
}

// noAnswerError is the error of a forward without a result to store. If an answer was received, a has the
// answer for the client.
type noAnswerError struct{ a *answer }

func (e *noAnswerError) Error() string {
	text := "gateway: the forward is " + string(e.a.Class)
	if e.a.Status != 0 {
		text += " (status " + strconv.Itoa(e.a.Status) + ")"
	}
	if e.a.err != nil {
		text += ": " + e.a.err.Error()
	}
	return text
}

func (e *noAnswerError) Unwrap() error { return e.a.err }

// doubted reports whether the gateway must read the receipt before it uses the answer. A service sends such an
// answer also if it has found its own receipt, or if it has failed after its commit.
func (a *answer) doubted() bool { return a.said >= 500 || a.said == http.StatusConflict }

// saysRunning reports whether the answer to a repeated forward is a conflict with an earlier forward that the
// service still executes. Such an answer says nothing about the outcome. Stripe and package oncehttp mark it by
// a header. A service that recognises keys may send it without a header, unless it replays a stored conflict.
func (rt *route) saysRunning(a *answer) bool {
	if a.said != http.StatusConflict || a.streamed {
		return false
	}
	if a.header.Get("Retry-After") != "" || a.header.Get("Stripe-Should-Retry") == "true" {
		return true
	}
	replayed := a.header.Get(wire.ReplayedHeader) == "true" || a.header.Get(wire.StatusHeader) == wire.StatusReplayed
	return rt.OnUnknown == PolicyForwardSameKey && !replayed
}

// kept returns the headers of an answer that later callers may receive too, which are the headers that are
// stored. They include the status of gRPC.
func (rt *route) kept(h http.Header) http.Header {
	kept, grpc := http.Header{}, isGRPC(h)
	for name, values := range h {
		if rt.keeps[name] || grpc && strings.HasPrefix(name, "Grpc-") {
			kept[name] = values
		}
	}
	return kept
}

// ofReceipt returns the answer that a receipt contains.
func (rt *route) ofReceipt(r Receipt) *answer {
	a := &answer{Class: classCompleted, Status: r.Status, Operation: r.Operation, header: rt.kept(r.Header), body: r.Body, hasBody: true, fromReceipt: true}
	switch {
	// The service has not stored the type of the body, so the gateway finds it out from the body.
	case a.header.Get("Content-Type") != "" || len(a.body) == 0:
	case json.Valid(a.body):
		a.header.Set("Content-Type", "application/json")
	default:
		a.header.Set("Content-Type", http.DetectContentType(a.body))
	}
	return a
}

// trailerField is the name of the stored header field that contains a trailer.
const trailerField = "Once-Trailer"

// result returns the stored form of an answer. If the answer cannot be stored, the result says so.
func (rt *route) result(a *answer) store.Result {
	omitted := store.Result{Kind: store.ResultOmitted, Status: a.Status}
	// A stored part of an answer would look complete to a later caller.
	if a.streamed || !a.hasBody || a.Class != classCompleted {
		return omitted
	}
	res := store.Result{Status: a.Status, Body: a.body}
	size := len(a.body)
	add := func(name, value string) {
		res.Header = append(res.Header, store.Field{Name: name, Value: value})
		size += len(name) + len(value) + len(": \n")
	}
	for name, values := range rt.kept(a.header) {
		for _, v := range values {
			add(name, v)
		}
	}
	for name, values := range a.trailer {
		for _, v := range values {
			add(trailerField, name+": "+v)
		}
	}
	if int64(size) > rt.cfg.MaxStored {
		return omitted
	}
	slices.SortStableFunc(res.Header, func(a, b store.Field) int { return strings.Compare(a.Name, b.Name) })
	return res
}

// write sends an answer to the caller whose request was forwarded. The parameter status is the value of the
// header Idempotency-Status, or "".
func (rt *route) write(w *client, a *answer, status string) {
	rt.writeHeader(w, a, status, len(a.body))
	if len(a.body) > 0 {
		_, _ = w.Write(a.body) // an error is ignored: after a lost connection the client asks again
	}
}

// writeHeader sends the status and the headers of an answer. The parameter length is the length of the body, or
// negative if the length is not known.
func (rt *route) writeHeader(w *client, a *answer, status string, length int) {
	h, preset := w.Header(), rt.cfg.Preset
	maps.Copy(h, a.header)
	// net/http sets the length below, and the outcome header is meant only for the gateway.
	delete(h, "Content-Length")
	delete(h, OutcomeHeader)
	if status != "" {
		h[preset.StatusHeader] = []string{status}
	}
	switch status {
	case wire.StatusReplayed:
		h[preset.ReplayedHeader] = []string{"true"}
		// A stored answer and a replayed one both get the retention.
		fallthrough
	case wire.StatusStored:
		h[preset.RetentionHeader] = []string{wire.FormatRetention(rt.cfg.Retain)}
	}
	if length >= 0 && !a.cut && a.Status != http.StatusNoContent && a.Status != http.StatusNotModified {
		h["Content-Length"] = []string{strconv.Itoa(length)}
	}
	if _, typed := h["Content-Type"]; !typed {
		h["Content-Type"] = nil // net/http must not guess a type
	}
	w.trailer = a.trailer
	w.WriteHeader(a.Status)
}

// client is the connection to the client that waits for the answer.
type client struct {
	http.ResponseWriter

	grpc    bool
	trailer http.Header
	timeout time.Duration // the time limit of each write
	timed   bool          // a write deadline is set
}

// Unwrap is for [http.ResponseController].
func (c *client) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Write implements [io.Writer]. The write has a deadline, so that a client that reads nothing does not occupy a
// place of the route for long.
func (c *client) Write(p []byte) (int, error) {
	if http.NewResponseController(c.ResponseWriter).SetWriteDeadline(time.Now().Add(c.timeout)) == nil {
		c.timed = true
	}
	return c.ResponseWriter.Write(p)
}

// FlushError is used by [http.ResponseController]. It removes the deadline, because the next part of the answer
// may come late. On HTTP/2 a deadline ends the stream even while no write runs.
func (c *client) FlushError() error {
	defer c.end()
	return http.NewResponseController(c.ResponseWriter).Flush()
}

// end removes the write deadline of the connection, because the next request on this connection must not
// inherit it.
func (c *client) end() {
	if c.timed {
		c.timed = false
		_ = http.NewResponseController(c.ResponseWriter).SetWriteDeadline(time.Time{})
	}
}

// WriteHeader implements [http.ResponseWriter]. On HTTP/1 an answer with trailers cannot have a Content-Length.
func (c *client) WriteHeader(status int) {
	if len(c.trailer) > 0 {
		h := c.Header()
		delete(h, "Content-Length")
		for name, values := range c.trailer {
			h[http.TrailerPrefix+name] = values
		}
	}
	c.ResponseWriter.WriteHeader(status)
}

// replayed removes the trailers from the headers of a stored answer, so that they are sent as trailers.
func (c *client) replayed(rec store.Record) store.Record {
	isTrailer := func(f store.Field) bool { return f.Name == trailerField }
	if !slices.ContainsFunc(rec.Result.Header, isTrailer) {
		return rec
	}
	c.trailer = http.Header{}
	for _, f := range rec.Result.Header {
		if name, value, ok := strings.Cut(f.Value, ": "); ok && isTrailer(f) {
			c.trailer[name] = append(c.trailer[name], value)
		}
	}
	rec.Result.Header = slices.DeleteFunc(slices.Clone(rec.Result.Header), isTrailer)
	return rec
}

// codeUpstream is the code of a problem about the service behind the gateway.
const codeUpstream oncehttp.ProblemCode = "TRANSIENT.upstream_unavailable"

func upstreamProblem(detail string) oncehttp.Problem {
	return oncehttp.Problem{
		Type: wire.ProblemType(string(codeUpstream)), Code: codeUpstream, Status: http.StatusServiceUnavailable,
		Title: "Service unavailable", Detail: detail, Retryable: true,
	}
}

// writeProblem writes a problem as [oncehttp.WriteProblem] does. A gRPC client does not read the body of an
// error, so it gets a gRPC status.
func writeProblem(w http.ResponseWriter, p oncehttp.Problem) {
	c, ok := w.(*client)
	if !ok || !c.grpc {
		oncehttp.WriteProblem(w, p)
		return
	}
	code := 9 // FAILED_PRECONDITION
	switch {
	case p.Retryable:
		code = 14 // UNAVAILABLE
	case p.Status == http.StatusUnauthorized:
		code = 16 // UNAUTHENTICATED
	case p.Status == http.StatusBadRequest, p.Status == http.StatusRequestEntityTooLarge, p.Status == http.StatusUnprocessableEntity:
		code = 3 // INVALID_ARGUMENT
	}
	h := w.Header()
	h["Content-Type"] = []string{"application/grpc"}
	h["Grpc-Status"] = []string{strconv.Itoa(code)}
	h["Grpc-Message"] = []string{string(p.Code) + ": " + p.Title}
	// In gRPC the HTTP status is 200, and Grpc-Status says that the call has failed.
	w.WriteHeader(http.StatusOK)
}

// finalUnknown returns the answer with which PolicyFail ends an operation, as a gRPC client reads it if grpc is true.
func finalUnknown(grpc bool) *store.Result {
	p := oncehttp.Problem{
		Type: wire.ProblemType(string(codeGivenUp)), Code: codeGivenUp, Status: http.StatusInternalServerError, Title: "Outcome never known",
		Detail: "This operation was perhaps executed, and its outcome can never be found out. It is not executed again. Check its effects before you send the request with a new key.",
	}
	w := &buffered{header: http.Header{}}
	writeProblem(&client{ResponseWriter: w, grpc: grpc}, p)
	res := &store.Result{Status: w.status, Body: w.body.Bytes()}
	for _, name := range []string{"Content-Type", "Grpc-Message", "Grpc-Status"} {
		if value := w.header.Get(name); value != "" {
			res.Header = append(res.Header, store.Field{Name: name, Value: value})
		}
	}
	return res
}

const codeGivenUp oncehttp.ProblemCode = "CONFLICT.idempotency.never_known"

type buffered struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (b *buffered) Header() http.Header         { return b.header }
func (b *buffered) WriteHeader(status int)      { b.status = status }
func (b *buffered) Write(p []byte) (int, error) { return b.body.Write(p) }

// mismatch returns the error for a request whose key belongs to another request, as the receipt shows.
func mismatch(op once.Operation) error {
	return &once.Error{Code: once.CodeMismatch, Effect: once.EffectNotApplied, Scope: op.Scope, Key: op.Key, Err: errOtherRequest}
}
