package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/oncelib/once/console"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store/migration"
)

// TestInboxPages: an inbox shows which message each key waits for, since when, whether it is a dead letter, and what is parked behind it.
func TestInboxPages(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *fixture) {
		has := func(path string, want ...string) {
			t.Helper()
			p := g.get(t, "vic", path)
			if p.status != http.StatusOK {
				t.Errorf("%s: %d: %s", path, p.status, p.body)
			}
			for _, text := range want {
				if !strings.Contains(p.body, text) {
					t.Errorf("%s does not have %q: %s", path, text, p.body)
				}
			}
		}
		has("", "keys of inboxes wait", "<b>2</b>")
		has("inboxes", `<td class="n">2</td><td class="n">1</td><td class="n">4</td>`, "<div>refunds</div>", "2 h 0 min ago")
		inbox := "inbox?consumer=" + url.QueryEscape(inboxConsumer)
		has(inbox, `<td class="n">2</td><td><span class="state missing">missing</span></td><td class="n">2</td>`, `<td class="n">5</td><td><span class="state dead">dead</span> a dead letter</td><td class="n">2</td>`)
		has("place?id="+g.placeLink(t, 0), "up to message 1", `message 2, which is <span class="state missing">`, `<td class="n">3</td>`, `<td class="n">4</td>`)
		has("place?id="+g.placeLink(t, 1), "up to message 4", "redrive or discard it", `<td class="n">7</td>`)
		if body := g.get(t, "vic", inbox).body; strings.Index(body, ">missing<") > strings.Index(body, ">dead<") {
			t.Error("the longest wait is not the first")
		}
		g.exec(t, "update once_inbox_parked set seq = 2 where KEY = ? and seq = 3", secretOrder) // it has come
		has(inbox, "dead letter")
		if body := g.get(t, "vic", inbox).body; strings.Contains(body, ">missing<") {
			t.Errorf("a message that is there and is tried is missing: %s", body)
		}
		for _, path := range []string{"place", "place?id=x", "inbox", "inbox?consumer=none", "inbox?consumer=x&after=x", "place?id=" + g.placeLink(t, 0) + "&after=x"} {
			if p := g.get(t, "vic", path); p.status != http.StatusNotFound && path != "inbox?consumer=none" || p.status >= http.StatusInternalServerError {
				t.Errorf("%s: %d: %s", path, p.status, p.body)
			}
		}
	})
}

// TestInboxActions: a key of an inbox is skipped or begun at another message by a form that says how many messages that drops, and not if it is another
// one or they are others by then. Of two operators who press a button, one does it.
func TestInboxActions(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *fixture) {
		waits, dead := g.placeLink(t, 0), g.placeLink(t, 1)
		positions := "select count(*) from once_inbox_position where seq in (1, 4)"
		for _, path := range []string{
			"do?action=inbox-skip&seq=3&id=" + waits, "do?action=inbox-skip&seq=1&id=" + waits, "do?action=inbox-skip&seq=x&id=" + waits,
			"do?action=start-at&seq=1&id=" + waits, "do?action=start-at&id=" + waits, "do?action=start-at&seq=0&id=" + waits,
		} {
			if p := g.get(t, "ada", path); p.status != http.StatusConflict {
				t.Errorf("%s: %d: %s", path, p.status, p.body)
			}
		}
		form := g.get(t, "ada", "do?action=start-at&seq=7&id="+dead)
		if !strings.Contains(form.body, "Begin at message 7, and drop 1 message<") || !strings.Contains(form.body, "once inbox start-at --consumer") || !strings.Contains(form.body, "--seq 7") {
			t.Errorf("%d: %s", form.status, form.body)
		}
		form = g.get(t, "ada", "do?action=inbox-skip&id="+waits)
		if !strings.Contains(form.body, "Skip 1 message<") || !strings.Contains(form.body, "2 later messages of the key are applied then") || !strings.Contains(form.body, "--seq 2") {
			t.Errorf("%d: %s", form.status, form.body)
		}
		begin := g.formOf(t, "start-at", url.Values{"id": {dead}, "seq": {"7"}})
		g.exec(t, "delete from once_inbox_parked where KEY = ? and seq = 6", secretOrder+"-2")
		if p := g.post(t, "ada", "do", begin); p.status != http.StatusConflict || g.count(t, positions) != 2 {
			t.Errorf("what is dropped is not what the form says: %d: %s", p.status, p.body)
		}
		skip := g.formOf(t, "inbox-skip", url.Values{"id": {waits}})
		statuses := make(chan int, 2)
		for range 2 {
			go func() { statuses <- g.post(t, "ada", "do", skip).status }()
		}
		if a, b := <-statuses, <-statuses; a != http.StatusSeeOther && b != http.StatusSeeOther {
			t.Errorf("%d and %d", a, b)
		}
		if p := g.post(t, "ada", "do", skip); p.status != http.StatusConflict || !strings.Contains(p.body, "has applied or skipped this message before") {
			t.Errorf("once more: %d: %s", p.status, p.body)
		}
		if n := g.count(t, "select count(*) from once_audit where action = 'inbox skip' and who = 'ada' and reason = 'found out'"); n != 1 {
			t.Errorf("%d entries in the audit", n)
		}
	})
}

// TestDatabaseWithoutAnInbox: the page of inboxes says that the database has no inbox, and the overview claims nothing about dead letters whose tables do not exist.
func TestDatabaseWithoutAnInbox(t *testing.T) {
	t.Parallel()
	_, operator := open(t, harness.Migrated(t, harness.SQLite, []migration.Set{operate.Migrations}))
	server := httptest.NewServer(console.Handler(console.Config{Operate: operator, User: func(*http.Request) (console.User, error) { return console.User{Name: "vic"}, nil }}))
	t.Cleanup(server.Close)
	for path, want := range map[string]string{
		"inboxes": "This database has no inbox. To create the tables of an inbox: <code>once migrate up --only inbox</code>",
		"":        "<b>–</b> dead letters<small>this database has no tables for them</small>",
	} {
		if p := send(t, http.MethodGet, server.URL+"/"+path, "vic", nil); p.status != http.StatusOK || !strings.Contains(p.body, want) {
			t.Errorf("%q: %d, without %q: %s", path, p.status, want, p.body)
		}
	}
}
