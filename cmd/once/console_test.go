package main

import (
	"context"
	"database/sql"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/oncelib/once"
	"github.com/oncelib/once/cmd/once/internal/command"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/webhook"
)

// consoleOf starts once console, and returns its address, how a page of it is read, and how it is stopped.
func consoleOf(t *testing.T, args ...string) (address string, read func(path string) string, stop func()) {
	t.Helper()
	cmd := program(t, append([]string{"console", "--listen", "127.0.0.1:0"}, args...)...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	address = linesUntil(t, stdout, "console")["console"]
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	base, _, _ := strings.Cut(address, "?")
	return address, func(path string) string {
		r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, base+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}, stop
}

var (
	twins      = regexp.MustCompile(`<code(?: class="twin")?>(once [^<]*)</code>`)
	doLinks    = regexp.MustCompile(`href="(do\?[^"]*)"`)
	placeLinks = regexp.MustCompile(`href="(place\?[^"]*)"`)
	rowLinks   = regexp.MustCompile(`href="((?:operation|saga|delivery)\?[^"]*)"`)
)

// TestConsoleShowsAndActs: once console shows what is in a database, and acts only for who has the printed address. Each of its actions has a command, with
// the flags that its page shows.
func TestConsoleShowsAndActs(t *testing.T) {
	t.Parallel()
	db := open(t, sqliteURL(t))
	outputData(t, db)
	inboxData(t, db)
	ordersOf(db).do(t, saga.ID{Tenant: "acme", Key: "order-3"}, "unknown")
	endpoint := hookData(t, db)
	_, read, stop := consoleOf(t, "--db", db.url)
	defer stop()
	if page := read("operations"); strings.Count(page, "operation?id=") < 5 || strings.Contains(page, `href="do?`) {
		t.Errorf("without --act: %s", page)
	}
	if page := read("do?action=pause&topic=x"); !strings.Contains(page, "needs the role of an operator") {
		t.Errorf("without --act: %s", page)
	}
	address, act, stop := consoleOf(t, "--db", db.url, "--act", "--by", "ada")
	defer stop()
	if page := act("operations"); !strings.Contains(page, "no access") {
		t.Errorf("without the token: %s", page)
	}
	_, token, _ := strings.Cut(address, "?")
	if page := act("?" + token); !strings.Contains(page, "ada, operator") {
		t.Fatalf("with the token: %s", page)
	}
	help := twins.FindAllStringSubmatch(act("help"), -1)
	for _, m := range help {
		isCommand(t, m[1])
	}
	if len(help) < 11 {
		t.Errorf("vacuous: %q", help)
	}
	forms := []string{"do?action=pause&topic=x", "do?action=resume&topic=x", "do?action=webhook-recover&since=24h&endpoint=" + endpoint, "do?action=webhook-recover&missed=yes&since=24h&endpoint=" + endpoint}
	pages := act("operations") + act("sagas") + act("endpoints") + act("endpoint?endpoint="+endpoint)
	for _, f := range doLinks.FindAllStringSubmatch(pages, -1) {
		forms = append(forms, html.UnescapeString(f[1]))
	}
	for _, m := range rowLinks.FindAllStringSubmatch(pages, -1) {
		for _, f := range doLinks.FindAllStringSubmatch(act(html.UnescapeString(m[1])), -1) {
			forms = append(forms, html.UnescapeString(f[1]))
		}
	}
	for _, m := range placeLinks.FindAllStringSubmatch(act("inbox?consumer=billing"), -1) {
		place := act(html.UnescapeString(m[1]))
		for _, f := range doLinks.FindAllStringSubmatch(place, -1) {
			forms = append(forms, html.UnescapeString(f[1]))
		}
	}
	shown := map[string]bool{}
	for _, path := range forms {
		m := twins.FindStringSubmatch(act(path))
		if m == nil {
			t.Errorf("%s shows no command: %s", path, act(path))
			continue
		}
		isCommand(t, html.UnescapeString(m[1]))
		shown[strings.Join(strings.Fields(m[1])[:3], " ")] = true
	}
	for _, name := range []string{
		"once keys forget", "once keys resolve", "once outbox pause", "once outbox resume", "once inbox skip", "once inbox start-at",
		"once saga retry", "once saga force", "once saga cancel", "once webhook resend", "once webhook recover", "once webhook disable",
	} {
		if !shown[name] {
			t.Errorf("no form of %s in %q", name, forms)
		}
	}
	o := run(t, "console", "--db", db.url, "--listen", "0.0.0.0:0").want(t, 2)
	if !strings.Contains(o.stderr, "loopback") {
		t.Error(o.stderr)
	}
}

// hookData is an endpoint with an event that has stopped, and one that it has missed.
func hookData(t *testing.T, db opened) (endpoint string) {
	t.Helper()
	hooks := webhook.New(db.Store, webhook.Config{PlainSecrets: true})
	e, _, err := hooks.Endpoints().Create(t.Context(), webhook.Endpoint{Tenant: "acme", URL: "https://203.0.114.7/hooks", Types: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"msg_stopped", "msg_missed"} {
		_, err := once.Do(t.Context(), once.New(db.Store, once.Config{}), once.Operation{Scope: "acme POST /refunds", Key: id}, func(ctx context.Context, tx *sql.Tx) (string, error) {
			return "", hooks.Send(ctx, tx, webhook.Event{ID: id, Tenant: "acme", Type: "refund.succeeded", Data: []byte("{}")})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, query := range []string{"update once_webhook_delivery set due_at = null", "delete from once_webhook_delivery where event in (select id from once_webhook_event where uid = 'msg_missed')"} {
		if _, err := db.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	return e.ID
}

// isCommand fails the test if a line is no command, or has a flag that the command does not have.
func isCommand(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)[1:]
	var names []string
	for _, w := range words {
		if strings.HasPrefix(w, "-") {
			break
		}
		names = append(names, w)
	}
	cmd, rest, err := command.New().Root().Find(names)
	if err != nil || !cmd.Runnable() || cmd.HasSubCommands() {
		t.Errorf("%s: no command: %v, %q left", line, err, rest)
		return
	}
	for _, w := range words {
		if name, isFlag := strings.CutPrefix(w, "--"); isFlag && flagOf(cmd, name) == nil {
			t.Errorf("%s: %s has no flag --%s", line, cmd.CommandPath(), name)
		}
	}
}

func flagOf(cmd *cobra.Command, name string) any {
	if f := cmd.Flags().Lookup(name); f != nil {
		return f
	}
	return nil
}
