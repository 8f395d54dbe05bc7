package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// TestKeyIsTakenBehindTheClaim makes the primary key decide, by going behind the claim: the handler has
// run, and only the insert of its record finds out that another caller was faster.
// The handler's writes are undone and the other's answer is returned, at every
// isolation level.
func TestKeyIsTakenBehindTheClaim(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	testenv.Need(t, "postgresql")
	harness.Each(t, []string{harness.Pgx, harness.Postgres}, func(t *testing.T, store string) {
		g := newTestDB(t, store)
		for _, l := range levels {
			for name, meddle := range map[string]func(*meddler, context.Context) error{
				"committed before the record is written":        (*meddler).commitsAtOnce,
				"committed while the record's insert waits":     (*meddler).commitsLater,
				"rolled back while the record's insert waits":   (*meddler).rollsBack,
				"committed by one who was there before, unseen": nil, // op.First skips the look-up
			} {
				m := &meddler{g: g, level: l}
				if err := m.run(t, meddle); err != nil {
					t.Errorf("%s, %s: %v. %s", l.name, name, err, rerun(t))
				}
			}
		}
	})
}

// meddler writes the record of another's operation without asking for the
// claim, as no caller should.
type meddler struct {
	g     *testDB
	level level
	key   string
	taken int
	runs  int
	waits chan error // what became of the transaction that ends while the commit waits
}

func (m *meddler) run(t *testing.T, meddle func(*meddler, context.Context) error) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := m.g.open(t, setup{hook: func(place string) {
		if place == "taken" {
			m.taken++
		}
	}})
	defer s.Close()
	m.key = once.NewKey()
	template := once.Operation{Scope: scope, Key: m.key + "-template"}
	if _, _, err := s.Do(ctx, template, work{key: template.Key, attempt: "template"}); err != nil {
		return err
	}
	op := once.Operation{Scope: scope, Key: m.key, Isolation: m.level.is, Attempt: attempt(meddle == nil)}
	if meddle == nil {
		if err := m.insert(ctx, m.g.db); err != nil {
			return err
		}
	}
	var failed error
	got, replayed, err := s.Do(ctx, op, work{key: m.key, attempt: "mine", before: func() {
		m.runs++
		if meddle != nil && m.runs == 1 {
			failed = meddle(m, ctx)
		}
	}})
	if m.waits != nil {
		failed = <-m.waits
	}
	switch {
	case err != nil || failed != nil:
		return errors.Join(err, failed)
	case got.Attempt == "mine":
		return m.mine(ctx, replayed)
	case !replayed || got.Attempt != "template":
		return fmt.Errorf("%+v, replayed: %v", got, replayed)
	case m.taken == 0 && (meddle != nil || m.g.Kind == harness.Pgx):
		return fmt.Errorf("the primary key was not asked")
	}
	state, err := m.g.state(ctx, m.key)
	if want := declined(); err == nil && state != want { // the key is there, and none of our writes
		err = fmt.Errorf("the database has %+v, want %+v", state, want)
	}
	return err
}

// mine checks an execution that was not disturbed in the end.
func (m *meddler) mine(ctx context.Context, replayed bool) error {
	state, err := m.g.state(ctx, m.key)
	if err == nil && (state != executed("mine") || replayed || m.taken > 0 || m.runs != 1) {
		err = fmt.Errorf("the database has %+v; replayed: %v, taken %d times, %d runs", state, replayed, m.taken, m.runs)
	}
	return err
}

// insert writes the template's record under the key.
func (m *meddler) insert(ctx context.Context, db interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}) error {
	_, err := db.ExecContext(ctx, fmt.Sprintf(`insert into once_operation (scope, key, state, fence, claim, status, kind, body, since, expires_at)
 select scope, '%[1]s', state, fence, claim, status, kind, body, since, expires_at from once_operation where key = '%[1]s-template'`, m.key))
	return err
}

func (m *meddler) commitsAtOnce(ctx context.Context) error { return m.insert(ctx, m.g.db) }

func (m *meddler) commitsLater(ctx context.Context) error { return m.later(ctx, (*sql.Tx).Commit) }

func (m *meddler) rollsBack(ctx context.Context) error { return m.later(ctx, (*sql.Tx).Rollback) }

// later inserts now, and ends when the engine's insert waits for that.
func (m *meddler) later(ctx context.Context, end func(*sql.Tx) error) error {
	tx, err := m.g.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := m.insert(ctx, tx); err != nil {
		return err
	}
	m.waits = make(chan error, 1)
	go func() {
		err := m.g.until(ctx, `select exists (select from pg_locks join pg_stat_activity using (pid)
 where locktype = 'transactionid' and not granted and datname = current_database())`)
		m.waits <- errors.Join(err, end(tx))
	}()
	return nil
}

// attempt is the first attempt of an operation, or one that says nothing.
func attempt(first bool) (a once.Attempt) {
	if first {
		a.Number = 1
	}
	return a
}
