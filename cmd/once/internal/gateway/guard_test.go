package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/gateway"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

func memory() *backing {
	s := memstore.New()
	return &backing{leases: lease.New(s, lease.Config{}), ops: s}
}

// upstream is a service whose routes can be slow, sick and full. It counts what reaches them.
type upstream struct {
	*httptest.Server

	release chan struct{} // ends the requests of /slow
	arrived chan struct{} // one for each request of /slow
	mu      sync.Mutex
	counts  map[string]int
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{release: make(chan struct{}), arrived: make(chan struct{}, 100), counts: map[string]int{}}
	u.Server = httptest.NewServer(u)
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) count(path string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.counts[path]
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	u.counts[r.URL.Path]++
	n := u.counts[r.URL.Path]
	u.mu.Unlock()
	switch r.URL.Path {
	case "/slow":
		u.arrived <- struct{}{}
		<-u.release
	case "/sick":
		if n > 1 { // the first one is answered
			w.WriteHeader(http.StatusBadGateway)
			return
		}
	case "/waits":
		w.Header().Set("Server-Timing", "cache;desc=x, db;dur=900")
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, "%s %d", r.URL.Path, n)
}

// inFront returns a gateway of the daemon in front of u.
func inFront(t *testing.T, u *upstream, routes string) *proxy {
	t.Helper()
	cfg, src, err := parse("once.yaml", []byte("gateway:\n  upstream: "+u.URL+"\n  anyone: true\n  routes:\n"+routes), flags{})
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{back: memory(), guards: newGuards(), observer: once.Discard, log: slog.New(slog.DiscardHandler)}
	g, err := p.build(cfg, src)
	if err != nil {
		t.Fatal(err)
	}
	p.begin(t.Context(), g)
	return p
}

func post(p http.Handler, path, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("x"))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

// TestSlowRouteDelaysNoOther: a route has places of its own. What finds none is refused, claims nothing and is not forwarded.
func TestSlowRouteDelaysNoOther(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	p := inFront(t, u, "  - {match: POST /slow, limit: 2, queue: 0}\n  - {match: POST /fast, limit: 2, queue: 0}\n")
	var slow sync.WaitGroup
	for i := range 2 {
		slow.Go(func() {
			if w := post(p, "/slow", fmt.Sprint("slow-", i)); w.Code != http.StatusCreated {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
		<-u.arrived
	}
	w := post(p, "/slow", "shed-1")
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("shed: %d %v %s", w.Code, w.Header(), w.Body)
	}
	for i := range 10 {
		if w := post(p, "/fast", fmt.Sprint("fast-", i)); w.Code != http.StatusCreated {
			t.Errorf("a fast route, beside one that is slow: %d %s", w.Code, w.Body)
		}
	}
	close(u.release)
	slow.Wait()
	if w := post(p, "/slow", "shed-1"); w.Code != http.StatusCreated || w.Header().Get("Idempotency-Status") != "stored" || u.count("/slow") != 3 {
		t.Errorf("what was shed, sent again: %d %s after %d forwards", w.Code, w.Body, u.count("/slow"))
	}
}

// TestSickRouteClosesNoOther: the breaker is that of a route. While it is open nothing is forwarded, what is stored is answered, and other
// routes work.
func TestSickRouteClosesNoOther(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	p := inFront(t, u, "  - {match: POST /sick}\n  - {match: POST /well}\n")
	if w := post(p, "/sick", "stored"); w.Code != http.StatusCreated {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for i := 0; i < 100 && p.current.Load().guards[0].breaker.State().String() == "closed"; i++ {
		post(p, "/sick", fmt.Sprint("sick-", i))
	}
	before := u.count("/sick")
	w := post(p, "/sick", "late")
	if before < 20 || u.count("/sick") != before || w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("an open breaker: %d %s, %d forwards, then %d", w.Code, w.Body, before, u.count("/sick"))
	}
	if rec, err := p.back.ops.Read(t.Context(), storeID("POST /sick", "late")); err != nil || rec.State.String() != "absent" {
		t.Errorf("what was shed has claimed its key: %v, %v", rec.State, err)
	}
	if w := post(p, "/sick", "stored"); w.Code != http.StatusCreated || w.Header().Get("Idempotency-Status") != "replayed" {
		t.Errorf("what is stored: %d %s", w.Code, w.Body)
	}
	if w := post(p, "/well", "1"); w.Code != http.StatusCreated {
		t.Errorf("another route: %d %s", w.Code, w.Body)
	}
}

// TestRouteNamesTheWaitsForItsDatabase: places become fewer while the service says that its requests wait for the database.
func TestRouteNamesTheWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	p := inFront(t, u, "  - {match: POST /waits, limit: 64, database_wait: {server_timing: db}}\n  - {match: POST /fast, limit: 64, database_wait: {server_timing: db}}\n")
	for i := range 20 {
		post(p, "/waits", fmt.Sprint(i))
		post(p, "/fast", fmt.Sprint(i))
	}
	waits, fast := p.current.Load().guards[0].waits, p.current.Load().guards[1].waits
	if waits.Limit() >= 64 || fast.Limit() != 64 {
		t.Errorf("%d places for the route whose requests wait, %d for the other one", waits.Limit(), fast.Limit())
	}
}

// TestBudgetOfForwardsAgain: forwards that follow a tombstone are in proportion to those that succeed.
func TestBudgetOfForwardsAgain(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	g := inFront(t, u, "  - {match: POST /a, breaker: false}\n").current.Load().guards[0]
	again := 0
	for range 100 {
		if done, err := g.Begin(true); err == nil {
			again++
			done(gateway.Forwarded{Class: "unknown"})
		}
	}
	if again == 0 || again > 20 {
		t.Errorf("%d of 100 were forwarded again, none with success", again)
	}
	if _, err := g.Begin(false); err != nil {
		t.Errorf("a first forward: %v", err)
	}
}

// TestGuardsOutliveAReload: a reload that leaves a route as it is leaves its breaker open, and one that fails changes no guard.
func TestGuardsOutliveAReload(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	p := inFront(t, u, "  - {match: POST /a}\n  - {match: POST /b}\n")
	p.file = file(t, "gateway:\n  upstream: "+u.URL+"\n  anyone: true\n  routes:\n  - {match: POST /a, wait: 1s}\n  - {match: POST /b, limit: 5}\n")
	old := p.current.Load().guards
	if err := p.reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	if now := p.current.Load().guards; now[0] != old[0] || now[1] == old[1] {
		t.Error("the guard of an unchanged route was made anew, or that of a changed one was kept")
	}
}

// TestServerTiming: only a whole number of milliseconds under the right name counts.
func TestServerTiming(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]time.Duration{
		"db;dur=53": 53 * time.Millisecond, `x, db;desc="a";dur="0.5"`: 500 * time.Microsecond, "DB;dur=5": -1, "db": -1, "db;dur=-1": -1, "db;dur=NaN": -1, "db;dur=x": -1, "": -1,
	} {
		got, ok := serverTiming(http.Header{"Server-Timing": {line}}, "db")
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %v, %t", line, got, ok)
		}
	}
}

// TestTrustedNetworks: a network is written without bits that do not count; one address is a network.
func TestTrustedNetworks(t *testing.T) {
	t.Parallel()
	cfg, _, err := parse("x", []byte("gateway: {upstream: http://a, principal: {header: A, trusted_from: ['::1', 10.0.0.1, 10.0.0.0/8, '::ffff:1.2.3.4']}}"), flags{})
	if err != nil {
		t.Fatal(err)
	}
	want := []netip.Prefix{netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("1.2.3.4/32")}
	if got := prefixes(cfg.Principal.TrustedFrom); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v", got)
	}
}

func storeID(route, key string) store.ID { return store.ID{Scope: "global service " + route, Key: key} }
