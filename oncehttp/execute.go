package oncehttp

import (
	"context"
	"maps"
	"net/http"

	"github.com/oncelib/once"
)

// execute runs the handler, on a request and a recorder that no earlier run has seen.
func (x *Exchange) execute(ctx context.Context, tx any) (once.Answer, error) {
	last := &run{Context: ctx, engine: x.engine, key: x.ownKey(), principal: x.principal, tx: tx}
	x.lastRun = last
	before := x.w.Header()
	last.recorder.plan, last.recorder.header = x.plan, before
	if len(before) > 0 {
		last.outer, last.recorder.header, last.recorder.outerEncoding = before, maps.Clone(before), before["Content-Encoding"]
	} else {
		defer clear(before) // lent: the recorder has noted what was in it
	}
	r := x.r.WithContext(last)
	if x.body.open(&last.body); x.body.size > 0 {
		r.Body, r.ContentLength = &last.body, x.body.size
	} else {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	if x.undoes != nil {
		r.Response = responseOf(x.undoes) //nolint:bodyclose // it is in memory
	}
	x.next.ServeHTTP(&last.recorder, r)
	if x.undoes != nil && last.recorder.status == 0 {
		last.recorder.WriteHeader(http.StatusNoContent)
	}
	last.body.end()
	if r.MultipartForm != nil && x.r.MultipartForm == nil {
		_ = r.MultipartForm.RemoveAll() // the server cleans up after its own request only
	}
	return last.answer()
}
