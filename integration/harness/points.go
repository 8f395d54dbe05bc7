package harness

import (
	"context"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Points is a store that passes a point before and after each thing that it is asked to do. Heartbeats pass none: they come when
// they come.
type Points[TX any] struct {
	Store[TX]

	At func(point string)
}

// Unwrap lets the other abilities of the store be found.
func (s *Points[TX]) Unwrap() any { return s.Store }

// Read implements store.Operations.
func (s *Points[TX]) Read(ctx context.Context, id store.ID) (store.Record, error) {
	s.At("read")
	return s.Store.Read(ctx, id)
}

// Swap implements store.Operations.
func (s *Points[TX]) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	s.At("swap")
	defer s.At("swapped")
	return s.Store.Swap(ctx, c)
}

// Begin implements store.Store.
func (s *Points[TX]) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[TX], store.Record, error) {
	s.At("begin")
	c, rec, err := s.Store.Begin(ctx, opts)
	if c == nil {
		return c, rec, err
	}
	return &pointClaim[TX]{c, s.At}, rec, err
}

// On implements sqlplane.SQL.
func (s *Points[TX]) On(tx TX) sqlplane.Runner { return pointRunner{s.Store.On(tx), s.At} }

type pointClaim[TX any] struct {
	store.Transaction[TX]

	at func(point string)
}

// Unwrap lets the other abilities of the claim be found.
func (c *pointClaim[TX]) Unwrap() any { return c.Transaction }

func (c *pointClaim[TX]) Commit(ctx context.Context, ch store.Change) error {
	c.at("commit")
	defer c.at("committed")
	return c.Transaction.Commit(ctx, ch)
}

type pointRunner struct {
	sqlplane.Runner

	at func(point string)
}

func (r pointRunner) Exec(ctx context.Context, st store.Statement) (int64, error) {
	r.at("statement")
	defer r.at("statement answered")
	return r.Runner.Exec(ctx, st)
}
