package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/store"
)

// TestSQLiteLooksUpOnce: an operation that need not wait for the file looks up once, in its transaction, and parses no statement but the handler's and two
// short ones.
func TestSQLiteLooksUpOnce(t *testing.T) {
	inLine(t, func(c *crowd) {
		var parsed []string
		for _, key := range []string{"first", "second"} {
			m := newMember(key)
			c.spy.take()
			c.together(m)
			parsed = c.spy.takeParsed()
			c.executed(m)
		}
		if !slices.Equal(parsed, []string{"pragma busy_timeout = 0", "pragma busy_timeout = 5000", insertCharge}) {
			t.Errorf("parsed: %q", parsed)
		}
		m := newMember("third")
		c.together(m)
		looks := 0
		c.spy.mu.Lock()
		for _, text := range c.spy.log {
			if strings.HasPrefix(text, "select") && strings.Contains(text, "from once_operation where scope") {
				looks++
			}
		}
		c.spy.mu.Unlock()
		if looks != 1 {
			t.Errorf("%d look-ups", looks)
		}
	})
}

// TestSQLiteReplayWaitsForNobody: a replay that this process has not seen waits for no writer of the file, neither of this process nor of another one, and
// needs no file that can be written.
func TestSQLiteReplayWaitsForNobody(t *testing.T) {
	inLine(t, func(c *crowd) {
		m := newMember("replay")
		c.together(m)
		c.executed(m)
		begun := func() store.Record {
			txn, rec, err := c.s.Begin(context.Background(), store.BeginOptions{ID: store.ID{Scope: m.op.Scope, Key: m.op.Key}})
			if txn != nil || err != nil {
				t.Fatal(txn, err)
			}
			return rec
		}
		since := time.Now()
		for name, hold := range map[string]func() (release func()){
			"of this process": func() func() {
				txn, _, err := c.s.Begin(context.Background(), store.BeginOptions{ID: store.ID{Scope: "crowd", Key: "holder"}})
				if err != nil {
					t.Fatal(err)
				}
				return func() { _ = txn.Rollback(context.Background()) }
			},
			"of another process": func() func() {
				other, err := sql.Open("sqlite", c.spy.dsn)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := other.Exec("begin immediate"); err != nil {
					t.Fatal(err)
				}
				return func() { _ = other.Close() }
			},
			"of a file that cannot be written": func() func() {
				c.spy.bend(func(text string) error {
					if text == begin {
						return codeError(8) // SQLITE_READONLY
					}
					return nil
				}, nil)
				return func() { c.spy.bend(nil, nil) }
			},
		} {
			release := hold()
			if rec := begun(); rec.State != store.StateDone || time.Since(since) != 0 {
				t.Errorf("%s: %s after %v", name, rec.State, time.Since(since))
			}
			release()
		}
	})
}
