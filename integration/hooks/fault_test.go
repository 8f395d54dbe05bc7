package hooks

import (
	"context"
	"errors"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// faulty is a database of which one call fails: before it is made, or after, so that its answer is lost.
type faulty[TX any] struct {
	harness.Store[TX]

	at     int // two for each call: before and after
	calls  int
	struck bool
}

func (f *faulty[TX]) Unwrap() any { return f.Store }

func (f *faulty[TX]) call(do func() error) error {
	f.calls++
	if f.at == 2*f.calls-1 {
		f.struck = true
		return &store.Error{Kind: store.KindUnavailable, Err: errors.New("it was not reached")}
	}
	err := do()
	if f.at == 2*f.calls {
		f.struck = true
		return &store.Error{Kind: store.KindLost, Err: errors.New("the answer was lost")}
	}
	return err
}

// Within implements sqlplane.Database.
func (f *faulty[TX]) Within(ctx context.Context, level store.Isolation, fn func(ctx context.Context, r sqlplane.Runner) error) error {
	return f.call(func() error { return f.Store.Within(ctx, level, fn) })
}

// Pool implements sqlplane.Database.
func (f *faulty[TX]) Pool() sqlplane.Runner { return faultyRunner{f.Store.Pool(), f.call} }

type faultyRunner struct {
	sqlplane.Runner

	call func(do func() error) error
}

func (r faultyRunner) Exec(ctx context.Context, s store.Statement) (n int64, err error) {
	err = r.call(func() (err error) { n, err = r.Runner.Exec(ctx, s); return err })
	return n, err
}

func (r faultyRunner) Query(ctx context.Context, s store.Statement, each func(sqlplane.Row) error) error {
	return r.call(func() error { return r.Runner.Query(ctx, s, each) })
}
