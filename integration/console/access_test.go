package console_test

import (
	"context"
	"errors"
	"html"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once/console"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
)

// actionCase is an action, and how many rows show that it was done.
type actionCase struct {
	form url.Values
	done string
}

// actionCases are all actions. resolve and cancel are made here: they need a call and a redrive.
func (g *fixture) actionCases(t *testing.T) map[string]actionCase {
	t.Helper()
	all := g.sagaActionCases(t)
	maps.Copy(all, map[string]actionCase{
		"forget":  {url.Values{"id": {g.operationLink(t, "operations?state=done")}}, "select count(*) from once_operation where kind = 2 and scope not like 'saga/%'"},
		"pause":   {url.Values{"topic": {"refunds"}}, "select count(*) from once_outbox_paused where topic = 'refunds' and KEY = ''"},
		"resume":  {url.Values{"topic": {"refunds"}}, "select count(*) from once_outbox_failed where next_at is not null"},
		"skip":    {url.Values{"id": {messageID}}, "select count(*) from once_outbox where event_type = 'once.skipped'"},
		"resend":  {url.Values{"id": {sentID}}, "select count(*) from once_outbox where event_id = '" + sentID + "' and not exists (select 1 from once_outbox_sent where event_id = '" + sentID + "')"},
		"redrive": {url.Values{"uid": {letterID}}, "select count(*) from once_deadletter where redrive <> ''"},
		"discard": {url.Values{"uid": {otherID}}, "select count(*) from once_deadletter where state = 'discarded'"},

		"inbox-skip":      {url.Values{"id": {g.placeLink(t, 0)}, "seq": {"2"}}, "select count(*) from once_inbox_position where KEY = '" + secretOrder + "' and seq = 2"},
		"start-at":        {url.Values{"id": {g.placeLink(t, 1)}, "seq": {"7"}, "dropped": {"1"}}, "select count(*) from once_inbox_position where KEY = '" + secretOrder + "-2' and seq = 6 and parked = 1"},
		"webhook-resend":  {url.Values{"endpoint": {"ep_acme"}, "event": {"msg_done"}}, "select count(*) from once_webhook_delivery where cause = 'resend'"},
		"webhook-recover": {url.Values{"endpoint": {"ep_acme"}, "since": {"24h"}}, "select count(*) from once_webhook_delivery where cause = 'recover'"},
		"webhook-disable": {url.Values{"endpoint": {"ep_spare"}}, "select count(*) from once_webhook_endpoint where uid = 'ep_spare' and disabled_at is not null"},
		"webhook-enable":  {url.Values{"endpoint": {"ep_1"}}, "select count(*) from once_webhook_endpoint where uid = 'ep_1' and disabled_at is null"},
	})
	return all
}

// TestActionsDoWhatTheirCommandsDo: each action does what its command does, for an operator who gives a reason, and the audit has both.
func TestActionsDoWhatTheirCommandsDo(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *fixture) {
		for name, d := range g.actionCases(t) {
			d.form.Set("action", name)
			if n := g.count(t, d.done); n != 0 {
				t.Fatalf("%s: done before: %d", name, n)
			}
			if p := g.get(t, "ada", "do?"+d.form.Encode()); p.status != http.StatusOK || !strings.Contains(p.body, `name="reason"`) {
				t.Errorf("%s: the form: %d: %s", name, p.status, p.body)
			}
			if p := g.post(t, "ada", "do", d.form); p.status != http.StatusConflict || g.count(t, d.done) != 0 {
				t.Errorf("%s without a reason: %d", name, p.status)
			}
			d.form.Set("reason", "ticket "+name)
			p := g.post(t, "ada", "do", d.form)
			if p.status != http.StatusSeeOther || g.count(t, d.done) != 1 {
				t.Errorf("%s: %d, %d rows: %s", name, p.status, g.count(t, d.done), p.body)
				continue
			}
			if n := g.count(t, "select count(*) from once_audit where who = 'ada' and reason like ?", "%ticket "+name); n != 1 {
				t.Errorf("%s: %d entries in the audit", name, n)
			}
			if after := g.get(t, "ada", p.header.Get("Location")); after.status != http.StatusOK || !strings.Contains(after.body, "Done: ") {
				t.Errorf("%s: the page after it: %d", name, after.status)
			}
			if name == "skip" { // its message can be skipped once more
				g.exec(t, "update once_outbox_failed set next_at = null")
			}
		}
	})
}

// TestViewersDoNothing: a viewer, and a form that another site has made, change nothing and leave no trace, whatever the action.
func TestViewersDoNothing(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *fixture) {
		for name, d := range g.actionCases(t) {
			d.form.Set("action", name)
			d.form.Set("reason", "because")
			if p := g.get(t, "vic", "do?"+d.form.Encode()); p.status != http.StatusForbidden {
				t.Errorf("%s: a viewer sees the form: %d", name, p.status)
			}
			for _, sender := range [][]string{{"vic"}, {"nobody"}, {"ada", "Sec-Fetch-Site", "cross-site"}, {"ada", "Sec-Fetch-Site", "", "Origin", "http://evil.example"}, {"ada", "Sec-Fetch-Site", "same-site"}} {
				if p := g.post(t, sender[0], "do", d.form, sender[1:]...); p.status != http.StatusForbidden {
					t.Errorf("%s by %q: %d: %s", name, sender, p.status, p.body)
				}
			}
			if p := g.get(t, "ada", "do?"+d.form.Encode()+"&yes=1"); p.status != http.StatusOK {
				t.Errorf("%s: %d", name, p.status)
			}
			if n := g.count(t, d.done); n != 0 {
				t.Errorf("%s was done", name)
			}
		}
		if n := g.count(t, "select count(*) from once_audit"); n > 0 {
			t.Errorf("%d entries in the audit", n)
		}
	})
}

// TestHowMany: the button says how many letters are meant, and no letter is meant that died after the form was made. Of two operators
// who press it, one does it.
func TestHowMany(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	on(t, func(t *testing.T, g *fixture) {
		form := g.get(t, "ada", "do?action=discard&origin=inbox")
		if !strings.Contains(form.body, "Discard 2 matching") {
			t.Fatal(form.body)
		}
		if p := g.get(t, "ada", "do?action=discard"); p.status != http.StatusConflict {
			t.Errorf("without a filter: %d", p.status)
		}
		_, of, _ := strings.Cut(form.body, `name="of" value="`)
		of, _, _ = strings.Cut(of, `"`)
		g.exec(t, "update once_deadletter set dead_at = AGO(?) where uid = ?", int64(-3600_000_000), otherID)
		press := url.Values{"action": {"discard"}, "of": {html.UnescapeString(of)}, "reason": {"gone"}}
		statuses := make(chan int, 2)
		for range 2 {
			go func() { statuses <- g.post(t, "ada", "do", press).status }()
		}
		if a, b := <-statuses, <-statuses; a != http.StatusSeeOther && b != http.StatusSeeOther {
			t.Errorf("%d and %d", a, b)
		}
		if n := g.count(t, "select count(*) from once_deadletter where state = 'discarded'"); n != 1 {
			t.Errorf("%d letters are discarded, want the one that was dead", n)
		}
		if p := g.post(t, "ada", "do", press); p.status != http.StatusConflict || !strings.Contains(p.body, "no dead letter matches now") {
			t.Errorf("once more: %d: %s", p.status, p.body)
		}
	})
}

// TestWithoutUsers: a console that knows no users only reads, over the loopback interface, under a name of it.
func TestWithoutUsers(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	harness.Each(t, []string{harness.SQLite, harness.Postgres}, func(t *testing.T, kind string) {
		g := newFixture(t, kind)
		handler := console.Handler(console.Config{Operate: g.operator})
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		_, port, err := net.SplitHostPort(server.Listener.Addr().String())
		harness.Must(t, err)
		if p := send(t, http.MethodGet, server.URL+"/", "", nil); p.status != http.StatusOK {
			t.Errorf("%d: %s", p.status, p.body)
		}
		for _, header := range [][]string{{"Host", "evil.example"}, {"Host", "evil.example:" + port}, {"Host", "10.0.0.1:" + port}, {"X-Forwarded-For", "10.0.0.1"}, {"Forwarded", "for=10.0.0.1"}} {
			if p := send(t, http.MethodGet, server.URL+"/", "", nil, header...); p.status != http.StatusForbidden {
				t.Errorf("%q: %d", header, p.status)
			}
		}
		form := url.Values{"action": {"pause"}, "topic": {"refunds"}, "reason": {"because"}}
		if p := send(t, http.MethodPost, server.URL+"/do", "ada", form); p.status != http.StatusForbidden || g.count(t, "select count(*) from once_outbox_paused where topic = 'refunds'") != 0 {
			t.Errorf("it acts: %d", p.status)
		}
		for _, addr := range []string{"10.0.0.1:8480", "[2001:db8::1]:8480"} {
			for _, local := range []bool{true, false} {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", nil)
				own, other := netAddr(t, addr), "127.0.0.1:1"
				if !local {
					own, other = netAddr(t, "127.0.0.1:8480"), addr
				}
				r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, own))
				r.RemoteAddr = other
				w := httptest.NewRecorder()
				if handler.ServeHTTP(w, r); w.Code != http.StatusForbidden {
					t.Errorf("from %s to %s: %d", other, own, w.Code)
				}
			}
		}
	})
}

func netAddr(t *testing.T, s string) net.Addr {
	t.Helper()
	host, port, err := net.SplitHostPort(s)
	harness.Must(t, err)
	n, err := strconv.Atoi(port)
	harness.Must(t, err)
	return &net.TCPAddr{IP: net.ParseIP(host), Port: n}
}

// TestDatabaseAway: while the database is away each page says so and asks for itself again, and when it is back it is there.
func TestDatabaseAway(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	d := harness.Migrated(t, harness.Postgres, sets)
	var away atomic.Bool
	s, db := harness.OpenDialed(t, d, func(ctx context.Context, network, address string) (net.Conn, error) {
		if away.Load() {
			return nil, errors.New("connection refused")
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	})
	db.SetMaxIdleConns(0) // each page dials
	handler := console.Handler(console.Config{Operate: operate.New(s, operate.Config{}), User: func(*http.Request) (console.User, error) { return console.User{}, nil }})
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	for _, is := range []bool{false, true, false} {
		away.Store(is)
		for _, path := range []string{"/", "/operations", "/outbox", "/messages", "/deadletters", "/letters", "/audit", "/sagas", "/endpoints", "/endpoint?endpoint=ep_1"} {
			p := send(t, http.MethodGet, server.URL+path, "", nil)
			if again := strings.Contains(p.body, `http-equiv="refresh"`); is != (p.status == http.StatusServiceUnavailable) || is != again {
				t.Errorf("%s, away: %t: %d: %s", path, is, p.status, p.body)
			}
		}
	}
}
