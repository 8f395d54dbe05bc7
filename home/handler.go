package home

import (
	"cmp"
	"net/http"
	"net/url"
	"time"

	"github.com/oncelib/once/oncehttp"
)

// HopHeader is in a request that another region has forwarded. Its value is the name of that region.
const HopHeader = "Once-Home-Hop"

// Codes of the problems of [Handler].
const (
	ProblemUnavailable oncehttp.ProblemCode = "TRANSIENT.home_unavailable"  // 503: the home is not reached, or its answer was lost
	ProblemMisdirected oncehttp.ProblemCode = "TRANSIENT.home_elsewhere"    // 421: two regions do not agree where the tenant lives
	ProblemLost        oncehttp.ProblemCode = "DEPENDENCY.home_answer_lost" // 502: a request without a key, which may have been executed
)

// Config of a [Handler].
type Config struct {
	Region string // of this process. Required.
	Map    *Map   // Required.

	// Tenant returns the tenant of a request, "" if it has none: the region that receives such a request serves it. The scopes of the
	// request's operations must begin with this tenant: see [TenantOf]. Required.
	Tenant func(*http.Request) string

	// URL returns the scheme and the host of the service in a region, which [Handler] serves there; nil: the region is not reached. Required.
	URL func(region string) *url.URL

	// Transport makes the requests. It must not itself send a request again. Default: a transport of its own, without a proxy.
	Transport http.RoundTripper

	// Timeout bounds a request to another region. Default 30 s.
	Timeout time.Duration

	// MaxBody is how many bytes the body of a forwarded request may have (above: 413), and the body of its answer (above: 503, as for an answer that is cut off).
	// Both are kept in memory meanwhile. Default 16 MiB.
	MaxBody int64
}

// Handler serves the requests of tenants that live in this region by next, and forwards all other requests to the tenant's home, once:
// whole, and the answer whole or not at all. If a request was forwarded and its tenant does not live here either, the answer is 421. So
// two maps that differ never send a request around. It panics if cfg is invalid.
func Handler(cfg Config, next http.Handler) http.Handler {
	if cfg.Region == "" || cfg.Map == nil || cfg.Tenant == nil || cfg.URL == nil || cfg.Timeout < 0 || cfg.MaxBody < 0 {
		panic("home: Handler: Region, Map, Tenant and URL are required, and Timeout and MaxBody must not be negative")
	}
	cfg.Timeout, cfg.MaxBody = cmp.Or(cfg.Timeout, 30*time.Second), cmp.Or(cfg.MaxBody, 16<<20)
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Second, DisableCompression: true} // idle for less than the keep-alive of most servers
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenant := cfg.Tenant(r)
		home := cfg.Map.Home(tenant)
		switch hops := r.Header.Values(HopHeader); {
		case tenant == "" || home.Region == cfg.Region:
			next.ServeHTTP(w, r)
		case len(hops) > 0:
			p := problem(http.StatusMisdirectedRequest, ProblemMisdirected, home.Region, "The regions do not agree yet where this tenant lives.")
			p.Extra["home_epoch"] = home.Epoch
			oncehttp.WriteProblem(w, p)
		default:
			forward(&cfg, w, r, home.Region)
		}
	})
}

// problem returns an error after which the same request may be sent again.
func problem(status int, code oncehttp.ProblemCode, region, detail string) oncehttp.Problem {
	return oncehttp.Problem{
		Status: status, Code: code, Detail: detail + " Send the same request with the same key again.",
		Retryable: true, RetryAfter: time.Second, Extra: map[string]any{"home": region},
	}
}
