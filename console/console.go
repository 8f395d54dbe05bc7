// Package console serves web pages on which operators inspect and repair the data that this library stores in a database: operations, outbox,
// inboxes, dead letters, sagas and webhooks.
//
//	op := operate.New(s, operate.Config{Caches: []operate.Cache{engine}}) // s is the SQL store of the engine
//	mux.Handle("/once/", console.Handler(console.Config{Operate: op, Prefix: "/once/", User: who}))
//
// The server renders the pages, and the pages work without JavaScript. The pages load nothing from other hosts, and run only scripts of this package.
// Long lists are divided into pages. A page reads at most a few thousand rows from the database, and shows a note if the page could not show
// everything.
//
// All changes are made by package operate, which the command "once" uses too. Each change needs a reason, and is written to the audit table with the
// name of the user. Keys, payloads and stored answers are hidden. An operator can make a hidden value visible, and the audit table then gets a row
// with the name of the operator.
//
// If [Config].User is nil, users cannot change anything on the pages. Without Config.User, the pages answer only requests that come over the loopback
// interface and whose host is localhost or a loopback address.
package console

import (
	"context"
	"embed"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/oncelib/once/operate"
)

// Config configures [Handler].
type Config struct {
	// Operate reads and changes the data of the pages. Required.
	Operate *operate.Operator

	// Stores are other stores of the service, such as a redisstore; the keys of the map are the names that the pages show. If a store may lose data (it
	// is an [upkeep.Volatile]), the overview page says which data. Default: nil.
	Stores map[string]any

	// Prefix is the beginning of the paths of the pages, such as "/once/". If a proxy removes the prefix from the paths of requests, the pages also
	// answer the paths without the prefix. Default: "/".
	Prefix string

	// User returns the user of a request. If User returns an error, the request is answered with 403. Default: nil, every request over the loopback
	// interface is treated as a request of a viewer, and other requests are refused.
	User func(*http.Request) (User, error)

	// Secret is the key that encrypts idempotency keys and cursors in the links of the pages. If several processes serve one address, give all of
	// them the same Secret. Default: a random secret, so that links are valid until the process ends.
	Secret []byte
}

// User is the user of a request.
type User struct {
	Name string // the name for the audit; required if Role is RoleOperator
	Role Role

	// Tenants are the tenants whose data the user may see; nil means all data. The console ignores the value "", so a user whose only value is "" sees
	// no data. The tenant of an operation is the beginning of its scope up to the first
	// blank. In a scope of package oncehttp the text before the first blank is the principal. For sagas and endpoints of webhooks, the tenant is the
	// field Tenant. Outbox, inboxes, dead letters and audit have no tenant, so the console does not show them to a user with Tenants.
	Tenants []string
}

// Role says what a user may do.
type Role uint8

// The constants are the roles of users.
const (
	RoleViewer   Role = iota // RoleViewer sees which items exist and their states, and changes nothing
	RoleOperator             // RoleOperator may also make keys, payloads and stored answers visible, and may make changes; the audit records both
)

// These are the limits of one handler.
const (
	mostAtOnce = 4                // the maximum number of requests that use the database at the same time
	readTime   = 5 * time.Second  // the time limit of a page, and of the arrival of a form
	writeTime  = 60 * time.Second // the time limit of a change
	mostForm   = 1 << 20          // bytes
)

//go:embed console.css console.js page/*.html
var files embed.FS

// Handler returns the handler of all pages. Handler panics if cfg is invalid.
func Handler(cfg Config) http.Handler {
	c := &console{
		Config: cfg, seal: newSealer(cfg.Secret), pages: parsePages(), running: make(chan struct{}, mostAtOnce),
		prefix: "/" + strings.Trim(cfg.Prefix, "/"), mux: http.NewServeMux(),
	}
	for path, page := range map[string]func(*request) error{
		"GET /{$}": (*request).overview, "GET /operations": (*request).operations, "GET /operation": (*request).operation,
		"POST /find": (*request).find, "POST /show": (*request).show, "GET /do": (*request).confirm, "POST /do": (*request).do,
		"GET /outbox": everything((*request).topics), "GET /messages": everything((*request).messages), "GET /message": everything((*request).message), "GET /event": everything((*request).event),
		"GET /deadletters": everything((*request).causes), "GET /letters": everything((*request).letters), "GET /letter": everything((*request).letter),
		"GET /inboxes": everything((*request).inboxes), "GET /inbox": everything((*request).inbox), "GET /place": everything((*request).place),
		"GET /redrive": everything((*request).progress), "GET /audit": everything((*request).audit), "GET /attempts": everything((*request).attempts), "GET /help": (*request).help,
		"GET /endpoints": (*request).endpoints, "GET /endpoint": (*request).endpoint, "GET /delivery": (*request).delivery, "GET /sagas": (*request).sagas, "GET /saga": (*request).saga,
	} {
		c.mux.HandleFunc(path, c.serve(page))
	}
	c.mux.HandleFunc("/", c.serve(func(*request) error { return errNotFound }))
	static := http.FileServerFS(files)
	for _, name := range []string{"console.css", "console.js"} {
		if _, err := fs.Stat(files, name); err == nil {
			c.mux.Handle("GET /"+name, static)
		}
	}
	return c
}

type console struct {
	Config

	prefix  string
	seal    sealer
	pages   pages
	mux     *http.ServeMux
	running chan struct{}
	origin  http.CrossOriginProtection
}

// ServeHTTP implements [http.Handler].
func (c *console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	// This check comes before User: a browser sends the user's cookies also with a form of another site.
	if err := c.origin.Check(r); err != nil {
		c.refuse(w, r, errOrigin)
		return
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, c.prefix); ok && c.prefix != "/" && (rest == "" || rest[0] == '/') {
		if rest == "" { // the links on the pages are relative, so the address must end with a slash
			redirect(w, c.prefix[strings.LastIndexByte(c.prefix, '/')+1:]+"/")
			return
		}
		http.StripPrefix(c.prefix, c.mux).ServeHTTP(w, r)
		return
	}
	c.mux.ServeHTTP(w, r)
}

// headers has the headers of every answer. Nothing may be loaded from another site, shown in a frame, or stored in a cache.
var headers = map[string]string{
	"Content-Security-Policy":      "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	"X-Frame-Options":              "DENY",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "same-origin", // with no-referrer the browser would send forms with the origin "null"
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
}

// request is a request of a user who may use the console.
type request struct {
	*console
	*http.Request

	w    http.ResponseWriter
	ctx  context.Context //nolint:containedctx // the context of the request, with the time limit of a page
	user User
	seen bool   // this answer shows hidden data
	free func() // gives back the place of the request; nil if it has none
}

// serve returns a handler that finds out the user of a request, limits its time, and answers errors.
func (c *console) serve(page func(*request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		user, err := c.userOf(r)
		if err != nil {
			c.refuse(w, r, err)
			return
		}
		bound := readTime
		if r.Method == http.MethodPost {
			bound = writeTime
			if err := readForm(w, r); err != nil {
				(&request{console: c, Request: r, w: w, user: user}).fail(&refusal{"the form has not arrived within 5 seconds, is larger than a megabyte, or is not valid. Try: send the form again"})
				return
			}
		}
		ctx, cancel := context.WithTimeout(r.Context(), bound)
		defer cancel()
		q := &request{console: c, Request: r, w: w, ctx: ctx, user: user}
		select {
		case c.running <- struct{}{}: // the connection pool belongs to the service, so the console uses only a few of its connections
			q.free = sync.OnceFunc(func() { <-c.running })
			defer q.free()
		case <-ctx.Done():
			q.fail(errBusy)
			return
		}
		if err := page(q); err != nil {
			q.fail(err)
		}
	}
}

// readForm reads the form of a request. It is called before the request takes a place, because a form may arrive slowly or never. Later calls, such as
// FormValue, read nothing from the connection.
func readForm(w http.ResponseWriter, r *http.Request) error {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(readTime)) // an error is ignored: the writers of some middlewares have no deadlines
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	if err := r.ParseForm(); err != nil {
		return err // the deadline stays, so that the server does not wait for the rest of the form
	}
	// The connection stays open for other requests, and a server may keep a deadline.
	_ = control.SetReadDeadline(time.Time{})
	return nil
}

// everything returns a page that is not found for a user who may see only some tenants.
func everything(page func(*request) error) func(*request) error {
	return func(q *request) error {
		if q.user.Tenants != nil {
			// The answer is not 403, because 403 would tell the user that such data exists.
			return errNotFound
		}
		return page(q)
	}
}
