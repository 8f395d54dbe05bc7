package home

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"

	"github.com/oncelib/once/internal/base/onward"
	"github.com/oncelib/once/oncehttp"
)

// forward sends r to a region, and sends the region's answer to the client.
func forward(cfg *Config, w http.ResponseWriter, r *http.Request, region string) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, cfg.MaxBody))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		oncehttp.WriteProblem(w, oncehttp.Problem{Status: http.StatusRequestEntityTooLarge, Code: oncehttp.ProblemBodyTooLarge, SafeNewKey: true})
		return
	case err != nil:
		oncehttp.WriteProblem(w, oncehttp.Problem{Status: http.StatusBadRequest, Code: oncehttp.ProblemBodyUnreadable, Retryable: true})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), cfg.Timeout)
	defer cancel()
	resp, answer, err := cfg.send(ctx, r, body, region) //nolint:bodyclose // send has read and closed it
	if err != nil {
		notAnswered(w, r, region, err)
		return
	}
	onward.StripHop(resp.Header)
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(answer) //nolint:gosec // G705: it is the answer of the same service
	for name, values := range resp.Trailer {
		w.Header()[http.TrailerPrefix+name] = values
	}
}

var (
	errNoURL    = errors.New("Config.URL has no URL for the region")
	errTooLong  = errors.New("the answer of the region is longer than Config.MaxBody")
	errHalf     = errors.New("the answer of the region has no length and ends when its connection ends, so the answer may be incomplete")
	errSwitched = errors.New("the region has switched protocols (status 101) instead of answering the request")
)

// send sends a request once, and reads the whole answer.
func (cfg *Config) send(ctx context.Context, in *http.Request, body []byte, region string) (*http.Response, []byte, error) {
	at := cfg.URL(region)
	if at == nil {
		return nil, nil, &net.OpError{Op: "dial", Err: errNoURL}
	}
	u := *in.URL
	u.Scheme, u.Host = at.Scheme, at.Host
	out := (&http.Request{Method: in.Method, URL: &u, Host: in.Host, Header: in.Header.Clone(), ContentLength: int64(len(body))}).WithContext(ctx)
	onward.StripHop(out.Header)
	out.Header[HopHeader] = []string{cfg.Region}
	if _, said := out.Header["User-Agent"]; !said {
		out.Header["User-Agent"] = nil // nil, so that net/http adds none
	}
	if peer, _, err := net.SplitHostPort(in.RemoteAddr); err == nil {
		out.Header["X-Forwarded-For"] = []string{strings.Join(append(in.Header["X-Forwarded-For"], peer), ", ")}
	}
	onward.SendOnce(out, io.NopCloser(bytes.NewReader(body)))
	resp, err := cfg.Transport.RoundTrip(out)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols { // the body of such an answer does not end
		return nil, nil, errSwitched
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, cfg.MaxBody+1))
	switch {
	case err != nil:
		return nil, nil, err
	case int64(len(answer)) > cfg.MaxBody:
		return nil, nil, errTooLong
	// Such a body ends with its connection, so it may have been cut.
	case onward.IsCloseDelimited(resp) && resp.Body != http.NoBody:
		return nil, nil, errHalf
	}
	return resp, answer, nil
}

// notAnswered answers in place of a region that gave no answer. The region may have executed the request. A retry with the same key finds out; without a key nothing can.
func notAnswered(w http.ResponseWriter, r *http.Request, region string, err error) {
	dial := (*net.OpError)(nil)
	// Without a connection, the region has received nothing.
	unsent := errors.As(err, &dial) && dial.Op == "dial"
	if unsent || isRepeatable(r) {
		oncehttp.WriteProblem(w, problem(http.StatusServiceUnavailable, ProblemUnavailable, region, "The region of this tenant is not available now."))
		return
	}
	oncehttp.WriteProblem(w, oncehttp.Problem{
		Status: http.StatusBadGateway, Code: ProblemLost, Extra: map[string]any{"home": region},
		Detail: "The region of this tenant has not answered. The region may have executed the request, and the request has no idempotency key.",
	})
}

// isRepeatable reports whether a request that may have been executed can be sent again. It can if it has a key, or if its method has the same effect twice.
func isRepeatable(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return r.Header.Get("Idempotency-Key") != "" || r.Header.Get("X-Idempotency-Key") != ""
}
