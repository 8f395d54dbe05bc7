// Package console is the command once console.
package console

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	pages "github.com/oncelib/once/console"
	"github.com/oncelib/once/operate"
)

// Noun is once console.
var Noun = cli.Alone(entry, cli.GroupOperate)

var entry = cli.Entry{
	Name: "console", Brief: "serve web pages about operations, outbox, dead letters, sagas and webhooks",
	Help: `Serves the web pages of package console for the database of a service; the service may be written in any
language. The pages show the health of the database, each operation with its timeline, the outbox by topic, the
messages for which inboxes wait, dead letters by cause, sagas, webhooks, and the audit.

Without --act the pages only read the database. With --act you can also change data on the pages, for example redrive a
dead letter or skip a message. For each change you give a reason, and the audit records the reason. The page Help lists
the possible changes. With --act the printed address contains a token, so that only the operator who starts the command
can make changes.

The command listens only on the loopback interface. To give several people access, serve package console in your own
program, which must authenticate its users.`,
	Make: func() cli.Runner { return new(command) },
}

type command struct {
	db, listen, who string
	act             bool
	key             cli.KeyFile
}

func (c *command) Flags(fs *pflag.FlagSet) {
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.listen, "listen", "127.0.0.1:8480", "the `ADDRESS` at which the pages are served; it must be a loopback address")
	fs.BoolVar(&c.act, "act", false, "allow changes on the pages")
	fs.StringVar(&c.who, "by", cli.Operator(), "the name (`WHO`) of the operator who uses the pages; the audit records the name")
	c.key.Flags(fs)
}

func (c *command) Run(ctx context.Context, m *cli.Env, _ []string) error {
	addr, err := netip.ParseAddrPort(c.listen)
	switch {
	case err != nil || !addr.Addr().IsLoopback():
		return cli.Usage(fmt.Sprintf("--listen %q is not an address of the loopback interface, and the console of this command has no user login", c.listen),
			"--listen 127.0.0.1:8480; or serve package console in a program that authenticates its users")
	case c.act && c.who == "":
		return cli.Usage("--by is missing", "--act --by WHO")
	}
	encrypter, err := c.key.Encrypter()
	if err != nil {
		return err
	}
	db, err := m.Open(ctx, c.db, operate.Config{Encrypter: encrypter})
	if err != nil {
		return err
	}
	defer db.Close()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w. Try: use another --listen, such as 127.0.0.1:0", c.listen, err)
	}
	if !c.act {
		// Without a name, Pages makes pages that only read.
		c.who = ""
	}
	handler, token := Pages(db.Operator, c.who)
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		ErrorLog:          slog.NewLogLogger(slog.NewTextHandler(m.Stderr, nil), slog.LevelWarn),
	}
	fmt.Fprintf(m.Stdout, "database  %s\n", db.Name)
	if token == "" {
		fmt.Fprintf(m.Stdout, "console   http://%s/\nThe pages only read the database. Try: --act to allow changes.\n", l.Addr())
	} else {
		fmt.Fprintf(m.Stdout, "console   http://%s/?token=%s\nThe audit records changes under the name %s.\n", l.Addr(), token, c.who)
	}
	return cli.Serve(ctx, server, l)
}

// Pages returns the pages of o, on which the user who acts, and the token in the address that the command prints. Only the user who has started the
// command gets this token. If who is "", the pages are read-only, and the token is empty.
func Pages(o *operate.Operator, who string) (handler http.Handler, token string) {
	cfg := pages.Config{Operate: o}
	if who != "" {
		token = rand.Text()
		cfg.User = func(r *http.Request) (pages.User, error) { return user(r, who, token) }
	}
	all := pages.Handler(cfg)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { enter(w, r, token, all) }), token
}

// cookie is the name of the cookie that keeps the token. The token is in the printed address, and not in the addresses of later requests.
const cookie = "once-console"

var errToken = errors.New("open the address that the command has printed: it contains the token")

// user is who has opened the address that was printed.
func user(r *http.Request, who, token string) (pages.User, error) {
	given, err := r.Cookie(cookie)
	if err != nil || !equal(given.Value, token) {
		return pages.User{}, errToken
	}
	return pages.User{Name: who, Role: pages.RoleOperator}, nil
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// enter moves the token of an address into a cookie.
func enter(w http.ResponseWriter, r *http.Request, token string, handler http.Handler) {
	given := r.URL.Query().Get("token")
	// A token that is missing or wrong is no error here: the cookie of an earlier request may be valid.
	if token == "" || r.Method != http.MethodGet || !equal(given, token) {
		handler.ServeHTTP(w, r)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookie, Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode}) //nolint:gosec // over loopback there is no TLS
	w.Header().Set("Cache-Control", "no-store")
	// The redirect takes the token out of the address that the browser shows.
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
