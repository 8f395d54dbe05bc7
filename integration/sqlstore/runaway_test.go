package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

const (
	endlessRead  = "with recursive c(n) as (select 1 union all select n + 1 from c) select count(*) from c"
	endlessWrite = "insert into parent with recursive c(n) as (select 1 union all select n from c) select n from c where n < 0"
)

// TestGroupRunaways: a statement that does not end is ended: one that reads by its own
// context, any by the time that its group has for it. To end one that writes costs the
// whole group, which starts again.
func TestGroupRunaways(t *testing.T) {
	for _, c := range []struct {
		name    string
		patient bool      // the context of the statement does not end
		text    string    // endless in its first run
		code    once.Code // of the whole call
		runs    int       // of those whose COMMIT was waiting for it
	}{
		{"a read that is given up", false, endlessRead, once.CodeFailed, 1},
		{"a read", true, endlessRead, "", 1},
		{"a write that is given up", false, endlessWrite, "", 2},
		{"a write", true, endlessWrite, "", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			for until := time.Now().Add(time.Minute); time.Now().Before(until); {
				company := false
				inRealCrowd(t, func(w *crowd) {
					bad := newMember("bad")
					bad.work = func(ctx context.Context, tx *sql.Tx, run int) (string, error) {
						if run > 1 {
							return "", nil
						}
						if company = w.spy.endsWith("SAVEPOINT once_part", insertCharge); !company {
							return "", errAlone
						}
						if !c.patient {
							var cancel context.CancelFunc
							ctx, cancel = context.WithCancel(ctx)
							defer cancel()
							w.spy.bend(func(text string) error {
								if text == c.text { // the statement begins
									time.AfterFunc(20*time.Millisecond, cancel)
								}
								return nil
							}, nil)
						}
						rows, err := tx.QueryContext(ctx, c.text)
						if err == nil {
							err = rows.Close()
						}
						return "", err
					}
					before, after := neighbours("before-1", "before-2"), neighbours("after-1", "after-2")
					w.together(slices.Concat(before, []*member{bad}, after)...)
					if !company {
						return
					}
					w.executed(before...)
					w.executed(after...)
					w.ran(c.runs, before[1]) // the first has waited for all, and become too old for company
					w.ran(1, after...)
					if once.CodeOf(bad.err) != c.code {
						t.Error(bad.err)
					}
					if c.code == "" {
						w.executed(bad)
						w.ran(2, bad)
					} else {
						w.holds("bad", 0)
					}
				})
				if company {
					return
				}
			}
			t.Error("vacuous: it has always been the first of its group")
		})
	}
}

// errAlone ends a member that should have followed another one, whose group has become too
// old on a machine that has much to do.
var errAlone = errors.New("the first of its group")

// TestGroupFull: when the file can grow no more, who was answered is there, and who was
// refused is not.
func TestGroupFull(t *testing.T) {
	ctx := t.Context()
	spy := &spy{dsn: "file:" + filepath.Join(t.TempDir(), "full.db") +
		"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)&_pragma=max_page_count(300)"}
	db := sqlstore.OpenDB(sqlplane.SQLite, spy)
	defer func() { _ = db.Close() }()
	if err := sqlstore.Migrate(ctx, db); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, "create table heavy (id text, body text)"); err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.New(ctx, db, sqlstore.Config{GroupCommit: true})
	if err != nil {
		t.Fatal(err)
	}
	spy.take()
	const callers = 16
	e, body := once.New(s, once.Config{}), strings.Repeat("x", 20_000)
	told := make([]map[string]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		told[i] = map[string]error{}
		all.Go(func() {
			for n := range 8 {
				key := fmt.Sprintf("%d-%d", i, n)
				_, told[i][key] = once.Do(ctx, e, once.Operation{Scope: "full", Key: key}, func(ctx context.Context, tx *sql.Tx) (int, error) {
					_, err := tx.ExecContext(ctx, "insert into heavy values (?, ?)", key, body)
					return n, err
				})
			}
		})
	}
	all.Wait()
	stood, refused := 0, 0
	for _, keys := range told {
		for key, err := range keys {
			want := 0
			if err == nil {
				want = 1
				stood++
			} else {
				refused++
			}
			if err != nil && once.EffectOf(err) != once.EffectNotApplied {
				t.Errorf("%s: %v", key, err)
			}
			if n := count(t, db, "select count(*) from heavy where id = $1", key); n != want {
				t.Errorf("%s: %d effects, but it was told %v", key, n, err)
			}
			if n := count(t, db, "select count(*) from once_operation where key = $1", key); n != want {
				t.Errorf("%s: %d records, but it was told %v", key, n, err)
			}
		}
	}
	if joined := spy.take(joins)[0]; stood == 0 || refused == 0 || joined == 0 {
		t.Errorf("vacuous: %d stood, %d were refused, %d had company", stood, refused, joined)
	}
}
