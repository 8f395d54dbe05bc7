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

// These constants are the defaults of fields of [Config] and [Route].
const (
	DefaultIdle       = time.Second
	DefaultTimeout    = 30 * time.Second
	DefaultMaxRequest = 64 << 20
	DefaultStatusPath = "/once/status"

	DefaultReceiptsAtOnce = 16

	// DefaultReceiptsKept is how long the command "once receipts sweep" keeps receipts by
	// default.
	DefaultReceiptsKept = 30 * 24 * time.Hour

	maxMemory = 256 << 10 // so much of a request's body stays in memory; a longer body is in a file
)

// Policy says what a gateway does if the outcome of a forwarded request is unknown.
type Policy string

// These constants are the policies of a [Route].
const (
	PolicyStop           Policy = "stop"             // the request is not forwarded again until an operator decides: the client gets 409
	PolicyCheck          Policy = "check"            // the gateway reads the receipt to find out the outcome: see [Receipts]; until the gateway has seen a receipt of the route, PolicyCheck works like PolicyStop
	PolicyForwardSameKey Policy = "forward_same_key" // the service itself remembers the client's key, so the gateway forwards the request again, until the time Route.UpstreamKeepsKeys is over
	PolicyRetry          Policy = "retry"            // the gateway forwards the request again, because the owner of the route declares that a second forward does no harm
	PolicyFail           Policy = "fail"             // the gateway works like PolicyStop until Route.FailAfter has passed, and then stores the final answer that the outcome is unknown
)

// Config configures a [Gateway].
type Config struct {
	// Name is the name of the service, such as "payments". Name is part of the scope of each key. All gateways
	// of one service must have the same name; services that share a store or a table of receipts must have
	// different names. Do not change the name: under a new name the gateway does not find the keys that it
	// stored before. A name has at most 64 characters: letters, digits, '-', '_' and '.'. Required.
	Name string

	// Upstream is the address of the service: http://host:port, https://host:port, or h2c://host:port for HTTP/2 without TLS. Required.
	Upstream *url.URL

	// Store stores the operations. If Store is nil, the gateway stores nothing, and only the receipts of the service decide whether a request
	// was executed.
	Store *lease.Store

	// Engine configures the engine that executes operations on Store.
	Engine once.Config

	// Receipts reads the commit receipts of the service. Receipts is required if a route has PolicyCheck, or if Store is nil.
	Receipts Receipts

	// ReceiptsKept is how long the service keeps receipts. ReceiptsKept must not be longer than the retention of
	// any process that sweeps (deletes) receipts. A missing receipt proves that a forward had no effect only
	// until nine tenths of ReceiptsKept have passed since the forward. After nine tenths of ReceiptsKept a sweep
	// may have deleted the receipt, so the outcome is unknown until an operator decides. Default:
	// DefaultReceiptsKept. If receipts are never swept, set [once.Forever].
	ReceiptsKept time.Duration

	// ReceiptsAtOnce is the largest number of concurrent calls of Receipts. For example, set ReceiptsAtOnce to
	// the number of connections that Receipts uses. The routes that rely on receipts (those with PolicyCheck, or
	// all routes if Store is nil) have equal shares of ReceiptsAtOnce, and at least one call each, so that a
	// route whose transactions lock their receipts does not block another route. If more routes than
	// ReceiptsAtOnce rely on receipts, and at least ReceiptsAtOnce of these routes are blocked, the blocked
	// routes delay the other routes: each call of a blocked route takes up to 5 s. Default 16.
	ReceiptsAtOnce int

	// Principal returns the name of the caller of a request, for routes with keys: see [HeaderPrincipal] and
	// [oncehttp.SharedPrincipal]. Required.
	Principal func(*http.Request) string

	// Quota limits the bytes that are stored for each principal (caller), in all routes together. If a principal is above the limit, the
	// gateway answers the principal's new requests with 429 and does not forward them. Quota requires Store. Default: nil, no limit.
	Quota *limit.Quota

	// TrustedProxies are the networks of proxies that may set X-Forwarded-For, X-Forwarded-Proto and
	// X-Forwarded-Host. In requests from all other senders the gateway replaces X-Forwarded-For,
	// X-Forwarded-Proto and X-Forwarded-Host. Default: no proxy is trusted.
	TrustedProxies []netip.Prefix

	// Routes are the kinds of requests that have keys. A request that matches no route is forwarded each time
	// that it arrives, even if it has a key.
	Routes []Route

	// Hidden are prefixes of paths for which clients get 404, in any letter case and in any spelling. If a path has
	// ".." or a parameter such as ";x=1", services read the path in different ways. A client gets 404 for a path
	// with ".." or a parameter if the path contains all segments of one prefix, in the same order as the prefix.
	// Hide the path under which the service serves receipts, because a client that reaches this path can read
	// stored answers and can prevent operations from committing.
	Hidden []string

	// Idle is how long an unused connection to the service is kept open. Idle must be shorter than the
	// keep-alive timeout of the service, because the outcome of a request is unknown if the service closes the
	// connection while the gateway sends the request. Default: 1 s.
	Idle time.Duration

	// TLS configures TLS for an https Upstream. Default: the configuration of net/http.
	TLS *tls.Config

	// StatusPath is the path under which the gateway serves the state of an operation. The problem documents of the gateway contain the URL of the
	// operation's state as status_url. Default: /once/status.
	StatusPath string

	// Dial opens a connection to the service. Default: the method DialContext of a [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Route describes a kind of requests that have keys.
type Route struct {
	// Pattern is a pattern of [http.ServeMux], such as "POST /payments" or "PUT /refunds/{id}". A pattern without a method matches requests with POST and
	// PATCH. A request whose path differs from the pattern in a trailing slash or in letter case does not match, and is forwarded without a key. A request
	// whose path a service may read as a path of the pattern does match, for example "/x/..;/payments" or "/payments;x=1".
	Pattern string

	// OnUnknown says what the gateway does if the outcome of a forwarded request is unknown. Default: PolicyStop.
	OnUnknown Policy

	// UpstreamKeepsKeys is how long the service itself keeps a key. UpstreamKeepsKeys is required by
	// PolicyForwardSameKey, and is not used by any other policy.
	UpstreamKeepsKeys time.Duration

	// PolicyFail applies when FailAfter has passed since the request was forwarded. If the outcome is still
	// unknown after FailAfter, the gateway stores a final answer which says that the outcome is unknown. The
	// database sets the time of the forward, and the gateway compares this time with its own clock. So choose a
	// FailAfter that is much longer than the largest possible difference between the clock of the database and
	// the clock of the gateway. Default: 24 h.
	FailAfter time.Duration

	// If Optional is true, requests without a key are forwarded. Default: false, a request without a
	// key is answered with 400.
	Optional bool

	// Timeout limits the time from the beginning of a forward until its answer is complete or begins to stream.
	// Timeout also limits how long a client may take to read a part of an answer. Default: 30 s.
	Timeout time.Duration

	// BodyTimeout limits how long the gateway reads the body of a request. While the gateway reads the body, the request counts in the concurrency
	// limit of Gate. Default: 30 s.
	BodyTimeout time.Duration

	// If another request with the same key is in flight, Wait is how long a duplicate waits for the answer to the other request. Default: 0, the
	// duplicate gets 409 at once.
	Wait time.Duration

	// Retain is how long answers are kept. Default: the retention of the engine, or Config.ReceiptsKept
	// if Config.Store is nil.
	Retain time.Duration

	// If KeyTime is true and a key is a UUID of version 7, the time in the key counts as the time of the first attempt: see [oncehttp.Config].
	// If the first attempt of a request is so old that the record of the request may already be deleted, the request is refused.
	KeyTime bool

	// UUIDKeys accepts only keys that are UUIDs in lower case: see [oncehttp.KeyFormat]. A request whose key is not a UUID in lower case is
	// refused and not forwarded.
	UUIDKeys bool

	// MaxRequest is the largest accepted request body, in bytes. A request whose body is larger than MaxRequest is answered with 413. A body of
	// more than 256 KiB is held in a file. Default: 64 MiB.
	MaxRequest int64

	// MaxStored is the largest answer that is stored, in bytes. An answer that is larger than MaxStored is streamed to the first caller, and a
	// retry gets 409. Default: 1 MiB.
	MaxStored int64

	// Headers are the names of answer headers that are stored in addition to the headers that [oncehttp.Config] stores by default.
	Headers []string

	// Gate decides whether a request may be executed, before the request's body is read: see [oncehttp.Config]. A request that the gate refuses
	// leaves no record. Default: nil, every request is executed.
	Gate oncehttp.Gate

	// Begin is called before each forward. The parameter again is true if a gateway may have forwarded the same
	// request before (for this attempt or for an earlier attempt of the client), and the earlier forward can no
	// longer take effect. If Begin returns an error, the request is not forwarded, and its key can be used again.
	// The returned function done is called with the result of the forward. Default: nil, nothing is called.
	Begin func(again bool) (done func(Forwarded), err error)
}

// Forwarded is the result of a forward. The function done that Route.Begin has returned receives a Forwarded.
type Forwarded struct {
	Class     string      // the kind of the result: not_sent, refused, completed, unknown_body or unknown; docs/gateway.md describes these kinds
	Status    int         // the status of the answer, or the HTTP status that corresponds to its grpc-status; 0 means no answer
	Header    http.Header // the header of the answer; the function done must not change the header
	Took      time.Duration
	Abandoned bool // true if the caller of the gateway has ended the forward, so that the result proves nothing about the service
}

// HeaderPrincipal returns a function for Config.Principal. The function reads the principal (the name of the caller) from a header of the request,
// but only if the request comes from one of the trusted networks. A request from any other address has no principal, and gets 401 on a route with
// keys.
func HeaderPrincipal(header string, trusted ...netip.Prefix) func(*http.Request) string {
	name := http.CanonicalHeaderKey(header)
	return func(r *http.Request) string {
		lines := r.Header[name]
		// With two lines it is not known which one the trusted proxy has set.
		if len(lines) != 1 || !isFrom(r.RemoteAddr, trusted) {
			return ""
		}
		return lines[0]
	}
}

// isFrom reports whether the remote address of a connection is in one of the networks.
func isFrom(remote string, networks []netip.Prefix) bool {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil { // for example, a Unix socket has no address
		return false
	}
	// An IPv4 address may appear as an IPv6 address, and a zone does not matter.
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

// check sets the defaults of the config, and returns an error if a field is wrong.
func (c *Config) check() error {
	switch {
	case !isName(c.Name):
		return fmt.Errorf("Config.Name is %q, and must have 1 to %d letters, digits, '-', '_' and '.'. The name keeps the keys of different services apart. Try: the name of the service, such as payments", c.Name, maxName)
	case c.Upstream == nil || c.Upstream.Host == "":
		return errors.New("Config.Upstream is missing. Try: http://127.0.0.1:3000")
	case c.Upstream.Scheme != "http" && c.Upstream.Scheme != "https" && c.Upstream.Scheme != schemeH2C:
		return fmt.Errorf("Config.Upstream has the scheme %q. Try: http, https or h2c", c.Upstream.Scheme)
	case c.Upstream.Path != "" && c.Upstream.Path != "/" || c.Upstream.RawQuery != "":
		return fmt.Errorf("Config.Upstream %q has a path or a query. Try: only the scheme, the host and the port", c.Upstream)
	case c.Principal == nil:
		return errors.New("Config.Principal is missing, so all callers would share their keys and answers. Try: HeaderPrincipal, or oncehttp.SharedPrincipal if there is only one caller")
	case c.Store == nil && c.Receipts == nil:
		return errors.New("Config.Store and Config.Receipts are both missing, so the gateway could not remember requests. Try: set one of the two fields")
	case c.Store == nil && c.Quota != nil:
		return errors.New("Config.Quota limits the stored data, but Config.Store is missing. Try: set Config.Store, or leave Config.Quota out")
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

// check sets the defaults of a route, and returns an error if a field is wrong.
func (r *Route) check(c *Config) error {
	r.Pattern = cleanPattern(r.Pattern)
	if r.OnUnknown == "" {
		r.OnUnknown = PolicyStop
	}
	switch r.OnUnknown {
	case PolicyStop, PolicyRetry, PolicyFail:
	case PolicyCheck:
		if c.Receipts == nil {
			return fmt.Errorf("route %q: the policy check needs Config.Receipts. Try: set Config.Receipts, or use another policy", r.Pattern)
		}
	case PolicyForwardSameKey:
		if r.UpstreamKeepsKeys <= 0 {
			return fmt.Errorf("route %q: the policy forward_same_key needs UpstreamKeepsKeys, because a service that has forgotten a key executes the request again. Try: set UpstreamKeepsKeys to the time for which the service remembers keys", r.Pattern)
		}
	default:
		return fmt.Errorf("route %q: the policy %q does not exist. Try: stop, check, forward_same_key, retry or fail", r.Pattern, r.OnUnknown)
	}
	switch {
	case c.Store == nil && r.OnUnknown != PolicyStop && r.OnUnknown != PolicyCheck:
		return fmt.Errorf("route %q: without Config.Store only the receipt decides, so the policy %q is not possible. Try: leave the policy out", r.Pattern, r.OnUnknown)
	case min(r.UpstreamKeepsKeys, r.FailAfter, r.Timeout, r.BodyTimeout, r.Wait, r.Retain) < 0 || min(r.MaxRequest, r.MaxStored) < 0 || max(r.MaxRequest, r.MaxStored) > 1<<40:
		return fmt.Errorf("route %q: a duration or a size is negative, or a size is larger than 1 TiB", r.Pattern)
	}
	if c.Store == nil {
		if r.Retain == 0 {
			r.Retain = c.ReceiptsKept
		}
		// A key that outlives its receipt would find no receipt, and the gateway would forward the request
		// again.
		if r.Retain > c.ReceiptsKept {
			return fmt.Errorf("route %q: the gateway keeps keys for %v, but receipts for only %v. Try: a Config.ReceiptsKept that is at least as long", r.Pattern, r.Retain, c.ReceiptsKept)
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

// cleanPattern returns a pattern in the form in which http.ServeMux reports it: with one blank, and with a host
// in lower case.
func cleanPattern(p string) string {
	method, rest := "", p
	if i := strings.IndexAny(p, " \t"); i > 0 {
		method, rest = p[:i]+" ", strings.TrimLeft(p[i:], " \t")
	}
	i := max(0, strings.IndexByte(rest, '/'))
	return method + strings.ToLower(rest[:i]) + rest[i:]
}

// protected returns the configuration with which package oncehttp reads the requests of the route.
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
