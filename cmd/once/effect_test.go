package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/store"
)

// TestKeysShowTellsWhatStands: that an operation took effect is said only of one whose writes
// stand, also when its answer is forgotten, has expired or was archived; and no line
// contradicts another one.
func TestKeysShowTellsWhatStands(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		db := open(t, url)
		log := attemptlog.New(db.Store, attemptlog.Config{})
		e := once.New(db.Store, once.Config{Observer: log})
		answer := func(key string, status int, rollback bool) {
			t.Helper()
			op := once.Operation{Scope: "s", Key: key, Retain: time.Hour}
			_, _, err := e.Exec(t.Context(), op, func(context.Context, *sql.Tx) (once.Answer, error) {
				return once.Answer{Result: store.Result{Status: status, Body: []byte("ada")}, Rollback: rollback}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		fail := func(key string, keep bool) {
			t.Helper()
			op := once.Operation{Scope: "s", Key: key, Retain: time.Hour}
			_, err := once.Do(t.Context(), e, op, func(context.Context, *sql.Tx) (int, error) { return 0, &once.Failure{Code: "no", CommitWrites: keep} })
			if !errors.As(err, new(*once.Failure)) {
				t.Fatal(err)
			}
		}
		answer("201", 201, false)
		answer("400", 400, true)
		answer("402-kept", 402, false)
		answer("200-rolled-back", 200, true)
		fail("failure", false)
		fail("failure-kept", true)
		if err := log.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		const (
			stands  = "the operation took effect one time"
			undone  = "the operation got an answer, and its writes were rolled back"
			unknown = "the operation was refused, and the database does not show whether its writes were kept"
		)
		want := map[string][3]string{
			"201":             {stands, "applied", "executed (applied)"},
			"400":             {undone, "not applied", "declined (not applied)"},
			"402-kept":        {unknown, "", "executed (applied)"},
			"200-rolled-back": {undone, "not applied", "declined (not applied)"},
			"failure":         {undone, "not applied", "declined (not applied)"},
			"failure-kept":    {unknown, "", "declined (applied)"},
		}
		show := func(key, state string, says ...string) {
			t.Helper()
			o := run(t, "keys", "show", key, "--db", url).want(t, 0)
			for _, s := range append(says, state+": "+want[key][0], want[key][2]) {
				if !strings.Contains(o.stdout, s) {
					t.Errorf("%s does not say %q:\n%s", key, s, o.stdout)
				}
			}
			if want[key][0] != stands && strings.Contains(o.stdout, stands) {
				t.Errorf("%s took effect:\n%s", key, o.stdout)
			}
			for _, pair := range [][2]string{{"gets the stored answer", "too large to store, or erased"}, {"would execute again", "does not execute"}, {"gets the stored answer", "would execute again"}} {
				if strings.Contains(o.stdout, pair[0]) && strings.Contains(o.stdout, pair[1]) {
					t.Errorf("%s: %q contradicts %q:\n%s", key, pair[0], pair[1], o.stdout)
				}
			}
			var a operate.KeyView
			o = run(t, "keys", "show", key, "--db", url, "-o", "json").want(t, 0)
			if err := json.Unmarshal([]byte(o.stdout), &a); err != nil || a.Operation.Effect != want[key][1] {
				t.Errorf("%s: %v, %s", key, err, o.stdout)
			}
			if size := a.Operation.ResultBytes; strings.HasPrefix(key, "4") && size != 3 && size != 0 {
				t.Errorf("%s: %d bytes, the mark included", key, size)
			}
		}
		for key := range want {
			show(key, "done", "a retry gets the stored answer")
		}
		for key := range want {
			for range 2 { // the second time, too
				run(t, "keys", "forget", key, "--scope", "s", "--reason", "asked", "--db", url, "--yes").want(t, 0)
			}
			show(key, "done", "the database no longer has its answer", "a retry gets an error, and does not execute")
		}
		expire := "update once_operation set expires_at = since"
		if _, err := db.ExecContext(t.Context(), expire); err != nil {
			t.Fatal(err)
		}
		for key := range want {
			show(key, "expired", "a retry would execute again")
		}
		files := filepath.Join(t.TempDir(), "archive")
		run(t, "sweep", "--db", url, "--archive", files).want(t, 0)
		for key := range want {
			o := run(t, "archive", "show", files, key).want(t, 0)
			if !strings.Contains(o.stdout, "archived: "+want[key][0]) || strings.Contains(o.stdout, "does not execute") {
				t.Errorf("%s:\n%s", key, o.stdout)
			}
		}
	})
}
