package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
)

// TestAfterARestore: once doctor --after-restore lists what has to be looked at again, with what to do; once outbox renumber and once inbox renumber
// change nothing without --yes, and then do what they say and are audited.
func TestAfterARestore(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, url string) {
		db := open(t, url)
		outboxData(t, db)
		inboxData(t, db)
		count := func(query string) (n int) {
			t.Helper()
			if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		const moment = "2026-01-31T12:00:00Z"
		all := examined(t, url, "--after-restore", moment)
		for _, name := range []string{"restore_moment", "restore_work", "restore_outbox", "restore_numbers", "restore_inbox", "restore_letters", "restore_forgotten"} {
			if f, ok := all[name]; !ok || f.Verdict == warn && f.Try == "" {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if _, ok := all["outbox_backlog"]; ok {
			t.Error("the other checks are made as well")
		}
		all["restore_numbers"].want(t, "before", warn, "will have numbers that consumers may have received")
		says := func(code int, text string, args ...string) string {
			t.Helper()
			o := run(t, append(args, "--db", url)...).want(t, code)
			if !strings.Contains(o.stdout+o.stderr, text) {
				t.Errorf("once %v does not say %q:\n%s%s", args, text, o.stdout, o.stderr)
			}
			return o.stdout
		}
		renumber := []string{"outbox", "renumber", "--reason", "restored", "--by", "ada"}
		says(2, "is not a time", "doctor", "--after-restore", "yesterday")
		says(0, "first: ", "doctor", "--after-restore", moment)
		says(2, "--reason is missing", "outbox", "renumber")
		says(0, "would renumber", renumber...)
		says(1, "once relay --to BROKER", append(renumber, "--yes")...)
		if n := count("select count(*) from once_outbox where seq > 0"); n == 0 {
			t.Fatal("vacuous: no message with a key waits")
		}
		if _, err := db.ExecContext(t.Context(), "delete from once_outbox"); err != nil {
			t.Fatal(err)
		}
		number := regexp.MustCompile(`after (\d+)`).FindStringSubmatch(says(0, "renumbered: the numbers of all keys continue after ", append(renumber, "--yes")...))[1]
		says(0, "after the last renumbering, the numbers continued after "+number, renumber...)
		examined(t, url, "--after-restore", moment)["restore_numbers"].want(t, "afterwards", okay, number)

		follow := []string{"inbox", "renumber", "--consumer", "billing", "--source", "/shop", "--reason", "restored", "--by", "ada"}
		says(2, "--after is missing", follow...)
		follow = append(follow, "--after", number)
		says(0, "would renumber", follow...)
		if n := count("select count(*) from once_inbox_start"); n != 0 {
			t.Error("a preview has changed something")
		}
		for range 2 { // a second time does no harm
			says(0, "Keys that waited for a smaller number: 0", append(follow, "--yes")...)
		}
		if n := count("select count(*) from once_audit where who = 'ada' and reason like '%restored' and action like '%renumber'"); n != 3 {
			t.Errorf("%d entries in the audit", n)
		}
		says(2, "is not a time", "outbox", "resend", "--since", "yesterday", "--reason", "restored")
		says(0, "would send again: ", "outbox", "resend", "--since", moment, "--reason", "restored")
		says(0, "relays send again: ", "outbox", "resend", "--since", moment, "--reason", "restored", "--yes")
	})
}
