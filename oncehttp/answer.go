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

// lines puts header lines into a header.
type lines struct {
	header http.Header
	values []string // room for the values, so that each name needs no slice of its own
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

// addOutcome says what has become of the request: status "" nothing, because only a part of the work is done.
func (l *lines) addOutcome(x *Exchange, status string, code int) {
	p, said := x.plan, status
	switch status {
	case wire.StatusStored, wire.StatusOmitted, wire.StatusReplayed:
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

// send sends what the handler has answered, all of it.
func (x *Exchange) send(status string) {
	rec, h := &x.lastRun.recorder, x.w.Header()
	clear(h) // what was there when the handler began is in the recorder, unless the handler has deleted it
	l := lines{h, x.lastRun.values[:0]}
	for _, f := range rec.storedLines {
		l.add(f.Name, f.Value)
	}
	for _, f := range rec.otherLines {
		l.add(f.Name, f.Value)
	}
	l.addOutcome(x, status, rec.status)
	switch {
	case !bodyAllowed(rec.status):
	case x.r.Method == http.MethodHead && len(rec.body) == 0 && rec.length != "":
		l.set("Content-Length", rec.length)
	default:
		l.set("Content-Length", strconv.Itoa(len(rec.body)))
	}
	x.write(rec.status, rec.body)
}

// sendStored sends what was stored. Of the headers that are stored, the answer has
// those that the first one had; others, and guards that it had not, are what the
// middleware around this one has set for this request. So is a Content-Encoding, which is
// what that middleware does with the body.
func (x *Exchange) sendStored(rec *store.Record) {
	res := &rec.Result
	// It was undone before it was executed, so that no answer of a handler exists.
	if voided.Is(*res) {
		x.WriteProblem(x.plan.problem(problemUndone))
		return
	}
	if res.Kind != store.ResultValue || res.Status < 200 || res.Status > 999 {
		x.WriteProblem(x.operationProblem(ProblemResultUnavailable)) // too large to be kept, or not an answer to a request
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
			if x.plan.mayAdd(http.CanonicalHeaderKey(name)) && !hasField(res.Header, http.CanonicalHeaderKey(name)) {
				h[name] = values
			}
		}
	}
	x.write(res.Status, res.Body)
}

// mayAdd reports whether a replay may have a header, by its canonical name, that its first answer had not.
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
		h["Content-Type"] = nil // the handler did not want one: net/http must not guess one
	}
	x.w.WriteHeader(status)
	if len(body) > 0 {
		_, _ = x.w.Write(body) // a client that is gone can ask again
	}
}

// Context returns the context of the request, which ends when the client does not wait any longer
// (X-Request-Timeout).
func (x *Exchange) Context() (context.Context, context.CancelFunc) {
	if x.deadline.IsZero() {
		return x.r.Context(), func() {}
	}
	return context.WithDeadline(x.r.Context(), x.deadline)
}

// Body returns the body of the request from its beginning, and its size. It can be read until Body is called again, and
// until Finish or Close.
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

// Answer returns what the engine stores of an answer, as of a handler's: by the verdict of the Preset on its status, and with those of
// its headers that are stored. What is too large to be stored is omitted. The error is that of an answer that is not
// stored at all: with it the engine rolls back, and Finish sends the answer nevertheless.
func (x *Exchange) Answer(status int, header http.Header, body []byte) (once.Answer, error) {
	last := &run{engine: x.engine, key: x.ownKey(), principal: x.principal}
	x.lastRun = last
	rec, before := &last.recorder, x.w.Header()
	rec.plan, rec.header = x.plan, maps.Clone(before)
	if rec.header == nil {
		rec.header = http.Header{}
	}
	maps.Copy(rec.header, header)
	if _, own := header["Content-Encoding"]; !own {
		rec.outerEncoding = before["Content-Encoding"]
	}
	rec.WriteHeader(status)
	if bodyAllowed(status) {
		rec.body = body
	}
	return last.answer()
}

// Finish answers the request with what [once.Engine.Exec] has returned: the stored answer, or that of the last
// Answer, or a problem. A caller that has sent its answer itself, and has not called Answer, calls it
// with errors and replays alone. The body of the request cannot be read any more.
func (x *Exchange) Finish(rec store.Record, replayed bool, err error) {
	x.endBody()
	if x.plan.preset.Body == nil { // a function that may have kept it
		x.body.recycle()
	}
	key := x.Operation.Key
	if x.plan.Quota != nil && err == nil && !replayed && key != "" {
		x.plan.Quota.Add(x.r.Context(), x.Operation.Scope, head.Size(rec.Result.Header)+len(rec.Result.Body)+len(x.Operation.Request))
	}
	switch {
	case err == nil && replayed:
		x.sendStored(&rec)
	case err == nil && x.lastRun == nil:
	case err == nil && key != "":
		x.send(x.lastRun.storedStatus)
	case err == nil:
		x.send(wire.StatusIgnored)
	case x.lastRun != nil && x.lastRun.answerNotStored() && once.CodeOf(err) == once.CodeFailed:
		status := wire.StatusNotStored
		switch {
		case key == "":
			status = wire.StatusIgnored
		case once.EffectOf(err) != once.EffectNotApplied: // phases of the work stand
			status = ""
		}
		x.send(status)
	default:
		x.WriteProblem(x.Problem(err))
	}
}

// Close leaves the gate and gives back what the body has taken.
func (x *Exchange) Close() error {
	x.endBody()
	if leave := x.leaveGate; leave != nil {
		x.leaveGate = nil
		leave()
	}
	return x.body.close()
}
