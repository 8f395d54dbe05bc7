package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
)

// Defaults of [Config] and [Route].
const (
	DefaultIdle       = time.Second
	DefaultTimeout    = 30 * time.Second
	DefaultMaxRequest = 64 << 20
	DefaultStatusPath = "/once/status"

	DefaultReceiptsAtOnce = 16

	// DefaultReceiptsKept is how long "once receipts sweep" keeps receipts by default.
	DefaultReceiptsKept = 30 * 24 * time.Hour

	maxMemory = 256 << 10 // of the body of a request; the rest is in a file
)

// Policy says how to treat a forward whose outcome is not known.
type Policy string

// The policies of a [Route].
const (
	PolicyStop           Policy = "stop"             // the request is not forwarded again until a person decides: 409
	PolicyCheck          Policy = "check"            // the receipt decides: see [Receipts]; like stop while no receipt of the route was seen
	PolicyForwardSameKey Policy = "forward_same_key" // the service itself remembers the client's key: forwarded again as long as it does
	PolicyRetry          Policy = "retry"            // the owner of the route declares that a second forward does no harm
	PolicyFail           Policy = "fail"             // like stop; after Route.FailAfter the final answer is that the outcome is unknown
)

// Config of a [Gateway].
type Config struct {
	// Name of the service, such as "payments". It is a part of each key: gateways of one service have the same name, and services that share a store,
	// or a table of receipts, have different ones. After a change of the name a gateway does not find its earlier keys, so the name does not depend
	// on the address of the service. Letters, digits, '-', '_' and '.', at most 64. Required.
	Name string

	// Upstream is the service: http://host:port, https://host:port, or h2c://host:port for HTTP/2 without TLS. Required.
	Upstream *url.URL

	// Store keeps the operations. If it is nil, the gateway stores nothing, and the receipts of the service decide alone.
	Store *lease.Store

	// Engine is the configuration of the engine on Store.
	Engine once.Config

	// Receipts of the service. Required by PolicyCheck, and without a Store.
	Receipts Receipts

	// ReceiptsKept is how long the service keeps receipts: not longer than the retention of each sweep. A missing receipt proves that a forward had
	// no effect only until nine tenths of that time have passed since the forward. Later it may have been swept: then the outcome is unknown until a
	// person decides. Default: DefaultReceiptsKept; [once.Forever] if they are never swept.
	ReceiptsKept time.Duration

	// ReceiptsAtOnce is how many questions Receipts answers at the same time, such as the number of its connections. Each route has an equal share,
	// so that a route whose transactions hold their receipts does not block another route. Default 16.
	ReceiptsAtOnce int

	// Principal returns the caller, for routes with keys: [HeaderPrincipal], or [oncehttp.SharedPrincipal]. Required.
	Principal func(*http.Request) string

	// Quota bounds what each principal has stored, under all its routes: a new request of one that has more is refused with 429 and not forwarded. It
	// needs a Store. Default: nothing does.
	Quota *limit.Quota

	// TrustedProxies may set the headers of the original client (X-Forwarded-For), scheme and host (-Proto, -Host); from other senders these headers
	// are replaced.
	TrustedProxies []netip.Prefix

	// Routes whose requests have keys. All other requests pass through.
	Routes []Route

	// Hidden are prefixes of paths that clients cannot reach: 404. Hide an endpoint of the service for receipts: it shows stored answers, and can
	// keep operations from committing.
	Hidden []string

	// Idle is how long an unused connection to the service is kept. It must be less than the service's own keep-alive timeout: a request on a
	// connection that the service is about to close has an unknown outcome. Default 1 s.
	Idle time.Duration

	// TLS to an https upstream. Default: the configuration of net/http.
	TLS *tls.Config

	// StatusPath is the path of the state of an operation (status_url of problems). Default: /once/status.
	StatusPath string

	// Dial connects to the service. Default: a [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Route is a kind of request that has a key.
type Route struct {
	// Pattern is a pattern of [http.ServeMux], such as "POST /payments" or "PUT /refunds/{id}". Without a method it means POST and PATCH. A request
	// that differs from it in a trailing slash or in letter case does not match, and passes through.
	Pattern string

	// OnUnknown says what to do if the outcome of a forward is not known. Default: stop.
	OnUnknown Policy

	// UpstreamKeepsKeys is how long the service remembers a key, for PolicyForwardSameKey.
	UpstreamKeepsKeys time.Duration

	// FailAfter is how long after the forward PolicyFail gives up. Default 24 h.
	FailAfter time.Duration

	// Optional lets requests without a key pass through. Default: 400.
	Optional bool

	// Timeout bounds a forward until its answer is complete, or streams. It also bounds how long a client may take to read a part of an answer.
	// Default 30 s.
	Timeout time.Duration

	// BodyTimeout bounds the time in which a client sends its body, because it holds a place of the Gate meanwhile. Default 30 s.
	BodyTimeout time.Duration

	// Wait is how long a duplicate waits for the answer. Default: 409 at once.
	Wait time.Duration

	// Retain is how long answers are kept. Default: the engine's; without a Store, Config.ReceiptsKept.
	Retain time.Duration

	// KeyTime is as in [oncehttp.Config]: a UUID of version 7 has the time at which its operation was first sent. An operation that was first sent so
	// long ago that it may be forgotten is refused.
	KeyTime bool

	// UUIDKeys refuses keys that are not UUIDs in lower case, without a forward: as in [oncehttp.KeyFormat].
	UUIDKeys bool

	// MaxRequest is the largest body of a request. A larger one gets 413. More than 256 KiB are kept in a file. Default 64 MiB.
	MaxRequest int64

	// MaxStored is the largest answer that is kept. A larger one streams to the first caller, and its retry gets 409. Default 1 MiB.
	MaxStored int64

	// Headers of the answer to keep, in addition to those of [oncehttp.Config].
	Headers []string

	// Gate is asked before a request is executed, and before its body is read: see [oncehttp.Config]. A refused request claims nothing. Default: no
	// gate.
	Gate oncehttp.Gate

	// Begin is called before each forward; again says that an earlier forward was made impossible. If it returns an error, the request is not
	// forwarded, and the key is free. done is called with the result of the forward. Default: not called.
	Begin func(again bool) (done func(Forwarded), err error)
}

// Forwarded is the result of a forward, for Begin of a [Route].
type Forwarded struct {
	Class     string      // not_sent, refused, completed, unknown_body or unknown
	Status    int         // of the answer, or the HTTP status for its grpc-status; 0 means no answer
	Header    http.Header // of the answer; it must not be changed
	Took      time.Duration
	Abandoned bool // its own caller has ended it, which says nothing about the service
}

// HeaderPrincipal returns a Config.Principal that trusts the header of a request which comes from one of the trusted networks. Any other request has
// no principal.
func HeaderPrincipal(header string, trusted ...netip.Prefix) func(*http.Request) string {
	name := http.CanonicalHeaderKey(header)
	return func(r *http.Request) string {
		lines := r.Header[name]
		if len(lines) != 1 || !isFrom(r.RemoteAddr, trusted) {
			return ""
		}
		return lines[0]
	}
}

// isFrom reports whether the other end of a connection is in one of the networks.
func isFrom(remote string, networks []netip.Prefix) bool {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil { // a Unix socket has no address
		return false
	}
	addr := peer.Addr().Unmap().WithZone("")
	for _, n := range networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

const maxName = 64

func isName(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
	})
}

// check fills in the defaults of the config, and returns an error if a field is wrong.
func (c *Config) check() error {
	switch {
	case !isName(c.Name):
		return fmt.Errorf("Config.Name is %q: at most %d letters, digits, '-', '_' and '.' are needed, so that services that share a store share no keys. Try: the name of the service, such as payments", c.Name, maxName)
	case c.Upstream == nil || c.Upstream.Host == "":
		return errors.New("Config.Upstream is missing. Try: http://127.0.0.1:3000")
	case c.Upstream.Scheme != "http" && c.Upstream.Scheme != "https" && c.Upstream.Scheme != schemeH2C:
		return fmt.Errorf("Config.Upstream has the scheme %q. Try: http, https or h2c", c.Upstream.Scheme)
	case c.Upstream.Path != "" && c.Upstream.Path != "/" || c.Upstream.RawQuery != "":
		return fmt.Errorf("Config.Upstream %q has a path or a query. Try: scheme, host and port alone", c.Upstream)
	case c.Principal == nil:
		return errors.New("Config.Principal is missing: callers would share keys and answers. Try: HeaderPrincipal, or oncehttp.SharedPrincipal if there is only one caller")
	case c.Store == nil && c.Receipts == nil:
		return errors.New("Config has neither Store nor Receipts, so that nothing would be remembered. Try: one of them")
	case c.Store == nil && c.Quota != nil:
		return errors.New("Config.Quota bounds what is stored, and without a Store nothing is. Try: a Store, or no Quota")
	case min(c.Idle, c.ReceiptsKept) < 0 || c.ReceiptsAtOnce < 0:
		return errors.New("Config.Idle, ReceiptsKept and ReceiptsAtOnce must not be negative")
	}
	c.ReceiptsAtOnce = cmp.Or(c.ReceiptsAtOnce, DefaultReceiptsAtOnce)
	if c.ReceiptsKept == 0 {
		c.ReceiptsKept = DefaultReceiptsKept
	}
	if c.Idle == 0 {
		c.Idle = DefaultIdle
	}
	if c.StatusPath == "" {
		c.StatusPath = DefaultStatusPath
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	}
	return nil
}

// check fills in the defaults of a route, and returns an error if a field is wrong.
func (r *Route) check(c *Config) error {
	r.Pattern = cleanPattern(r.Pattern)
	if r.OnUnknown == "" {
		r.OnUnknown = PolicyStop
	}
	switch r.OnUnknown {
	case PolicyStop, PolicyRetry, PolicyFail:
	case PolicyCheck:
		if c.Receipts == nil {
			return fmt.Errorf("route %q: policy check needs Config.Receipts", r.Pattern)
		}
	case PolicyForwardSameKey:
		if r.UpstreamKeepsKeys <= 0 {
			return fmt.Errorf("route %q: policy forward_same_key needs UpstreamKeepsKeys: a service that has forgotten a key executes again", r.Pattern)
		}
	default:
		return fmt.Errorf("route %q: there is no policy %q. Try: stop, check, forward_same_key, retry or fail", r.Pattern, r.OnUnknown)
	}
	switch {
	case c.Store == nil && r.OnUnknown != PolicyStop && r.OnUnknown != PolicyCheck:
		return fmt.Errorf("route %q: without a Store the receipt decides, and policy %q cannot. Try: leaving it out", r.Pattern, r.OnUnknown)
	case min(r.UpstreamKeepsKeys, r.FailAfter, r.Timeout, r.BodyTimeout, r.Wait, r.Retain) < 0 || min(r.MaxRequest, r.MaxStored) < 0 || max(r.MaxRequest, r.MaxStored) > 1<<40:
		return fmt.Errorf("route %q: durations and sizes must not be negative, and sizes at most 1 TiB", r.Pattern)
	}
	if c.Store == nil {
		if r.Retain == 0 {
			r.Retain = c.ReceiptsKept
		}
		if r.Retain > c.ReceiptsKept {
			return fmt.Errorf("route %q: keys are kept for %v, and receipts for %v. Try: receipts that are kept at least as long as keys", r.Pattern, r.Retain, c.ReceiptsKept)
		}
	}
	if r.Timeout == 0 {
		r.Timeout = DefaultTimeout
	}
	r.BodyTimeout = cmp.Or(r.BodyTimeout, DefaultTimeout)
	if r.FailAfter == 0 {
		r.FailAfter = 24 * time.Hour
	}
	if r.MaxRequest == 0 {
		r.MaxRequest = DefaultMaxRequest
	}
	return nil
}

// cleanPattern writes a pattern as http.ServeMux reads it: with one blank, and a host without capitals.
func cleanPattern(p string) string {
	method, rest := "", p
	if i := strings.IndexAny(p, " \t"); i > 0 {
		method, rest = p[:i]+" ", strings.TrimLeft(p[i:], " \t")
	}
	i := max(0, strings.IndexByte(rest, '/'))
	return method + strings.ToLower(rest[:i]) + rest[i:]
}

// protected returns how oncehttp reads requests of the route.
func (r *Route) protected(c *Config, methods []string) oncehttp.Config {
	preset := oncehttp.DefaultPreset()
	if len(methods) > 0 {
		preset.Methods = methods
	}
	preset.WriteProblem = writeProblem
	return oncehttp.Config{
		Principal: c.Principal, Preset: preset, Wait: r.Wait, Retain: r.Retain, KeyTime: r.KeyTime, KeyFormat: oncehttp.KeyFormat{UUID: r.UUIDKeys},
		MaxRequest: r.MaxRequest, MaxMemory: min(maxMemory, r.MaxRequest), MaxStored: r.MaxStored, Headers: r.Headers,
		Gate: r.Gate, Quota: c.Quota,
		StatusURL: func(r *http.Request, key string) string {
			return c.StatusPath + "?" + url.Values{"route": {r.Pattern}, "key": {key}}.Encode()
		},
	}
}
