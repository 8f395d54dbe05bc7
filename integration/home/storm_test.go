package home

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/home"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/oncehttp"
)

const (
	stormTenants = 12
	stormKeys    = 30 // of each tenant
	stormTries   = 4  // of each key, in regions by lot
	stormClients = 8
	stormMovers  = 2
)

// storm is retries in regions by lot, while tenants move, movers are killed, one region after another is cut off and comes back, and maps
// learn late and in any order.
type storm[TX any] struct {
	s          system[TX]
	unowned    bool // the mistake: no transaction checks who owns its tenant
	leftBehind bool // the mistake: operations do not go along

	handlers map[string]http.Handler
	calls    atomic.Int64

	mu      sync.Mutex
	delayed []func() // pins on their way

	refused, executed, misdirected, forwarded, cut, moves, killed atomic.Int64
}

// TestStormExecutesEachKeyOnce: each of 360 keys takes effect at most once in a storm, and once when it is over, and no account has lost one.
func TestStormExecutesEachKeyOnce(t *testing.T) {
	testenv.Both(t)
	storms(t, func(t *testing.T, _, tenants, twice, lost int, wrong string) {
		t.Helper()
		if tenants != stormTenants || twice > 0 || lost > 0 || wrong != "" {
			t.Errorf("%d keys have taken effect twice, %d never: %s", twice, lost, wrong)
		}
	}, false, false)
}

// TestStormUnowned: where the map alone decides, a storm executes keys twice. So the storm can fail.
func TestStormUnowned(t *testing.T) {
	testenv.Both(t)
	storms(t, func(t *testing.T, _, _, twice, _ int, _ string) {
		t.Helper()
		if twice < 1 {
			t.Error("no key has taken effect twice: the storm shows nothing")
		}
	}, true, false)
}

// TestStormLeftBehind: where operations do not go along with their tenant, a storm executes keys twice.
func TestStormLeftBehind(t *testing.T) {
	testenv.Both(t)
	storms(t, func(t *testing.T, _, _, twice, _ int, _ string) {
		t.Helper()
		if twice < 20 {
			t.Errorf("%d keys have taken effect twice, want 20 at least", twice)
		}
	}, false, true)
}

// storms runs a storm on three SQLite files in make test, and on three PostgreSQL databases in make prove.
func storms(t *testing.T, judge func(t *testing.T, keys, tenants, twice, lost int, wrong string), unowned, leftBehind bool) {
	t.Helper()
	for _, kind := range []string{harness.Pgx, harness.SQLite} {
		t.Run(kind, func(t *testing.T) {
			testenv.Cell(t, map[string]testenv.Tier{harness.Pgx: testenv.InProve, harness.SQLite: testenv.InTest}[kind])
			if kind == harness.Pgx {
				s := &storm[pgx.Tx]{s: open(t, kind, func(d harness.Database) harness.Store[pgx.Tx] { s, _ := harness.OpenPgx(t, d); return s }), unowned: unowned, leftBehind: leftBehind}
				s.run(t, judge)
				return
			}
			s := &storm[*sql.Tx]{s: open(t, kind, func(d harness.Database) harness.Store[*sql.Tx] { s, _ := harness.OpenSQL(t, d); return s }), unowned: unowned, leftBehind: leftBehind}
			s.run(t, judge)
		})
	}
}

func (st *storm[TX]) run(t *testing.T, judge func(t *testing.T, keys, tenants, twice, lost int, wrong string)) {
	t.Helper()
	st.handlers = map[string]http.Handler{}
	for _, r := range st.s {
		if st.unowned {
			r.engine = once.New[TX](r.db, once.Config{Observer: once.Discard})
		}
		st.handlers[r.name] = st.handler(r)
	}
	var tenants []string
	for i := range stormTenants {
		tenants = append(tenants, fmt.Sprint("tenant-", i))
		must(t, st.s.mover(nil).Move(t.Context(), tenants[i], names[i%len(names)]))
	}
	var keys []string
	for range stormTries {
		for i := range stormTenants * stormKeys {
			keys = append(keys, fmt.Sprintf("%s key-%d", tenants[i%stormTenants], i/stormTenants))
		}
	}
	next, moves := make(chan string), make(chan *killer)
	var all sync.WaitGroup
	for range stormClients {
		all.Go(func() {
			for key := range next {
				st.ask(names[rand.N(len(names))], key)
			}
		})
	}
	for range stormMovers {
		all.Go(func() {
			for kill := range moves {
				st.move(tenants[rand.N(len(tenants))], kill)
			}
		})
	}
	for i, j := range rand.Perm(len(keys)) {
		next <- keys[j]
		if i%7 == 0 {
			st.deliver()
		}
		switch { // one move of three is killed
		case i%48 == 0:
			moves <- &killer{n: 1 + rand.N(20), after: rand.N(2) == 0}
		case i%16 == 0:
			moves <- &killer{}
		}
	}
	close(next)
	close(moves)
	all.Wait()
	st.heal(t, tenants, keys[:stormTenants*stormKeys], judge)
}

// heal ends what the storm has left, asks for each key once more, and judges.
func (st *storm[TX]) heal(t *testing.T, tenants, keys []string, judge func(t *testing.T, keys, ofTenants, twice, lost int, wrong string)) {
	t.Helper()
	st.calls.Store(-1 << 40) // no region is cut off any more
	for i, tenant := range tenants {
		to := names[i%len(names)]
		if err := st.s.mover(nil).Move(t.Context(), tenant, to); err != nil { // to another region: that is completed first
			list, _ := st.s.mover(nil).Show(t.Context(), tenant)
			for _, s := range list {
				if s.Moving != "" {
					must(t, st.s.mover(nil).Move(t.Context(), tenant, s.Moving))
				}
			}
			must(t, st.s.mover(nil).Move(t.Context(), tenant, to))
		}
	}
	for _, key := range keys {
		harness.Until(t, func() error {
			if status := st.ask(names[rand.N(len(names))], key); status != http.StatusOK {
				return fmt.Errorf("%s: %d", key, status)
			}
			return nil
		})
	}
	twice, lost, owned := 0, 0, 0
	var wrong []string
	for i, tenant := range tenants {
		if got := st.s.owners(t, tenant); len(got) == 1 && got[0] == names[i%len(names)] {
			owned++
		}
		of := st.s.effects(t, tenant)
		lost += stormKeys - len(of)
		for key, n := range of {
			if n > 1 {
				twice++
				wrong = append(wrong, fmt.Sprint(tenant, " ", key, " ", n))
			}
		}
		if n := harness.Count(t, st.s[names[i%len(names)]].db, "select n from account where tenant = ?", tenant); n != stormKeys {
			wrong = append(wrong, fmt.Sprintf("the account of %s has %d", tenant, n))
		}
	}
	testenv.Reportf(t, "%d keys: %d twice, %d never; of %d calls %d executed or replayed, %d forwarded, %d refused, %d misdirected, %d cut; %d moves, %d killed",
		len(keys), twice, lost, len(keys)*(stormTries+1), st.executed.Load(), st.forwarded.Load(), st.refused.Load(), st.misdirected.Load(), st.cut.Load(), st.moves.Load(), st.killed.Load())
	if st.moves.Load() < 10 || st.killed.Load() < 5 || st.forwarded.Load() < 200 || st.cut.Load() < 50 || !st.unowned && st.refused.Load() < 20 {
		t.Error("vacuous")
	}
	judge(t, len(keys), owned, twice, lost, strings.Join(wrong, "; "))
}

// handler is the service of a region.
func (st *storm[TX]) handler(r *region[TX]) http.Handler {
	tenantOf := func(r *http.Request) string { return r.Header.Get("Tenant") }
	api := oncehttp.Handler(r.engine, oncehttp.Config{Principal: tenantOf}, func(w http.ResponseWriter, in *http.Request, tx TX) {
		if err := r.write(in.Context(), tx, tenantOf(in), in.Header.Get("Idempotency-Key")); err != nil {
			oncehttp.Fail(w, in, err)
		}
	})
	return home.Handler(home.Config{
		Region: r.name, Map: r.known, Tenant: tenantOf, Transport: link[TX]{st, r.name},
		URL: func(region string) *url.URL { return &url.URL{Scheme: "http", Host: region} },
	}, api)
}

// link is the network between a region and the others.
type link[TX any] struct {
	st   *storm[TX]
	from string
}

var errCut = errors.New("the link is cut")

// RoundTrip implements [http.RoundTripper]. While a region is cut off, half of the requests get there, and their answers are lost.
func (l link[TX]) RoundTrip(r *http.Request) (*http.Response, error) {
	n := l.st.calls.Add(1)
	out := names[max(0, n/30)%3]
	isCut := n > 0 && n/30%2 == 1 && (out == l.from || out == r.URL.Host)
	if isCut {
		l.st.cut.Add(1)
	}
	if isCut && n%2 == 0 {
		return nil, errCut
	}
	l.st.forwarded.Add(1)
	w := httptest.NewRecorder()
	in := httptest.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, r.URL.String(), r.Body)
	in.Header = r.Header.Clone()
	l.st.handlers[r.URL.Host].ServeHTTP(w, in)
	if isCut {
		return nil, errCut
	}
	return w.Result(), nil
}

// ask sends a request to a region.
func (st *storm[TX]) ask(region, key string) int {
	tenant, key, _ := strings.Cut(key, " ")
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/pay", http.NoBody)
	r.Header.Set("Tenant", tenant)
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	st.handlers[region].ServeHTTP(w, r)
	_, _ = io.Copy(io.Discard, w.Body)
	switch w.Code {
	case http.StatusOK:
		st.executed.Add(1)
	case http.StatusMisdirectedRequest:
		st.misdirected.Add(1)
	default:
		st.refused.Add(1)
	}
	return w.Code
}

// move moves a tenant, or is killed.
func (st *storm[TX]) move(tenant string, kill *killer) {
	m := st.s.mover(kill)
	m.Publish = func(_ context.Context, tenant string, p home.Pin) error {
		st.mu.Lock()
		defer st.mu.Unlock()
		for _, r := range st.s {
			st.delayed = append(st.delayed, func() { r.known.Pin(tenant, p) })
		}
		return nil
	}
	to := names[rand.N(len(names))]
	err := m.Move(context.Background(), tenant, to)
	switch {
	case kill.dead:
		st.killed.Add(1)
	case err == nil:
		st.moves.Add(1)
		if st.leftBehind {
			db := st.s[to].db
			_, _ = db.Pool().Exec(context.Background(), harness.Text(db, "delete from once_operation where scope >= ? and scope < ?", tenant+" ", tenant+"!"))
		}
	}
}

// deliver has one map learn of one move.
func (st *storm[TX]) deliver() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if n := len(st.delayed); n > 0 {
		i := rand.N(n)
		st.delayed[i]()
		st.delayed[i] = st.delayed[n-1]
		st.delayed = st.delayed[:n-1]
	}
}
