package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
)

// TestReceiptsCommands: what an operator reads and does to receipts, on each database.
func TestReceiptsCommands(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, url string) {
		db := open(t, url)
		for _, row := range []string{
			`('op-1', 'f1', 201, '{"Location":"/charges/1"}', 'ada', false)`,
			`('op-2', '', 0, null, null, true)`,
			`('op-3', 'f3', 200, null, 'bob', false)`,
		} {
			if _, err := db.ExecContext(t.Context(), "insert into once_receipt (operation, fingerprint, status, header, body, tombstone) values "+row); err != nil {
				t.Fatal(err)
			}
		}
		db.set(t, "once_receipt", "created_at", begun, "operation <> 'op-3'")
		says := func(code int, text string, args ...string) {
			t.Helper()
			o := run(t, append(append([]string{"receipts"}, args...), "--db", url)...).want(t, code)
			if !strings.Contains(o.stdout+o.stderr, text) {
				t.Errorf("once receipts %v does not say %q:\n%s%s", args, text, o.stdout, o.stderr)
			}
			if code != 0 && strings.Count(o.stderr, "Try: ") != 1 {
				t.Errorf("once receipts %v has no advice, or more than one: %s", args, o.stderr)
			}
		}
		golden(t, run(t, "receipts", "show", "op-1", "--db", url).want(t, 0).stdout, `
operation    op-1
state        committed: the service has executed the operation
created      2026-01-31T12:00:00Z
fingerprint  f1
status       201
body         3 bytes
`)
		says(0, "tombstone: the service has not executed the operation", "show", "op-2")
		says(0, "Location: /charges/1", "show", "op-1", "--payload")
		says(0, `"body": "YWRh"`, "show", "op-1", "--payload", "-o", "json")
		if o := run(t, "receipts", "show", "op-1", "-o", "jsonl", "--db", url).want(t, 0); strings.Contains(o.stdout, "YWRh") || strings.Contains(o.stdout, "Location") {
			t.Errorf("the body is shown without --payload: %s", o.stdout)
		}
		says(3, "may still execute this operation", "show", "op-4")
		says(2, "is not the ID of an operation", "show", "op 4")

		says(0, "would forget", "forget", "op-1")
		says(0, "3 bytes", "show", "op-1")
		says(0, "forgotten", "forget", "op-1", "--yes")
		says(0, "0 bytes", "show", "op-1")
		says(0, "201", "show", "op-1")
		says(3, "no receipt", "forget", "op-4", "--yes")

		says(2, "less than one hour", "sweep", "--retain", "59m", "--yes")
		says(0, "would delete: 2 receipts", "sweep", "--retain", "24h")
		says(0, `"rows": 0`, "sweep", "--retain", (time.Since(begun) + 24*time.Hour).String(), "-o", "json", "--yes")
		files := filepath.Join(t.TempDir(), "archive")
		says(0, "would delete: 2 receipts", "sweep", "--retain", "24h", "--archive", files)
		says(0, "deleted: 2 receipts", "sweep", "--retain", "24h", "--archive", files, "--yes")
		says(3, "no receipt", "show", "op-2")
		says(0, "committed", "show", "op-3")

		shows := func(code int, text string, args ...string) string {
			t.Helper()
			o := run(t, append([]string{"archive", "show", files}, args...)...).want(t, code)
			if !strings.Contains(o.stdout+o.stderr, text) {
				t.Errorf("once archive show %v does not say %q:\n%s%s", args, text, o.stdout, o.stderr)
			}
			return o.stdout
		}
		if out := shows(0, `"status":201`, "op-1", "--table", "once_receipt"); strings.Contains(out, `"body"`) {
			t.Errorf("the body is shown without --payload: %s", out)
		}
		if out := shows(0, `"table":"once_receipt"`, "op-2", "--table", "once_receipt", "-o", "jsonl"); !strings.Contains(out, `"tombstone":true`) {
			t.Errorf("%s", out)
		}
		shows(3, "no row with the key op-1 in the table once_outbox_sent", "op-1", "--table", "once_outbox_sent")
		shows(3, "no operation with the key", "op-1")
		shows(2, "Try: once archive show DIR KEY --table", "op-1", "--payload")
		run(t, "archive", "verify", files).want(t, 0)
		if o := run(t, "archive", "restore", files, filepath.Join(t.TempDir(), "copy.db")).want(t, 0); !strings.HasPrefix(o.stdout, "0 operations were written into") {
			t.Errorf("a receipt is an operation: %s", o.stdout)
		}
		if o := run(t, "relay", "--db", url, "--to", "http://127.0.0.1:1/", "--archive", files).want(t, 2); !strings.Contains(o.stderr, "--archive needs --keep") {
			t.Errorf("%s", o.stderr)
		}
	})
}

// TestReceiptsAlone: the database of a service has the receipts, and no other table of once.
func TestReceiptsAlone(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, url string) {
		run(t, "migrate", "up", "--only", "receipt", "--db", url).want(t, 0)
		run(t, "receipts", "show", "op-1", "--db", url).want(t, 3)
		run(t, "receipts", "sweep", "--yes", "--db", url).want(t, 0)
	})
}

// TestReceiptsDDL: the statements for migrations of a service's own are printed for each dialect.
func TestReceiptsDDL(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{"postgres", "sqlite", "mysql"} {
		if o := run(t, "receipts", "ddl", "--dialect", dialect).want(t, 0); !strings.Contains(o.stdout, "create table once_receipt") {
			t.Errorf("%s: %s", dialect, o.stdout)
		}
	}
	if o := run(t, "receipts", "ddl", "--dialect", "oracle").want(t, 2); strings.Count(o.stderr, "Try: ") != 1 {
		t.Error(o.stderr)
	}
}
