package home

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/home"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/oncehttp"
)

// service is the service of three regions over HTTP. The maps learn only by themselves.
type service struct {
	s    system[*sql.Tx]
	at   map[string]http.Handler
	down string // a region that cannot be reached
	sent int    // forwarded requests
}

func serve(t *testing.T) *service {
	t.Helper()
	v := &service{s: open(t, harness.SQLite, func(d harness.Database) harness.Store[*sql.Tx] { s, _ := harness.OpenSQL(t, d); return s }), at: map[string]http.Handler{}}
	for _, r := range v.s {
		v.restart(r)
	}
	return v
}

// restart begins the process of a region again: it has forgotten what its map knew.
func (v *service) restart(r *region[*sql.Tx]) {
	r.known = home.NewMap(names...)
	r.owned = home.New[*sql.Tx](r.db, r.known)
	r.engine = once.New[*sql.Tx](r.owned, once.Config{Observer: once.Discard})
	tenantOf := func(r *http.Request) string { return r.Header.Get("Tenant") }
	api := oncehttp.Handler(r.engine, oncehttp.Config{Principal: tenantOf}, func(w http.ResponseWriter, in *http.Request, tx *sql.Tx) {
		if err := r.write(in.Context(), tx, tenantOf(in), in.Header.Get("Idempotency-Key")); err != nil {
			oncehttp.Fail(w, in, err)
			return
		}
		_, _ = w.Write([]byte("executed in " + r.name))
	})
	v.at[r.name] = home.Handler(home.Config{
		Region: r.name, Map: r.known, Tenant: tenantOf, Transport: v,
		URL: func(region string) *url.URL {
			if region == v.down {
				return nil
			}
			return &url.URL{Scheme: "http", Host: region}
		},
	}, api)
}

// RoundTrip implements [http.RoundTripper].
func (v *service) RoundTrip(r *http.Request) (*http.Response, error) {
	v.sent++
	w := httptest.NewRecorder()
	in := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), r.Body)
	in.Header = r.Header.Clone()
	v.at[r.URL.Host].ServeHTTP(w, in)
	return w.Result(), nil
}

// ask sends a request with a body to a region, and returns its answer.
func (v *service) ask(t *testing.T, region, tenant, key string) (answer string, status int) {
	t.Helper()
	v.sent = 0
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/pay", strings.NewReader(`{"amount":7}`))
	r.Header.Set("Tenant", tenant)
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	v.at[region].ServeHTTP(w, r)
	if v.sent > 3 {
		t.Errorf("%s: forwarded %d times", key, v.sent)
	}
	return w.Body.String(), w.Code
}

// unpinned moves a tenant and tells no map.
func (v *service) unpinned(t *testing.T, tenant, to string) {
	t.Helper()
	must(t, home.Mover{Regions: v.s.mover(nil).Regions}.Move(t.Context(), tenant, to))
}

// hashed returns tenants that the hash gives to a region.
func hashed(region string, number int) string {
	for n := number * 100; ; n++ {
		if tenant := fmt.Sprint("acme-", n); home.NewMap(names...).Home(tenant).Region == region {
			return tenant
		}
	}
}

var orders = [][]string{{"ap"}, {"eu"}, {"us"}, {"ap", "eu", "us"}, {"ap", "us", "eu"}, {"eu", "ap", "us"}, {"eu", "us", "ap"}, {"us", "ap", "eu"}, {"us", "eu", "ap"}}

// TestUnpinnedMoves: tenants move, no map gets a pin, and in whatever order requests arrive, each region answers a second request from the home.
func TestUnpinnedMoves(t *testing.T) {
	v := serve(t)
	for _, chosen := range names {
		for i, order := range orders {
			tenant := hashed(chosen, i)
			for n, to := range []string{"eu", "us", "ap", "us", "eu"} {
				v.unpinned(t, tenant, to)
				if n == 3 {
					for _, r := range v.s {
						v.restart(r)
					}
				}
				for round := range 3 {
					for _, region := range order {
						key := fmt.Sprint("order ", i, " move ", n, " round ", round, " in ", region)
						answer, status := v.ask(t, region, tenant, key)
						switch {
						case round == 0 && (status == http.StatusServiceUnavailable || status == http.StatusMisdirectedRequest):
						case status != http.StatusOK || answer != "executed in "+to:
							t.Errorf("round %d, %s: %d %s", round, key, status, answer)
						}
					}
				}
			}
		}
	}
	for i := range orders {
		for what, n := range v.s.effects(t, hashed("eu", i)) {
			if n != 1 {
				t.Errorf("%s has taken effect %d times", what, n)
			}
		}
	}
}

// TestOldHomeIsDown: the region that a tenant has left cannot be reached, and the new home learns from its own database that it is the home. So do the others.
func TestOldHomeIsDown(t *testing.T) {
	v := serve(t)
	tenant := hashed("eu", 0)
	v.unpinned(t, tenant, "eu")
	v.unpinned(t, tenant, "us")
	v.down = "eu"
	for _, region := range []string{"ap", "us", "ap"} {
		if answer, status := v.ask(t, region, tenant, "in "+region); status != http.StatusOK || answer != "executed in us" {
			t.Errorf("%s: %d %s", region, status, answer)
		}
	}
}
