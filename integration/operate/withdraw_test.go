package operate_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// TestBeginIsAllOrNothing fails every call that Begin makes of the driver, before and after
// it was done, until there is none left. Who is told that an intent was not written down
// finds it nowhere, or else it would be sent later; and one that another call has begun
// meanwhile is the intent of that one, and stays.
func TestBeginIsAllOrNothing(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onSQL(t, func(t *testing.T, g *testDB) {
		plain, err := sql.Open(g.Driver(), g.DSN)
		must(t, err)
		defer func() { _ = plain.Close() }()
		good := g.journal(t)
		rivalDSN := regexp.MustCompile(`busy_timeout\(\d+`).ReplaceAllString(g.DSN, "busy_timeout(1")
		rivalDB, rival := faultyTable(t, g, faultyConnector{plain.Driver(), rivalDSN, &faults{}})
		defer func() { _ = rivalDB.Close() }()
		struck, rivals := map[string]int{}, 0
		for _, shared := range []bool{false, true} {
			for _, applied := range []bool{false, true} {
				for n := 1; ; n++ {
					g.exec(t, "delete from once_intent")
					f, begun := &faults{at: n, applied: applied}, false
					if shared {
						f.meanwhile = func() { // an open transaction of SQLite keeps the rival out
							_, err := rival.Begin(t.Context(), intentOf("k"))
							if begun = err == nil; begun {
								rivals++
							} else if g.dialect != sqlplane.SQLite {
								t.Fatal(err)
							}
						}
					}
					db, j := faultyTable(t, g, faultyConnector{plain.Driver(), g.DSN, f})
					_, err = j.Begin(t.Context(), intentOf("k"))
					must(t, db.Close())
					want := []string{"k"}
					if err != nil && !begun {
						want = nil
					}
					if open := openKeys(t, good); !slices.Equal(open, want) {
						t.Errorf("call %d (%s), applied %v, shared %v: %v, open: %v, want %v", n, f.last, applied, shared, err, open, want)
					}
					if err == nil {
						break
					}
					if !errors.Is(err, errFault) || !strings.Contains(err.Error(), "was not sent") || !strings.Contains(err.Error(), "Try: ") || strings.Contains(err.Error(), "not sure") {
						t.Fatal(err)
					}
					struck[f.last]++
				}
			}
		}
		if rivals == 0 || struck["exec"] == 0 || g.dialect == sqlplane.MySQL && (struck["query"] == 0 || struck["next"] == 0) {
			t.Errorf("vacuous: %v", struck)
		}
		t.Log(struck, rivals)
	})
}

// faultyTable is a journal whose faults are counted from now on.
func faultyTable(t *testing.T, g *testDB, c faultyConnector) (*sql.DB, *journal.Table) {
	t.Helper()
	at := c.f.at
	c.f.at = 0
	db := sqlstore.OpenDB(g.dialect, c)
	s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
	must(t, err)
	j, err := journal.OpenTable(s, journal.Config{})
	must(t, err)
	c.f.at, c.f.count = at, 0
	return db, j
}

// TestWithdrawalThatFails: who cannot know whether the intent is there is told so.
func TestWithdrawalThatFails(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onSQL(t, func(t *testing.T, g *testDB) {
		plain, err := sql.Open(g.Driver(), g.DSN)
		must(t, err)
		defer func() { _ = plain.Close() }()
		f := &faults{at: 1, applied: true}
		f.meanwhile = func() { f.at = 2 } // and the next call, too
		db, j := faultyTable(t, g, faultyConnector{plain.Driver(), g.DSN, f})
		defer func() { _ = db.Close() }()
		if _, err := j.Begin(t.Context(), intentOf("k")); !contains(err, "the intent was perhaps stored") || f.count != 2 {
			t.Errorf("%v after %d calls", err, f.count)
		}
	})
}

// TestResumeOfWhatIsGone: an intent that is closed between the list and its turn is not
// made again and sent: its caller may have been told that it never was.
func TestResumeOfWhatIsGone(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	intentJournals(t, func(t *testing.T, j keptJournal) {
		url, effects := service(t)
		ask := func(key string) journal.Intent {
			in := intentOf(key)
			in.URL = url
			in, err := j.Begin(t.Context(), in)
			must(t, err)
			return in
		}
		withdrawn, replaced, open := ask("k1"), ask("k2"), ask("k3")
		must(t, j.End(t.Context(), open, journal.ProofNone))
		list, err := j.List(t.Context())
		must(t, err)
		for i := range list {
			list[i].Active = false
		}
		must(t, j.End(t.Context(), withdrawn, journal.ProofUntouched))
		must(t, j.End(t.Context(), replaced, journal.ProofUntouched))
		if again := ask("k2"); again.ID == replaced.ID {
			t.Fatal("vacuous: it is the same")
		}
		late := &listed{j, list}
		r, err := journal.Resume(t.Context(), late, &http.Client{Transport: &retryhttp.Transport{Journal: late}}, journal.Options{})
		if err != nil || r != (journal.Resumed{Closed: 3}) || len(effects()) != 1 {
			t.Errorf("%+v, %v, effects %q", r, err, effects())
		}
		if keys := openKeys(t, j); !slices.Equal(keys, []string{"k2"}) {
			t.Errorf("open: %v", keys)
		}
	})
}

// listed is a journal with a list that is out of date.
type listed struct {
	keptJournal

	list []journal.Intent
}

func (l *listed) List(context.Context) ([]journal.Intent, error) { return l.list, nil }
