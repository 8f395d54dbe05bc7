package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/letter"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlplane"
)

// lettersData is letters with three causes, at fixed times.
func lettersData(t *testing.T, db opened) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, l := range []letter.Letter{
		{Class: "permanent", Error: "customer 17 is unknown", Attempts: 2, ID: letter.ID{Key: "acct_1", Seq: 7}},
		{Class: "permanent", Error: "customer 18 is unknown", Attempts: 1, ID: letter.ID{Key: "acct_2", Seq: 3}},
		{Class: "exhausted", Error: "timeout", Attempts: 10},
		{Class: "mismatch", Error: "another body", Attempts: 1},
	} {
		l.UID = messageID(i + 1)
		l.ID = letter.ID{Origin: letter.OriginInbox, Consumer: "billing", Source: "/shop", EventID: fmt.Sprintf("event-%d", i+1), Key: l.Key, Seq: l.Seq}
		l.Topic, l.Type, l.CreatedAt, l.FirstFailedAt = "refunds", "refund.succeeded", begun, begun.AddDate(-6, 0, 0)
		l.Headers, l.Payload, l.Hash, l.Trace = []byte(`{"content-type":"application/json"}`), []byte(`{"amount":7}`), []byte("hash"), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		for n := range l.Attempts {
			_, _, _, err := letter.Record(t.Context(), db.Store, l.ID, letter.Attempt{Node: fmt.Sprintf("node-%d", n+1), Error: l.Error})
			must(err)
		}
		must(letter.Within(t.Context(), db.Store, func(ctx context.Context, r sqlplane.Runner) error { return letter.Bury(ctx, r, db.dialect, &l) }))
	}
	db.set(t, "once_deadletter_attempt", "at", begun, "1 = 1")
	db.set(t, "once_deadletter", "dead_at", begun, "1 = 1")
	db.set(t, "once_deadletter", "redrive_at", ends, "class = 'mismatch'")
}

// TestDeadletterCommands: what an operator does to dead letters is done, audited, and can be repeated; what cannot be done is said.
func TestDeadletterCommands(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	db := open(t, url)
	says := func(code int, text string, args ...string) {
		t.Helper()
		o := run(t, append(append([]string{"deadletter"}, args...), "--db", url)...).want(t, code)
		if !strings.Contains(o.stdout+o.stderr, text) {
			t.Errorf("once deadletter %v does not say %q:\n%s%s", args, text, o.stdout, o.stderr)
		}
		if code != 0 && !strings.Contains(o.stderr, "Try: ") {
			t.Errorf("once deadletter %v has no advice: %s", args, o.stderr)
		}
	}
	found := examined(t, url)
	found["dead_letters"].want(t, "no letters", okay, "the database has no dead letter")
	lettersData(t, db)
	found = examined(t, url)
	found["dead_letters"].want(t, "letters", warn, "3 dead letters wait for the decision of an operator")

	says(0, "would redrive: 2 dead letters", "redrive", "--class", "permanent", "--beyond-retention", "--reason", "repaired")
	says(0, "2 dead letters: 0 applied, 0 failed, 0 discarded, 2 not tried yet", "redrive", "--class", "permanent", "--beyond-retention", "--reason", "repaired", "--rate", "0.001", "--yes")
	// A redrive that matches nothing is no redrive, and the audit does not have it.
	before := audited(t, db)
	says(0, "No dead letter that waits for an operator matches the flags", "redrive", "--class", "permanent", "--beyond-retention", "--reason", "repaired", "--yes")
	if n := audited(t, db); n != before {
		t.Errorf("a redrive without letters has added %d entries to the audit", n-before)
	}
	says(3, "add --event ID", "show", "01a21ee2-7e81-7000-8000-000000000000")
	var uid string
	if err := db.QueryRowContext(t.Context(), "select max(redrive) from once_deadletter").Scan(&uid); err != nil {
		t.Fatal(err)
	}
	says(2, "--reason is missing", "redrive", "--cancel", uid)
	says(0, "the command has changed nothing", "redrive", "--cancel", uid, "--reason", "wrong", "--by", "ada")
	says(0, uid+": running", "redrive", "--resume", uid)
	says(0, uid+": cancelled", "redrive", "--cancel", uid, "--reason", "wrong", "--by", "ada", "--yes")
	says(0, uid+": cancelled", "redrive", "--resume", uid)
	says(2, "cannot be used together", "redrive", "--cancel", uid, "--resume", uid)
	says(0, "the command has changed nothing", "discard", "--consumer", "billing", "--reason", "old")
	says(0, "discarded: 4 dead letters", "discard", "--consumer", "billing", "--reason", "old", "--yes")
	says(0, "discarded: 0 dead letters", "discard", "--consumer", "billing", "--reason", "old", "--yes")
	says(2, "does not exist", "list", "-o", "xml")
	says(2, `--before "yesterday" is not a time`, "discard", "--before", "yesterday", "--reason", "old", "--yes")
	says(2, `--since "yesterday" is not a time`, "list", "--since", "yesterday")
	says(0, "would discard: 0 dead letters", "discard", "--before", "2026-01-31T12:00:00Z", "--reason", "old")
	says(2, "--limit 0", "list", "--limit", "0")
	says(2, "the UID of the dead letter is missing", "show")
	says(2, "the UID is empty", "redrive", "", "--reason", "repaired", "--yes")
	says(2, "the UID is empty", "discard", "", "--consumer", "billing", "--reason", "old", "--yes")
	says(3, "the dead letter lost does not exist", "redrive", "lost", "--reason", "repaired", "--yes")
	says(3, "the dead letter lost does not exist", "discard", "lost", "--reason", "old", "--yes")
	says(2, "apply to a whole redrive", "redrive", "--cancel", uid, "--consumer", "billing", "--reason", "old")
	if o := run(t, "audit", "list", "--db", url).want(t, 0); strings.Count(o.stdout, "redrive") < 2 || !strings.Contains(o.stdout, "cancel") || !strings.Contains(o.stdout, "discarded 4 of letters") {
		t.Error(o.stdout)
	}
}

func audited(t *testing.T, db opened) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "select count(*) from once_audit").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDeadletterShowAdvice: the advice for a letter that no redrive can apply is to send the message again before the letter is discarded.
func TestDeadletterShowAdvice(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	db := open(t, url)
	for i, class := range []string{"too_large", "malformed"} {
		l := letter.Letter{UID: messageID(i + 1), Class: class, Error: "refused", ID: letter.ID{Origin: letter.OriginInbox, Consumer: "billing", Source: "/shop", EventID: class}}
		if err := letter.Within(t.Context(), db.Store, func(ctx context.Context, r sqlplane.Runner) error { return letter.Bury(ctx, r, db.dialect, &l) }); err != nil {
			t.Fatal(err)
		}
		o := run(t, "deadletter", "show", l.UID, "--db", url).want(t, 0)
		_, advice, _ := strings.Cut(o.stderr, "Try: ")
		send, discard := strings.Index(advice, "with the same ID"), strings.Index(advice, "once deadletter discard")
		if send < 0 || discard < send || strings.Contains(advice, "redrive") {
			t.Errorf("%s: %s", class, o.stderr)
		}
	}
}

// TestDeadletterBefore: a preview tells with which flags exactly the letters that it has counted are changed. One that dies
// after the preview stays.
func TestDeadletterBefore(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, url string) {
		db := open(t, url)
		lettersData(t, db)
		db.set(t, "once_deadletter", "first_failed_at", time.Now(), "1 = 1")
		dies := func(n int) {
			t.Helper()
			l := letter.Letter{UID: messageID(n), ID: letter.ID{Origin: letter.OriginInbox, Consumer: "billing", Source: "/shop", EventID: fmt.Sprintf("event-%d", n)}, Class: "permanent", Error: "customer 19 is unknown", Attempts: 1}
			err := letter.Within(t.Context(), db.Store, func(ctx context.Context, r sqlplane.Runner) error { return letter.Bury(ctx, r, db.dialect, &l) })
			if err != nil {
				t.Fatal(err)
			}
		}
		states := func(want string) {
			t.Helper()
			var got []string
			list, _, err := deadletter.New(db.Store, deadletter.Config{}).List(t.Context(), deadletter.Filter{Class: "permanent"})
			for _, l := range list {
				got = append(got, l.EventID+words.Either(l.RedriveAt.IsZero(), "", " redriven"))
			}
			if s := strings.Join(got, ", "); s != want || err != nil {
				t.Errorf("dead letters: %s, want %s, %v", s, want, err)
			}
		}
		previewed := func(command, says string, later int) {
			t.Helper()
			args := []string{"deadletter", command, "--class", "permanent", "--reason", "a test", "--db", url}
			o := run(t, args...).want(t, 0)
			_, flags, ok := strings.Cut(o.stderr, "Try: the same command with ")
			if !strings.Contains(o.stdout, says) || !ok || !strings.Contains(flags, "--yes --before ") {
				t.Fatalf("%s%s", o.stdout, o.stderr)
			}
			dies(later)
			run(t, append(args, strings.Fields(flags)...)...).want(t, 0)
		}
		previewed("redrive", "would redrive: 2 dead letters", 11)
		states("event-1 redriven, event-2 redriven, event-11")
		previewed("discard", "would discard: 3 dead letters", 12)
		states("event-12")
	})
}

// TestDeadletterPreviewNeedsAudit: a preview says that the audit is missing, and does not promise a change that would be refused.
func TestDeadletterPreviewNeedsAudit(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, url string) {
		db := open(t, url)
		lettersData(t, db)
		if _, err := db.ExecContext(t.Context(), "drop table once_audit"); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"redrive"}, {"discard"}, {"redrive", "--yes"}, {"discard", "--yes"}} {
			o := run(t, append(append([]string{"deadletter"}, args...), "--class", "permanent", "--reason", "a test", "--db", url)...).want(t, 1)
			if o.stdout != "" || !strings.Contains(o.stderr, "has no table for the audit") || !strings.Contains(o.stderr, "once migrate up --only operate --db ") {
				t.Errorf("%v: %s%s", args, o.stdout, o.stderr)
			}
		}
		if o := run(t, "keys", "list", "--db", url).want(t, 0); strings.Count(o.stderr, "\n") != 2 || strings.Contains(o.stderr, "store:") || !strings.HasPrefix(o.stderr, "note: your look-up was not written to the audit, because the database has no table for the audit. Try: once migrate up --only operate --db ") {
			t.Errorf("a look-up: %s", o.stderr)
		}
	})
}
