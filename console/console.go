// Package console has web pages on which operators inspect and repair the data that once keeps in a database: operations, outbox, dead letters, sagas
// and webhooks.
//
//	op := operate.New(s, operate.Config{Caches: []operate.Cache{engine}}) // s is the SQL store of the engine
//	mux.Handle("/once/", console.Handler(console.Config{Operate: op, Prefix: "/once/", User: who}))
//
// The pages are made on the server and work without JavaScript. They send no request to another host, and run only scripts of this package. All lists
// have pages, and no page reads more than some thousand rows: a page says so if it was cut.
//
// All changes go through package operate, as with the command once, with a reason, and the audit has the name of the user. Keys, payloads and stored
// answers are hidden until an operator asks for one, which is written to the audit as well.
//
// Without [Config.User] the pages only read, and answer only requests that come over the loopback interface to the name
// localhost, or a loopback address.
package console

import (
	"context"
	"embed"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/oncelib/once/operate"
)

// Config of [Handler].
type Config struct {
	// Operate reads and changes the data of the pages; required.
	Operate *operate.Operator

	// Stores are other stores of the service, such as a redisstore, by their names. The overview says which data they may lose, if they are
	// [upkeep.Volatile].
	Stores map[string]any

	// Prefix is the beginning of the paths of the pages. Default: "/". A proxy may remove it from the path.
	Prefix string

	// User returns the user of a request; its error refuses the request with 403. Default: a viewer, over loopback only.
	User func(*http.Request) (User, error)

	// Secret encrypts keys and cursors in the links of the pages. Several processes behind one address need the same secret. Default: random, so that
	// links are valid until the end of the process.
	Secret []byte
}

// User is the user of a request.
type User struct {
	Name string // for the audit; required of an operator
	Role Role

	// Tenants are the tenants whose data the user may see; nil means everything. The scope of an operation begins with its tenant and a blank, as
	// package oncehttp makes it of a principal. Sagas and endpoints of webhooks have tenants of their own. Outbox, dead letters and audit have no
	// tenant: a user with Tenants does not see them.
	Tenants []string
}

// Role is what a user may do.
type Role uint8

// The roles.
const (
	RoleViewer   Role = iota // sees which items exist, and their states
	RoleOperator             // sees keys, payloads and stored answers, which is audited, and changes things
)

// Bounds of one handler.
const (
	mostAtOnce = 4                // requests that use the database
	readTime   = 5 * time.Second  // for a page
	writeTime  = 60 * time.Second // for a change
	mostForm   = 1 << 20          // bytes
)

//go:embed console.css console.js page/*.html
var files embed.FS

// Handler returns the pages.
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
	if err := c.origin.Check(r); err != nil {
		c.refuse(w, r, errOrigin)
		return
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, c.prefix); ok && c.prefix != "/" && (rest == "" || rest[0] == '/') {
		if rest == "" { // links are relative: they need the slash
			redirect(w, c.prefix[strings.LastIndexByte(c.prefix, '/')+1:]+"/")
			return
		}
		http.StripPrefix(c.prefix, c.mux).ServeHTTP(w, r)
		return
	}
	c.mux.ServeHTTP(w, r)
}

// headers of every answer: nothing may be loaded from elsewhere, framed or cached.
var headers = map[string]string{
	"Content-Security-Policy":      "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	"X-Frame-Options":              "DENY",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "same-origin", // with no-referrer, forms would have the origin "null"
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
}

// request is a request of an admitted user.
type request struct {
	*console
	*http.Request

	w    http.ResponseWriter
	ctx  context.Context //nolint:containedctx // that of the request, with the bound of a page
	user User
	seen bool // hidden data is shown in this answer
}

// serve finds out the user of a request, bounds its time, and answers errors.
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
			r.Body = http.MaxBytesReader(w, r.Body, mostForm)
		}
		ctx, cancel := context.WithTimeout(r.Context(), bound)
		defer cancel()
		q := &request{console: c, Request: r, w: w, ctx: ctx, user: user}
		select {
		case c.running <- struct{}{}: // the pool belongs to the service: the console uses only a few connections of it
			defer func() { <-c.running }()
		case <-ctx.Done():
			q.fail(errBusy)
			return
		}
		if err := page(q); err != nil {
			q.fail(err)
		}
	}
}

// everything refuses a user who may see only some tenants.
func everything(page func(*request) error) func(*request) error {
	return func(q *request) error {
		if q.user.Tenants != nil {
			return errNotFound
		}
		return page(q)
	}
}
