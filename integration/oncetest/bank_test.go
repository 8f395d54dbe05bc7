package oncetest

import (
	"context"
	"database/sql"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/oncetest"
)

// kinds are the databases of the bank.
var kinds = []string{harness.SQLite, harness.Pgx, harness.MariaDB}

// try tests a stranger's program on a database of its own.
func (s stranger[TX]) try(t testing.TB, w *world[TX], skip ...oncetest.Fault) (said string) {
	t.Helper()
	skip = append(slices.Clone(s.skip), skip...)
	return complaint(t, func(tb testing.TB) {
		provider, mails := oncetest.NewProvider(tb, oncetest.ProviderConfig{Dedupes: s.dedupes}), &counter{}
		count := map[string]func() int{"mails": mails.count}
		start := func(p *oncetest.Process) *program[TX] { return w.start(p, provider, mails) }
		switch {
		case s.http != nil:
			oncetest.HTTP(tb, oncetest.Service{
				Start:   func(p *oncetest.Process) http.Handler { return s.http(start(p)) },
				Request: request, Database: w.plain, Count: count, Skip: skip,
			})
		case s.consume != nil:
			oncetest.Inbox(tb, oncetest.Consumer{
				Start:   func(p *oncetest.Process) func(context.Context, message.Message) error { return s.consume(start(p)) },
				Message: order, Database: w.plain, Count: count, Skip: append(skip, oncetest.FaultStore),
			})
		default:
			do := oncetest.Do
			if s.leased {
				do = oncetest.Lease
			}
			do(tb, oncetest.Work{
				Start: func(p *oncetest.Process) func(context.Context, once.Operation) (any, error) {
					g := start(p)
					return func(ctx context.Context, op once.Operation) (any, error) { return s.do(g, ctx, op) }
				},
				Database: w.plain, Count: count, Skip: skip,
			})
		}
	})
}

// on tries strangers on each database.
func on(t *testing.T, onSQL, onPgx func(t *testing.T, d harness.Database)) {
	t.Helper()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			harness.Cell(t, kind == harness.SQLite)
			if kind == harness.Pgx {
				onPgx(t, newDatabase(t, kind))
				return
			}
			onSQL(t, newDatabase(t, kind))
		})
	}
}

func eachFound[TX any](t *testing.T, w *world[TX]) {
	list := wrong[TX]()
	if len(list) < 20 {
		t.Errorf("vacuous: %d bugs", len(list))
	}
	for _, s := range list {
		t.Run(s.name, func(t *testing.T) {
			said := s.try(t, w)
			if said == "" || strings.Contains(said, "no fault of the kind") { // a fault that was not injected finds nothing
				t.Error("it is not found")
			}
			t.Log(said)
		})
	}
}

// TestEachBugIsFound: a test of package oncetest says something about each program that has a bug.
func TestEachBugIsFound(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, d harness.Database) { eachFound(t, sqlWorld(t, d)) }, func(t *testing.T, d harness.Database) { eachFound(t, pgxWorld(t, d)) })
}

func eachRight[TX any](t *testing.T, w *world[TX]) {
	list := right[TX]()
	if len(list) < 10 {
		t.Errorf("vacuous: %d programs", len(list))
	}
	for _, s := range list {
		t.Run(s.name, func(t *testing.T) {
			if said := s.try(t, w); said != "" {
				t.Errorf("a complaint: %s", said)
			}
		})
	}
}

// TestRightProgramsPass: it says nothing about programs that are right.
func TestRightProgramsPass(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, d harness.Database) { eachRight(t, sqlWorld(t, d)) }, func(t *testing.T, d harness.Database) { eachRight(t, pgxWorld(t, d)) })
}

func eachNeeded[TX any](t *testing.T, w *world[TX]) {
	needed := map[oncetest.Fault]bool{}
	for _, s := range wrong[TX]() {
		if s.only == "" {
			continue
		}
		t.Run(string(s.only), func(t *testing.T) {
			if said := s.try(t, w, s.only); said != "" {
				t.Errorf("%s: found without it: %s", s.name, said)
			}
			needed[s.only] = true
		})
	}
	if len(needed) != 7 {
		t.Errorf("no bug needs some of the kinds: %v", needed)
	}
}

// TestEachKindIsNeeded: without any one kind a bug of the bank is not found. (On pgx a connection that is lost before COMMIT is a conflict as well, so that
// faults of the store are not the only ones to find what is wrong with those.)
func TestEachKindIsNeeded(t *testing.T) {
	testenv.Both(t)
	harness.Each(t, []string{harness.SQLite, harness.MariaDB}, func(t *testing.T, kind string) {
		eachNeeded(t, sqlWorld(t, newDatabase(t, kind)))
	})
}

// TestALeaseMustBeTakenOver: Lease fails for work that no other process takes over.
func TestALeaseMustBeTakenOver(t *testing.T) {
	s := right[*sql.Tx]()[1] // one transaction
	s.leased = true
	if said := s.try(t, sqlWorld(t, newDatabase(t, harness.SQLite))); !strings.Contains(said, "no lease was taken over") {
		t.Errorf("it says %q", said)
	}
}
