package pgxstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once/internal/base/ability"
	"github.com/oncelib/once/internal/sql/pgsql"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// abilities are methods of a Store for other packages of this module, which find them with store.As. Programs do not
// call them.
type abilities struct{ s *Store }

var (
	_ upkeep.Writer[pgx.Tx]    = abilities{}
	_ upkeep.Taker             = abilities{}
	_ store.Renewer            = abilities{}
	_ ability.DeadlockDetector = abilities{}
)

// Unwrap returns a value that implements further interfaces. The function [store.As] calls Unwrap.
func (s *Store) Unwrap() any { return abilities{s} }

// IsDeadlock implements [ability.DeadlockDetector].
func (abilities) IsDeadlock(err error) bool {
	pe := serverError(err)
	return pe != nil && pe.Code == pgsql.Deadlock
}

// Write implements [upkeep.Writer]: one round trip, unless the record is not as c expects.
func (a abilities) Write(ctx context.Context, caller pgx.Tx, c store.Change) (store.Record, error) {
	s := a.s
	switch err := errors.Join(s.unsendable(c.ID), checkKeep(c)); {
	case err != nil:
		return store.Record{}, err
	case ctx.Err() != nil:
		return store.Record{}, down(ctx.Err())
	}
	root := new(shared)
	outer, ok := caller.(*tx)
	if ok { // the caller's transaction belongs to a handler of this store
		if err := outer.enter(""); err != nil {
			return store.Record{}, &store.Error{Kind: store.KindAborted, Err: err}
		}
		defer outer.root.leave()
		caller, root = outer.Tx, outer.root
	}
	// undone is true, because no savepoint exists until the pipeline has run.
	j := &joined{caller: caller, user: &tx{Tx: caller, outer: outer, root: root}, undone: true}
	var start time.Time
	var b pipeline
	b.queue(savepoint)
	b = append(b, statement{sql: pgsql.Start, each: func(row pgx.Rows) error { return row.Scan(&start) }})
	queueSwap(&b, c)
	queueWrites(&b, nil, c.Writes)
	b.queue(release)
	if err := j.send(ctx, b); err != nil {
		return j.inTheWay(ctx, c, err)
	}
	if c.ID.IsZero() || c.Expect.Fence != 0 { // no claim was taken
		return c.Next, nil
	}
	j.claims = claimsOf(caller.Conn(), start)
	return c.Next, j.hold()
}

// inTheWay returns the record that has made a Write fail, as the caller's transaction sees it.
func (j *joined) inTheWay(ctx context.Context, c store.Change, failed error) (store.Record, error) {
	if store.KindOf(failed) != store.KindTaken || c.ID.IsZero() || len(c.Held) > 0 {
		return store.Record{}, failed
	}
	r, err := scan(j.caller.QueryRow(ctx, pgsql.Read, c.ID.Scope, c.ID.Key))
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return store.Record{}, down(err)
	case r.live().State == store.StateAbsent && c.Expect.Fence == 0: // an open transaction holds the claim
		return store.Record{State: store.StateRunning}, failed
	}
	return r.live(), failed
}
