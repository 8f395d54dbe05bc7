package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/onward"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

// Gateway is an [http.Handler] that forwards requests to a service, at most once for each caller and key.
type Gateway struct {
	cfg     Config
	engine  *once.Engine[*lease.Run] // nil if only the receipts decide
	flights flights                  // the running forwards of a gateway without an engine
	client  *http.Transport
	through *httputil.ReverseProxy // forwards requests without a key
	mux     *http.ServeMux         // finds the route of a request
	asking  chan struct{}          // a semaphore: how many calls of Receipts may run at the same time
	routes  []*route
	status  http.Handler
}

// New returns a gateway. If a field of cfg is invalid, New returns an error that names this
// field.
func New(cfg Config) (g *Gateway, err error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g = &Gateway{cfg: cfg, mux: http.NewServeMux(), client: newTransport(&cfg), asking: make(chan struct{}, cfg.ReceiptsAtOnce)}
	if cfg.Store != nil {
		g.engine = once.New(cfg.Store, cfg.Engine)
	}
	g.through = &httputil.ReverseProxy{
		Transport: passing{g},
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.RawQuery = p.In.URL.RawQuery                                                    // ReverseProxy drops a query that package net/url cannot parse
			if up := p.In.Header["Upgrade"]; len(up) != 1 || !strings.EqualFold(up[0], "websocket") { // an upgrade to h2c would be a tunnel past routes and headers
				for _, name := range []string{"Connection", "Upgrade", "Http2-Settings"} {
					delete(p.Out.Header, name)
				}
			}
			g.address(p)
			// net/http may repeat a request without a body on its own. An unsafe request must not be sent
			// twice.
			if p.Out.Body == nil && !isSafe(p.Out.Method) {
				onward.SendOnce(p.Out, io.NopCloser(strings.NewReader("")))
			}
		},
		ErrorHandler: notPassed,
	}
	defer func() { // http.ServeMux panics if a pattern is wrong
		if p := recover(); p != nil {
			g, err = nil, fmt.Errorf("gateway: %v", p)
		}
	}()
	for _, r := range cfg.Routes {
		if err := r.check(&g.cfg); err != nil {
			return nil, fmt.Errorf("gateway: %w", err)
		}
		rt := g.newRoute(r)
		g.mux.Handle(r.Pattern, rt)
		g.routes = append(g.routes, rt)
	}
	if g.engine != nil {
		statusOf := oncehttp.Config{Principal: cfg.Principal}
		g.status = oncehttp.StatusHandler(g.engine, statusOf, func(r *http.Request) (route, key string) {
			return r.URL.Query().Get("route"), r.URL.Query().Get("key")
		})
	}
	return g, nil
}

// Close closes the idle connections to the service. Running requests continue.
func (g *Gateway) Close() { g.client.CloseIdleConnections() }

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Opaque != "" { // for example "POST http:pay": the service may read the target as a path, and no route would match
		http.Error(w, "the target of the request is not a path", http.StatusBadRequest)
		return
	}
	if g.hides(r.URL.Path) {
		http.NotFound(w, r)
		return
	}
	if r.URL.Path == g.cfg.StatusPath && g.status != nil {
		g.status.ServeHTTP(w, r)
		return
	}
	rt, matched := g.routeFor(r)
	if rt == nil {
		g.through.ServeHTTP(w, r)
		return
	}
	c := &client{ResponseWriter: w, grpc: isGRPC(r.Header), timeout: rt.Timeout}
	defer c.end()
	rt.serve(c, matched)
}

// routeFor returns the route for which r has a key or must have one, and a copy of r with the name of the route as its pattern. It returns nil if no
// route matches. A request has a route if any reading of its path has one, because a client must not get around the key by another spelling.
func (g *Gateway) routeFor(r *http.Request) (*route, *http.Request) {
	host := r.Host // for a service, capital letters and a dot at the end make no difference
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for _, u := range readings(r.URL) {
		h, pattern := g.mux.Handler(&http.Request{Method: r.Method, Host: host, URL: u})
		if rt, ok := h.(*route); ok && rt.asksForKey(r) {
			matched := *r
			matched.Pattern = g.named(r.Method, pattern)
			return rt, &matched
		}
	}
	return nil, nil
}

// hides reports whether a path is hidden from clients.
func (g *Gateway) hides(p string) bool {
	return slices.ContainsFunc(g.cfg.Hidden, func(hidden string) bool { return isHidden(p, hidden) })
}

// route is a [Route] with its defaults.
type route struct {
	Route

	g       *Gateway
	reads   *oncehttp.Route
	cfg     oncehttp.Config // the configuration with its defaults
	keeps   map[string]bool // the names of the headers that are stored
	methods map[string]bool
	asking  chan struct{} // a semaphore: how many calls of Receipts the route may make at the same time, or wait for

	witnesses map[string]*witness // by the name of the operation; only with PolicyCheck and a store
}

// ServeHTTP implements [http.Handler]. It does nothing, because the mux only finds the route of a request.
func (*route) ServeHTTP(http.ResponseWriter, *http.Request) {}

func (g *Gateway) newRoute(r Route) *route {
	rt := &route{Route: r, g: g, asking: make(chan struct{}, g.share(&r)), keeps: map[string]bool{}, methods: map[string]bool{}}
	var methods []string
	if method, _, found := strings.Cut(r.Pattern, " "); found {
		methods = []string{method}
	}
	cfg := rt.protected(&g.cfg, methods)
	if g.engine != nil {
		rt.reads = oncehttp.NewRoute(g.engine, cfg)
	} else { // this engine only describes the retention and the answers; it executes nothing
		cfg.StatusURL = nil
		rt.reads = oncehttp.NewRoute(once.New(receiptStore{memstore.New(), rt}, g.cfg.Engine), cfg)
	}
	rt.cfg = rt.reads.Config()
	for _, name := range rt.cfg.Headers {
		rt.keeps[name] = true
	}
	for _, m := range rt.cfg.Preset.Methods {
		rt.methods[m] = true
	}
	if g.engine != nil && rt.OnUnknown == PolicyCheck {
		rt.witnesses = map[string]*witness{}
		for m := range rt.methods {
			name := g.named(m, r.Pattern)
			rt.witnesses[name] = &witness{g: g, name: name}
		}
	}
	return rt
}

// share returns how many calls of Receipts a route may make at the same time. A route that does not rely on receipts reads one only if an earlier run
// has received an answer and has not stored it.
func (g *Gateway) share(r *Route) int {
	relies := func(r *Route) bool { return g.engine == nil || r.OnUnknown == PolicyCheck }
	if !relies(r) {
		return 1
	}
	n := 0
	for i := range g.cfg.Routes {
		if relies(&g.cfg.Routes[i]) {
			n++
		}
	}
	return max(1, g.cfg.ReceiptsAtOnce/n)
}

// asksForKey reports whether r has a key, or must have one.
func (rt *route) asksForKey(r *http.Request) bool {
	if !rt.methods[r.Method] {
		return false
	}
	if !rt.Optional {
		return true
	}
	for _, name := range rt.cfg.Preset.KeyHeaders {
		if len(r.Header[name]) > 0 {
			return true
		}
	}
	return false
}

// named returns the part of a scope that names the service and the route. It is also the name of the operation.
// The pattern alone would not be unique, because another service may have the same pattern.
func (g *Gateway) named(method, pattern string) string {
	if !strings.Contains(pattern, " ") {
		pattern = method + " " + pattern
	}
	return g.cfg.Name + " " + pattern
}

func isSafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
