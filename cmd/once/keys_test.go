package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// TestKeysShow: whatever has happened to a key, there is a text about it.
func TestKeysShow(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, url string) {
		run(t, "migrate", "up", "--db", url).want(t, 0)
		prepare(t, url)
		for _, c := range []struct {
			args string
			code int
			says []string
		}{
			{"plain --scope jobs", 0, []string{"jobs", "done: the operation took effect one time", "value, 5 bytes", "not captured", "(in 3.0 days)"}},
			{"hashed", 0, []string{"vault", "sha256-", "v1 ", "done"}},
			{"expired --scope jobs", 0, []string{"expired", "would execute again", "ago)"}},
			{"running --scope sagas", 0, []string{"running", "lease until", "recovery point paid", "has begun a call to another service"}},
			{"shared", 1, []string{"2 scopes have the key", "acme POST /refunds", "globex POST /refunds", "Try: once keys show shared --scope 'acme POST /refunds'"}},
			{"shared --scope acme", 3, []string{`The scope "acme" has no operation`, "globex POST /refunds", "Try: "}},
			{"shared --scope GLOBEX", 0, []string{"globex POST /refunds"}},
			{"nobody --scope jobs", 3, []string{"has no operation with the key", "did not complete", "at this moment: run this command again", "expired", "right database"}},
			{`"plain"`, 0, []string{"jobs", "done"}},
			{`"nobody"`, 3, []string{"has no operation with the key"}},
		} {
			args := strings.Fields(strings.Replace(c.args, "GLOBEX", "globex_POST_/refunds", 1))
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "_", " ")
			}
			o := run(t, append([]string{"keys", "show", "--db", url}, args...)...).want(t, c.code)
			for _, s := range c.says {
				if !strings.Contains(o.stdout, s) {
					t.Errorf("keys show %s does not say %q:\n%s%s", c.args, s, o.stdout, o.stderr)
				}
			}
		}
		var a operate.KeyView
		o := run(t, "keys", "show", "shared", "--scope", "globex POST /refunds", "--db", url, "-o", "json").want(t, 0)
		if err := json.Unmarshal([]byte(o.stdout), &a); err != nil || !a.Found || a.Operation.State != "done" || len(a.ScopesWithKey) != 2 {
			t.Errorf("%v\n%s", err, o.stdout)
		}
		o = run(t, "keys", "show", "shared", "--db", url, "-o", "json").want(t, 1)
		if !strings.Contains(o.stdout, `"ambiguous": true`) || !strings.Contains(o.stdout, `"found": false`) {
			t.Errorf("%s", o.stdout)
		}
		o = run(t, "keys", "show", "nobody", "--db", url, "-o", "json").want(t, 3)
		if !strings.Contains(o.stdout, `"found": false`) || !strings.Contains(o.stdout, `"scopes_with_key": []`) {
			t.Errorf("%s", o.stdout)
		}
	})
}

// prepare makes operations in every state.
func prepare(t *testing.T, url string) {
	t.Helper()
	ctx := context.Background()
	src, err := cli.ParseSource(url)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlstore.Open(src.Driver, src.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	do := func(cfg once.Config, op once.Operation) {
		t.Helper()
		_, err := once.Do(ctx, once.New(s, cfg), op, func(context.Context, *sql.Tx) (string, error) { return "ada", nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	do(once.Config{}, once.Operation{Scope: "jobs", Key: "plain"})
	do(once.Config{HashKeys: true}, once.Operation{Scope: "vault", Key: "hashed", Fingerprint: once.FingerprintOf([]byte("x"))})
	do(once.Config{}, once.Operation{Scope: "jobs", Key: "expired", Retain: time.Hour})
	expire := "update once_operation set expires_at = since where key = 'expired'"
	if src.Dialect == sqlplane.MySQL {
		expire = strings.Replace(expire, "key", "`key`", 1)
	}
	if _, err := db.ExecContext(ctx, expire); err != nil {
		t.Fatal(err)
	}
	do(once.Config{}, once.Operation{Scope: "acme POST /refunds", Key: "shared"})
	do(once.Config{}, once.Operation{Scope: "globex POST /refunds", Key: "shared"})
	_, err = s.Swap(ctx, store.Change{
		ID: store.ID{Scope: "sagas", Key: "running"}, Lease: time.Hour,
		Next: store.Record{State: store.StateRunning, Fence: 3, Nonce: make([]byte, 16), RecoveryPoint: "paid", CallStarted: true},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestKeysShowOfAHash: the hash of a key, as clients and logs have it, leads to the list that finds its key.
func TestKeysShowOfAHash(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	open(t, url).do(t, "s", "k")
	hash := once.KeyHash("k")
	for _, text := range []string{hash, "urn:once:key:" + hash} {
		if o := run(t, "keys", "show", text, "--db", url).want(t, 3); !strings.Contains(o.stdout, "\nTry: once keys list --hash "+hash+" --db ") {
			t.Errorf("%s: %s", text, o.stdout)
		}
	}
	if o := run(t, "keys", "list", "--hash", hash, "--db", url).want(t, 0); !strings.Contains(o.stdout, "k") {
		t.Error(o.stdout)
	}
	if o := run(t, "keys", "show", "no hash", "--db", url).want(t, 3); strings.Contains(o.stdout, "--hash") {
		t.Error(o.stdout)
	}
}

// TestKeysShowElsewhere: a database that is not one of ours is not made into one.
func TestKeysShowElsewhere(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	url := sqliteURL(t)
	for range 2 { // the first look must not create the file
		if o := run(t, "keys", "show", "k", "--db", url).want(t, 4); !strings.Contains(o.stderr, "no such file") || !strings.Contains(o.stderr, "\nTry: ") {
			t.Errorf("%s", o.stderr)
		}
	}
	onAll(t, func(t *testing.T, url string) {
		src, err := cli.ParseSource(url)
		if err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open(src.Driver, src.DSN)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.ExecContext(t.Context(), "create table other (id int)"); err != nil {
			t.Fatal(err)
		}
		if o := run(t, "keys", "show", "k", "--db", url).want(t, 1); !strings.Contains(o.stderr, "once_operation") || !strings.Contains(o.stderr, "\nTry: once migrate up --db") {
			t.Errorf("%s", o.stderr)
		}
	})
}
