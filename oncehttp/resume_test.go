package oncehttp_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store/memstore"
)

func sealer(t *testing.T) once.Encrypter {
	t.Helper()
	e, err := once.NewEncrypter(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// resumable is a configuration of routes that can be resumed. Without a client, Tenant must not be called.
func resumable(t *testing.T, clients *atomic.Bool) oncehttp.Config {
	t.Helper()
	return oncehttp.Config{CaptureRequest: true, Principal: func(r *http.Request) string {
		if !clients.Load() {
			t.Error("Config.Principal is called for a request that was captured")
		}
		return r.Header.Get("Authorization")
	}}
}

// TestCompleterResumesARoute: work of a route whose owner is gone is ended by a Completer, for the principal of its client, and the client's retry gets
// what was stored then.
func TestCompleterResumesARoute(t *testing.T) {
	const path, body = "/shops/a%2Fb/orders?x=1", "order 7"
	for name, tt := range map[string]struct {
		pattern   string // of the router outside of the middleware; "": it is inside
		route     func(*http.Request) string
		scope     string // behind the principal
		principal string
		wildcard  string
	}{
		"a pattern":               {pattern: "POST /shops/{shop}/orders", scope: "POST /shops/{shop}/orders", principal: "acme", wildcard: "a/b"},
		"of all methods":          {pattern: "/shops/{shop}/orders", scope: "POST /shops/{shop}/orders", principal: "acme", wildcard: "a/b"},
		"a subtree":               {pattern: "POST /shops/", scope: "POST /shops/", principal: "a b%c/ü~", wildcard: ""},
		"a router that is inside": {scope: "POST /shops/a%2Fb/orders", principal: "acme", wildcard: ""},
		"a name of its own":       {route: func(*http.Request) string { return "orders" }, scope: "orders", principal: "acme"},
	} {
		t.Run(name, func(t *testing.T) {
			mem, box := memstore.New(), sealer(t)
			var clients, fails atomic.Bool
			clients.Store(true)
			fails.Store(true)
			cfg := resumable(t, &clients)
			cfg.Route = tt.route
			runs := 0
			handle := func(w http.ResponseWriter, r *http.Request, run *lease.Run) {
				runs++
				n, err := lease.InTx(r.Context(), run, mem, "order", func(_ context.Context, tx *memstore.Tx) (int, error) { return increment(tx, "n"), nil })
				principal, ok := oncehttp.Principal(r.Context())
				sent, _ := io.ReadAll(r.Body)
				switch key, _ := oncehttp.Key(r.Context()); {
				case err != nil || fails.Load():
					oncehttp.Fail(w, r, fmt.Errorf("no: %w", err))
				default:
					w.Header().Set("Location", "/orders/1")
					w.Header().Set("Set-Cookie", "secret")
					w.WriteHeader(http.StatusCreated)
					fmt.Fprintf(w, "%d %s %v %q %s %s %s, wildcard %s", n, principal, ok, sent, key, r.Method, r.RequestURI, r.PathValue("shop"))
					if !clients.Load() && r.Header.Get("Authorization") != "" {
						t.Error("a credential was stored")
					}
				}
			}
			node := func() (*lease.Store, *once.Engine[*lease.Run]) {
				s := lease.New(mem, lease.Config{TTL: time.Minute})
				return s, once.New(s, once.Config{Observer: once.Discard, Encrypter: box})
			}
			_, e := node()
			served := oncehttp.Handler(e, cfg, handle)
			if tt.pattern != "" {
				mux := http.NewServeMux()
				mux.Handle(tt.pattern, served)
				served = mux
			}
			ask := func() *httptest.ResponseRecorder {
				r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
				r.Header.Set("Idempotency-Key", "k")
				r.Header.Set("Authorization", tt.principal)
				w := httptest.NewRecorder()
				served.ServeHTTP(w, r)
				return w
			}
			if w := ask(); w.Code != http.StatusInternalServerError {
				t.Fatalf("%d %s", w.Code, w.Body)
			}

			clients.Store(false)
			fails.Store(false)
			leases, other := node()
			named := "POST" // what a router inside of the middleware serves has the method as its name
			if tt.pattern != "" {
				named = tt.scope
			}
			resume := oncehttp.Routes{tt.scope: oncehttp.Resume(other, cfg, handle)}.Resume
			resumed := make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- lease.Completer{Store: leases, Encrypter: box, Every: time.Millisecond, Log: slog.New(slog.DiscardHandler), Handlers: lease.Handlers{named: func(ctx context.Context, op once.Operation) error {
					err := resume(ctx, op)
					resumed <- err
					return err
				}}}.Run(ctx)
			}()
			if err := <-resumed; err != nil {
				t.Error(err)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}

			clients.Store(true)
			w := ask()
			want := fmt.Sprintf("1 %s true %q k POST %s, wildcard %s", tt.principal, body, path, tt.wildcard)
			if w.Code != http.StatusCreated || w.Body.String() != want || w.Header().Get("Location") != "/orders/1" ||
				w.Header().Get("Idempotency-Status") != "replayed" || w.Header().Get("Set-Cookie") != "" || runs != 2 {
				t.Errorf("%d %s, want %s; %v, after %d runs", w.Code, w.Body, want, w.Header(), runs)
			}
		})
	}
}

// TestResumeRefuses: what cannot be resumed is told when the program starts, or with the scope that it is about. Nothing is executed.
func TestResumeRefuses(t *testing.T) {
	var clients atomic.Bool
	box, cfg := sealer(t), resumable(t, &clients)
	leased := func(cfg once.Config) *once.Engine[*lease.Run] {
		cfg.Observer = once.Discard
		return once.New(lease.New(memstore.New(), lease.Config{}), cfg)
	}
	never := func(http.ResponseWriter, *http.Request, *lease.Run) { t.Error("it is executed") }
	forgets := cfg
	forgets.CaptureRequest = false
	for want, make := range map[string]func(){
		"not a store of package lease": func() {
			oncehttp.Resume(once.New(memstore.New(), once.Config{Encrypter: box}), cfg, func(http.ResponseWriter, *http.Request, *memstore.Tx) {})
		},
		"Try: Config.Encrypter":            func() { oncehttp.Resume(leased(once.Config{}), cfg, never) },
		"Try: an engine without HashKeys":  func() { oncehttp.Resume(leased(once.Config{Encrypter: box, HashKeys: true}), cfg, never) },
		"Config.CaptureRequest is not set": func() { oncehttp.Resume(leased(once.Config{Encrypter: box}), forgets, never) },
		"Config.Principal is not set": func() {
			oncehttp.Resume(leased(once.Config{Encrypter: box}), oncehttp.Config{CaptureRequest: true}, never)
		},
		"BatchHandler on an engine of package l": func() { oncehttp.BatchHandler(leased(once.Config{}), cfg, nil) },
	} {
		func() {
			defer func() {
				if p, _ := recover().(string); !strings.Contains(p, want) || !strings.Contains(p, "Try: ") {
					t.Errorf("%q, want %q", p, want)
				}
			}()
			make()
		}()
	}

	e := leased(once.Config{Encrypter: box})
	routes := oncehttp.Routes{"POST /orders": oncehttp.Resume(e, cfg, never)}
	request := []byte("POST /orders HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab")
	for want, op := range map[string]once.Operation{
		`an entry for "POST /refunds"`:                      {Scope: "acme POST /refunds", Request: request},
		`an entry for ""`:                                   {Scope: "nightly-report", Request: request},
		"request cannot be read":                            {Scope: "acme POST /orders", Request: []byte("what a job has kept")},
		"body of the stored request cannot":                 {Scope: "acme POST /orders", Request: request[:len(request)-1]},
		`the stored request belongs to the route "POST /r"`: {Scope: "acme POST /orders", Request: []byte("POST /r HTTP/1.1\r\nHost: x\r\n\r\n")},
		`the stored request belongs to the route "POST /o`:  {Scope: "acme POST /orders", Request: []byte("POST /orders/ HTTP/1.1\r\nHost: x\r\n\r\n")},
	} {
		op.Key = "k"
		err := routes.Resume(t.Context(), op)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q, want %q", err, want)
		}
	}
	for _, principal := range []int{480, 600} { // the scope is too long, and ends in a hash
		scope := wire.Scope(strings.Repeat("a", principal), "POST /orders/{and}/more/of/a/route")
		err := oncehttp.Resume(e, cfg, never)(t.Context(), once.Operation{Scope: scope, Key: "k", Request: request})
		if err == nil || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%d: %v", principal, err)
		}
	}
}
