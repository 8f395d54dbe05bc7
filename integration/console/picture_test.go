package console_test

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/console"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/sql/head"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// TestPicturesOfTheReadme makes the pictures of the README: one intent from its request to a webhook, light and dark. ONCE_PICTURES=DIR keeps them.
func TestPicturesOfTheReadme(t *testing.T) {
	testenv.Prove(t)
	dir, chromium := browserDir(t)
	into := os.Getenv("ONCE_PICTURES")
	if into == "" {
		into = t.TempDir()
	}
	g := intent(t)
	names := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		names[scheme] = filepath.Join(into, "console-"+scheme+".png")
	}
	plan, err := json.Marshal(map[string]any{
		"base": g.server.URL + "/", "chromium": chromium, "shots": t.TempDir(), "pictures": names, "picture": "operation?id=" + g.operationLink(t, "operations"), "actions": []any{}, "still": true,
	})
	harness.Must(t, err)
	file := filepath.Join(dir, "plan.json")
	harness.Must(t, os.WriteFile(file, plan, 0o600))
	var found struct{ Findings, Requests, Messages []string }
	harness.Must(t, json.Unmarshal(inDir(t, dir, "node", "browse.mjs", file), &found))
	for _, f := range [][]string{found.Findings, found.Requests, found.Messages} {
		if len(f) > 0 {
			t.Error(f)
		}
	}
	for scheme, name := range names {
		if info, err := os.Stat(name); err != nil || info.Size() < 10<<10 || info.Size() > 250<<10 {
			t.Errorf("%s: %v, %v", scheme, info, err)
		}
	}
}

// browserDir is a folder with what a browser is driven by.
func browserDir(t *testing.T) (dir, chromium string) {
	t.Helper()
	testenv.Need(t, "node", "npm", "chromium")
	chromium, err := testenv.Binary("chromium")
	harness.Must(t, err)
	dir = t.TempDir()
	harness.Must(t, os.CopyFS(dir, os.DirFS("testdata/npm")))
	inDir(t, dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error")
	return dir, chromium
}

// inDir runs a command in a folder, and returns what it prints.
func inDir(t *testing.T, dir string, command ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s\nTry: a network from which the npm registry can be reached", command, err, out)
	}
	return out
}

// intent is a console with one operation, and what it has caused.
func intent(t *testing.T) *fixture {
	t.Helper()
	g := new(fixture)
	g.Database, g.operator = open(t, harness.Migrated(t, harness.SQLite, sets))
	g.users = map[string]console.User{"ada": {Name: "ada", Role: console.RoleOperator}}
	g.server = httptest.NewServer(console.Handler(console.Config{Operate: g.operator, User: g.who}))
	t.Cleanup(g.server.Close)
	const key, scope, hook = "8e03978e-40d5-43e8-bc93-6894a57f9324", "acme POST /refunds", "msg_0190a0a000007000800000000000000a"
	ago := func(d time.Duration) int64 { return d.Microseconds() }
	body := []byte(`{"id":"re_1","amount":1999}`)
	g.exec(t, "insert into once_operation (scope, KEY, state, fence, claim, status, kind, head, body, since, expires_at, name) values (?, ?, 2, 1, ?, 201, 0, ?, ?, AGO(?), AGO(?), 'refund')",
		scope, key, []byte{1}, head.Encode(&store.Result{Header: []store.Field{{Name: "Content-Type", Value: "application/json"}}, Events: []string{sentID, hook}}), body, ago(5*time.Minute), ago(-24*time.Hour))
	for i, a := range []struct {
		outcome, request string
		at               time.Duration
		total            int64
	}{{"executed", "req-4f1c", 5 * time.Minute, 41_230}, {"replayed", "req-4f2a", 299 * time.Second, 1_120}, {"replayed", "req-5b07", 4 * time.Minute, 980}} {
		g.exec(t, `insert into once_attempt (key_hash, id, scope, at, outcome, effect, from_state, to_state, cause, attempt, runs, dropped, request_id, correlation_id, node, lock_wait_us, waited_us, handler_us, commit_us, total_us)
 values (?, ?, ?, AGO(?), ?, 'applied', '', '', '', ?, 1, 0, ?, '', 'payments-7d9f', 0, 0, 0, 0, ?)`, once.KeyHash(key), []byte{byte(i), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, scope, ago(a.at), a.outcome, int64(i+1), a.request, a.total)
	}
	g.exec(t, `insert into once_outbox_sent (part, id, topic, KEY, seq, event_id, event_type, source, headers, payload, encrypted, trace, op_scope, op_key, created_at, sent_at)
 values (2, 1000, 'refunds', 'acct_1', 7, ?, 'refund.succeeded', 'payments', ?, ?, ?, '', ?, ?, AGO(?), AGO(?))`, sentID, []byte("{}"), body, false, scope, key, ago(5*time.Minute), ago(299*time.Second))
	g.exec(t, "insert into once_inbox (consumer, source, event_id, payload_hash, received_at, processed_at) values ('ledger', 'payments', ?, ?, AGO(?), AGO(?))", sentID, []byte(sentID)[:32], ago(298*time.Second), ago(298*time.Second))
	g.exec(t, `insert into once_webhook_endpoint (uid, part, tenant, url, types, description, headers, secret, encrypted, ordered, rate, concurrency, disabled_at, disabled_by, created_at, version)
 values ('ep_0190a0a0', 1, 'acme', 'https://hooks.acme.example/x', ' * ', '', ?, ?, ?, ?, 0, 0, null, '', AGO(?), 1)`, []byte{}, []byte{}, false, false, ago(48*time.Hour))
	g.exec(t, "insert into once_webhook_event (uid, tenant, type, data, encrypted, trace, op_scope, op_key, created_at) values (?, 'acme', 'refund.succeeded', ?, ?, '', ?, ?, AGO(?))", hook, body, false, scope, key, ago(5*time.Minute))
	for _, a := range []struct {
		status int64
		cause  string
		at     time.Duration
	}{{503, "", 298 * time.Second}, {200, "resend", time.Minute}} {
		g.exec(t, "insert into once_webhook_attempt (endpoint, event, at, micros, status, error, size, answer, encrypted, cause, host) select e.id, v.id, AGO(?), 81000, ?, '', 2, ?, false, ?, '' from once_webhook_endpoint e, once_webhook_event v", ago(a.at), a.status, []byte("ok"), a.cause)
	}
	g.exec(t, "insert into once_audit (at, who, action, scope, key_hash, reason, detail) values (AGO(?), 'ada', 'show', ?, ?, 'ticket 4711', 'looked')", ago(2*time.Minute), scope, once.KeyHash(key))
	return g
}
