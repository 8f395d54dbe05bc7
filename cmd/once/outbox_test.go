package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/outbox"
)

// messageID is the ID of a message of a test.
func messageID(n int) string { return fmt.Sprintf("01945a00-0000-7000-8000-%012d", n) }

// add adds messages in one transaction.
func (o opened) add(t *testing.T, cfg outbox.Config, messages ...message.Message) {
	t.Helper()
	tx, err := o.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := outbox.New(o.Store, cfg).Add(t.Context(), tx, messages...); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// failed writes that the delivery of a message has failed. next is when it is tried again, in SQL.
func (o opened) failed(t *testing.T, id, next string) {
	t.Helper()
	_, err := o.ExecContext(t.Context(), dialect.Text(o.dialect, "insert into once_outbox_failed (part, id, topic, KEY, attempts, next_at, failed_at, error) select part, id, topic, KEY, 3, "+
		next+", NOW, 'refused: 422' from once_outbox where event_id = '"+id+"'"))
	if err != nil {
		t.Fatal(err)
	}
}

// outboxData is a message in each state, and a pause.
func outboxData(t *testing.T, db opened) {
	t.Helper()
	db.add(t, outbox.Config{},
		message.Message{ID: messageID(1), Topic: "refunds", Key: "acct_1", Type: "refund.succeeded", Payload: []byte(`{"amount":7}`), Headers: map[string]string{"content-type": "application/json"}},
		message.Message{ID: messageID(2), Topic: "refunds", Key: "acct_1", Type: "refund.voided", Source: "/payments", Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
	db.add(t, outbox.Config{}, message.Message{ID: messageID(3), Topic: "mails", Type: "welcome", Payload: []byte{0, 1, 2}})
	db.add(t, outbox.Config{}, message.Message{ID: messageID(4), Topic: "charges", Key: "a  b", Type: "charge.succeeded"})
	db.failed(t, messageID(1), "null")
	db.failed(t, messageID(3), "NOW")
	db.set(t, "once_outbox", "created_at", begun, "1 = 1")
	db.set(t, "once_outbox_failed", "failed_at", begun, "1 = 1")
	db.set(t, "once_outbox_failed", "next_at", ends, "next_at is not null")
	run(t, "outbox", "pause", "--topic", "charges", "--reason", "repaired", "--by", "ada", "--yes", "--db", db.url).want(t, 0)
	db.set(t, "once_outbox_paused", "paused_at", begun, "1 = 1")
}

// outboxPage is what once outbox list -o json prints.
type outboxPage struct {
	Items  []operate.Message
	Paused []operate.Pause
	Topics []operate.TopicWait
	Next   string
}

// TestOutboxCommands: what an operator does to the outbox is done, and what cannot be done is said.
func TestOutboxCommands(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, url string) {
		db := open(t, url)
		outboxData(t, db)
		says := func(code int, text string, args ...string) {
			t.Helper()
			o := run(t, append(append([]string{"outbox"}, args...), "--db", url)...).want(t, code)
			if !strings.Contains(o.stdout+o.stderr, text) {
				t.Errorf("once outbox %v does not say %q:\n%s%s", args, text, o.stdout, o.stderr)
			}
			if code != 0 && !strings.Contains(o.stderr, "Try: ") {
				t.Errorf("once outbox %v has no advice: %s", args, o.stderr)
			}
		}
		says(0, "There are more items. Try: the same command with --after ", "list", "--limit", "1")
		says(0, messageID(1), "list", "--state", "stopped")
		says(0, messageID(2), "list", "--state", "blocked", "--topic", "refunds", "--key", "acct_1")
		says(3, "has no message with this ID", "show", messageID(9))
		says(2, "not the ID", "show", "refund-7")
		says(0, "the command has changed nothing", "skip", messageID(1), "--reason", "broken")
		says(0, "stopped", "show", messageID(1))
		says(0, "message 1 of the key acct_1", "skip", messageID(1), "--reason", "broken", "--by", "ada", "--yes")
		says(0, message.TypeSkipped, "show", messageID(1))
		says(0, "ada: broken", "show", messageID(1), "--payload")
		says(0, "blocked", "show", messageID(2)) // until a relay has delivered the marker
		says(3, "has no message with this ID", "skip", messageID(9), "--reason", "broken", "--yes")
		says(0, "relays try again now: 1 failed message of the topic mails", "resume", "--topic", "mails", "--reason", "mended", "--yes")
		says(3, "is not paused and has no failed message", "resume", "--topic", "refunds", "--key", "acct_2", "--reason", "mended", "--yes")
		says(0, "no longer paused", "resume", "--topic", "charges", "--reason", "mended", "--yes")
		says(3, "is not paused", "resume", "--topic", "charges", "--reason", "mended", "--yes")
		says(0, "the command has changed nothing", "pause", "--topic", "refunds", "--key", "acct_1", "--reason", "asked")
		says(0, "paused: the key acct_1 of the topic refunds", "pause", "--topic", "refunds", "--key", "acct_1", "--reason", "asked", "--yes")
		says(0, "blocked, paused", "show", messageID(2))

		says(0, "the command has changed nothing", "forget", "--topic", "refunds", "--key", "acct_1", "--reason", "asked")
		says(1, "2 messages wait for delivery, so the command has not erased the payloads of waiting messages", "forget", "--topic", "refunds", "--key", "acct_1", "--reason", "asked", "--yes")
		says(0, "0 delivered messages of the key acct_9", "forget", "--topic", "refunds", "--key", "acct_9", "--reason", "asked", "--yes")
		says(2, "--key is missing", "forget", "--topic", "refunds", "--reason", "asked")
		var audited int
		if err := db.QueryRowContext(t.Context(), "select count(*) from once_audit where action like 'outbox %' and who <> ''").Scan(&audited); err != nil || audited != 7 {
			t.Errorf("%d entries in the audit, %v", audited, err)
		}

		var page outboxPage
		o := run(t, "outbox", "list", "-o", "json", "--db", url).want(t, 0)
		if err := json.Unmarshal([]byte(o.stdout), &page); err != nil || len(page.Items) != 4 || len(page.Paused) != 1 || page.Next != "" {
			t.Errorf("%v: %s", err, o.stdout)
		}
		const unknown = "no message with a key was ever added"
		says(0, unknown, "pause", "--topic", "refund", "--reason", "a name that is wrong", "--yes")
		says(0, unknown, "pause", "--topic", "refunds", "--key", "acct_2", "--reason", "a key that is wrong", "--yes")
		says(0, "paused: the topic refund", "pause", "--topic", "refund", "--reason", "it is paused", "--yes")
		for _, topic := range []string{"refunds", "mails"} { // one with a key, and one that waits
			if o := run(t, "outbox", "pause", "--topic", topic, "--reason", "asked", "--yes", "--db", url).want(t, 0); strings.Contains(o.stderr, unknown) {
				t.Errorf("%s: %s", topic, o.stderr)
			}
		}
	})
}

// TestOutboxTopics: list and doctor name each topic that waits, what it waits for, since when, and why.
func TestOutboxTopics(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, url string) {
		db := open(t, url)
		outboxData(t, db)
		for _, statement := range []string{
			"insert into once_hold_node (work, node, expires, leaving) values ('outbox', 'node-1', NOW, 0)",
			"insert into once_outbox_wait (topic, node, reason, since, error) values ('far', 'node-1', 'down', NOW, 'connection refused')",
			"insert into once_outbox_wait (topic, node, reason, since, error) values ('mute', 'node-1', 'hanging', NOW, '')",
			"insert into once_outbox_wait (topic, node, reason, since, error) values ('much', 'node-1', 'rate', NOW, '')",
			"insert into once_outbox_wait (topic, node, reason, since, error) values ('past', 'node-0', 'down', NOW, 'of a relay that is dead')",
		} {
			if _, err := db.ExecContext(t.Context(), dialect.Text(db.dialect, statement)); err != nil {
				t.Fatal(err)
			}
		}
		db.set(t, "once_hold_node", "expires", ends, "1 = 1")
		db.set(t, "once_outbox_wait", "since", begun, "1 = 1")
		list := run(t, "outbox", "list", "--db", url).want(t, 0).stdout
		for _, line := range []string{`far +down +2026-01-31T12:00:00Z +- +connection refused`, `mute +its destination, which does not answer +2026-01-31`, `much +its rate limit +2026-01-31`, `refunds +1 failing message, 1 stopped, key acct_1 +2026-01-31`} {
			if !regexp.MustCompile(line).MatchString(list) {
				t.Errorf("no line %q:\n%s", line, list)
			}
		}
		var page outboxPage
		o := run(t, "outbox", "list", "-o", "json", "--topic", "far", "--db", url).want(t, 0)
		if err := json.Unmarshal([]byte(o.stdout), &page); err != nil || len(page.Topics) != 1 || page.Topics[0].For != "down" || page.Topics[0].Since.IsZero() || page.Topics[0].Node != "node-1" {
			t.Errorf("%v: %s", err, o.stdout)
		}
		says := run(t, "doctor", "--db", url).stdout
		if !strings.Contains(says, "5 topics wait. far: down for ") || !strings.Contains(says, "(connection refused); mails: 1 failing message for ") || !strings.Contains(says, "; and 2 more") {
			t.Error(says)
		}
		if strings.Contains(list+says, "past") {
			t.Errorf("a dead relay is believed:\n%s%s", list, says)
		}
	})
}

// TestOutboxEncrypted: bodies are shown with the key of the service and only if they are asked for.
func TestOutboxEncrypted(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{7}, 32)
	encrypter, err := once.NewEncrypter(key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(hex.EncodeToString(key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	db := open(t, sqliteURL(t))
	db.add(t, outbox.Config{Encrypter: encrypter}, message.Message{ID: messageID(1), Topic: "t", Type: "x", Payload: []byte("secret")})
	show := func(code int, args ...string) string {
		t.Helper()
		o := run(t, append([]string{"outbox", "show", messageID(1), "--db", db.url}, args...)...).want(t, code)
		return o.stdout + o.stderr
	}
	if got := show(0); strings.Contains(got, "secret") || !strings.Contains(got, ", encrypted") {
		t.Errorf("%s", got)
	}
	if got := show(0, "--key-file", file); strings.Contains(got, "secret") {
		t.Errorf("without --payload: %s", got)
	}
	if got := show(0, "--payload", "--key-file", file); !strings.Contains(got, "\nsecret\n") {
		t.Errorf("%s", got)
	}
	if got := show(2, "--payload"); !strings.Contains(got, "--key-file") {
		t.Errorf("%s", got)
	}
	if got := show(2, "--payload", "--key-file", os.Args[0]); !strings.Contains(got, "hexadecimal") {
		t.Errorf("%s", got)
	}
}

// TestRelayDeliversAndDrains: the command delivers what services have added, in order, and drains when it is interrupted.
func TestRelayDeliversAndDrains(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		db := open(t, url)
		const messages = 20
		add := func(i int) {
			db.add(t, outbox.Config{}, message.Message{Topic: "refunds", Key: "acct_1", Type: "n", Payload: fmt.Append(nil, i)})
		}
		for i := range messages - 1 {
			add(i)
		}
		got := make(chan string, 2*messages)
		first, last, release := make(chan struct{}, 2*messages), make(chan struct{}, 2*messages), make(chan struct{})
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if string(body) == fmt.Sprint(messages-1) {
				last <- struct{}{}
				<-release
			}
			first <- struct{}{}
			got <- r.URL.Path + " " + string(body)
		}))
		defer receiver.Close()
		relay := program(t, "relay", "--db", url, "--to", receiver.URL+"/{topic}", "--keep", "1h", "--rate", "mails=5", "--topic-concurrency", "mails=2")
		var stdout, stderr bytes.Buffer
		relay.Stdout, relay.Stderr = &stdout, &stderr
		if err := relay.Start(); err != nil {
			t.Fatal(err)
		}
		<-first
		if found := examined(t, url); found["outbox_relays"].Says != "1 relay is running" {
			t.Errorf("%+v", found["outbox_relays"])
		}
		add(messages - 1)
		<-last
		if err := relay.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		close(release) // the last delivery is on its way, and is waited for
		if err := relay.Wait(); err != nil || !strings.Contains(stdout.String(), "delivers  to "+receiver.URL+"/{topic}\n") {
			t.Errorf("%v\n%s%s", err, &stdout, &stderr)
		}
		for i := range messages {
			if m := <-got; m != fmt.Sprintf("/refunds %d", i) {
				t.Errorf("delivery %d is %s", i, m)
			}
		}
		var left, kept int
		if err := db.QueryRowContext(t.Context(), "select (select count(*) from once_outbox), (select count(*) from once_outbox_sent)").Scan(&left, &kept); err != nil || left != 0 || kept != messages || len(got) != 0 {
			t.Errorf("%d left, %d kept, %d delivered again, %v", left, kept, len(got), err)
		}
	})
}

// TestDoctorOutbox: a backlog that nothing delivers and messages that wait for a person are told.
func TestDoctorOutbox(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		run(t, "migrate", "up", "--only", "operation", "--db", url).want(t, 0)
		for name := range examined(t, url) {
			if strings.HasPrefix(name, "outbox") {
				t.Errorf("%s without the tables", name)
			}
		}
		db := open(t, url)
		found := examined(t, url, "--to", "https://127.0.0.1:1/x")
		found["outbox_backlog"].want(t, "an empty outbox", okay, "no message waits")
		found["outbox_relays"].want(t, "an empty outbox", okay, "no relay is running, and no message waits")
		found["outbox_stopped"].want(t, "an empty outbox", okay, "no message has failed")
		found["outbox_destination"].want(t, "HTTP", okay, "no settings that the doctor can check")
		outboxData(t, db)
		found = examined(t, url)
		found["outbox_backlog"].want(t, "a backlog", warn, "4 messages wait for delivery, the oldest message for ")
		found["outbox_relays"].want(t, "a backlog", warn, "no relay is running")
		found["outbox_stopped"].want(t, "a stopped message", warn, "relays have given up 1 message")
		found["outbox_paused"].want(t, "a paused topic", warn, "the topic charges")
	})
}
