package main

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store/sqlplane"
)

// TestLooksAreAudited: who has looked at what is in the audit. Who may not write to it, or cannot
// because another process has the file, is told so, and looks all the same.
func TestLooksAreAudited(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onAll(t, func(t *testing.T, at string) {
		db := open(t, at)
		db.do(t, "s", "k")
		list := []string{"keys", "list", "--scope-prefix", "s s", "--state", "done", "--since", "3h", "--by", "ada", "-o", "json", "--db"}
		show := []string{"keys", "show", "k", "--by", "bob", "--db"}
		for _, args := range [][]string{list, show} {
			if o := run(t, append(args, at)...).want(t, 0); o.stderr != "" {
				t.Error(o.stderr)
			}
		}
		run(t, "keys", "show", "nobody", "--scope", "s", "--db", at).want(t, 3)
		if o := run(t, "audit", "list", "--db", at).want(t, 0); o.stdout != "" {
			t.Errorf("reads are listed among the changes: %s", o.stdout)
		}
		if o := run(t, "audit", "list", "--reads", "--db", at).want(t, 0); strings.Count(o.stdout, "\n") != 4 {
			t.Errorf("not the header and three reads: %s", o.stdout)
		}
		looks := func() (got []operate.Entry) {
			t.Helper()
			page, err := operate.NewKeys(db.Store).Audit(t.Context(), operate.AuditFilter{})
			got = page.Items
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		got := looks()
		if len(got) != 3 {
			t.Fatalf("%+v", got)
		}
		for i, want := range []operate.Entry{
			{Who: cli.Operator(), Action: "show", Scope: "s", KeyHash: once.KeyHash("nobody"), Detail: "0 operations"},
			{Who: "bob", Action: "show", Scope: "s", KeyHash: once.KeyHash("k"), Detail: "1 operation"},
			{Who: "ada", Action: "list", Detail: "0 operations --state done --scope-prefix 's s' --since 3h"},
		} {
			if want.ID, want.At = got[i].ID, got[i].At; got[i] != want || want.At.IsZero() {
				t.Errorf("%d: %+v, want %+v", i, got[i], want)
			}
		}
		denied := reader(t, db, at)
		for _, args := range [][]string{list, show} {
			o := run(t, append(args, denied)...).want(t, 0)
			if !strings.HasPrefix(o.stderr, "note: your look-up was not written to the audit") || strings.Count(o.stderr, "Try: ") != 1 || o.stdout == "" {
				t.Errorf("%s%s", o.stdout, o.stderr)
			}
		}
		if got := looks(); len(got) != 3 {
			t.Errorf("vacuous: %+v", got)
		}
	})
}

// reader returns the URL of one who cannot write. For SQLite that is because another one
// has the file.
func reader(t *testing.T, db opened, at string) string {
	t.Helper()
	exec := func(query string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	if db.dialect == sqlplane.SQLite {
		tx, err := db.BeginTx(t.Context(), nil) // immediate: see cli.ParseSource
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback() })
		return at
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	name := "reader" + strings.ToLower(rand.Text())[:8] // MySQL allows 32 characters
	u.User = url.User(name)
	if db.dialect == sqlplane.PostgreSQL {
		exec("create role " + name + " login")
		t.Cleanup(func() { execAfter(t, db, "drop owned by "+name+"; drop role "+name) })
		exec("grant usage on schema public to " + name)
		exec("grant select on all tables in schema public to " + name)
	} else {
		exec("create user '" + name + "'@'%'")
		t.Cleanup(func() { execAfter(t, db, "drop user '"+name+"'@'%'") })
		exec("grant select on `" + strings.TrimPrefix(u.Path, "/") + "`.* to '" + name + "'@'%'")
	}
	return u.String()
}

// execAfter is for the end of a test, whose context is over.
func execAfter(t *testing.T, db opened, query string) {
	t.Helper()
	if _, err := db.ExecContext(context.WithoutCancel(t.Context()), query); err != nil {
		t.Error(err)
	}
}
