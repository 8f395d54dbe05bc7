package home

import (
	"cmp"
	"net/http"
	"net/url"
	"time"

	"github.com/oncelib/once/oncehttp"
)

// HopHeader is a header of requests that another region has forwarded. The value of the header is the name
// of the region that has forwarded the request.
const HopHeader = "Once-Home-Hop"

// These constants are the codes in the problem documents (RFC 9457) with which [Handler] answers.
const (
	ProblemUnavailable oncehttp.ProblemCode = "TRANSIENT.home_unavailable"  // 503: the home of the tenant (the region that executes its operations) cannot be reached, or the answer of the home was lost
	ProblemMisdirected oncehttp.ProblemCode = "TRANSIENT.home_elsewhere"    // 421: two regions disagree about the home of the tenant
	ProblemLost        oncehttp.ProblemCode = "DEPENDENCY.home_answer_lost" // 502: the answer of the home was lost, and the request has no key, so it may have been executed
)

// Config configures [Handler].
type Config struct {
	Region string // the region of this process. Required.
	Map    *Map   // the homes of the tenants: the region of each tenant. Required.

	// Tenant returns the tenant of a request, or "" if the request has no tenant. A request without a tenant is served by the region that receives
	// it. The scopes of the request's operations must begin with the result of Tenant: see [TenantOf]. Required.
	Tenant func(*http.Request) string

	// URL returns a URL with the scheme and the host under which [Handler] is served in a region. The result nil means that the region cannot be
	// reached. Required.
	URL func(region string) *url.URL

	// Transport sends the forwarded requests. Transport must not repeat requests by itself. Default: an
	// [http.Transport] without a proxy.
	Transport http.RoundTripper

	// Timeout limits the time of a request to another region, including its answer. Default: 30 s.
	Timeout time.Duration

	// MaxBody is the size in bytes of the largest body of a forwarded request, and of the largest body of an
	// answer to a forwarded request. A request whose body is larger than MaxBody is answered with 413. If the
	// body of an answer is larger than MaxBody, the client gets 503, as if the answer were incomplete. The bodies
	// of the request and of the answer are held in memory. Default: 16 MiB.
	MaxBody int64
}

// Handler returns a handler that serves the requests of this region's tenants with next, and forwards each
// request of another tenant to the home of the tenant (the region that executes the tenant's operations). The
// returned handler reads the whole request before it forwards the request, and sends the answer only after it has
// received the whole answer. If a region receives a forwarded request of a tenant whose home is another region,
// the region answers 421, and the answer names the home. The region that has forwarded the request learns the
// home from the answer with 421, and sends the request to the home, or serves the request with next if it is the
// home itself. Only the region that has received a request from the client forwards the request, at most three
// times. So a request never circulates between regions whose maps differ. Before a region answers 421, and after
// a forward that has failed or was answered with 503, the region reads the home of the tenant in its own
// database, if a [Store] uses the same Map as the Handler. Handler panics if cfg is invalid.
func Handler(cfg Config, next http.Handler) http.Handler {
	if cfg.Region == "" || cfg.Map == nil || cfg.Tenant == nil || cfg.URL == nil || cfg.Timeout < 0 || cfg.MaxBody < 0 {
		panic("home: Handler: Region, Map, Tenant and URL are required, and Timeout and MaxBody must not be negative")
	}
	cfg.Timeout, cfg.MaxBody = cmp.Or(cfg.Timeout, 30*time.Second), cmp.Or(cfg.MaxBody, 16<<20)
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Second, DisableCompression: true} // closes idle connections before most servers close them
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenant := cfg.Tenant(r)
		home := cfg.Map.Home(tenant)
		hops := r.Header.Values(HopHeader)
		if tenant != "" && home.Region != cfg.Region && len(hops) > 0 {
			home = cfg.ask(r, tenant) // this region may own the tenant although its map says otherwise
		}
		switch {
		case tenant == "" || home.Region == cfg.Region:
			next.ServeHTTP(w, r)
		// A request that another region has forwarded is not forwarded again. Otherwise it could circulate between regions whose maps differ.
		case len(hops) > 0:
			p := problem(http.StatusMisdirectedRequest, ProblemMisdirected, home.Region, "The regions of this service do not yet agree which of them owns this tenant.")
			p.Extra["home_epoch"] = home.Epoch
			oncehttp.WriteProblem(w, p)
		default:
			forward(&cfg, next, w, r, tenant, home.Region)
		}
	})
}

// problem returns a problem after which the client may send the same request again.
func problem(status int, code oncehttp.ProblemCode, region, detail string) oncehttp.Problem {
	return oncehttp.Problem{
		Status: status, Code: code, Detail: detail + " Send the same request with the same key again.",
		Retryable: true, RetryAfter: time.Second, Extra: map[string]any{"home": region},
	}
}
