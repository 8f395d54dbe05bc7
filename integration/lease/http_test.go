package lease

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/store"
)

const route = "POST /refunds/{id}"

// serve serves until the process kills itself at the point of its plan, or is killed.
func (p plan) serve(ctx context.Context) error {
	var points atomic.Int64
	var begun atomic.Bool
	at := func(string) {
		if begun.Load() && points.Add(1) == p.At {
			harness.Strike(p.Signal)
		}
	}
	p.Opening.at = at
	db, err := p.Opening.open(ctx)
	if err != nil {
		return err
	}
	if _, err := db.ops.Read(ctx, idOf("nothing")); err != nil { // the login is no point
		return err
	}
	begun.Store(true)
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	service := program{db: db, url: p.URL, by: fmt.Sprint("process ", os.Getpid()), policy: p.Policy, at: at}
	return (&http.Server{Handler: service.routes(), ReadHeaderTimeout: patience}).Serve(l)
}

type principalKey struct{}

// guarded is a configuration whose principal is what authentication has left in the context.
var guarded = oncehttp.Config{CaptureRequest: true, Wait: patience, Principal: func(r *http.Request) string {
	principal, _ := r.Context().Value(principalKey{}).(string)
	return principal
}}

// routes is the service over HTTP.
func (p program) routes() http.Handler {
	e, _ := p.engine()
	protected := oncehttp.Handler(e, guarded, p.refund)
	mux := http.NewServeMux()
	mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
		tenant, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer token of ")
		if !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		protected.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, tenant)))
	})
	return mux
}

// refund is the work of [program.handler], and its answer over HTTP.
func (p program) refund(w http.ResponseWriter, r *http.Request, run *lease.Run) {
	key, _ := oncehttp.Key(r.Context())
	principal, _ := oncehttp.Principal(r.Context())
	body, err := io.ReadAll(r.Body)
	if err != nil {
		oncehttp.Fail(w, r, err)
		return
	}
	done, err := p.handler(key)(r.Context(), run)
	if err != nil {
		oncehttp.Fail(w, r, err)
		return
	}
	w.Header().Set("Location", "/refunds/"+r.PathValue("id"))
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "%s of %s, %s, answered by %s: %s", body, principal, r.PathValue("id"), p.by, done)
}

// ask sends the request of a client. Without an answer the status is 0.
func ask(ctx context.Context, address, key string) (status int, body, location, said string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/refunds/7", strings.NewReader("refund"))
	if err != nil {
		return 0, err.Error(), "", ""
	}
	r.Header.Set("Idempotency-Key", `"`+key+`"`)
	r.Header.Set("Authorization", "Bearer token of acme")
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		return 0, err.Error(), "", ""
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error(), "", ""
	}
	return resp.StatusCode, string(b), resp.Header.Get("Location"), resp.Header.Get("Idempotency-Status")
}

// once starts a service, sends it one request, and reports whether it was killed by it. Otherwise its answer is there.
func (p plan) once(tb testing.TB) (killed bool, status int, body string) {
	tb.Helper()
	p.Serves = true
	c := harness.Start(tb, p)
	address, alive := <-c.Lines()
	if !alive {
		tb.Fatal("a service does not start")
	}
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	status, body, _, _ = ask(ctx, "http://"+address, p.Key)
	if status != 0 {
		c.Kill()
	} else if _, killed := c.End(tb); !killed {
		tb.Fatalf("%s: no answer from a service that lives: %s", p.Key, body)
	}
	return status == 0, status, body
}

// TestKillHTTP: a service with a leased route is killed at every point of a request. The Completer of another process ends the work, for the principal
// of the client and without its credentials; each phase has written once, each call has one effect; and the client's retry
// gets the stored 201, byte for byte.
func TestKillHTTP(t *testing.T) {
	testenv.Prove(t)
	on(t, func(t *testing.T, name string) {
		o, service := newDatabase(t, name), newProvider(t, true)
		p := plan{Opening: o, URL: service.URL, Policy: deduped, Signal: syscall.SIGKILL}
		other := program{db: o.mustOpen(t), url: service.URL, by: "the other process", policy: deduped, ttl: long}
		defer other.db.close()
		server := httptest.NewServer(other.routes())
		defer server.Close()

		var resumed atomic.Int64
		e, s := other.engine()
		strict := guarded
		strict.Principal = func(*http.Request) string {
			t.Error("Config.Principal is called for a request that was captured")
			return ""
		}
		resume := oncehttp.Routes{route: oncehttp.Resume(e, strict, other.refund)}.Resume
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		var completer sync.WaitGroup
		completer.Go(func() {
			c := lease.Completer{Store: s, Encrypter: encrypter(), Every: 20 * time.Millisecond, Handlers: lease.Handlers{route: func(ctx context.Context, op once.Operation) error {
				if strings.Contains(string(op.Request), "token of") {
					t.Error("a credential was stored")
				}
				err := resume(ctx, op)
				if err == nil {
					resumed.Add(1)
				}
				return err
			}}}
			if err := c.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		defer completer.Wait()
		defer cancel()

		kills, passed := 0, false
		for try := 1; !passed && !t.Failed(); try++ {
			p.At = int64(kills + 1)
			p.Key = fmt.Sprintf("point %d, try %d", p.At, try)
			killed, status, body := p.once(t)
			if killed {
				kills++
			} // else it has passed all points; or, on a busy machine, lost its lease to the Completer
			passed = !killed && status == http.StatusCreated && !strings.Contains(body, other.by)
			id := store.ID{Scope: "acme " + route, Key: p.Key}
			var rec store.Record
			harness.Until(t, func() (err error) {
				rec, err = other.db.ops.Read(t.Context(), id)
				if err == nil && rec.State != store.StateDone && rec.State != store.StateAbsent {
					err = fmt.Errorf("%s is %s, and the Completer does not end it", p.Key, rec.State)
				}
				return err
			})
			status, body, location, said := ask(t.Context(), server.URL, p.Key)
			if status != http.StatusCreated || location != "/refunds/7" || !strings.HasPrefix(body, "refund of acme, 7, ") ||
				rec.State == store.StateDone && (said != "replayed" || body != string(rec.Result.Body)) {
				t.Errorf("%s: %d %q (%s, %s), stored %q", p.Key, status, body, location, said, rec.Result.Body)
			}
			rows := other.rows(t, p.Key)
			for _, phase := range []string{"reserve", "book", "close"} {
				if len(rows[phase]) != 1 {
					t.Errorf("%s: phase %q has written %q", p.Key, phase, rows[phase])
				}
			}
			for _, phase := range []string{"charge", "notify"} {
				if _, effects := service.of(p.Key, phase); len(effects) != 1 {
					t.Errorf("%s: call %q had the effects %q", p.Key, phase, effects)
				}
			}
		}
		testenv.Reportf(t, "%s: killed at %d points, the Completer has ended %d operations", name, kills, resumed.Load())
		if kills < 8 || resumed.Load() < 5 {
			t.Errorf("vacuous: killed %d times, %d operations resumed", kills, resumed.Load())
		}
	})
}
