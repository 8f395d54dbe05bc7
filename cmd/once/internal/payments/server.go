package payments

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncehttp/openapi"
	"github.com/oncelib/once/oncehttp/stripe"
	"github.com/oncelib/once/store"
)

// Config of a server. The zero value is ready to use.
type Config struct {
	// Wait is how long a duplicate waits for the request that is in flight before it gets 409. Default: no wait; in the dialect StripeV1
	// [StripeWait]. Negative means no wait, in any dialect.
	Wait time.Duration

	// Unsafe leaves package oncehttp out: each request runs in a transaction of its own, and keys are ignored. It shows the effect of that.
	Unsafe bool

	// Dialect is the dialect of the API. Default: as the README says. [StripeV1]: like Stripe's API v1, on other paths.
	Dialect string

	// Encrypter encrypts each request that has a key, which is then kept: see once keys export. Default: no request is kept.
	Encrypter once.Encrypter

	// Log gets the errors that clients do not see, and the outcomes of keys. Default: slog.Default().
	Log *slog.Logger

	// Observer gets the events of keys, in addition to Log. Default: not called.
	Observer once.Observer
}

// action is one endpoint: it reads r, writes through tx, and returns the answer, or a *problem, or an error that only the operator may see. It does
// not depend on the database or on keys.
type action func(r *http.Request, tx queries) (answer, error)

type answer struct {
	status   int
	location string
	etag     string
	body     any
}

// NewServer returns the service on db.
func NewServer(db *DB, cfg Config) http.Handler {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Dialect == StripeV1 {
		return newStripeServer(db, cfg)
	}
	cfg.Wait = max(0, cfg.Wait)
	plain := func(a action) http.Handler { return unprotected(db, cfg, a) }
	keys := protected{all: plain, writes: plain}
	if !cfg.Unsafe {
		keys = db.protect(cfg)
	}
	api := http.NewServeMux()
	route(api, "/charges", methods{"POST": keys.writes(createCharge)})
	route(api, "/charges/{id}", methods{"GET": plain(getCharge)})
	route(api, "/refunds", methods{"POST": keys.all(createRefund)})
	route(api, "/refunds/{id}", methods{"GET": plain(getRefund)})
	route(api, "/refunds/{id}/void", methods{"POST": keys.all(voidRefund)})
	route(api, "/ledger", methods{"GET": plain(getLedger)})
	route(api, "/customers/{id}", methods{"GET": plain(getCustomer), "PUT": plain(putCustomer)})
	api.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, notFound("path", r.URL.Path))
	})

	mux := http.NewServeMux()
	mux.Handle("GET /healthz", plain(health))
	keys.publish(mux, "POST /charges", "POST /refunds", "POST /refunds/{id}/void")
	mux.Handle("/", authenticate(api))
	return mux
}

// health reports whether the database answers.
func health(r *http.Request, tx queries) (answer, error) {
	var n int
	_, err := one(r.Context(), tx, []any{&n}, "select count(*) from payments_migration")
	return answer{status: http.StatusOK, body: map[string]string{"status": "ok"}}, err
}

type methods map[string]http.Handler

// route registers path for its methods, and answers the others with 405.
func route(mux *http.ServeMux, path string, by methods) {
	for method, h := range by {
		mux.Handle(method+" "+path, h)
	}
	allow := strings.Join(sortedNames(by), ", ")
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		writeProblem(w, refusal(http.StatusMethodNotAllowed, "VALIDATION.method", "Here it is "+allow+"."))
	})
}

// protected puts keys in front of actions.
type protected struct {
	all      func(action) http.Handler
	writes   func(action) http.Handler // for actions that read nothing
	document func(patterns ...string) *openapi.Document
}

// publish serves the description of the protected routes for clients. It has no secrets, and the author of a client has no credentials yet.
func (p protected) publish(mux *http.ServeMux, patterns ...string) {
	if p.document != nil {
		mux.Handle("GET /openapi.json", p.document(patterns...))
	}
}

// protection puts keys in front of actions that work on s: package oncehttp opens the transaction, and commits it together with the key and the
// answer. Actions that only write are batches if the database can do them in one round trip.
func protection[TX any](s store.Store[TX], view func(TX) queries, batches bool) func(Config) protected {
	return func(cfg Config) (p protected) {
		observer := once.Log(cfg.Log)
		if cfg.Observer != nil {
			observer = once.Observers(cfg.Observer, observer)
		}
		engine := once.New(s, once.Config{Observer: observer, Encrypter: cfg.Encrypter})
		keys := oncehttp.Config{Principal: tenant, Wait: cfg.Wait, CaptureRequest: cfg.Encrypter != nil}
		if cfg.Dialect == StripeV1 {
			keys.Preset, keys.Optional = stripe.V1(), true
		}
		p.document = func(patterns ...string) *openapi.Document {
			routes := map[string]oncehttp.Config{}
			for _, pattern := range patterns {
				routes[pattern] = keys
			}
			d := openapi.New(engine, routes)
			d.Title = "Payments"
			return d
		}
		p.all = func(a action) http.Handler {
			return oncehttp.Handler(engine, keys, func(w http.ResponseWriter, r *http.Request, tx TX) {
				got, err := a(r, view(tx))
				cfg.reply(w, r, got, err)
			})
		}
		if p.writes = p.all; !batches {
			return p
		}
		p.writes = func(a action) http.Handler {
			return oncehttp.BatchHandler(engine, keys, func(w http.ResponseWriter, r *http.Request, b *once.Batch) {
				got, err := a(r, batch{b})
				cfg.reply(w, r, got, err)
			})
		}
		return p
	}
}

// unprotected runs an action in a transaction, and nothing more.
func unprotected(db *DB, cfg Config, a action) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got answer
		begun := false
		err := db.inTx(r.Context(), r.Method == http.MethodGet, func(tx queries) (err error) {
			begun = true
			got, err = a(r, tx)
			return err
		})
		if !errors.As(err, new(*problem)) && err != nil {
			cfg.Log.ErrorContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "error", err)
			err = failure(r.Method, !begun || isDown(err))
		}
		cfg.reply(w, r, got, err)
	})
}

// reply writes the result of an action.
func (cfg Config) reply(w http.ResponseWriter, r *http.Request, a answer, err error) {
	if cfg.Dialect == StripeV1 {
		stripeReply(w, r, a, err)
		return
	}
	var p *problem
	switch {
	case errors.As(err, &p):
		writeProblem(w, p)
		return
	case err != nil:
		oncehttp.Fail(w, r, err) // rolls back; a serialization failure runs the action again
		return
	}
	if a.location != "" {
		w.Header().Set("Location", a.location)
	}
	if a.etag != "" {
		w.Header().Set("ETag", a.etag)
	}
	writeJSON(w, a.status, a.body)
}
