package hold

import (
	"context"
	"errors"
	"sync"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// gate is a Database that counts the statements of a Holder, and fails one of them. It hides that
// the store can reserve a connection.
type gate struct {
	sqlplane.Database

	mu     sync.Mutex // statements do not overlap, as on the one connection of a Holder
	count  int
	writes int
	at     int           // fail this one; 0: none
	after  bool          // it is applied, and its answer is lost
	mended chan struct{} // when statements reach the database again; nil: they do
}

// errInjected is what the statement fails with.
var errInjected = &store.Error{Kind: store.KindLost, Err: errors.New("injected")}

func (g *gate) Pool() sqlplane.Runner { return gated{g.Database.Pool(), g} }

// cut keeps statements from the database until mend is called.
func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mended = make(chan struct{})
}

func (g *gate) mend() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.mended)
	g.mended = nil
}

// pass runs a statement.
func (g *gate) pass(ctx context.Context, writes bool, statement func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.mended != nil {
		mended := g.mended
		g.mu.Unlock()
		select {
		case <-mended:
		case <-ctx.Done():
		}
		g.mu.Lock()
		if err := ctx.Err(); err != nil {
			return &store.Error{Kind: store.KindUnavailable, Err: err}
		}
	}
	g.count++
	if writes {
		g.writes++
	}
	fails := g.count == g.at
	if fails && !g.after {
		return errInjected
	}
	err := statement()
	if fails {
		return errInjected
	}
	return err
}

// counts are how many statements there have been, and how many of them have written.
func (g *gate) counts() (statements, writes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count, g.writes
}

// statements is how many there have been.
func (g *gate) statements() int {
	n, _ := g.counts()
	return n
}

type gated struct {
	sqlplane.Runner

	gate *gate
}

func (r gated) Exec(ctx context.Context, s store.Statement) (rows int64, err error) {
	err = r.gate.pass(ctx, true, func() error { rows, err = r.Runner.Exec(ctx, s); return err })
	return rows, err
}

func (r gated) Query(ctx context.Context, s store.Statement, each func(sqlplane.Row) error) error {
	return r.gate.pass(ctx, false, func() error { return r.Runner.Query(ctx, s, each) })
}
