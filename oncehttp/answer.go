package oncehttp

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/internal/engine/voided"
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

// replay sends what was stored. Of the headers that are stored, the answer has
// those that the first one had; others, and guards that it had not, are what the
// middleware around this one has set for this request. So is a Content-Encoding, which is
// what that middleware does with the body.
func (x *Exchange) replay(res *store.Result) {
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
	x.write(res.Status, res.Body)
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
