package inbox

import (
	"context"
	"errors"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// pointStore is a store that passes a point before and after each of its calls. at may return an error: before a
// call, it is not made; after it, its answer is lost.
type pointStore[TX any] struct {
	harness.Store[TX]

	at func(name string) error
}

// Unwrap lets the other abilities of the store be found.
func (s *pointStore[TX]) Unwrap() any { return s.Store }

var errInjected = errors.New("injected")

func unavailable() error { return &store.Error{Kind: store.KindUnavailable, Err: errInjected} }
func lost() error        { return &store.Error{Kind: store.KindLost, Err: errInjected} }

func (s *pointStore[TX]) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[TX], store.Record, error) {
	if s.at("begin") != nil {
		return nil, store.Record{}, unavailable()
	}
	c, rec, err := s.Store.Begin(ctx, opts)
	if c == nil {
		return c, rec, err
	}
	if s.at("begun") != nil {
		_ = c.Rollback(ctx)
		return nil, store.Record{}, unavailable()
	}
	return &pointClaim[TX]{c, s, false}, rec, err
}

func (s *pointStore[TX]) Join(ctx context.Context, tx TX, opts store.BeginOptions) (store.Transaction[TX], store.Record, error) {
	j, _ := store.As[store.Joiner[TX]](s.Store)
	if s.at("join") != nil {
		poison(ctx, s.Store.On(tx))
		return nil, store.Record{}, unavailable()
	}
	c, rec, err := j.Join(ctx, tx, opts)
	if c == nil {
		return c, rec, err
	}
	return &pointClaim[TX]{c, s, true}, rec, err
}

type pointClaim[TX any] struct {
	store.Transaction[TX]

	s      *pointStore[TX]
	joined bool
}

func (c *pointClaim[TX]) Unwrap() any { return c.Transaction }

func (c *pointClaim[TX]) Commit(ctx context.Context, ch store.Change) error {
	if c.s.at("commit") != nil {
		if c.joined {
			poison(ctx, c.s.Store.On(c.Tx()))
		} else {
			_ = c.Rollback(ctx)
		}
		return unavailable()
	}
	err := c.Transaction.Commit(ctx, ch)
	if err == nil && !c.joined && c.s.at("committed") != nil {
		return lost()
	}
	return err
}

func (s *pointStore[TX]) On(tx TX) sqlplane.Runner { return pointRunner{s.Store.On(tx), s.at, true} }

func (s *pointStore[TX]) Pool() sqlplane.Runner { return pointRunner{s.Store.Pool(), s.at, false} }

func (s *pointStore[TX]) Within(ctx context.Context, isolation store.Isolation, fn func(ctx context.Context, r sqlplane.Runner) error) error {
	if s.at("within") != nil {
		return unavailable()
	}
	err := s.Store.Within(ctx, isolation, func(ctx context.Context, r sqlplane.Runner) error {
		return fn(ctx, pointRunner{r, s.at, true})
	})
	if err == nil && s.at("within committed") != nil {
		return lost()
	}
	return err
}

// poison makes a transaction fail, as a connection that breaks does.
func poison(ctx context.Context, r sqlplane.Runner) {
	_, _ = r.Exec(ctx, store.Statement{SQL: "this is no statement"})
}

type pointRunner struct {
	sqlplane.Runner

	at   func(name string) error
	inTx bool
}

func (r pointRunner) call(ctx context.Context, name string, call func() error) error {
	if r.at(name) != nil {
		if r.inTx {
			poison(ctx, r.Runner)
		}
		return unavailable()
	}
	err := call()
	if err == nil && r.at(name+" answered") != nil {
		if r.inTx {
			poison(ctx, r.Runner)
			return unavailable()
		}
		return lost()
	}
	return err
}

func (r pointRunner) Exec(ctx context.Context, st store.Statement) (n int64, err error) {
	err = r.call(ctx, "exec", func() error { n, err = r.Runner.Exec(ctx, st); return err })
	return n, err
}

func (r pointRunner) Query(ctx context.Context, st store.Statement, each func(sqlplane.Row) error) error {
	return r.call(ctx, "query", func() error { return r.Runner.Query(ctx, st, each) })
}

func (r pointRunner) Append(ctx context.Context, st store.Statement) error {
	return r.call(ctx, "append", func() error { return r.Runner.Append(ctx, st) })
}
