package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
)

// TestFollowCommands: a person follows an operation to its event and to the inbox that has applied it, and back; and has what was
// delivered, and is kept, sent again.
func TestFollowCommands(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, url string) {
		db := open(t, url)
		ctx := t.Context()
		event := message.Message{ID: messageID(1), Topic: "refunds", Key: "acct_1", Type: "refund.succeeded", Source: "/shop", Payload: []byte(`{}`)}
		box := outbox.New(db.Store, outbox.Config{})
		_, err := once.Do(ctx, once.New(db.Store, once.Config{}), once.Operation{Scope: "acme POST /refunds", Key: "k-1"}, func(ctx context.Context, tx *sql.Tx) (string, error) {
			return "refunded", box.Add(ctx, tx, event)
		})
		if err != nil {
			t.Fatal(err)
		}
		says := func(code int, text string, args ...string) {
			t.Helper()
			o := run(t, append(args, "--db", url)...).want(t, code)
			if !strings.Contains(o.stdout+o.stderr, text) {
				t.Errorf("once %v does not say %q:\n%s%s", args, text, o.stdout, o.stderr)
			}
			if code != 0 && strings.Count(o.stderr, "Try: ") != 1 {
				t.Errorf("once %v has no advice, or more than one: %s", args, o.stderr)
			}
		}
		exec := func(query string) {
			t.Helper()
			if _, err := db.ExecContext(ctx, dialect.Text(db.dialect, query)); err != nil {
				t.Fatal(err)
			}
		}
		show := []string{"keys", "show", "k-1", "--scope", "acme POST /refunds", "--events"}
		says(0, event.ID, show...)
		var v struct {
			Key    string
			Events []operate.Event
		}
		o := run(t, append(show, "-o", "json", "--db", url)...).want(t, 0)
		if err := json.Unmarshal([]byte(o.stdout), &v); err != nil || v.Key != "k-1" || len(v.Events) != 1 || v.Events[0].State != operate.EventWaiting || v.Events[0].ID != event.ID {
			t.Fatalf("%v: %s", err, o.stdout)
		}
		says(0, once.KeyHash("k-1")+", scope acme POST /refunds", "outbox", "show", event.ID)
		says(0, "once keys show k-1 --scope 'acme POST /refunds' --events", "outbox", "show", event.ID)
		db.do(t, "s", "k-2")
		says(0, "has added no event", "keys", "show", "k-2", "--events")

		says(1, "is not delivered yet", "outbox", "resend", event.ID, "--reason", "asked", "--yes")
		exec("insert into once_outbox_sent (part, id, topic, KEY, seq, event_id, event_type, source, headers, payload, encrypted, trace, created_at, op_scope, op_key, sent_at) " +
			"select part, id, topic, KEY, seq, event_id, event_type, source, headers, payload, encrypted, trace, created_at, op_scope, op_key, NOW from once_outbox")
		exec("delete from once_outbox")
		says(0, "delivered", show...)
		says(2, "--reason is missing", "outbox", "resend", event.ID)
		says(0, "would send again: refund.succeeded of the topic refunds, message 1 of the key acct_1", "outbox", "resend", event.ID, "--reason", "asked")
		says(0, "delivered: the destination", "outbox", "show", event.ID)
		says(0, "a relay sends the message again", "outbox", "resend", event.ID, "--reason", "ticket 7", "--by", "ada", "--yes")
		says(0, "waiting: a relay will deliver the message", "outbox", "show", event.ID)
		says(0, once.KeyHash("k-1"), "outbox", "show", event.ID)
		says(0, "ada: ticket 7", "audit", "list")
		says(3, "Relays keep delivered messages only with", "outbox", "resend", messageID(9), "--reason", "asked", "--yes")
		exec("update once_outbox set payload = '', headers = ''")
		exec("insert into once_outbox_sent (part, id, topic, KEY, seq, event_id, event_type, source, headers, payload, encrypted, trace, created_at, sent_at) " +
			"select part, id, topic, KEY, seq, event_id, event_type, source, headers, payload, encrypted, trace, created_at, NOW from once_outbox")
		exec("delete from once_outbox")
		says(1, "were erased", "outbox", "resend", event.ID, "--reason", "asked", "--yes")
		exec("delete from once_outbox_sent")
		says(0, "gone", show...)
		says(0, "To keep delivered events, set\noutbox.Config.RetainDelivered", show...)

		says(3, "no inbox of", "inbox", "show", event.ID)
		ledger := inbox.New(once.New(db.Store, once.Config{}), inbox.Config{Consumer: "ledger", Observer: quiet{}})
		ordered := inbox.New(once.New(db.Store, once.Config{}), inbox.Config{Consumer: "billing", Order: inbox.InOrder, Observer: quiet{}})
		apply := func(context.Context, *sql.Tx, message.Message) error { return nil }
		event.Seq = 1
		for _, in := range []*inbox.Inbox[*sql.Tx]{ledger, ordered} {
			if _, err := in.Handle(ctx, event, apply); err != nil {
				t.Fatal(err)
			}
		}
		late := event
		late.ID, late.Seq = messageID(3), 3
		if outcome, err := ordered.Handle(ctx, late, apply); err != nil || outcome != inbox.Parked {
			t.Fatal(outcome, err)
		}
		says(0, "ledger    /shop   applied  ", "inbox", "show", event.ID)
		says(0, "billing   /shop   applied, matched by its number  ", "inbox", "show", event.ID, "--topic", "refunds", "--key", "acct_1", "--seq", "1")
		says(0, "billing   /shop   parked  ", "inbox", "show", late.ID)
		byNumber := func(seq string, more ...string) []string {
			return append([]string{"inbox", "show", "--topic", "refunds", "--key", "acct_1", "--seq", seq}, more...)
		}
		says(0, "billing   /shop   applied, matched by its number  ", byNumber("1")...)
		says(0, "billing   /shop   parked, matched by its number  ", byNumber("3")...)
		says(0, `"event_id": "`+late.ID+`"`, byNumber("3", "-o", "json")...)
		says(3, "has applied or parked message 2 of the key acct_1", byNumber("2")...)
		says(3, "has applied or parked message 1 of the key acct_1", byNumber("1", "--source", "/other")...)
		says(2, "the ID of the event is missing", "inbox", "show", "--topic", "refunds", "--key", "acct_1")
		says(3, "no inbox of", "inbox", "show", late.ID, "--source", "/other")
		says(2, "the ID of the event is missing", "inbox", "show")
		says(0, `"state": "applied"`, "inbox", "show", event.ID, "-o", "json")
		says(0, "ledger", show...)
	})
}
