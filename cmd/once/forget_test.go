package main

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// TestForgetErasesAResult is a session of an operator.
func TestForgetErasesAResult(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, url string) {
		db := open(t, url)
		db.do(t, "s", "k")
		forget := func(args ...string) output {
			return run(t, append([]string{"keys", "forget", "--db", url}, args...)...)
		}
		o := forget("k", "--scope", "s", "--reason", "asked").want(t, 0)
		if o.stdout != "would do: done: 5 bytes of its result erased\n" || !strings.HasSuffix(o.stderr, "the command has changed nothing. Try: the same command with --yes\n") {
			t.Errorf("%s%s", o.stdout, o.stderr)
		}
		if o := run(t, "keys", "show", "k", "--by", "bob", "--db", url).want(t, 0); !strings.Contains(o.stdout, "value, 5 bytes") || strings.Contains(o.stdout, "audit") {
			t.Errorf("%s", o.stdout)
		}
		if o := run(t, "audit", "list", "-o", "json", "--db", url).want(t, 0); strings.Contains(o.stdout, "forget") {
			t.Errorf("%s", o.stdout)
		}
		golden(t, forget("k", "--scope", "s", "--reason", "asked,\nby letter", "--by", "ada", "--yes").want(t, 0).stdout, "done: 5 bytes of its result erased\n")
		o = run(t, "keys", "show", "k", "--by", "bob", "--db", url).want(t, 0)
		for _, s := range []string{"too large to store, or erased; a retry gets an error, and does not execute", `forget by ada  "asked,\nby letter"  done: 5 bytes of its result erased`} {
			if !strings.Contains(o.stdout, s) {
				t.Errorf("no %q in\n%s", s, o.stdout)
			}
		}
		o = run(t, "audit", "list", "--reads", "--db", url).want(t, 0)
		first := 1
		if db.dialect != sqlplane.SQLite {
			first = 2 // the preview has taken one
		}
		id := strconv.Itoa(first + 1)
		golden(t, regexp.MustCompile(`20\d\d-\d\d-\d\dT[0-9:.]+Z`).ReplaceAllString(o.stdout, "2026-01-31T12:00:00.000Z"), `
ID  AT                        WHO  ACTION  SCOPE  KEY HASH          REASON               DETAIL
`+strconv.Itoa(first+2)+`   2026-01-31T12:00:00.000Z  bob  show    s      8254c329a92850f6  ""                   1 operation
`+id+`   2026-01-31T12:00:00.000Z  ada  forget  s      8254c329a92850f6  "asked,\nby letter"  done: 5 bytes of its result erased
`+strconv.Itoa(first)+`   2026-01-31T12:00:00.000Z  bob  show    s      8254c329a92850f6  ""                   1 operation
`)
		var page operate.Page[operate.Entry]
		o = run(t, "audit", "list", "--limit", "1", "--after", strconv.Itoa(first+2), "-o", "json", "--db", url).want(t, 0)
		if err := json.Unmarshal([]byte(o.stdout), &page); err != nil || len(page.Items) != 1 || page.Items[0].Reason != "asked,\nby letter" {
			t.Errorf("%+v, %v", page, err)
		}
		if o := run(t, "audit", "list", "--reads", "--limit", "2", "--db", url).want(t, 0); !strings.Contains(o.stderr, "--after "+id) {
			t.Errorf("%s", o.stderr)
		}
		for key, state := range map[string]store.State{"running": store.StateRunning, "unknown": store.StateUnknown} {
			_, err := db.Swap(t.Context(), store.Change{ID: store.ID{Scope: "s", Key: key}, Next: store.Record{State: state, Fence: 1, Nonce: make([]byte, 16)}, Lease: 1 << 40})
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			key, says string
			code      int
		}{
			{"running", "running", 1},
			{"unknown", "once keys resolve", 1},
			{"absent", "no operation with this key", 3},
		} {
			o := forget(c.key, "--scope", "s", "--reason", "asked", "--yes").want(t, c.code)
			if !strings.Contains(o.stderr, c.says) || !strings.Contains(o.stderr, "\nTry: ") || o.stdout != "" {
				t.Errorf("%s: %s%s", c.key, o.stdout, o.stderr)
			}
		}
	})
}

// TestBeforeMigration: a database of before says what to do.
func TestBeforeMigration(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, url string) {
		db := open(t, url)
		db.do(t, "s", "k")
		for _, table := range []string{"once_attempt", "once_audit"} {
			if _, err := db.ExecContext(t.Context(), "drop table "+table); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range [][]string{{"audit", "list"}, {"keys", "forget", "k", "--scope", "s", "--reason", "r", "--yes"}} {
			if o := run(t, append(args, "--db", url)...).want(t, 1); !strings.Contains(o.stderr, "\nTry: once migrate up --db") {
				t.Errorf("%s", o.stderr)
			}
		}
	})
}
