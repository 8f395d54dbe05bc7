package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/onward"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
)

// forward is one request that goes to the service, and the answer that comes back.
type forward struct {
	rt *route
	x  *oncehttp.Exchange // nil if the gateway only asks about an operation, without a client
	r  *http.Request
	w  *client

	fingerprint string // the fingerprint of the request, in hexadecimal

	witness *witness // the witness of the route; nil without PolicyCheck, and without a store
	checks  bool     // with PolicyCheck: the witness has seen a receipt of the route, so a missing receipt proves that a forward had no effect

	last    *answer                 // the answer of the last forward, or of a receipt
	cancel  context.CancelCauseFunc // cancels the forward
	release func()                  // ends the wait of duplicates; nil if an engine lets duplicates wait
}

var errTimeout = errors.New("the service has not answered in time (Route.Timeout)")

var errSwitched = errors.New("the service has switched protocols (status 101) instead of answering the request")

// maxFresh limits how often the gateway sends a request again because the service had closed a connection of
// the pool.
const maxFresh = 3

// send forwards the request once, if Begin of the route allows the forward. It always returns an answer. The
// class of the answer tells the result.
func (f *forward) send(ctx context.Context, operation string) *answer {
	if f.rt.Begin == nil {
		return f.sendOnAny(ctx, operation)
	}
	id := f.rt.g.id(f.x.Operation)
	done, err := f.rt.Begin(operation != lease.Key(id.Scope, id.Key, wire.ForwardPhase, 0)) // the ID changes only after the earlier forward was made impossible, also if an earlier request has found that out
	if err != nil {
		return &answer{Operation: operation, Class: classNotSent, err: err}
	}
	said := Forwarded{Class: string(classUnknown), Abandoned: true} // the result if send panics
	defer func() { done(said) }()
	began := time.Now()
	a := f.sendOnAny(ctx, operation)
	said = Forwarded{Class: string(a.Class), Status: a.said, Header: a.header, Took: time.Since(began), Abandoned: ctx.Err() != nil}
	return a
}

// sendOnAny forwards the request, on a new connection if the service had closed the connection from the pool.
func (f *forward) sendOnAny(ctx context.Context, operation string) *answer {
	for tries := 1; ; tries++ {
		a, again := f.sendOn(ctx, operation)
		if !again || tries == maxFresh {
			return a
		}
	}
}

// sendOn forwards the request on one connection. The result again says that the service had closed the
// connection before the request was written.
func (f *forward) sendOn(ctx context.Context, operation string) (_ *answer, again bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.cancel = cancel
	timer := time.AfterFunc(f.rt.Timeout, func() { cancel(errTimeout) })
	defer timer.Stop()
	// The trace of the connection shows whether a byte of the request was written.
	var s sending
	a := &answer{Operation: operation}
	h2c := f.rt.g.cfg.Upstream.Scheme == schemeH2C
	resp, err := f.rt.g.client.RoundTrip(f.request(s.trace(ctx, h2c), operation))
	if err != nil {
		if a.Class = classUnknown; s.isNotSent(err) {
			a.Class = classNotSent
		}
		a.err = err
		if cause := context.Cause(ctx); errors.Is(cause, errTimeout) {
			a.err = cause
		}
		return a, a.Class == classNotSent && s.reused && ctx.Err() == nil
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols { // the body of such an answer does not end with ctx
		a.Class, a.err = classUnknown, errSwitched
		return a, false
	}
	a.Status, a.said, a.header, a.hasBody = resp.StatusCode, resp.StatusCode, resp.Header, true
	outcome := http.Header{OutcomeHeader: resp.Header[OutcomeHeader]}
	a.Class = classOf(a.Status, outcome)
	onward.StripHop(a.header)
	stripOwn(a.header)
	f.readBody(resp, a, timer)
	if isGRPC(a.header) && a.Status == http.StatusOK {
		a.said = statusOfGRPC(a.header, a.trailer)
		a.Class = classOf(a.said, outcome)
	}
	// If only the end of the connection ends a body, the body may have been cut.
	if a.Class == classCompleted && (a.cut || onward.IsCloseDelimited(resp)) {
		a.Class = classUnknownBody
	}
	return a, false
}

// request returns the request for the service.
func (f *forward) request(ctx context.Context, operation string) *http.Request {
	in := f.r
	u := *in.URL
	out := &http.Request{Method: in.Method, URL: &u, Header: in.Header.Clone(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	te := in.Header.Get("Te")
	onward.StripHop(out.Header)
	if strings.Contains(te, "trailers") {
		out.Header["Te"] = []string{"trailers"} // gRPC servers require it
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto", "Expect", "Content-Length"} {
		delete(out.Header, name)
	}
	if _, said := out.Header["User-Agent"]; !said {
		out.Header["User-Agent"] = nil // net/http must not set its own
	}
	f.rt.g.address(&httputil.ProxyRequest{In: in, Out: out})
	if f.rt.OnUnknown == PolicyForwardSameKey { // in one form, although the client may have written the key in another form
		names := f.rt.cfg.Preset.KeyHeaders
		for _, name := range names {
			delete(out.Header, name)
		}
		out.Header[names[0]] = []string{f.x.Operation.Key}
	}
	out.Header[OperationHeader] = []string{operation}
	out.Header[FingerprintHeader] = []string{f.fingerprint}
	body, size := f.x.Body()
	// The body may be sent only once: net/http must not repeat the request on its own.
	out.ContentLength = size
	onward.SendOnce(out, body)
	return out.WithContext(ctx)
}

// readBody reads the body of an answer. If the body is too large to be stored, or is a stream of events, the
// client receives the body while the gateway reads it.
func (f *forward) readBody(resp *http.Response, a *answer, timer *time.Timer) {
	maxStored := f.rt.cfg.MaxStored
	events := strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream")
	// A doubtful answer must not reach the client before the receipt was read.
	mayStream := f.w != nil && a.Class != classUnknown && (f.rt.g.cfg.Receipts == nil || !a.doubted())
	if !events || !mayStream {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxStored+1))
		a.body, a.cut = body, err != nil
		a.trailer = trailersOf(resp)
		if a.err = err; err != nil || int64(len(body)) <= maxStored {
			return
		}
		if !mayStream {
			// The answer is too large to be stored, and the client must not receive it yet.
			a.body, a.cut = nil, true
			return
		}
	}
	// An answer may stream for longer than Route.Timeout.
	timer.Stop()
	f.stream(resp, a)
}

// stream sends an answer to the client while the answer arrives. It ends if the client has disconnected or does
// not read, because the service has already executed the request.
func (f *forward) stream(resp *http.Response, a *answer) {
	a.streamed = true
	defer context.AfterFunc(f.r.Context(), func() { f.cancel(nil) })() // ends the read if the client has gone, because a service may be silent for long
	if f.release != nil {                                              // duplicates cannot receive a streamed answer
		f.release()
	}
	status := wire.StatusOmitted
	if a.Class == classRefused {
		status = wire.StatusNotStored
	}
	f.rt.writeHeader(f.w, a, status, -1)
	flush := http.NewResponseController(f.w).Flush
	_, err := f.w.Write(a.body)
	a.body = nil
	buf := make([]byte, 32<<10)
	for err == nil {
		if err = flush(); err != nil {
			break
		}
		var n int
		n, a.err = resp.Body.Read(buf)
		if n > 0 {
			_, err = f.w.Write(buf[:n])
		}
		if a.err != nil {
			break
		}
	}
	if a.cut = a.err != nil && !errors.Is(a.err, io.EOF) && f.r.Context().Err() == nil; !a.cut {
		a.err = nil
	}
	a.trailer = trailersOf(resp)
	for name, values := range a.trailer {
		f.w.Header()[http.TrailerPrefix+name] = values
	}
}

// trailersOf returns the trailers of an answer. The body must have been read.
func trailersOf(resp *http.Response) http.Header {
	trailer := resp.Trailer.Clone()
	stripOwn(trailer)
	for name, values := range trailer {
		if len(values) == 0 {
			delete(trailer, name)
		}
	}
	return trailer
}
