package home

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/oncelib/once/internal/base/onward"
	"github.com/oncelib/once/oncehttp"
)

// most is how often a request is forwarded: to the region that the hash has chosen, to an earlier home, and to the home.
const most = 3

// forward sends r to the home of a tenant, and sends the answer of the home to the client. If that region answers that the home is elsewhere,
// or has received nothing, and this region then knows a later home, r goes there. No region has executed r before that.
func forward(cfg *Config, next http.Handler, w http.ResponseWriter, r *http.Request, tenant, region string) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, cfg.MaxBody))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		oncehttp.WriteProblem(w, oncehttp.Problem{Status: http.StatusRequestEntityTooLarge, Code: oncehttp.ProblemBodyTooLarge, SafeNewKey: true})
		return
	case err != nil:
		oncehttp.WriteProblem(w, oncehttp.Problem{Status: http.StatusBadRequest, Code: oncehttp.ProblemBodyUnreadable, Retryable: true})
		return
	}
	for times := 1; ; times++ {
		resp, answer, err := cfg.send(r, body, region) //nolint:bodyclose // send has read and closed it
		pin, misdirected := elsewhere(resp, answer)
		later := region
		// With 503, the region may have refused a tenant whose home it does not know.
		if err != nil || misdirected || resp.StatusCode == http.StatusServiceUnavailable {
			cfg.Map.Pin(tenant, pin)
			later = cfg.ask(r, tenant).Region
		}
		// A request that the region may have executed goes nowhere else.
		again := (misdirected || isUnsent(err)) && later != region
		switch {
		case again && later == cfg.Region:
			r = r.WithContext(r.Context())
			r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
			next.ServeHTTP(w, r)
			return
		case again && times < most:
			region = later
		case err != nil:
			notAnswered(w, r, region, err)
			return
		default:
			pass(w, resp, answer)
			return
		}
	}
}

// ask returns the home of a tenant after it has asked the database of this region. A client waits for the answer, which a database that hangs must not
// delay for long.
func (cfg *Config) ask(r *http.Request, tenant string) Pin {
	ctx, cancel := context.WithTimeout(r.Context(), min(cfg.Timeout, time.Second))
	defer cancel()
	return cfg.Map.ask(ctx, tenant)
}

// elsewhere returns the pin in an answer of [Handler] which says that the home is elsewhere.
func elsewhere(resp *http.Response, answer []byte) (p Pin, misdirected bool) {
	said := struct {
		Code  oncehttp.ProblemCode `json:"code"`
		Home  string               `json:"home"`
		Epoch int64                `json:"home_epoch"`
	}{}
	if resp == nil || resp.StatusCode != http.StatusMisdirectedRequest || json.Unmarshal(answer, &said) != nil || said.Code != ProblemMisdirected || said.Home == "" {
		return Pin{}, false
	}
	return Pin{said.Home, said.Epoch}, true
}

// pass sends the answer of a region to the client.
func pass(w http.ResponseWriter, resp *http.Response, answer []byte) {
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
func (cfg *Config) send(in *http.Request, body []byte, region string) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(in.Context(), cfg.Timeout)
	defer cancel()
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
	if isUnsent(err) || isRepeatable(r) {
		oncehttp.WriteProblem(w, problem(http.StatusServiceUnavailable, ProblemUnavailable, region, "The region of this tenant is not available now."))
		return
	}
	oncehttp.WriteProblem(w, oncehttp.Problem{
		Status: http.StatusBadGateway, Code: ProblemLost, Extra: map[string]any{"home": region},
		Detail: "The region of this tenant has not answered. The region may have executed the request, and the request has no idempotency key.",
	})
}

// isUnsent reports whether a region has received nothing, because there was no connection.
func isUnsent(err error) bool {
	dial := (*net.OpError)(nil)
	return errors.As(err, &dial) && dial.Op == "dial"
}

// isRepeatable reports whether a request that may have been executed can be sent again. It can if it has a key, or if its method has the same effect twice.
func isRepeatable(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return r.Header.Get("Idempotency-Key") != "" || r.Header.Get("X-Idempotency-Key") != ""
}
