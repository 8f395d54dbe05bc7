package outbox

import (
	"context"
	"errors"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// fakeSQL is a store that notes what it is told to append, and runs nothing.
type fakeSQL struct {
	dialect  sqlplane.Dialect
	appended []store.Statement
}

type fakeTx struct{}

var errFake = errors.New("the fake has no database")

func (f *fakeSQL) Dialect() sqlplane.Dialect { return f.dialect }

func (f *fakeSQL) On(fakeTx) sqlplane.Runner { return f }

func (f *fakeSQL) Pool() sqlplane.Runner { return f }

func (f *fakeSQL) Within(context.Context, store.Isolation, func(context.Context, sqlplane.Runner) error) error {
	return errFake
}

func (f *fakeSQL) Exec(context.Context, store.Statement) (int64, error) { return 0, errFake }

func (f *fakeSQL) Query(context.Context, store.Statement, func(sqlplane.Row) error) error {
	return errFake
}

func (f *fakeSQL) Append(_ context.Context, s store.Statement) error {
	f.appended = append(f.appended, s)
	return nil
}
