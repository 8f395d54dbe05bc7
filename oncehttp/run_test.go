package oncehttp_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

func panicOf(f func()) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	f()
	return ""
}

func TestTxPanics(t *testing.T) {
	if p := panicOf(func() { oncehttp.Tx[*memstore.Tx](context.Background()) }); !strings.Contains(p, "no transaction") || !strings.Contains(p, "\nTry: ") {
		t.Error(p)
	}
	s := start(t, setup{}, func(w http.ResponseWriter, r *http.Request, tx *memstore.Tx) {
		if p := panicOf(func() { oncehttp.Tx[string](r.Context()) }); !strings.Contains(p, "oncehttp.Tx[*memstore.Tx](ctx)") {
			t.Error(p)
		}
		type key struct{}
		if ctx := context.WithValue(r.Context(), key{}, 1); oncehttp.Tx[*memstore.Tx](ctx) != tx {
			t.Error("another transaction in a derived context")
		}
		create(w, r, tx)
	})
	if got := s.post("k", ""); got.status != 201 {
		t.Errorf("%+v", got)
	}
}

func TestKeyOfContext(t *testing.T) {
	s := start(t, setup{Config: oncehttp.Config{Optional: true}}, func(w http.ResponseWriter, r *http.Request, _ *memstore.Tx) {
		k, ok := oncehttp.Key(r.Context())
		fmt.Fprintf(w, "%q %v", k, ok)
	})
	if got := s.post(`"a\"b"`, ""); got.body != `"a\"b" true` {
		t.Error(got.body)
	}
	if got := s.send("POST", "/", ""); got.body != `"" false` {
		t.Error(got.body)
	}
	if _, ok := oncehttp.Key(context.Background()); ok {
		t.Error("a key outside")
	}
	oncehttp.Decide(context.Background(), oncehttp.VerdictCommit) // does nothing
}

// The middleware inside of itself does nothing; another engine's has its own claim.
func TestNestedMiddlewareDoesNothing(t *testing.T) {
	m, other := memstore.New(), memstore.New()
	e, f := once.New(m, once.Config{}), once.New(other, once.Config{})
	cfg := oncehttp.Config{Principal: oncehttp.SharedPrincipal()}
	var outer, inner *memstore.Tx
	see := func(tx **memstore.Tx, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			*tx = oncehttp.Tx[*memstore.Tx](r.Context())
			next.ServeHTTP(w, r)
		})
	}
	last := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		create(w, r, oncehttp.Tx[*memstore.Tx](r.Context()))
		if tx, ok := e.Tx(r.Context()); !ok || tx != outer {
			t.Error("the outer engine's transaction is gone")
		}
	})
	h := oncehttp.Middleware(e, cfg)(see(&outer, oncehttp.Middleware(e, cfg)(see(&inner, last))))
	if got := roundTrip(h, "POST", "/", "", "k"); got.status != 201 || outer != inner {
		t.Errorf("the same engine: %+v", got)
	}
	h = oncehttp.Middleware(e, cfg)(see(&outer, oncehttp.Middleware(f, cfg)(see(&inner, last))))
	if got := roundTrip(h, "POST", "/", "", "l"); got.status != 201 || outer == inner || got.idempotency() != "stored" {
		t.Errorf("two engines: %+v", got)
	}
	if v, _ := other.Get("n"); v != "1" {
		t.Errorf("%s effects in the other store", v)
	}
}

// A batch has no transaction, and a transaction is no batch: what goes together does
// nothing inside, what does not says so.
func TestNestedBatch(t *testing.T) {
	e := once.New(memstore.New(), once.Config{})
	cfg := oncehttp.Config{Principal: oncehttp.SharedPrincipal()}
	create := func(w http.ResponseWriter, _ *http.Request, b *once.Batch) {
		b.Exec("insert", once.NewKey(), "1")
		w.WriteHeader(http.StatusCreated)
	}
	middleware, batch := oncehttp.Middleware(e, cfg), oncehttp.BatchHandler(e, cfg, create)
	within := func(next http.Handler) http.Handler {
		return oncehttp.BatchHandler(e, cfg, func(w http.ResponseWriter, r *http.Request, _ *once.Batch) { next.ServeHTTP(w, r) })
	}
	inside := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { create(w, r, oncehttp.Tx[*once.Batch](r.Context())) })
	for name, c := range map[string]struct {
		handler http.Handler
		panics  string
	}{
		"middleware in a batch":   {within(middleware(inside)), ""},
		"batch in a batch":        {within(batch), ""},
		"batch in the middleware": {middleware(batch), "BatchHandler cannot run inside of a Middleware"},
		"handler in a batch":      {within(oncehttp.Handler(e, cfg, func(http.ResponseWriter, *http.Request, *memstore.Tx) {})), "Handler cannot run inside of a BatchHandler"},
	} {
		var got response
		p := panicOf(func() { got = roundTrip(c.handler, "POST", "/", "", name) })
		if c.panics == "" && (got.status != 201 || got.idempotency() != "stored") || !strings.Contains(p, c.panics) || c.panics != "" && !strings.Contains(p, "\nTry: ") {
			t.Errorf("%s: %+v, panics with %q", name, got, p)
		}
	}
}
