package oncehttp

import (
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/internal/engine/voided"
	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/store"
)

// lines adds header lines to a header.
type lines struct {
	header http.Header
	values []string // the backing array of the values, so that the names need no slices of their own
}

func (l *lines) add(name, value string) {
	if before, ok := l.header[name]; ok {
		l.header[name] = append(before, value)
		return
	}
	n := len(l.values)
	l.values = append(l.values, value)
	l.header[name] = l.values[n : n+1 : n+1]
}

func (l *lines) set(name, value string) {
	delete(l.header, name)
	l.add(name, value)
}

// addOutcome adds the headers that report the outcome of the request. The parameter status is "" if only a part of the work is done.
func (l *lines) addOutcome(x *Exchange, status string, code int) {
	p, said := x.plan, status
	switch status {
	case wire.StatusStored, wire.StatusOmitted, wire.StatusReplayed:
		// An answer of 400 or higher has undone nothing.
		if x.undoes != nil && code < 400 {
			said = wire.StatusUndone
		}
	}
	for _, f := range [...]struct {
		name, value string
		said        bool
	}{
		{p.preset.StatusHeader, said, said != ""},
		{p.preset.ReplayedHeader, "true", status == wire.StatusReplayed},
		{p.preset.RetentionHeader, p.retain, status == wire.StatusStored || status == wire.StatusReplayed},
		{p.preset.KeyHeader, x.key, x.key != ""},
		{p.preset.RetryHeader, "false", status != "" && status != wire.StatusIgnored && status != wire.StatusNotStored && code >= 400},
	} {
		if f.said && f.name != "" {
			l.set(f.name, f.value)
		}
	}
}

// send sends the complete answer of the handler.
func (x *Exchange) send(status string) {
	rec, h := &x.lastRun.recorder, x.w.Header()
	clear(h) // the recorder has the headers that were set before the handler, unless the handler has deleted them
	l := lines{h, x.lastRun.values[:0]}
	for _, f := range rec.storedLines {
		l.add(f.Name, f.Value)
	}
	for _, f := range rec.otherLines {
		l.add(f.Name, f.Value)
	}
	l.addOutcome(x, status, rec.status)
	switch {
	// With such a status a Content-Length would be wrong.
	case !bodyAllowed(rec.status):
	// The handler may know the length without writing the body.
	case x.r.Method == http.MethodHead && len(rec.body) == 0 && rec.length != "":
		l.set("Content-Length", rec.length)
	default:
		l.set("Content-Length", strconv.Itoa(len(rec.body)))
	}
	x.write(rec.status, rec.body)
}

// sendStored sends a stored answer. A replay has the stored headers of the first answer. The outer middleware has set all other headers for this
// request. It may also have set a stored header that the first answer did not have (see restrictsReader). The Content-Encoding of a replay also comes
// from the outer middleware, which encodes the body again.
func (x *Exchange) sendStored(rec *store.Record) {
	res := &rec.Result
	// The operation was undone before it was executed, so there is no answer of a handler.
	if voided.Is(*res) {
		x.WriteProblem(x.plan.problem(problemUndone))
		return
	}
	if res.Kind != store.ResultValue || res.Status < 200 || res.Status > 999 {
		p := x.operationProblem(ProblemResultUnavailable) // the answer was too large to be stored, or was erased, or the record is not an answer to a request
		if head.IsForgotten(res) || res.RolledBack {      // a person may have decided that the operation was not executed
			p.Detail = "This operation has ended, but its answer is not stored any more. The operation will not be executed again."
		}
		x.WriteProblem(p)
		return
	}
	h := x.w.Header()
	for name := range h {
		standard := http.CanonicalHeaderKey(name)
		if x.plan.storedHeaders[standard] && standard != "Content-Encoding" && (!restrictsReader(standard) || hasField(res.Header, standard)) {
			delete(h, name)
		}
	}
	l := lines{h, make([]string, 0, len(res.Header)+6)}
	for _, f := range res.Header {
		// An older release may have stored headers that are not stored now.
		if !neverStored(http.CanonicalHeaderKey(f.Name)) {
			l.add(f.Name, f.Value)
		}
	}
	l.addOutcome(x, wire.StatusReplayed, res.Status)
	if bodyAllowed(res.Status) {
		l.set("Content-Length", strconv.Itoa(len(res.Body)))
	}
	if hook := x.plan.OnReplay; hook != nil {
		added := http.Header{}
		hook(x.r, *rec, added)
		for name, values := range added {
			// A hook may add a header, and must not change the stored answer.
			if x.plan.mayAdd(http.CanonicalHeaderKey(name)) && !hasField(res.Header, http.CanonicalHeaderKey(name)) {
				h[name] = values
			}
		}
	}
	x.write(res.Status, res.Body)
}

// mayAdd reports whether a replay may have a header that its first answer did not have. The name is canonical.
func (p *plan) mayAdd(name string) bool {
	switch name {
	case "Content-Length", "Transfer-Encoding", "Trailer", "Connection":
		return false
	}
	return !p.storedHeaders[name] && !p.isAnswerHeader(name)
}

func hasField(header []store.Field, name string) bool {
	return slices.ContainsFunc(header, func(f store.Field) bool { return http.CanonicalHeaderKey(f.Name) == name })
}

func (x *Exchange) write(status int, body []byte) {
	h := x.w.Header()
	if _, typed := h["Content-Type"]; !typed {
		h["Content-Type"] = nil // the handler has set no type, and net/http must not guess one
	}
	x.w.WriteHeader(status)
	if len(body) > 0 {
		_, _ = x.w.Write(body) // an error is ignored: after a lost connection the client asks again
	}
}

// Context returns the context of the request. If the request has the header X-Request-Timeout, the context also ends when the time in this header has
// passed, because the client no longer waits after this time.
func (x *Exchange) Context() (context.Context, context.CancelFunc) {
	if x.deadline.IsZero() {
		return x.r.Context(), func() {}
	}
	return context.WithDeadline(x.r.Context(), x.deadline)
}

// Body returns a reader of the request's body, which begins at the first byte, and the size of the body. The body can be read until the next call of
// Body, Finish or Close.
func (x *Exchange) Body() (body io.ReadCloser, size int64) {
	x.endBody()
	x.sent = newBody(&x.body)
	return x.sent, x.body.size
}

func (x *Exchange) endBody() {
	if x.sent != nil {
		x.sent.end()
		x.sent = nil
	}
}

// Answer converts an answer into the form that the engine stores. The rules are the same as for the answer of a handler: Preset.Verdicts decides by
// the status whether the answer is stored, and only the headers that Config.Headers describes are stored. An answer that is larger than
// Config.MaxStored is not stored. If the verdict is that the answer must not be stored at all, Answer returns an error. Return the error of Answer
// to the engine: the engine rolls back, and Finish still sends the answer.
func (x *Exchange) Answer(status int, header http.Header, body []byte) (once.Answer, error) {
	last := &run{engine: x.engine, key: x.ownKey(), principal: x.principal}
	x.lastRun = last
	rec, before := &last.recorder, x.w.Header()
	rec.plan, rec.header = x.plan, maps.Clone(before)
	if rec.header == nil {
		rec.header = http.Header{}
	}
	maps.Copy(rec.header, header)
	// Outer middleware has set this encoding, and encodes the body of each replay again.
	if _, own := header["Content-Encoding"]; !own {
		rec.outerEncoding = before["Content-Encoding"]
	}
	rec.WriteHeader(status)
	if bodyAllowed(status) {
		rec.body = body
	}
	return last.answer()
}

// Finish answers the request with the result of [once.Engine.Exec]. Finish sends the stored answer, the answer of the last call of Answer, or a
// [Problem]. A caller that sends new answers itself, without Answer, calls Finish for errors and replays only. After Finish the body of the request
// can no longer be read.
func (x *Exchange) Finish(rec store.Record, replayed bool, err error) {
	x.endBody()
	if x.plan.preset.Body == nil { // Preset.Body is a function of the program, which may have kept the body
		x.body.recycle()
	}
	key := x.Operation.Key
	// A replay stores nothing new, and a request without a key stores nothing at all.
	if x.plan.Quota != nil && err == nil && !replayed && key != "" {
		x.plan.Quota.Add(x.r.Context(), x.Operation.Scope, head.Size(rec.Result.Header)+len(rec.Result.Body)+len(x.Operation.Request))
	}
	switch {
	case err == nil && replayed:
		x.sendStored(&rec)
	// Nothing to send: the caller of Exec sends the answer itself.
	case err == nil && x.lastRun == nil:
	case err == nil && key != "":
		x.send(x.lastRun.storedStatus)
	case err == nil:
		// Without a key the answer was not stored.
		x.send(wire.StatusIgnored)
	case x.lastRun != nil && x.lastRun.answerNotStored() && once.CodeOf(err) == once.CodeFailed:
		status := wire.StatusNotStored
		switch {
		case key == "":
			status = wire.StatusIgnored
		case once.EffectOf(err) != once.EffectNotApplied: // some phases of the work are committed, so "not stored" would be wrong
			status = ""
		}
		x.send(status)
	default:
		x.WriteProblem(x.Problem(err))
	}
}

// Close leaves the Config.Gate that the request entered, and releases the memory and the file of the request's body.
func (x *Exchange) Close() error {
	x.endBody()
	// A second Close must not leave the gate twice.
	if leave := x.leaveGate; leave != nil {
		x.leaveGate = nil
		leave()
	}
	return x.body.close()
}
