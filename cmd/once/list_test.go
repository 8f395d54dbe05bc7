package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/sql/attempts"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// opened is the database of a test, as a service has it.
type opened struct {
	*sql.DB
	*sqlstore.Store
	dialect sqlplane.Dialect
	url     string
}

func open(t *testing.T, url string) opened {
	t.Helper()
	run(t, "migrate", "up", "--db", url).want(t, 0)
	src, err := cli.ParseSource(url)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlstore.Open(src.Driver, src.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return opened{db, s, src.Dialect, url}
}

// words are those of the dialect.
func (o opened) words(query string) string {
	if o.dialect == sqlplane.MySQL {
		query = strings.NewReplacer("$1", "?", " key ", " `key` ").Replace(query)
	}
	return query
}

// set sets a column of time to one and the same in all rows.
func (o opened) set(t *testing.T, table, column string, at time.Time, where string) {
	t.Helper()
	var v any = at
	if o.dialect != sqlplane.PostgreSQL {
		v = at.UnixMilli()
	}
	if _, err := o.ExecContext(t.Context(), o.words("update "+table+" set "+column+" = $1 where "+where), v); err != nil {
		t.Fatal(err)
	}
}

func (o opened) do(t *testing.T, scope, key string) {
	t.Helper()
	_, err := once.Do(t.Context(), once.New(o.Store, once.Config{}), once.Operation{Scope: scope, Key: key}, func(context.Context, *sql.Tx) (string, error) { return "ada", nil })
	if err != nil {
		t.Fatal(err)
	}
}

var (
	begun = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	ends  = time.Date(2099, 1, 31, 12, 0, 0, 0, time.UTC)
)

// golden compares an output with what it is to be, to the byte.
func golden(t *testing.T, got, want string) {
	t.Helper()
	if want = strings.TrimPrefix(want, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestEmptyListsSayWhatTheyAre: an empty list names the flags only if a flag has chosen the operations.
func TestEmptyListsSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.NewDatabase(t))
	for want, args := range map[string][]string{
		"There are no operations.\n":                           {"keys", "list"},
		"There are no operations that match the flags.\n":      {"keys", "list", "--scope", "s"},
		"There are no entries; --reads lists the reads too.\n": {"audit", "list"},
		"There are no entries that match the flags.\n":         {"audit", "list", "--reads", "--scope", "t"},
	} {
		if o := run(t, append(args, "--db", db.url)...).want(t, 0); o.stderr != want {
			t.Errorf("once %v: %q, want %q", args, o.stderr, want)
		}
	}
}

// TestOrdinaryOperationIsInNoList: the list of running operations does not have one that runs in a transaction, and says so.
func TestOrdinaryOperationIsInNoList(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.NewDatabase(t))
	const means = "The state running means that the operation has a lease. An operation without a lease is in the list only after the commit of this operation.\n"
	list := func(state string) output { return run(t, "keys", "list", "--state", state, "--db", db.url).want(t, 0) }
	_, err := once.Do(t.Context(), once.New(db.Store, once.Config{}), once.Operation{Scope: "s", Key: "k"}, func(context.Context, *sql.Tx) (string, error) {
		if o := list("running"); o.stdout != "" || o.stderr != "There are no operations that match the flags. "+means {
			t.Errorf("%s%s", o.stdout, o.stderr)
		}
		return "ada", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if o := list("waiting"); o.stderr != "There are no operations that match the flags.\n" {
		t.Errorf("%s%s", o.stdout, o.stderr)
	}
	if o := run(t, "keys", "list", "--help").want(t, 0); !strings.Contains(o.stdout, means) {
		t.Errorf("%s", o.stdout)
	}
}

func TestKeysList(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, url string) {
		db := open(t, url)
		for _, key := range []string{"k1", "k2", "bidi \u202e", "lost"} {
			db.do(t, "acme POST /refunds", key)
		}
		db.do(t, "globex%", `it's "k"`)
		db.do(t, "globex%", "old")
		_, err := db.Swap(t.Context(), store.Change{ID: store.ID{Scope: "sagas", Key: "r"}, Next: store.Record{State: store.StateRunning, Fence: 1, Nonce: make([]byte, 16)}, Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		db.set(t, "once_operation", "since", begun, "1 = 1")
		db.set(t, "once_operation", "expires_at", ends, "state = 2")
		db.set(t, "once_operation", "expires_at", begun, "key = 'old'")
		if _, err := db.ExecContext(t.Context(), db.words("update once_operation set kind = 2, status = 201, body = null where key = 'lost'")); err != nil {
			t.Fatal(err)
		}
		list := func(args ...string) output { return run(t, append([]string{"keys", "list", "--db", url}, args...)...) }
		o := list().want(t, 0)
		golden(t, o.stdout, `
SCOPE               KEY            NAME  STATE    RESULT   BYTES  SINCE                 EXPIRES
acme POST /refunds  "bidi \u202e"  -     done     value    5      2026-01-31T12:00:00Z  2099-01-31T12:00:00Z
acme POST /refunds  k1             -     done     value    5      2026-01-31T12:00:00Z  2099-01-31T12:00:00Z
acme POST /refunds  k2             -     done     value    5      2026-01-31T12:00:00Z  2099-01-31T12:00:00Z
acme POST /refunds  lost           -     done     omitted  0      2026-01-31T12:00:00Z  2099-01-31T12:00:00Z
globex%             it's "k"       -     done     value    5      2026-01-31T12:00:00Z  2099-01-31T12:00:00Z
globex%             old            -     expired  value    5      2026-01-31T12:00:00Z  2026-01-31T12:00:00Z
sagas               r              -     running  -        0      2026-01-31T12:00:00Z  -
`)
		if o.stderr != "" {
			t.Error(o.stderr)
		}
		golden(t, list("--state", "expired").want(t, 0).stdout, `
SCOPE    KEY  NAME  STATE    RESULT  BYTES  SINCE                 EXPIRES
globex%  old  -     expired  value   5      2026-01-31T12:00:00Z  2026-01-31T12:00:00Z
`)
		for args, want := range map[string]int{
			"--scope globex%": 2, "--scope g%": 0, "--scope-prefix g": 2, "--scope-prefix %": 0, "--scope-prefix acme --state running": 0,
			"--since 1h": 0, "--before 1h": 7, "--since 2026-01-31T12:00:00Z": 7, "--before 2026-01-31T12:00:00Z": 0, "--limit 100": 7,
		} {
			if n := strings.Count(list(strings.Fields(args)...).want(t, 0).stdout, "\n") - 1; max(0, n) != want {
				t.Errorf("%s: %d, want %d", args, n, want)
			}
		}
		for args, want := range map[string]string{ // as logs have it, also of a key that is stored as a hash
			"--hash " + once.KeyHash("k2"):                                 "k2",
			"--hash " + once.KeyHash("k2") + " --scope globex%":            "",
			"--limit 1 --hash " + once.KeyHash("old"):                      "old",
			"--hash " + once.KeyHash("secret") + " --scope-prefix acme":    "",
			"--hash " + once.KeyHash("unused") + " --since 1000h -o table": "",
		} {
			o := list(strings.Fields(args)...).want(t, 0)
			_, body, _ := strings.Cut(o.stdout, "\n")
			if words := strings.Fields(body); want == "" && body != "" || want != "" && !slices.Contains(words, want) || strings.Count(body, "\n") > 1 || (o.stderr == "") != (want != "") {
				t.Errorf("%s: %s%s", args, o.stdout, o.stderr)
			}
		}
		list("--hash", "k2").want(t, 2)
		var seen, cursor string
		for pages := 0; pages == 0 || cursor != ""; pages++ {
			args := []string{"--limit", "3"}
			if cursor != "" {
				args = append(args, "--after", cursor)
			}
			o := list(args...).want(t, 0)
			_, body, _ := strings.Cut(o.stdout, "\n")
			seen += body
			_, cursor, _ = strings.Cut(strings.TrimSpace(o.stderr), "--after ")
			if pages > 3 {
				t.Fatal("there is no end of it")
			}
		}
		if n := strings.Count(seen, "\n"); n != 7 {
			t.Errorf("%d in pages:\n%s", n, seen)
		}
		var page operate.Page[operate.Operation]
		if err := json.Unmarshal([]byte(list("-o", "json", "--limit", "2").want(t, 0).stdout), &page); err != nil || len(page.Items) != 2 || page.Next == "" || page.Items[1].Key != "k1" {
			t.Errorf("%+v, %v", page, err)
		}
		golden(t, list("-o", "json", "--scope", "nobody").want(t, 0).stdout, "{\n  \"items\": []\n}\n")
		if o := list("--after", "nonsense").want(t, 1); !strings.Contains(o.stderr, "the cursor of the page is not valid") {
			t.Error(o.stderr)
		}
	})
}

// TestTimelineOfAttempts: attempts stand under their operation, and where there is none, alone.
func TestTimelineOfAttempts(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, url string) {
		db := open(t, url)
		db.do(t, "s", "k")
		db.set(t, "once_operation", "since", begun, "1 = 1")
		db.set(t, "once_operation", "expires_at", ends, "1 = 1")
		write := func(n byte, key string, a attempts.Attempt) {
			t.Helper()
			a.ID, a.Ended, a.Scope, a.KeyHash = [16]byte{n}, time.Now(), "s", once.KeyHash(key)
			if err := attempts.New(db.Store).Write(t.Context(), []attempts.Attempt{a}); err != nil {
				t.Fatal(err)
			}
		}
		for _, key := range []string{"k", "never"} {
			write(1, key, attempts.Attempt{Outcome: "failed", Effect: "not applied", From: "absent", To: "absent", Cause: "23505", Attempt: 1, Runs: 1, RequestID: "r1", Node: "n1", Total: 12345 * time.Microsecond})
			write(2, key, attempts.Attempt{Outcome: "unavailable", Effect: "in doubt", From: "absent", Cause: "lost", Attempt: 2, Runs: 3, RequestID: "r 2", Node: "n1", Total: 5 * time.Second})
		}
		write(3, "k", attempts.Attempt{Outcome: "replayed", Effect: "applied", From: "done", To: "done", CorrelationID: "c", Waited: time.Millisecond, Total: 2 * time.Millisecond})
		db.set(t, "once_attempt", "at", begun, "outcome = 'failed'")
		db.set(t, "once_attempt", "at", begun.Add(time.Second), "outcome = 'unavailable'")
		db.set(t, "once_attempt", "at", begun.Add(time.Minute), "outcome = 'replayed'")
		show := func(code int, args ...string) string {
			t.Helper()
			o := run(t, append([]string{"keys", "show", "--db", url}, args...)...).want(t, code)
			return regexp.MustCompile(`\((in )?[0-9][^)]*\)`).ReplaceAllString(o.stdout, "(...)")
		}
		const printed = `
3 attempts, last: replayed (applied)
  2026-01-31T12:00:00.000Z  failed       absent -> absent  12.35ms  23505, try 1, request r1, on n1
  2026-01-31T12:00:01.000Z  unavailable  absent -> ?       5s       lost, try 2, 3 runs, request r 2, on n1
  2026-01-31T12:01:00.000Z  replayed     done -> done      2ms      waited 1ms, correlation c
`
		golden(t, show(0, "k"), `
key          k
scope        s
state        done: the operation took effect one time; a retry gets the stored answer
since        2026-01-31T12:00:00Z (...)
expires      2099-01-31T12:00:00Z (...)
result       value, 5 bytes
fence        1
fingerprint  none: the library does not compare retries with the first request
request      not captured
`+printed)
		if got := show(3, "never"); !strings.Contains(got, "The database has no operation with the key") || !strings.HasSuffix(got, `

2 attempts, last: unavailable (in doubt)
  2026-01-31T12:00:00.000Z  failed       absent -> absent  12.35ms  23505, try 1, request r1, on n1, scope s
  2026-01-31T12:00:01.000Z  unavailable  absent -> ?       5s       lost, try 2, 3 runs, request r 2, on n1, scope s
`) {
			t.Errorf("%s", got)
		}
		if got := show(3, `"never"`, "--scope", "s"); !strings.Contains(got, "2 attempts, last: unavailable") {
			t.Errorf("%s", got)
		}
		if got := show(0, "k", "--attempts", "1"); !strings.Contains(got, "3 attempts, last: replayed (applied), the last 1 of them:\n  2026-01-31T12:01") {
			t.Errorf("%s", got)
		}
		if got := show(0, "k", "--attempts", "0"); !strings.HasSuffix(got, "\n3 attempts\n") {
			t.Errorf("%s", got)
		}
		var a operate.KeyView
		if err := json.Unmarshal([]byte(show(0, "k", "-o", "json")), &a); err != nil || a.Total != 3 || len(a.Attempts) != 3 || a.Attempts[1].Cause != "lost" || a.Attempts[0].Total != 12345*time.Microsecond {
			t.Errorf("%+v, %v", a, err)
		}
		hole := attempts.Attempt{ID: [16]byte{9}, Ended: time.Now(), Outcome: "dropped", Dropped: 95}
		if err := attempts.New(db.Store).Write(t.Context(), []attempts.Attempt{hole}); err != nil {
			t.Fatal(err)
		}
		if got := show(0, "k"); !strings.Contains(got, "has dropped 95 attempts of this key or of other keys") {
			t.Errorf("%s", got)
		}
		if _, err := db.ExecContext(t.Context(), "drop table once_attempt"); err != nil {
			t.Fatal(err)
		}
		if got := show(0, "k"); strings.Contains(got, "attempt") { // a schema of before
			t.Errorf("%s", got)
		}
	})
}

// TestKeysListFindsHashes: from the hash that a log has to the key that is stored, in its plain form or as a hash, behind
// any number of others.
func TestKeysListFindsHashes(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	db := open(t, url)
	db.do(t, "acme", "plain")
	if _, err := db.ExecContext(t.Context(), `with recursive n (value) as (select 1 union all select value + 1 from n where value < 2500)
 insert into once_operation (scope, key, claim, state, since, expires_at, kind, body) select 'acme', 'a' || value, claim, state, since, expires_at, kind, body
 from once_operation, n where key = 'plain'`); err != nil {
		t.Fatal(err)
	}
	_, err := once.Do(t.Context(), once.New(db.Store, once.Config{HashKeys: true}), once.Operation{Scope: "acme", Key: "secret"}, func(context.Context, *sql.Tx) (int, error) { return 1, nil })
	if err != nil {
		t.Fatal(err)
	}
	for key, stored := range map[string]string{"plain": "plain", "a1": "a1", "a2500": "a2500", "secret": keyname.Hashed("secret")} {
		o := run(t, "keys", "list", "--scope", "acme", "--hash", once.KeyHash(key), "--db", url).want(t, 0)
		if strings.Count(o.stdout, "\n") != 2 || !strings.Contains(o.stdout, "acme   "+stored+" ") {
			t.Errorf("%s: %s", key, o.stdout)
		}
	}
}
