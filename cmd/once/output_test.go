package main

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/sql/attempts"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// TestOutputsAreEqualOnEveryDatabase: on the same data, what operators and their scripts read is the same on every
// database and by every driver, to the byte, and what it was before there was a SQL plane:
// the part about keys in testdata/outputs.txt was written by the program of that time.
func TestOutputsAreEqualOnEveryDatabase(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	want, err := os.ReadFile(filepath.Join("testdata", "outputs.txt"))
	if err != nil {
		t.Fatal(err)
	}
	span := regexp.MustCompile(`\((in )?[0-9][^)]*\)`)
	onAll(t, func(t *testing.T, url string) {
		outputData(t, open(t, url))
		db := open(t, url)
		outboxData(t, db)
		if _, err := db.ExecContext(t.Context(), "delete from once_audit where action = 'outbox pause'"); err != nil { // it is of today
			t.Fatal(err)
		}
		lettersData(t, db)
		var got strings.Builder
		for _, line := range []string{
			"audit list --reads", "audit list --reads -o json", "audit list --reads --scope jobs --limit 1 -o json",
			"keys list", "keys list -o json", "keys list -o json --limit 2", "keys list --state unknown -o json", "keys list --hash 8254c329a92850f6",
			"keys show k -o json", "keys show k", "keys show k --attempts 1", "keys show shared -o json", "keys show shared --scope a", "keys show gone -o json", "keys show gone",
			"keys forget k --scope jobs --reason asked", "keys forget running --scope jobs --reason asked --yes", "keys show unknown", "keys show unknown -o json", "keys resolve unknown --scope jobs --call c0ffee00 --reason asked --run-again", "keys resolve unknown --scope jobs --call c0ffee00 --reason asked --run-again --voided -o json", "keys resolve unknown --scope jobs --call decaf000 --reason asked --failed cancelled --yes",
			"keys resolve unknown --scope jobs --call c0ffee00 --reason asked --by ada --failed cancelled --yes", "keys resolve unknown --scope jobs --call c0ffee00 --reason asked --by bob --failed cancelled --yes", "keys resolve unknown --scope jobs --call c0ffee00 --reason asked --by bob --run-again --yes", "keys show unknown",
			"keys forget k --scope jobs --reason asked --yes", "keys list", "keys forget nobody --scope jobs --reason asked --yes",
			"outbox list", "outbox list -o json", "outbox list --state stopped", "outbox list --topic refunds --key acct_1 -o json",
			"outbox show " + messageID(1), "outbox show " + messageID(1) + " --payload", "outbox show " + messageID(1) + " --payload -o json", "outbox show " + messageID(2),
			"outbox show " + messageID(3) + " --payload", "outbox show " + messageID(3) + " -o json", "outbox show " + messageID(4), "outbox show " + messageID(9),
			"outbox pause --topic mails --reason asked --by ada", "outbox pause --topic mails --reason asked --by ada --yes", "outbox resume --topic mails --reason mended", "outbox resume --topic mails --reason mended --yes", "outbox resume --topic refunds --key acct_1 --reason mended --yes", "outbox resume --topic refunds --reason mended --yes",
			"outbox skip " + messageID(1) + " --reason broken", "outbox skip " + messageID(1) + " --reason broken --yes", "outbox resume --topic nothing --reason mended --yes",
			"deadletter list", "deadletter list -o json", "deadletter list --letters --limit 2", "deadletter list --letters --class mismatch -o json", "deadletter list --state lost",
			"deadletter list --letters --since 2026-01-31T12:00:00Z --before 2026-01-31T12:00:01Z --class exhausted", "deadletter list --since 1h", "deadletter list --since 2026-01-31T12:00:01Z", "deadletter list --before 2026-01-31T12:00:00Z --letters",
			"deadletter show " + messageID(1), "deadletter show " + messageID(1) + " --payload", "deadletter show " + messageID(1) + " --payload -o json", "deadletter show " + messageID(9),
			"deadletter redrive", "deadletter redrive --dry-run --rate 5 --canary --class permanent", "deadletter redrive --dry-run --beyond-retention -o json", "deadletter redrive --reason repaired --beyond-retention",
			"deadletter redrive " + messageID(8) + " --reason repaired --by ada --yes", "deadletter redrive --event none --reason repaired --by ada --yes -o json", "deadletter redrive --resume none", "deadletter redrive --cancel none --reason wrong --by ada",
			"deadletter discard --reason old", "deadletter discard --cause x --reason old", "deadletter discard " + messageID(3) + " --reason old --by ada", "deadletter discard " + messageID(3) + " --reason old --by ada --yes",
			"deadletter show " + messageID(3), "deadletter list",
		} {
			o := run(t, append(strings.Fields(line), "--db", url)...)
			text := o.stdout
			if strings.HasPrefix(line, "keys forget") || strings.HasPrefix(line, "keys resolve") || strings.HasPrefix(line, "outbox") || strings.HasPrefix(line, "deadletter") {
				text += o.stderr
			}
			src, err := cli.ParseSource(url)
			if err != nil {
				t.Fatal(err)
			}
			text = strings.NewReplacer(src.Paste, "URL", src.Name, "URL").Replace(text)
			got.WriteString("$ once " + line + "\n" + stable(span.ReplaceAllString(text, "(...)")))
		}
		if name := os.Getenv("ONCE_WRITE_OUTPUTS"); name != "" { // to see what a change does to them
			if err := os.WriteFile(name, []byte(got.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		golden(t, got.String(), string(want))
	})
}

// changing are UIDs and times, most of which are fixed.
var changing = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|20\d\d-\d\d-\d\dT[0-9:.]+Z`)

// stable is text without the UIDs and times that every run has anew.
func stable(text string) string {
	return changing.ReplaceAllStringFunc(text, func(s string) string {
		switch {
		case strings.HasPrefix(s, "01945a00"), strings.HasPrefix(s, "2026-01-31"), strings.HasPrefix(s, "2020"), strings.HasPrefix(s, "2099"):
			return s
		case strings.HasSuffix(s, "Z"):
			return "TIME"
		}
		return "UID"
	})
}

// TestKeysShowTrace: the trace of an operation is shown if there is one, until it is forgotten.
func TestKeysShowTrace(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, url string) {
		const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		db := open(t, url)
		db.do(t, "s", "k")
		if _, err := db.ExecContext(t.Context(), "update once_operation set trace = '"+trace+"'"); err != nil {
			t.Fatal(err)
		}
		show := func() string {
			t.Helper()
			return run(t, "keys", "show", "k", "--db", url).want(t, 0).stdout + run(t, "keys", "show", "k", "-o", "json", "--db", url).want(t, 0).stdout
		}
		if got := show(); !strings.Contains(got, "\ntrace        "+trace+"\n") || !strings.Contains(got, `"trace": "`+trace+`"`) {
			t.Errorf("%s", got)
		}
		run(t, "keys", "forget", "k", "--scope", "s", "--reason", "asked", "--yes", "--db", url).want(t, 0)
		if got := show(); strings.Contains(got, "trace") || strings.Contains(got, trace) {
			t.Errorf("%s", got)
		}
	})
}

// outputData is something of everything, at fixed times.
func outputData(t *testing.T, db opened) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	encrypter, err := once.NewEncrypter(make([]byte, 32))
	must(err)
	captured := once.New(db.Store, once.Config{Encrypter: encrypter})
	_, err = once.Do(t.Context(), captured, once.Operation{Scope: "jobs", Key: "k", Fingerprint: once.FingerprintOf([]byte("a")), Request: []byte("a")},
		func(context.Context, *sql.Tx) (string, error) { return "ada", nil })
	must(err)
	db.do(t, "a", "shared")
	db.do(t, "b  c", "shared")
	_, err = once.Do(t.Context(), once.New(db.Store, once.Config{Encrypter: encrypter}), once.Operation{Scope: "jobs", Key: "failed"},
		func(context.Context, *sql.Tx) (int, error) { return 0, &once.Failure{Code: "no"} })
	if err == nil {
		t.Fatal("no failure")
	}
	for key, state := range map[string]store.State{"running": store.StateRunning, "unknown": store.StateUnknown} {
		_, err := db.Swap(t.Context(), store.Change{ID: store.ID{Scope: "jobs", Key: key}, Lease: time.Hour, Next: store.Record{
			State: state, Fence: 7, Nonce: make([]byte, 16), RecoveryPoint: "paid", CallStarted: true, Data: []byte(`{"phases":[{"name":"paid","value":1}],"call":{"phase":"mail","id":"c0ffee00","check":true}}`),
		}})
		must(err)
	}
	db.set(t, "once_operation", "since", begun, "1 = 1")
	db.set(t, "once_operation", "expires_at", ends, "state = 2")
	db.set(t, "once_operation", "lease_until", ends, "state = 1")

	for i, a := range []attempts.Attempt{
		{Outcome: "failed", Effect: "not applied", From: "absent", To: "absent", Cause: "23505", Attempt: 1, Runs: 1, RequestID: "r1", Node: "n1", LockWait: 1500, Handler: 2 * time.Millisecond, Total: 12345 * time.Microsecond},
		{Outcome: "executed", Effect: "applied", From: "absent", To: "done", Attempt: 2, Runs: 3, RequestID: `r "2\`, CorrelationID: "c", Node: "n 2", Commit: time.Millisecond, Waited: time.Second, Total: 5 * time.Second},
	} {
		for _, key := range []string{"k", "gone"} {
			a.ID, a.Ended, a.Scope, a.KeyHash = [16]byte{byte(i), key[0]}, time.Now(), "jobs", once.KeyHash(key)
			must(attempts.New(db.Store).Write(t.Context(), []attempts.Attempt{a}))
		}
	}
	must(attempts.New(db.Store).Write(t.Context(), []attempts.Attempt{{ID: [16]byte{9}, Ended: time.Now(), Outcome: "dropped", Dropped: 95}}))
	db.set(t, "once_attempt", "at", begun, "outcome = 'failed'")
	db.set(t, "once_attempt", "at", begun.Add(1234*time.Millisecond), "outcome = 'executed'")

	for i, e := range [][]any{
		{"ada", "forget", "jobs", once.KeyHash("k"), "asked,\nby letter", "done: 3 bytes of its result erased"},
		{"ada", "resolve", "jobs", once.KeyHash("gone"), "the bank has none", "unknown, fence 3: runs again"},
		{"bob", "list", "", "", "", "3 operations --state done"},
	} {
		e = append([]any{dialect.StoredTime(db.dialect, begun.Add(time.Duration(i)*time.Hour))}, e...)
		_, err := db.ExecContext(t.Context(), dialect.Text(db.dialect, "insert into once_audit (at, who, action, scope, key_hash, reason, detail) values (?, ?, ?, ?, ?, ?, ?)"), e...)
		must(err)
	}
}
