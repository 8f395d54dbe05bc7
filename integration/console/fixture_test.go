package console_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/console"
	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/migration"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/webhook"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var sets = []migration.Set{attemptlog.Migrations, operate.Migrations, outbox.Migrations, inbox.Migrations, deadletter.Migrations, webhook.Migrations, saga.Migrations}

// What stands in the fields of the rows: markup, an escape of a terminal, and what is hidden.
const (
	nasty       = `<img src=x onerror=alert(1)>"'` + "\x1b[31m\u202e"
	secretKey   = `key-<script>alert(1)</script>`
	secretOrder = "customer-4711"
	secretBody  = "12345678901234567890123"
	secretValue = "session-of-a-customer"

	inboxConsumer = "bookings <img src=x onerror=alert(1)>"
)

// fixture is a console on a new database with a row of each kind.
type fixture struct {
	sqlplane.Database

	operator *operate.Operator
	server   *httptest.Server
	users    map[string]console.User
}

func open(t *testing.T, d harness.Database) (sqlplane.Database, *operate.Operator) {
	t.Helper()
	if d.Kind == harness.Pgx {
		s, _ := harness.OpenPgx(t, d)
		return s, operate.New(s, operate.Config{})
	}
	s, _ := harness.OpenSQL(t, d)
	return s, operate.New(s, operate.Config{})
}

func newFixture(t *testing.T, kind string) *fixture {
	t.Helper()
	g := new(fixture)
	g.Database, g.operator = open(t, harness.Migrated(t, kind, sets))
	g.users = map[string]console.User{
		"ada": {Name: "ada", Role: console.RoleOperator}, "vic": {Name: "vic"},
		"acme": {Name: "acme's", Role: console.RoleOperator, Tenants: []string{"acme"}},
	}
	g.server = httptest.NewServer(console.Handler(console.Config{Operate: g.operator, User: g.who}))
	t.Cleanup(g.server.Close)
	const operation = "insert into once_operation (scope, KEY, state, fence, claim, status, kind, head, body, since, expires_at, name) values (?, ?, ?, 1, ?, ?, 0, ?, ?, NOW, null, ?)"
	stored := head.Encode(&store.Result{Header: []store.Field{{Name: "Content-Type", Value: "application/json"}, {Name: "Set-Cookie", Value: secretValue}}, Events: []string{messageID, sentID, goneID, "msg_stopped", "msg_done", "msg_other"}})
	body := []byte(`{"amount": ` + secretBody + `, "note": "<b>"}`)
	g.exec(t, operation, "acme POST /refunds", secretKey, int64(2), []byte{1}, int64(201), stored, body, nasty)
	g.exec(t, operation, "acme POST /refunds", "unknown", int64(3), []byte{1}, int64(0), nil, nil, "refund")
	g.exec(t, operation, "globex POST /refunds", "unknown", int64(3), []byte{1}, int64(0), nil, nil, "refund")
	const message = "insert into once_outbox (part, id, topic, KEY, seq, event_id, event_type, source, headers, payload, encrypted, trace, created_at) values (1, ?, 'refunds', ?, ?, ?, ?, 'shop', ?, ?, ?, '', NOW)"
	if g.Dialect() == sqlplane.PostgreSQL {
		g.exec(t, strings.Replace(message, "values", "overriding system value values", 1), int64(1), secretOrder, int64(1), messageID, nasty, []byte(`{"h": "`+secretValue+`"}`), body, false)
	} else {
		g.exec(t, message, int64(1), secretOrder, int64(1), messageID, nasty, []byte(`{"h": "`+secretValue+`"}`), body, false)
	}
	g.exec(t, "insert into once_outbox_failed (part, id, topic, KEY, attempts, next_at, failed_at, error) values (1, 1, 'refunds', ?, 20, null, NOW, ?)", secretOrder, nasty)
	for _, uid := range []string{letterID, otherID} {
		g.exec(t, `insert into once_deadletter (uid, origin, consumer, source, event_id, payload_hash, topic, KEY, seq, event_type, headers, payload, encrypted, trace, created_at, class, error, cause,
 attempts, first_failed_at, dead_at, state, redrive, redrive_at, resolved_at, reason) values (?, 'inbox', 'orders', 'shop', ?, ?, 'refunds', ?, 1, ?, ?, ?, ?, '', null, 'exhausted', ?, ?, 3, NOW, NOW, 'dead', '', null, null, '')`,
			uid, "event "+uid, []byte(uid)[:32], secretOrder, nasty, []byte(`{"h": "`+secretValue+`"}`), body, false, nasty, nasty)
	}
	g.furnish(t, body)
	return g
}

// furnish adds what the operation has caused, and rows of what is shown beside it.
func (g *fixture) furnish(t *testing.T, body []byte) {
	t.Helper()
	g.exec(t, "update once_outbox set op_scope = ?, op_key = ? where event_id = ?", "acme POST /refunds", secretKey, messageID)
	g.exec(t, `insert into once_outbox_sent (part, id, topic, KEY, seq, event_id, event_type, source, headers, payload, encrypted, trace, op_scope, op_key, created_at, sent_at)
 values (2, 1000, ?, ?, null, ?, ?, 'shop', ?, ?, ?, '', ?, ?, NOW, NOW)`, nasty, secretOrder, sentID, nasty, []byte(`{"h": "`+secretValue+`"}`), body, false, "acme POST /refunds", secretKey)
	g.exec(t, "insert into once_outbox_paused (topic, KEY, reason, paused_at) values ('mails', '', ?, NOW)", nasty)
	g.exec(t, "insert into once_inbox (consumer, source, event_id, payload_hash, received_at, processed_at) values (?, 'shop', ?, ?, NOW, NOW)", nasty, messageID, []byte(messageID)[:32])
	const position = "insert into once_inbox_position (consumer, source, topic, KEY, seq, parked, dead, moved_at) values (?, 'shop', 'refunds', ?, ?, 2, ?, AGO(?))"
	g.exec(t, position, inboxConsumer, secretOrder, int64(1), false, int64(7200_000_000))
	g.exec(t, position, inboxConsumer, secretOrder+"-2", int64(4), true, int64(3600_000_000))
	for _, at := range []struct {
		key string
		seq int64
	}{{secretOrder, 3}, {secretOrder, 4}, {secretOrder + "-2", 6}, {secretOrder + "-2", 7}} {
		g.exec(t, `insert into once_inbox_parked (consumer, source, topic, KEY, seq, event_id, event_type, payload_hash, headers, payload, encrypted, trace, created_at, parked_at, next_at)
 values (?, 'shop', 'refunds', ?, ?, ?, ?, ?, ?, ?, ?, '', null, NOW, null)`, inboxConsumer, at.key, at.seq, fmt.Sprintf("parked-%d", at.seq), nasty, []byte(messageID)[:32], []byte(`{"h": "`+secretValue+`"}`), body, false)
	}
	for i, outcome := range []string{"executed", "replayed", "in_flight"} { // the log takes no other characters here
		g.exec(t, `insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 values (?, ?, ?, NOW, ?, 'applied', '', '', ?, 1, 1, 0, ?, ?, ?, 0, 0, 0, 0, 0)`, once.KeyHash(secretKey), []byte{byte(i), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, "acme POST /refunds", outcome, "x", nasty, nasty, nasty)
	}
	g.furnishHooks(t, body)
	g.furnishSagas(t)
}

const (
	sentID    = "0190a0a0-0000-7000-8000-000000000002"
	goneID    = "0190a0a0-0000-7000-8000-000000000003"
	messageID = "0190a0a0-0000-7000-8000-000000000001"
	letterID  = "0190a0a0-0000-7000-8000-00000000000a"
	otherID   = "0190a0a0-0000-7000-8000-00000000000b"
)

func on(t *testing.T, test func(t *testing.T, g *fixture)) {
	t.Helper()
	harness.Each(t, harness.Servers, func(t *testing.T, kind string) { t.Helper(); test(t, newFixture(t, kind)) })
}

func (g *fixture) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	harness.Exec(t, g.Database, query, args...)
}

func (g *fixture) count(t *testing.T, query string, args ...any) int {
	t.Helper()
	return harness.Count(t, g.Database, query, args...)
}

// who is the user in the header User.
func (g *fixture) who(r *http.Request) (console.User, error) {
	u, ok := g.users[r.Header.Get("User")]
	if !ok {
		return u, errors.New("nobody")
	}
	return u, nil
}

// page is an answer.
type page struct {
	status int
	body   string
	header http.Header
}

// send sends a request of a user, with a form if it is a POST, and follows no redirect.
func send(t *testing.T, method, address, user string, form url.Values, header ...string) page {
	t.Helper()
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, address, strings.NewReader(form.Encode()))
	harness.Must(t, err)
	r.Header.Set("User", user)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	harness.Must(t, err)
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	harness.Must(t, err)
	return page{answer.StatusCode, string(body), answer.Header}
}

func (g *fixture) get(t *testing.T, user, path string) page {
	t.Helper()
	return send(t, http.MethodGet, g.server.URL+"/"+path, user, nil)
}

func (g *fixture) post(t *testing.T, user, path string, form url.Values, header ...string) page {
	t.Helper()
	return send(t, http.MethodPost, g.server.URL+"/"+path, user, form, header...)
}

var links = regexp.MustCompile(`(?:href|action|src)="([^"]*)"`)

// crawl follows all links from a page, and returns the pages by their addresses.
func crawl(t *testing.T, base, user string) map[string]page {
	t.Helper()
	seen, todo := map[string]page{}, []string{base}
	for len(todo) > 0 {
		if len(seen) > 500 {
			t.Fatalf("the links do not end: %s", todo[0])
		}
		at := todo[0]
		todo = todo[1:]
		if _, ok := seen[at]; ok {
			continue
		}
		p := send(t, http.MethodGet, at, user, nil)
		seen[at] = p
		from, err := url.Parse(at)
		harness.Must(t, err)
		for _, m := range links.FindAllStringSubmatch(p.body, -1) {
			to, err := from.Parse(html.UnescapeString(m[1]))
			harness.Must(t, err)
			to.Fragment = ""
			if strings.HasSuffix(to.Path, "/find") || strings.HasSuffix(to.Path, "/show") || (strings.HasSuffix(to.Path, "/do") || strings.HasSuffix(to.Path, "/endpoint")) && to.RawQuery == "" {
				continue // of forms that are sent
			}
			todo = append(todo, to.String())
		}
	}
	return seen
}

// placeLink returns the link of a key of the inbox: of the first one that waits, or the second.
func (g *fixture) placeLink(t *testing.T, n int) string {
	t.Helper()
	m := regexp.MustCompile(`place\?id=([A-Za-z0-9_-]+)`).FindAllStringSubmatch(g.get(t, "ada", "inbox?consumer="+url.QueryEscape(inboxConsumer)).body, -1)
	if len(m) <= n {
		t.Fatalf("%d keys wait", len(m))
	}
	return m[n][1]
}

// sagaLink returns the link of the first saga in a list.
func (g *fixture) sagaLink(t *testing.T, list string) string {
	t.Helper()
	m := regexp.MustCompile(`saga\?id=([A-Za-z0-9_-]+)`).FindStringSubmatch(g.get(t, "ada", list).body)
	if m == nil {
		t.Fatalf("no saga in %s", list)
	}
	return m[1]
}

// operationLink returns the link of the operation in a list.
func (g *fixture) operationLink(t *testing.T, list string) string {
	t.Helper()
	m := regexp.MustCompile(`operation\?id=([A-Za-z0-9_-]+)`).FindStringSubmatch(g.get(t, "ada", list).body)
	if m == nil {
		t.Fatalf("no operation in %s", list)
	}
	return m[1]
}
