package oncehttp

import (
	"context"
	"io"
	"maps"
	"net/http"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/store"
)

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
	switch {
	case err == nil && replayed:
		x.replay(&rec.Result)
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
