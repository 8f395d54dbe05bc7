package console_test

import (
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/torture/harness"
)

// clicked is an action that the browser does.
type clicked struct {
	Name   string `json:"name"`
	Page   string `json:"page"`
	Link   string `json:"link"`
	From   string `json:"from,omitempty"`   // in the row with this text
	Choose string `json:"choose,omitempty"` // a field of the form
	By     string `json:"by,omitempty"`     // keys: the keyboard alone; plain: without JavaScript

	count string // of the rows that show that it was done
}

// TestBrowser: a browser finds no page that not everyone can use, light and dark, at 320 and 1280 px, and no page that sends a request elsewhere. Each
// action is clicked through, one by the keyboard alone and one without JavaScript, and the database has it. A hidden tab sends nothing.
// ONCE_SHOTS=DIR keeps pictures of the pages.
func TestBrowser(t *testing.T) {
	testenv.Prove(t)
	testenv.Need(t, "node", "npm", "chromium")
	chromium, err := testenv.Binary("chromium")
	harness.Must(t, err)
	dir := t.TempDir()
	harness.Must(t, os.CopyFS(dir, os.DirFS("testdata/npm")))
	run := func(command ...string) []byte {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v: %s\nTry: a network from which the npm registry can be reached", command, err, out)
		}
		return out
	}
	run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error")
	harness.Each(t, []string{harness.SQLite, harness.Pgx}, func(t *testing.T, kind string) {
		g := newGround(t, kind)
		unknown := g.operationLink(t, "operations?state=unknown")
		done := g.operationLink(t, "operations?state=done")
		actions := []clicked{
			{Name: "pause", Page: "outbox", Link: "Pause…", By: "keys", count: "select count(*) from once_outbox_paused where topic = 'refunds' and KEY = ''"},
			{Name: "forget", Page: "operation?id=" + done, Link: "Forget", count: "select count(*) from once_operation where kind = 2"},
			{Name: "resolve", Page: "operation?id=" + unknown, Link: "Decide", Choose: "The call is made again", count: "select 2 - count(*) from once_operation where state = 3"},
			{Name: "resume", Page: "outbox", Link: "Resume", From: "mails", count: "select 1 - count(*) from once_outbox_paused where topic = 'mails'"},
			{Name: "skip", Page: "message?id=" + messageID, Link: "Skip", count: "select count(*) from once_outbox where event_type = 'once.skipped'"},
			{Name: "resend", Page: "message?id=" + sentID, Link: "Send again", By: "plain", count: "select count(*) from once_outbox where event_id = '" + sentID + "'"},
			{Name: "discard", Page: "letter?id=" + otherID, Link: "Discard", count: "select count(*) from once_deadletter where state = 'discarded'"},
			{Name: "redrive", Page: "letter?id=" + letterID, Link: "Redrive", count: "select count(*) from once_deadletter_redrive where who = 'ada'"},
			{Name: "cancel", Page: "deadletters", Link: "Cancel", count: "select count(*) from once_deadletter_redrive where state = 'cancelled'"},
		}
		shots := os.Getenv("ONCE_SHOTS")
		if shots == "" {
			shots = t.TempDir()
		}
		plan, err := json.Marshal(map[string]any{
			"base": g.server.URL + "/", "chromium": chromium, "shots": filepath.Join(shots, kind), "look": kind == harness.SQLite, "key": secretKey, "actions": actions,
			"pages": map[string]string{
				"overview": "", "operations": "operations", "none": "operations?name=none", "found": g.found(t), "operation": "operation?id=" + done, "unknown": "operation?id=" + unknown,
				"outbox": "outbox", "messages": "messages", "message": "message?id=" + messageID, "delivered": "message?id=" + sentID, "event": "event?id=" + messageID, "events": "event",
				"deadletters": "deadletters", "letters": "letters", "letter": "letter?id=" + letterID, "audit": "audit", "help": "help", "attempts": "attempts", "endpoints": "endpoints",
				"pause": "do?action=pause&topic=refunds", "resolve": "do?action=resolve&id=" + unknown, "redrive": "do?action=redrive&origin=inbox", "resend": "do?action=resend&id=" + sentID,
			},
		})
		harness.Must(t, err)
		file := filepath.Join(t.TempDir(), "plan.json")
		harness.Must(t, os.WriteFile(file, plan, 0o600))
		var found struct {
			Findings, Requests, Messages, Done []string
			Visited                            int
		}
		harness.Must(t, json.Unmarshal(run("node", "browse.mjs", file), &found))
		for _, f := range found.Findings {
			t.Error(f)
		}
		for _, f := range found.Requests {
			t.Errorf("a page sends a request to %s", f)
		}
		for _, f := range found.Messages {
			t.Errorf("the browser says: %s", f)
		}
		if kind == harness.SQLite && found.Visited < 80 {
			t.Errorf("vacuous: %d pages", found.Visited)
		}
		if len(found.Done) != len(actions) {
			t.Errorf("done are %q of %d actions", found.Done, len(actions))
		}
		for _, a := range actions {
			if n := g.count(t, a.count); n != 1 {
				t.Errorf("%s: %d rows show it, want 1", a.Name, n)
			}
			if n := g.count(t, "select count(*) from once_audit where who = 'ada' and reason like ?", "%by a browser: "+a.Name); n != 1 {
				t.Errorf("%s: %d entries in the audit", a.Name, n)
			}
		}
	})
}

// found is where the search for a key leads.
func (g *ground) found(t *testing.T) string {
	t.Helper()
	return g.post(t, "ada", "find", url.Values{"key": {"unknown"}}).header.Get("Location")
}
