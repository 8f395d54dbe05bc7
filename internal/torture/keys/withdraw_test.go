package keys

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/journal/sqljournal"
	"github.com/oncelib/once/store/migration"
)

// TestBeginIsAllOrNothing fails every call that Begin makes of the driver, before and after
// it was done, until there is none left. Who is told that an intent was not written down
// finds it nowhere, or else it would be sent later; and one that another call has begun
// meanwhile is the intent of that one, and stays.
func TestBeginIsAllOrNothing(t *testing.T) {
	t.Parallel()
	on(t, func(t *testing.T, g *ground) {
		plain, err := sql.Open(g.driver, g.dsn)
		must(t, err)
		defer func() { _ = plain.Close() }()
		good := g.journal(t)
		struck := map[string]int{}
		for _, shared := range []bool{false, true} {
			for _, applied := range []bool{false, true} {
				for n := 1; ; n++ {
					g.exec(t, "delete from once_intent")
					f := &faults{at: n, applied: applied}
					if shared {
						f.meanwhile = func() {
							_, err := good.Begin(t.Context(), intentOf("k"))
							must(t, err)
						}
					}
					db := sql.OpenDB(faultyConnector{plain.Driver(), g.dsn, f})
					j, err := sqljournal.New(db, g.dialect, journal.Config{})
					must(t, err)
					_, err = j.Begin(t.Context(), intentOf("k"))
					must(t, db.Close())
					want := []string{"k"}
					if err != nil && !shared {
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
		if struck["exec"] == 0 || g.dialect == migration.MySQL && (struck["query"] == 0 || struck["next"] == 0) {
			t.Errorf("vacuous: %v", struck)
		}
		t.Log(struck)
	})
}

// TestWithdrawalThatFails: who cannot know whether the intent is there is told so.
func TestWithdrawalThatFails(t *testing.T) {
	t.Parallel()
	on(t, func(t *testing.T, g *ground) {
		plain, err := sql.Open(g.driver, g.dsn)
		must(t, err)
		defer func() { _ = plain.Close() }()
		f := &faults{at: 1, applied: true}
		f.meanwhile = func() { f.at = 2 } // and the next call, too
		db := sql.OpenDB(faultyConnector{plain.Driver(), g.dsn, f})
		defer func() { _ = db.Close() }()
		j, err := sqljournal.New(db, g.dialect, journal.Config{})
		must(t, err)
		if _, err := j.Begin(t.Context(), intentOf("k")); !contains(err, "it is not sure that it is not there") || f.count != 2 {
			t.Errorf("%v after %d calls", err, f.count)
		}
	})
}
