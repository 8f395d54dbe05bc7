package deadletter

import (
	"context"
	"errors"
	"testing"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// fallible is a database of which one call fails. It is not made, or its answer is lost; in a transaction, which is
// gone then, both are the same. A COMMIT is a call.
type fallible struct {
	sqlplane.Database

	at    int // the call that fails
	lost  bool
	calls int
}

func (f *fallible) call(inTx bool, made func() error) error {
	f.calls++
	strikes, kind := f.calls == f.at, store.KindUnavailable
	if strikes && f.lost {
		if err := made(); err != nil {
			return err
		}
		if !inTx {
			kind = store.KindLost
		}
	}
	if strikes {
		return &store.Error{Kind: kind, Err: errBroken}
	}
	return made()
}

func (f *fallible) Pool() sqlplane.Runner { return fallibleRunner{f.Database.Pool(), f, false} }

func (f *fallible) Within(ctx context.Context, level store.Isolation, fn func(ctx context.Context, r sqlplane.Runner) error) error {
	return f.call(false, func() error {
		return f.Database.Within(ctx, level, func(ctx context.Context, r sqlplane.Runner) error { return fn(ctx, fallibleRunner{r, f, true}) })
	})
}

type fallibleRunner struct {
	sqlplane.Runner

	f    *fallible
	inTx bool
}

func (r fallibleRunner) Exec(ctx context.Context, s store.Statement) (n int64, err error) {
	err = r.f.call(r.inTx, func() error { n, err = r.Runner.Exec(ctx, s); return err })
	return n, err
}

func (r fallibleRunner) Query(ctx context.Context, s store.Statement, each func(sqlplane.Row) error) error {
	return r.f.call(r.inTx, func() error { return r.Runner.Query(ctx, s, each) })
}

func (r fallibleRunner) Append(ctx context.Context, s store.Statement) error {
	return r.f.call(r.inTx, func() error { return r.Runner.Append(ctx, s) })
}

// TestRedriveFaults: the N-th call of the database fails, or its answer is lost, N = 1, 2, ... until an action survives. What is
// told as done is done. After an error, the operator repeats it: every letter is chosen by one redrive, and what was done
// stands in the audit.
func TestRedriveFaults(t *testing.T) {
	testenv.Prove(t)
	on(t, func(t *testing.T, g *fixture) {
		for _, action := range []string{"redrive", "discard", "cancel"} {
			for name, lost := range map[string]bool{"not made": false, "answer lost": true} {
				t.Run(action+", "+name, func(t *testing.T) {
					if g.Dialect() != sqlplane.SQLite {
						testenv.Sample(t, 4)
					}
					testRedriveFaults(t, g, action, lost)
				})
			}
		}
	})
}

func testRedriveFaults(t *testing.T, g *fixture, action string, lost bool) {
	const letters = 3
	harness.Loop(t, 5, func(at int) bool {
		g.prepared(t, action, letters)
		db := &fallible{Database: g.Database, at: at, lost: lost}
		err := act(t.Context(), deadletter.New(db, deadletter.Config{}), action)
		if err != nil && !errors.Is(err, errBroken) {
			t.Fatalf("call %d: %v", at, err)
		}
		if err != nil {
			must(t, act(t.Context(), g.letters(), action))
		}
		g.wantActed(t, action, at, letters)
		return db.calls >= at
	})
}
