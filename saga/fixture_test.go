package saga_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/memstore"
)

// fixture is a database in memory and what its tests need.
type fixture struct {
	*testing.T

	db       *memstore.Store
	observer saga.Observer
	tracer   saga.Tracer
}

func newFixture(t *testing.T) fixture {
	return fixture{T: t, db: memstore.New(), observer: saga.Log(quiet)}
}

func (g fixture) runner(definitions ...saga.AnyDefinition) *saga.Runner[*memstore.Tx] {
	return saga.NewRunner[*memstore.Tx](g.db, saga.Config{
		TTL: testTTL, Attempts: 3, UndoAttempts: 3, Backoff: time.Second, MaxBackoff: time.Second, Every: time.Second, Retain: once.Forever, Observer: g.observer, Tracer: g.tracer,
	}, definitions...)
}

// count counts in the database.
func count(tx *memstore.Tx, key string) error {
	old, _, err := tx.Get(key)
	return errors.Join(err, tx.Put(key, old+"x"))
}

func (g fixture) counted(key string) int {
	v, _ := g.db.Get(key)
	return len(v)
}

// writes is a step that counts, and whose undo counts, too.
func writes(name string) *saga.TxStep[*memstore.Tx, string, string] {
	return saga.Tx(name, func(_ context.Context, tx *memstore.Tx, in string) (string, error) { return in, count(tx, name+in) }).
		Undo(func(_ context.Context, tx *memstore.Tx, in, _ string) error { return count(tx, "undo "+name+in) })
}

// failing is a step that says no, or fails.
func failing(name string, err func() error) *saga.TxStep[*memstore.Tx, string, string] {
	return saga.Tx(name, func(_ context.Context, tx *memstore.Tx, in string) (string, error) {
		return in, errors.Join(err(), count(tx, name+in))
	})
}

func inOrder(ctx saga.Context, in string, steps ...taken) (string, error) {
	for _, s := range steps {
		if _, err := s.Do(ctx, in); err != nil {
			return "", err
		}
	}
	return "done", nil
}

func flowOf(steps ...taken) func(saga.Context, string) (string, error) {
	return func(ctx saga.Context, in string) (string, error) { return inOrder(ctx, in, steps...) }
}

func (g fixture) do(d *saga.Definition[string, string]) (string, error) {
	ctx, cancel := context.WithTimeout(g.Context(), time.Hour)
	defer cancel()
	return saga.Do(ctx, g.runner(d), d, sagaID, "")
}

func (g fixture) status() saga.Status {
	g.Helper()
	s, err := g.runner().Status(g.Context(), sagaID)
	if err != nil {
		g.Fatal(err)
	}
	return s
}

func (g fixture) wantStuck(err error, words ...string) {
	g.Helper()
	if once.CodeOf(err) != once.CodeUnknown || !errors.Is(err, saga.ErrStuck) || g.status().State != "stuck" {
		g.Errorf("not stuck: %v", err)
	}
	for _, w := range words {
		if !strings.Contains(g.status().Stuck, w) {
			g.Errorf("%q does not say %q", g.status().Stuck, w)
		}
	}
}

// decide is a decision about a saga that is stuck.
func (g fixture) decide(d saga.Decision) error {
	_, err := saga.Decide(g.Context(), g.db, sagaID, d)
	return err
}

var retry = saga.Decision{Action: saga.ActionRetry}

// in is a test in virtual time.
func in(t *testing.T, fn func(g fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fn(newFixture(t))
		<-time.After(2 * testTTL) // heartbeats end
	})
}

func failureOf(err error) string {
	var f *once.Failure
	errors.As(err, &f)
	if f == nil {
		return ""
	}
	return f.Code
}

func (g fixture) cancel(want error) {
	g.Helper()
	tx := g.db.BeginTx()
	defer tx.Rollback()
	if err := g.runner().Cancel(g.Context(), tx, sagaID, "changed their mind"); !errors.Is(err, want) {
		g.Errorf("cancel: %v, want %v", err, want)
	}
	if err := tx.Commit(); err != nil {
		g.Error(err)
	}
}
