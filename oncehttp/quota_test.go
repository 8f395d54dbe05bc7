package oncehttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/gaugename"
	"github.com/oncelib/once/limit"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/upkeep"
)

// quotaPart is what an answer of [spend] takes, so that quotas can be told in answers.
const quotaPart = upkeep.RecordSize + 10_000

// spender is a service with a quota of n answers for each principal, on a store that others may share.
type spender struct {
	http.Handler

	quota *limit.Quota
	runs  atomic.Int64
	log   bytes.Buffer
}

func newSpender(s store.Store[*memstore.Tx], n int64, cfg oncehttp.Config) *spender {
	sp := new(spender)
	e := once.New(s, once.Config{Observer: once.Discard})
	sp.quota = limit.NewQuota(e.Store(), limit.QuotaConfig{Bytes: n * quotaPart, Log: slog.New(slog.NewTextHandler(&sp.log, nil))})
	cfg.Principal, cfg.Quota = func(r *http.Request) string { return r.Header.Get("Account") }, sp.quota
	sp.Handler = oncehttp.Handler(e, cfg, func(w http.ResponseWriter, _ *http.Request, tx *memstore.Tx) {
		sp.runs.Add(1)
		increment(tx, "n")
		_, _ = w.Write(make([]byte, 10_000))
	})
	return sp
}

// spend sends a request of an account.
func (sp *spender) spend(account, key string) response {
	r := httptest.NewRequest(http.MethodPost, "/spend", strings.NewReader("x"))
	r.Header.Set("Account", account)
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	sp.ServeHTTP(w, r)
	return response{w.Code, w.Result().Header, w.Body.String()}
}

// run counts until the end of the test. It returns after the first count.
func (sp *spender) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- sp.quota.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// pass lets time pass in the bubble of the test, and lets all that is due then be done.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func wantStatus(t *testing.T, got response, status int) {
	t.Helper()
	if got.status != status {
		t.Errorf("status %d, want %d: %.200s", got.status, status, got.body)
	}
}

// TestQuotaRefusesOnlyNewWork: a principal that has its quota stored begins nothing new, and is still answered for what it has begun. Others are not affected. When
// its answers are not kept any more it goes on.
func TestQuotaRefusesOnlyNewWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		s := newSpender(mem, 3, oncehttp.Config{Retain: time.Hour})
		defer s.run(t)()
		for i := range 3 {
			wantStatus(t, s.spend("acme", fmt.Sprint(i)), 200) // the last one fills it
		}
		for range 2 {
			got := s.spend("acme", "new")
			wantStatus(t, got, 429)
			p := got.problem(t)
			if p.Code != "RATE_LIMIT.stored_bytes" || !p.Retryable || p.SafeNewKey || got.header.Get("Retry-After") != "60" {
				t.Errorf("%+v, Retry-After %q", p, got.header.Get("Retry-After"))
			}
		}
		if n := s.runs.Load(); n != 3 {
			t.Errorf("the handler has run %d times", n)
		}
		if got := s.spend("acme", "0"); got.status != 200 || got.idempotency() != "replayed" {
			t.Errorf("a replay: %d, %s", got.status, got.idempotency())
		}
		for state, key := range map[store.State]string{store.StateRunning: "running", store.StateUnknown: "unknown"} {
			c := store.Change{ID: store.ID{Scope: "acme POST /spend", Key: key}, Next: store.Record{State: state, Fence: 1, Nonce: []byte("0123456789abcdef")}, Lease: time.Hour}
			if _, err := mem.Swap(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			wantStatus(t, s.spend("acme", key), 409) // the engine decides, and not the quota
		}
		wantStatus(t, s.spend("ac", "new"), 200)
		wantStatus(t, s.spend("acme co", "new"), 200)
		pass(time.Hour + time.Minute)
		wantStatus(t, s.spend("acme", "new"), 200)
	})
}

// TestQuotaOfSeveralProcesses: what others have stored counts from the next count on, whatever the size of its pages, and what this process stores
// during a count is not forgotten.
func TestQuotaOfSeveralProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		pages := &measured{Store: mem, most: 2}
		one, other := newSpender(mem, 5, oncehttp.Config{}), newSpender(pages, 5, oncehttp.Config{})
		defer one.run(t)()
		defer other.run(t)()
		for i := range 5 {
			wantStatus(t, one.spend("acme", fmt.Sprint(i)), 200)
			wantStatus(t, one.spend("zebra", fmt.Sprint(i%4)), 200)
		}
		wantStatus(t, one.spend("acme", "new"), 429)
		wantStatus(t, other.spend("acme", "within a minute"), 200)
		pass(time.Minute)
		wantStatus(t, other.spend("acme", "new"), 429)
		pages.behind = func() { wantStatus(t, other.spend("zebra", "during a count"), 200) }
		pass(time.Minute)
		pages.behind = nil
		wantStatus(t, other.spend("zebra", "new"), 429)
	})
}

// measured is a store whose counts have small pages, and may fail.
type measured struct {
	*memstore.Store

	most   int
	down   atomic.Bool
	takes  atomic.Int64 // how long the last page takes, in nanoseconds
	behind func()       // is called when the last page was read
}

func (m *measured) Stored(ctx context.Context, after store.ID, limit int) ([]upkeep.Stored, store.ID, error) {
	if m.down.Load() {
		return nil, store.ID{}, errors.New("down")
	}
	list, next, err := m.Store.Stored(ctx, after, min(limit, m.most))
	if d := time.Duration(m.takes.Load()); next.IsZero() && d > 0 {
		<-time.After(d)
	}
	if next.IsZero() && m.behind != nil {
		m.behind()
	}
	return list, next, err
}

// TestQuotaThatCannotCount: an old count stands for three rounds, then nobody is refused. The log is told, once.
func TestQuotaThatCannotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &measured{Store: memstore.New(), most: 1000}
		s := newSpender(m, 1, oncehttp.Config{})
		stop := s.run(t)
		wantStatus(t, s.spend("acme", "1"), 200)
		wantStatus(t, s.spend("acme", "new"), 429)
		m.down.Store(true)
		pass(3 * time.Minute)
		wantStatus(t, s.spend("acme", "new"), 429)
		pass(time.Minute)
		wantStatus(t, s.spend("acme", "new"), 200)
		if n := strings.Count(s.log.String(), "cannot count the stored bytes"); n != 1 || !strings.Contains(s.log.String(), "Try: ") {
			t.Errorf("%d warnings: %s", n, s.log.String())
		}
		m.down.Store(false)
		pass(time.Minute)
		wantStatus(t, s.spend("acme", "newer"), 429)
		stop()
		pass(4 * time.Minute)
		wantStatus(t, s.spend("acme", "newer"), 200) // nothing counts any more
	})
}

// TestQuotaWhoseCountIsSlow: while a count takes longer than the retention, answers that the last count has counted expire. So the last count does
// not stay valid until the slow one ends, and a principal below its quota is not refused. The log is told, once.
func TestQuotaWhoseCountIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &measured{Store: memstore.New(), most: 1000}
		s := newSpender(m, 6, oncehttp.Config{Retain: 3 * time.Minute})
		stop := s.run(t)
		m.takes.Store(int64(20 * time.Minute))
		for i := range 90 { // at most four answers are stored at the same time
			pass(time.Minute)
			wantStatus(t, s.spend("acme", fmt.Sprint(i)), 200)
		}
		if n := strings.Count(s.log.String(), "takes so long"); n != 1 || !strings.Contains(s.log.String(), "Try: ") {
			t.Errorf("%d warnings: %s", n, s.log.String())
		}
		m.takes.Store(0)
		pass(30 * time.Minute)
		for i := range 6 {
			wantStatus(t, s.spend("acme", fmt.Sprint("quick ", i)), 200)
		}
		wantStatus(t, s.spend("acme", "new"), 429)
		stop()
	})
}

// TestQuotaThatIsNotRun: nobody is refused, and the log is told.
func TestQuotaThatIsNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpender(memstore.New(), 1, oncehttp.Config{})
		for i := range 4 {
			wantStatus(t, s.spend("acme", fmt.Sprint(i)), 200)
			pass(time.Minute)
		}
		if n := strings.Count(s.log.String(), "Try: go quota.Run(ctx)"); n != 1 {
			t.Errorf("%d warnings: %s", n, s.log.String())
		}
	})
}

// TestUndosHaveNoQuota: who has too much stored can give back.
func TestUndosHaveNoQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		s := newSpender(mem, 1, oncehttp.Config{Route: func(*http.Request) string { return "spend" }})
		defer s.run(t)()
		wantStatus(t, s.spend("acme", "1"), 200)
		wantStatus(t, s.spend("acme", "2"), 429)
		undone := 0
		undo := oncehttp.Handler(once.New(mem, once.Config{Observer: once.Discard}), oncehttp.Config{
			Principal: func(*http.Request) string { return "acme" }, Undoes: "spend", Quota: s.quota,
		}, func(_ http.ResponseWriter, _ *http.Request, tx *memstore.Tx) { undone++; increment(tx, "undone") })
		r := httptest.NewRequest(http.MethodPost, "/undo", nil)
		r.Header.Set("Once-Undoes", "1")
		w := httptest.NewRecorder()
		undo.ServeHTTP(w, r)
		if w.Code != 204 || undone != 1 {
			t.Errorf("%d, undone %d times", w.Code, undone)
		}
	})
}

// TestQuotaGauges: the largest principal, by what was counted and what was added since, and the requests that were refused.
func TestQuotaGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpender(memstore.New(), 2, oncehttp.Config{})
		defer s.run(t)()
		for i := range 3 {
			s.spend("acme", fmt.Sprint(i))
			s.spend("ada", "1")
			pass(time.Minute)
		}
		values, err := s.quota.Gauges(t.Context())
		if err != nil || len(values) != 2 || values[0].Name != gaugename.QuotaLargestBytes || values[1].Name != gaugename.QuotaRefused {
			t.Fatalf("%v, %v", values, err)
		}
		if most, refused := values[0].Number, values[1].Number; most < 2*quotaPart || most > 2*quotaPart+500 || refused != 1 {
			t.Errorf("the largest has %v, %v were refused", most, refused)
		}
	})
}

// TestQuotaIsDocumented: a route tells its problem if it has one.
func TestQuotaIsDocumented(t *testing.T) {
	e := once.New(memstore.New(), once.Config{})
	quota := limit.NewQuota(e.Store(), limit.QuotaConfig{Bytes: 1})
	for name, c := range map[string]struct {
		cfg  oncehttp.Config
		told bool
	}{"none": {}, "a quota": {oncehttp.Config{Quota: quota}, true}, "an undo": {oncehttp.Config{Quota: quota, Undoes: "POST /"}, false}} {
		c.cfg.Principal = oncehttp.SharedPrincipal()
		told := false
		for _, p := range oncehttp.NewRoute(e, c.cfg).Problems() {
			told = told || p.Code == "RATE_LIMIT.stored_bytes" && p.RetryAfter > 0 && p.Status == 429
		}
		if told != c.told {
			t.Errorf("%s: told %v", name, told)
		}
	}
}

// TestInvalidQuota: what cannot work is refused when the program starts, with what to do.
func TestInvalidQuota(t *testing.T) {
	hidden := once.New[*memstore.Tx](struct{ store.Store[*memstore.Tx] }{memstore.New()}, once.Config{})
	well := once.New(memstore.New(), once.Config{})
	for name, make := range map[string]func(){
		"cannot report how much is stored": func() { limit.NewQuota(hidden.Store(), limit.QuotaConfig{Bytes: 1}) },
		"Bytes 0":                          func() { limit.NewQuota(well.Store(), limit.QuotaConfig{}) },
		"Every -1s":                        func() { limit.NewQuota(well.Store(), limit.QuotaConfig{Bytes: 1, Every: -time.Second}) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, name) || !strings.Contains(got, "Try: ") {
					t.Errorf("%s: %s", name, got)
				}
			}()
			make()
		}()
	}
}
