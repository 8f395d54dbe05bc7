package oncehttp_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// What a client is told when something goes wrong below, and what has become of its
// operation. The first n calls fail, the last one is made without faults.
func TestFaultsOfTheStoreAndTheirAnswers(t *testing.T) {
	always := func(kind store.Kind) func(store.Change, func() error) error {
		return func(store.Change, func() error) error { return fault(kind) }
	}
	for name, c := range map[string]struct {
		faults     func(*faulty)
		handler    handler
		status     int
		code       oncehttp.ProblemCode
		retryable  bool
		retryAfter string
		runs       int64 // of the handler, before the request is repeated
		effects    int   // after it was repeated
	}{
		"store down": {
			faults: func(f *faulty) { f.begin = func(store.BeginOptions) error { return fault(store.KindUnavailable) } },
			status: 503, code: oncehttp.ProblemStoreUnavailable, retryable: true, retryAfter: "1", effects: 1,
		},
		"store down at commit": {
			faults: func(f *faulty) { f.commit = always(store.KindUnavailable) },
			status: 503, code: oncehttp.ProblemStoreUnavailable, retryable: true, retryAfter: "1", runs: 1, effects: 1,
		},
		"serialization failures at commit": {
			faults: func(f *faulty) { f.commit = always(store.KindRetry) },
			status: 503, code: oncehttp.ProblemConflict, retryable: true, retryAfter: "1", runs: 3, effects: 1,
		},
		"serialization failures at begin": {
			faults: func(f *faulty) { f.begin = func(store.BeginOptions) error { return fault(store.KindRetry) } },
			status: 503, code: oncehttp.ProblemConflict, retryable: true, retryAfter: "1", effects: 1,
		},
		"serialization failures of statements": {
			handler: func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
				oncehttp.Fail(w, r, fault(store.KindRetry))
			},
			status: 503, code: oncehttp.ProblemConflict, retryable: true, retryAfter: "1", runs: 3,
		},
		"failed commit": {
			faults: func(f *faulty) { f.commit = always(store.KindOther) },
			status: 500, code: oncehttp.ProblemHandlerFailed, retryable: true, runs: 1, effects: 1,
		},
		"failed handler": {
			handler: func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
				increment(tx, "n")
				_, _ = io.WriteString(w, "half of an answer")
				oncehttp.Fail(w, r, errors.New("secret of the handler"))
			},
			status: 500, code: oncehttp.ProblemHandlerFailed, retryable: true, runs: 1,
		},
		"swallowed error": {
			handler: func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
				increment(tx, "n")
				_ = tx.Insert("n", "secret of the handler")
				w.WriteHeader(http.StatusCreated)
			},
			status: 500, code: problemErrorSwallowed, retryable: true, runs: 1,
		},
		"commit by the handler": {
			handler: func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
				_ = tx.Commit()
				w.WriteHeader(http.StatusCreated)
			},
			status: 500, code: problemTransactionMisuse, runs: 1,
		},
		"commit by a handler that then answers 503": {
			handler: func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
				_ = tx.Commit()
				w.WriteHeader(http.StatusServiceUnavailable)
			},
			status: 500, code: problemTransactionMisuse, runs: 1,
		},
	} {
		healthy := new(atomic.Bool)
		h := c.handler
		if h == nil {
			h = create
		}
		s := start(t, setup{faults: c.faults}, h)
		begin, commit := s.store.begin, s.store.commit
		s.store.begin = func(a store.BeginOptions) error {
			if begin == nil || healthy.Load() {
				return nil
			}
			return begin(a)
		}
		s.store.commit = func(c store.Change, next func() error) error {
			if commit == nil || healthy.Load() {
				return next()
			}
			return commit(c, next)
		}
		got := s.post("k", "")
		p := got.problem(t)
		if got.status != c.status || p.Code != c.code || p.Retryable != c.retryable || p.SafeNewKey || got.header.Get("Retry-After") != c.retryAfter {
			t.Errorf("%s: %d %q %+v", name, got.status, got.header.Get("Retry-After"), p)
		}
		if strings.Contains(got.body, "secret") {
			t.Errorf("%s: the cause has leaked: %s", name, got.body)
		}
		if got.idempotency() != "" || got.header.Get("Location") != "" {
			t.Errorf("%s: parts of the handler's answer have leaked: %v", name, got.header)
		}
		if n := s.runs.Load(); n != c.runs {
			t.Errorf("%s: %d runs, not %d", name, n, c.runs)
		}
		healthy.Store(true)
		again := s.post("k", "")
		if v, _ := s.store.Get("n"); c.effects == 1 && (v != "1" || again.status != 201) {
			t.Errorf("%s: then %q effects and %+v", name, v, again)
		} else if c.effects == 0 && v != "" {
			t.Errorf("%s: %q effects", name, v)
		}
	}
}

// The answer to COMMIT is lost; the database knows.
func TestLostCommit(t *testing.T) {
	lose := func(applied bool) func(*faulty) {
		return func(f *faulty) {
			var once atomic.Bool
			f.commit = func(_ store.Change, commit func() error) error {
				if once.Swap(true) {
					return commit()
				}
				if applied {
					if err := commit(); err != nil {
						return err
					}
				}
				return fault(store.KindLost)
			}
		}
	}
	// Applied: the first answer is the answer.
	s := start(t, setup{faults: lose(true)}, create)
	if got := s.post("k", ""); got.status != 201 || got.body != "refund 1" || got.idempotency() != "stored" {
		t.Errorf("applied: %+v", got)
	}
	s.expect(1, "n", 1)
	// Not applied, but the claim is still held by a transaction that does not end:
	// in doubt, and said so.
	s = start(t, setup{faults: lose(false), engine: once.Config{Settle: 30 * time.Millisecond}}, create)
	got := s.post("k", "")
	if p := got.problem(t); got.status != 503 || p.Code != oncehttp.ProblemStoreUnavailable || !p.Retryable || p.SafeNewKey || got.header.Get("Retry-After") != "1" {
		t.Errorf("in doubt: %+v", p)
	}
	if e := s.log.last(); e.Effect != once.EffectInDoubt {
		t.Errorf("%+v", e)
	}
}

// A run that loses leaves nothing of its answer behind.
func TestRerunStartsAfresh(t *testing.T) {
	var run int
	s := start(t, setup{faults: func(f *faulty) {
		commits := 0
		f.commit = func(_ store.Change, commit func() error) error {
			if commits++; commits == 1 {
				return fault(store.KindRetry)
			}
			return commit()
		}
	}}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		body, err := io.ReadAll(r.Body)
		if string(body) != "1000" || err != nil || r.ContentLength != 4 {
			t.Errorf("run %d: body %q, %v", run, body, err)
		}
		if len(w.Header()) != 0 {
			t.Errorf("run %d: header %v", run, w.Header())
		}
		if run++; run == 1 {
			w.Header().Set("Location", "/wrong")
			w.Header().Set("Set-Cookie", "wrong")
		} else {
			w.Header().Set("Etag", `"right"`)
		}
		create(w, r, tx)
	})
	got := s.post("k", "1000")
	if got.status != 201 || got.body != "refund 1" || got.header.Get("Set-Cookie") != "" || got.header.Get("Etag") != `"right"` {
		t.Errorf("%+v", got)
	}
	s.expect(2, "n", 1)
}

// A serialization failure that is reported with Fail is worth another run.
func TestFailReruns(t *testing.T) {
	var runs int
	s := start(t, setup{}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		if runs++; runs < 3 {
			oncehttp.Fail(w, r, fault(store.KindRetry))
			return
		}
		create(w, r, tx)
	})
	if got := s.post("k", ""); got.status != 201 || got.idempotency() != "stored" {
		t.Errorf("%+v", got)
	}
	s.expect(3, "n", 1)
}

func TestFailWithoutAnError(t *testing.T) {
	s := start(t, setup{}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		increment(tx, "n")
		oncehttp.Fail(w, r, nil)
	})
	if got := s.post("k", ""); got.problem(t).Code != oncehttp.ProblemHandlerFailed {
		t.Errorf("%+v", got)
	}
	s.expect(1, "n", 0)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { oncehttp.Fail(w, r, errors.New("secret")) })
	if got := roundTrip(h, "POST", "/", "", ""); got.problem(t).Code != oncehttp.ProblemHandlerFailed || strings.Contains(got.body, "secret") {
		t.Errorf("outside: %+v", got)
	}
}

// Outside of the middleware nothing is rolled back and the request is not recognised again: what
// the handler has written may be there, and to send it again may write it twice.
func TestFailOutsideOfTheMiddlewareClaimsNothing(t *testing.T) {
	m := memstore.New()
	rows := 0
	failing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rows++ // in a transaction of its own
		oncehttp.Fail(w, r, errors.New("secret"))
	})
	protected := oncehttp.Middleware(once.New(m, once.Config{}), oncehttp.Config{Principal: oncehttp.SharedPrincipal()})(failing)
	for name, c := range map[string]struct {
		handler http.Handler
		method  string
		claims  bool
	}{
		"unprotected":             {failing, "POST", false},
		"a method that passes":    {protected, "PUT", false},
		"the same, protected":     {protected, "POST", true},
		"another one that passes": {protected, "DELETE", false},
	} {
		got := roundTrip(c.handler, c.method, "/", "", "k")
		p := got.problem(t)
		claims := p.Retryable || p.SafeNewKey || strings.Contains(p.Detail, "Nothing was applied") || strings.Contains(p.Detail, "again")
		if got.status != 500 || claims != c.claims || p.Detail == "" || p.Type == "" || strings.Contains(got.body, "secret") {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if rows != 4 {
		t.Errorf("%d handlers have run", rows)
	}
}

// TestForgottenAnswerClaimsNoExecution: an operation whose answer was erased may have been decided as not executed. Only of an answer that was too large
// the execution is known.
func TestForgottenAnswerClaimsNoExecution(t *testing.T) {
	for text, header := range map[string][]byte{"was executed": nil, "has ended": head.Forgotten(), "has ended, but": head.Encode(&store.Result{RolledBack: true})} {
		s := start(t, setup{}, create)
		res := store.Result{Kind: store.ResultOmitted}
		if err := head.Decode(header, &res); err != nil {
			t.Fatal(err)
		}
		if _, err := s.store.Swap(t.Context(), store.Change{ID: store.ID{Scope: "global POST /refunds", Key: "k"}, Next: store.Record{State: store.StateDone, Fence: 1, Result: res}, Retain: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if p := s.post("k", "").problem(t); p.Code != oncehttp.ProblemResultUnavailable || !strings.Contains(p.Detail, text) {
			t.Errorf("%s: %+v", text, p)
		}
	}
}

// Records that an HTTP answer cannot be made of.
func TestForeignRecords(t *testing.T) {
	id := store.ID{Scope: "global POST /refunds", Key: "k"}
	url := func(r *http.Request, key string) string { return "/operations" + r.URL.Path + "/" + key }
	for name, c := range map[string]struct {
		record    store.Record
		status    int
		code      oncehttp.ProblemCode
		retryable bool
		url       string
	}{
		"unknown":            {store.Record{State: store.StateUnknown, Fence: 1}, 409, oncehttp.ProblemUnknown, false, "/operations/refunds/k"},
		"running elsewhere":  {store.Record{State: store.StateRunning, Fence: 1}, 409, oncehttp.ProblemInFlight, true, "/operations/refunds/k"},
		"omitted":            {store.Record{State: store.StateDone, Fence: 1, Result: store.Result{Kind: store.ResultOmitted, Status: 201}}, 409, oncehttp.ProblemResultUnavailable, false, "/operations/refunds/k"},
		"value of a func":    {store.Record{State: store.StateDone, Fence: 1, Result: store.Result{Body: []byte("1")}}, 409, oncehttp.ProblemResultUnavailable, false, "/operations/refunds/k"},
		"failure of a func":  {store.Record{State: store.StateDone, Fence: 1, Result: store.Result{Kind: store.ResultFailure, Body: []byte("{}")}}, 409, oncehttp.ProblemResultUnavailable, false, "/operations/refunds/k"},
		"of a later version": {store.Record{State: store.StateDone, Fence: 1, Result: store.Result{Kind: 77, Status: 201}}, 409, oncehttp.ProblemResultUnavailable, false, "/operations/refunds/k"},
		"other request":      {store.Record{State: store.StateDone, Fence: 1, Fingerprint: make([]byte, 33)}, 201, "", false, ""}, // version 0 is not compared
	} {
		s := start(t, setup{Config: oncehttp.Config{StatusURL: url}}, create)
		if name == "other request" {
			c.record.Fingerprint[0] = 1
			c.status, c.code = 422, oncehttp.ProblemMismatch
		}
		if _, err := s.store.Swap(t.Context(), store.Change{ID: id, Next: c.record, Lease: time.Hour, Retain: time.Hour}); err != nil {
			t.Fatal(err)
		}
		got := s.post("k", "")
		if p := got.problem(t); got.status != c.status || p.Code != c.code || p.Retryable != c.retryable || p.SafeNewKey || p.StatusURL != c.url {
			t.Errorf("%s: %+v", name, p)
		}
		s.expect(0, "n", 0)
	}
}
