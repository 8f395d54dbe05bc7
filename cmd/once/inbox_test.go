package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/retry"
)

// inboxOf is the inbox of a service, which notes in applied what it has applied.
func (o opened) inboxOf(t *testing.T, consumer string) (deliver func(key string, seq int64) inbox.Outcome, applied *[]string) {
	t.Helper()
	in := inbox.New(once.New(o.Store, once.Config{}), inbox.Config{Consumer: consumer, Order: inbox.InOrder, Observer: quiet{}})
	applied = new([]string)
	apply := func(_ context.Context, _ *sql.Tx, m message.Message) error {
		if m.Key == "poison" && m.Seq == 1 {
			return retry.Permanent(errors.New("it cannot be booked"))
		}
		*applied = append(*applied, m.ID)
		return nil
	}
	deliver = func(key string, seq int64) inbox.Outcome {
		t.Helper()
		id := key + "-" + string(rune('0'+seq))
		outcome, err := in.Handle(t.Context(), message.Message{ID: id, Source: "/shop", Topic: "refunds", Key: key, Type: "refund.succeeded", Seq: seq, Payload: []byte(id)}, apply)
		if err != nil {
			t.Fatal(err)
		}
		return outcome
	}
	return deliver, applied
}

// quiet is an observer that writes nothing.
type quiet struct{}

// Observe implements [inbox.Observer].
func (quiet) Observe(context.Context, inbox.Event) {}

// inboxData is a key that waits for a missing message, one that waits for a dead letter, and one that does not wait.
func inboxData(t *testing.T, db opened) {
	t.Helper()
	billing, _ := db.inboxOf(t, "billing")
	for _, m := range []struct {
		key  string
		seqs []int64
	}{{"acct_1", []int64{1, 3, 4}}, {"poison", []int64{1, 2}}, {"acct_2", []int64{1, 2}}} {
		for _, seq := range m.seqs {
			billing(m.key, seq)
		}
	}
	mails, _ := db.inboxOf(t, "mails")
	mails("acct_1", 4)
	mails("acct_1", 6)
	mails("acct_1", 7)
	db.set(t, "once_inbox_position", "moved_at", begun, "consumer = 'billing'")
	db.set(t, "once_inbox_position", "moved_at", begun.AddDate(0, 0, 1), "consumer = 'mails'")
}

// TestInboxCommands: what an operator does to a key of an inbox is done and audited, and what cannot be done is said.
func TestInboxCommands(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, url string) {
		db := open(t, url)
		inboxData(t, db)
		says := func(code int, text string, args ...string) {
			t.Helper()
			o := run(t, append(append([]string{"inbox"}, args...), "--db", url)...).want(t, code)
			if !strings.Contains(o.stdout+o.stderr, text) {
				t.Errorf("once inbox %v does not say %q:\n%s%s", args, text, o.stdout, o.stderr)
			}
			if code != 0 && strings.Count(o.stderr, "Try: ") != 1 {
				t.Errorf("once inbox %v has no advice, or more than one: %s", args, o.stderr)
			}
		}
		on := func(command, consumer, key, seq string, more ...string) []string {
			return append([]string{command, "--consumer", consumer, "--source", "/shop", "--topic", "refunds", "--key", key, "--seq", seq, "--reason", "it is lost", "--by", "ada"}, more...)
		}
		golden(t, run(t, "inbox", "list", "--db", url).want(t, 0).stdout, `
CONSUMER  SOURCE  TOPIC    KEY     SEQ  IS             PARKED  SINCE
billing   /shop   refunds  acct_1  2    missing        2       2026-01-31T12:00:00Z
billing   /shop   refunds  poison  1    a dead letter  1       2026-01-31T12:00:00Z
mails     /shop   refunds  acct_1  1    missing        3       2026-02-01T12:00:00Z
`)
		var page operate.Page[operate.Gap]
		o := run(t, "inbox", "list", "--consumer", "billing", "-o", "json", "--db", url).want(t, 0)
		if err := json.Unmarshal([]byte(o.stdout), &page); err != nil || len(page.Items) != 2 {
			t.Fatalf("%v: %s", err, o.stdout)
		}
		says(0, "once inbox skip --consumer billing --source /shop --topic refunds --key acct_1 --seq 2 --reason WHY", "list")
		says(0, "once deadletter list --letters --origin inbox --consumer billing --topic refunds --key poison", "list")
		says(2, "does not exist", "list", "-o", "xml")
		says(2, "at most 64 bytes", "list", "--consumer", strings.Repeat("c", 65))

		// Skip: the parked messages behind it follow, and only then.
		says(2, "--reason is missing", "skip", "--consumer", "billing", "--key", "acct_1", "--seq", "2")
		says(2, "--key is missing", "skip", "--consumer", "billing", "--seq", "2", "--reason", "it is lost")
		says(0, "would skip: message 2 of the key acct_1 (source /shop, topic refunds, consumer billing); 2 later messages of the key wait", on("skip", "billing", "acct_1", "2")...)
		says(0, `"changed": false`, on("skip", "billing", "acct_1", "2", "-o", "json")...)
		says(1, "waits for message 2, not for 3", on("skip", "billing", "acct_1", "3", "--yes")...)
		says(3, "does not exist in the inbox of", on("skip", "biling", "acct_1", "1", "--yes")...)
		db.parked(t, "billing", "acct_1", 2)
		says(0, "skipped: message 2 of the key acct_1", on("skip", "billing", "acct_1", "2", "--yes")...)
		says(1, "does not wait for message 2", on("skip", "billing", "acct_1", "2", "--yes")...)
		says(1, "the inbox has received message 3 of the key acct_1 (source /shop, topic refunds, consumer billing), and will soon try to handle the message", on("skip", "billing", "acct_1", "3", "--yes")...)
		says(0, `"dead": true,`, on("skip", "billing", "poison", "1", "--yes", "-o", "json")...)
		deliver, applied := db.inboxOf(t, "billing")
		if a, b := deliver("acct_1", 2), deliver("acct_1", 3); a != inbox.Duplicate || b != inbox.Applied {
			t.Errorf("%s, %s", a, b)
		}
		if got := strings.Join(*applied, " "); got != "acct_1-3 acct_1-4" {
			t.Errorf("%s", got)
		}

		// StartAt: what is earlier is dropped, and what is applied stays.
		says(0, "would begin: the key acct_1 (source /shop, topic refunds, consumer mails) at message 6; the key waited for message 1, and 1 message is deleted", on("start-at", "mails", "acct_1", "6")...)
		db.parked(t, "mails", "acct_1", 3)
		says(0, "begins: the key acct_1", on("start-at", "mails", "acct_1", "6", "--yes")...)
		db.parked(t, "mails", "acct_1", 2)
		says(1, "cannot start at an earlier message", on("start-at", "mails", "acct_1", "5", "--yes")...)
		says(0, "the key is new: the inbox has received no message of the key", on("start-at", "mails", "acct_9", "6")...)
		says(0, `"next": 1,`, on("start-at", "mails", "acct_9", "6", "--yes", "-o", "json")...)
		says(2, "--seq -6", on("start-at", "mails", "acct_9", "-6")...)
		deliver, applied = db.inboxOf(t, "mails")
		if a, b, c := deliver("acct_1", 4), deliver("acct_1", 6), deliver("acct_9", 6); a != inbox.Duplicate || b != inbox.Applied || c != inbox.Applied {
			t.Errorf("%s, %s, %s", a, b, c)
		}
		if got := strings.Join(*applied, " "); got != "acct_1-6 acct_1-7 acct_9-6" {
			t.Errorf("%s", got)
		}

		rows := run(t, "audit", "list", "--db", url).want(t, 0).stdout
		if strings.Count(rows, "inbox skip") != 2 || strings.Count(rows, "inbox start-at") != 2 || strings.Count(rows, "ada") != 4 || strings.Count(rows, "it is lost") != 4 ||
			!strings.Contains(rows, "billing /shop refunds") || !strings.Contains(rows, once.KeyHash("acct_9")) || !strings.Contains(rows, "seq 6, after 0; parked messages dropped: 1") {
			t.Error(rows)
		}
	})
}

// parked checks how many messages of a key wait.
func (o opened) parked(t *testing.T, consumer, key string, want int) {
	t.Helper()
	var n int
	err := o.QueryRowContext(t.Context(), o.words("select count(*) from once_inbox_parked where consumer = '"+consumer+"' and  key = $1"), key).Scan(&n)
	if err != nil || n != want {
		t.Errorf("%d messages wait, want %d, %v", n, want, err)
	}
}

// TestInboxWithoutTables: a database without an inbox or an audit says what is missing, and nothing is changed.
func TestInboxWithoutTables(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	run(t, "migrate", "up", "--only", "operation", "--db", url).want(t, 0)
	args := []string{"--consumer", "billing", "--key", "k", "--seq", "2", "--reason", "it is lost", "--yes", "--db", url}
	for command, with := range map[string][]string{"list": {"--db", url}, "skip": args, "start-at": args} {
		if o := run(t, append([]string{"inbox", command}, with...)...).want(t, 1); !strings.Contains(o.stderr, "once migrate up --only inbox --db ") {
			t.Errorf("%s: %s", command, o.stderr)
		}
	}
	run(t, "migrate", "up", "--only", "inbox,deadletter", "--db", url).want(t, 0)
	if o := run(t, append([]string{"inbox", "start-at"}, args...)...).want(t, 1); !strings.Contains(o.stderr, "once migrate up --only operate --db ") {
		t.Errorf("%s", o.stderr)
	}
	if o := run(t, append([]string{"inbox", "skip"}, args...)...).want(t, 3); !strings.Contains(o.stderr, "does not exist in the inbox of") {
		t.Errorf("something was changed without an audit: %s", o.stderr)
	}
}

// TestDoctorInbox: keys that wait for a message are told, and those that wait for a dead letter are not told twice.
func TestDoctorInbox(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, url string) {
		db := open(t, url)
		examined(t, url)["inbox_gaps"].want(t, "an empty inbox", okay, "no key waits")
		inboxData(t, db)
		found := examined(t, url, "--to", "https://127.0.0.1:1/x")
		found["inbox_gaps"].want(t, "two gaps", warn, "2 keys wait for a message that was not received, the oldest key for ")
		found["dead_letters"].want(t, "a dead letter", warn, "1 dead letter waits")
		if f, asked := found["inbox_consumers"]; asked {
			t.Errorf("HTTP has no consumers: %+v", f)
		}
	})
}

// TestInboxFailing: a message that has come and fails is told as failing wherever an operator looks, and no command proposes or does a skip of it.
func TestInboxFailing(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, url string) {
		db := open(t, url)
		in := inbox.New(once.New(db.Store, once.Config{}), inbox.Config{Consumer: "billing", Order: inbox.InOrder, Observer: quiet{}})
		fails := func(_ context.Context, _ *sql.Tx, m message.Message) error {
			return errors.New("CONSTRAINT no_debt is violated")
		}
		for _, seq := range []int64{2, 1, 1} {
			m := message.Message{ID: "refund-" + string(rune('0'+seq)), Source: "/shop", Topic: "refunds", Key: "acct_1", Type: "refund.succeeded", Seq: seq, Payload: []byte("{}")}
			if _, err := in.Handle(t.Context(), m, fails); (err == nil) != (seq == 2) {
				t.Fatal(err)
			}
		}
		db.set(t, "once_inbox_position", "moved_at", begun, "consumer = 'billing'")
		says := func(code int, not string, texts []string, args ...string) {
			t.Helper()
			o := run(t, append(args, "--db", url)...).want(t, code)
			for _, text := range texts {
				if !strings.Contains(o.stdout+o.stderr, text) {
					t.Errorf("once %v does not say %q:\n%s%s", args, text, o.stdout, o.stderr)
				}
			}
			if strings.Contains(o.stdout+o.stderr, not) {
				t.Errorf("once %v says %q:\n%s%s", args, not, o.stdout, o.stderr)
			}
		}
		const why = "was received, and its handler has failed 2 times (last error: CONSTRAINT no_debt is violated)"
		key := []string{"--consumer", "billing", "--source", "/shop", "--topic", "refunds", "--key", "acct_1", "--reason", "it blocks", "--by", "ada"}
		says(0, "once inbox skip", []string{"failing", "Message 1 of the key acct_1 " + why, "do not skip"}, "inbox", "list")
		says(0, "missing", []string{`"failed_attempts": 2`, "CONSTRAINT"}, "inbox", "list", "-o", "json")
		says(0, "missing", []string{"failing", "2, last ", "CONSTRAINT"}, "inbox", "show", "refund-1")
		for _, yes := range [][]string{nil, {"--yes"}} {
			says(1, "would skip", []string{why, "Try: repair the handler"}, append(append([]string{"inbox", "skip", "--seq", "1"}, key...), yes...)...)
		}
		says(0, "missing", []string{"message 1 " + why + "; the change loses this message, because no dead letter stores the message"}, append([]string{"inbox", "start-at", "--seq", "2"}, key...)...)
		db.parked(t, "billing", "acct_1", 1)
		examined(t, url)["inbox_gaps"].want(t, "a failing message", warn, "1 key waits for a message that fails, the oldest key for ")
	})
}
