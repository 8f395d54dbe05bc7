package console_test

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// clicked is an action that the browser does.
type clicked struct {
	Name   string `json:"name"`
	Page   string `json:"page"`
	Link   string `json:"link"`
	From   string `json:"from,omitempty"`   // in the row with this text
	Choose string `json:"choose,omitempty"` // a field of the form
	Press  bool   `json:"press,omitempty"`  // it is a button and no link
	By     string `json:"by,omitempty"`     // keys: the keyboard alone; plain: without JavaScript

	count string // of the rows that show that it was done
}

// TestPagesInABrowser: a browser finds no page that not everyone can use, light and dark, at 320 and 1280 px, and no page that sends a request elsewhere. Each
// action is clicked through, one by the keyboard alone and one without JavaScript, and the database has it. A hidden tab sends nothing.
// ONCE_SHOTS=DIR keeps pictures of the pages.
func TestPagesInABrowser(t *testing.T) {
	testenv.Prove(t)
	dir, chromium := browserDir(t)
	harness.Each(t, []string{harness.SQLite, harness.Pgx}, func(t *testing.T, kind string) {
		g := newFixture(t, kind)
		unknown := g.operationLink(t, "operations?state=unknown")
		done := g.operationLink(t, "operations?state=done")
		waits, dead := g.placeLink(t, 0), g.placeLink(t, 1)
		inbox := "inbox?consumer=" + url.QueryEscape(inboxConsumer)
		sagas := map[string]string{}
		for _, name := range sagaNames {
			sagas[name] = "saga?id=" + g.sagaLink(t, "sagas?tenant=acme&name="+name)
		}
		actions := []clicked{
			{Name: "pause", Page: "outbox", Link: "Pause…", By: "keys", count: "select count(*) from once_outbox_paused where topic = 'refunds' and KEY = ''"},
			{Name: "forget", Page: "operation?id=" + done, Link: "Forget", count: "select count(*) from once_operation where kind = 2 and scope not like 'saga/%'"},
			{Name: "resolve", Page: "operation?id=" + unknown, Link: "Decide", Choose: "The operation makes the call again. The call may take effect twice", count: "select 2 - count(*) from once_operation where state = 3 and scope not like 'saga/%'"},
			{Name: "resume", Page: "outbox", Link: "Resume", From: "mails", count: "select 1 - count(*) from once_outbox_paused where topic = 'mails'"},
			{Name: "skip", Page: "message?id=" + messageID, Link: "Skip", count: "select count(*) from once_outbox where event_type = 'once.skipped'"},
			{Name: "resend", Page: "message?id=" + sentID, Link: "Send again", By: "plain", count: "select count(*) from once_outbox where event_id = '" + sentID + "'"},
			{Name: "discard", Page: "letter?id=" + otherID, Link: "Discard", count: "select count(*) from once_deadletter where state = 'discarded'"},
			{Name: "redrive", Page: "letter?id=" + letterID, Link: "Redrive", count: "select count(*) from once_deadletter_redrive where who = 'ada'"},
			{Name: "inbox-skip", Page: "place?id=" + waits, Link: "Skip message", count: "select count(*) from once_inbox_position where KEY = '" + secretOrder + "' and seq = 2"},
			{Name: "start-at", Page: "place?id=" + dead, Link: "Begin at this message", From: "parked-7", count: "select count(*) from once_inbox_position where KEY = '" + secretOrder + "-2' and seq = 6"},
			{Name: "cancel", Page: "deadletters", Link: "Cancel", count: "select count(*) from once_deadletter_redrive where state = 'cancelled'"},
			{Name: "webhook-recover", Page: "endpoint?endpoint=ep_acme", Link: "Recover…", Press: true, count: "select count(*) from once_webhook_delivery where cause = 'recover'"},
			{Name: "webhook-resend", Page: "delivery?endpoint=ep_acme&event=msg_done", Link: "Send again…", By: "keys", count: "select count(*) from once_webhook_delivery where cause = 'resend'"},
			{Name: "webhook-disable", Page: "endpoint?endpoint=ep_spare", Link: "Disable…", count: "select count(*) from once_webhook_endpoint where uid = 'ep_spare' and disabled_at is not null"},
			{Name: "webhook-enable", Page: "endpoint?endpoint=ep_1", Link: "Enable…", By: "plain", count: "select count(*) from once_webhook_endpoint where uid = 'ep_1' and disabled_at is null"},
			{Name: "saga-retry", Page: sagas["retry"], Link: "Retry…", By: "keys", count: isSaga("retry", "state = 4")},
			{Name: "saga-force", Page: sagas["force"], Link: "Decide its outcome…", Choose: "It did not take effect", count: isSaga("force", "state = 4")},
			{Name: "saga-skip", Page: sagas["skip"], Link: "Skip its undo…", count: isSaga("skip", "state = 4")},
			{Name: "saga-cancel", Page: sagas["cancel"], Link: "Cancel…", count: isSaga("cancel", "point = 'turned'")},
			{Name: "saga-wake", Page: sagas["wake"], Link: "Wake…", count: isSaga("wake", "fence = 2")},
			{Name: "saga-forget", Page: sagas["forget"], Link: "Forget…", By: "plain", count: isSaga("forget", "kind = 2")},
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
				"deadletters": "deadletters", "letters": "letters", "letter": "letter?id=" + letterID, "audit": "audit", "help": "help", "attempts": "attempts", "endpoints": "endpoints", "blocked": "messages?state=blocked",
				"inboxes": "inboxes", "inbox": inbox, "place": "place?id=" + waits, "place-dead": "place?id=" + dead, "inbox-skip": "do?action=inbox-skip&id=" + waits, "start-at": "do?action=start-at&seq=7&id=" + dead,
				"pause": "do?action=pause&topic=refunds", "resolve": "do?action=resolve&id=" + unknown, "redrive": "do?action=redrive&origin=inbox", "resend": "do?action=resend&id=" + sentID,
				"endpoint": "endpoint?endpoint=ep_acme", "stopped": "endpoint?endpoint=ep_acme&state=stopped", "disabled": "endpoint?endpoint=ep_1", "delivery": "delivery?endpoint=ep_acme&event=msg_stopped", "webhook": "event?id=msg_stopped",
				"recover": "do?action=webhook-recover&endpoint=ep_acme&since=24h", "disable": "do?action=webhook-disable&endpoint=ep_spare",
				"sagas": "sagas", "nosagas": "sagas?name=none", "stuck": sagas["force"], "turned": sagas["skip"], "waiting": sagas["wake"], "completed": sagas["forget"],
				"retry": strings.Replace(sagas["retry"], "saga?", "do?action=saga-retry&", 1),
			},
		})
		harness.Must(t, err)
		file := filepath.Join(t.TempDir(), "plan.json")
		harness.Must(t, os.WriteFile(file, plan, 0o600))
		var found struct {
			Findings, Requests, Messages, Done []string
			Visited                            int
		}
		harness.Must(t, json.Unmarshal(inDir(t, dir, "node", "browse.mjs", file), &found))
		for _, f := range found.Findings {
			t.Error(f)
		}
		for _, f := range found.Requests {
			t.Errorf("a page sends a request to %s", f)
		}
		for _, f := range found.Messages {
			t.Errorf("the browser says: %s", f)
		}
		if kind == harness.SQLite && found.Visited < 108 {
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
func (g *fixture) found(t *testing.T) string {
	t.Helper()
	return g.post(t, "ada", "find", url.Values{"key": {"unknown"}}).header.Get("Location")
}
