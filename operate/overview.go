package operate

import (
	"context"
	"time"

	"github.com/oncelib/once/deadletter"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/outbox"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// Bounds of what Overview reads: together fewer than 2,000 rows.
const (
	mostUnfinished = 500
	mostWaiting    = 250
	mostDead       = 250
)

// Overview is how a database stands at a glance. A part whose tables are missing is nil.
type Overview struct {
	Running, Waiting, Unknown Tally

	Outbox *outbox.Backlog
	Dead   *Tally // letters
	Now    time.Time
}

// Tally is a number, and since when the oldest has been there.
type Tally struct {
	Number int
	More   bool // there may be more: the bound of what is read has ended the count
	Oldest time.Time
}

// Overview counts what waits for a process or a person. It reads fewer than 2,000 rows, by indexes.
func (o *Operator) Overview(ctx context.Context) (v Overview, err error) {
	if err = o.Keys.tally(ctx, &v); err != nil {
		return v, err
	}
	backlog, err := o.Outbox.box.BacklogUpTo(ctx, mostWaiting)
	switch {
	case err == nil:
		v.Outbox = &backlog
	case !sqlguard.IsMissing(err):
		return v, err //nolint:wrapcheck // it is of package outbox
	}
	first := LetterFilter{Filter: deadletter.Filter{Most: mostDead}}
	dead, err := o.Letters.Count(ctx, first)
	switch {
	case err == nil:
		v.Dead = &Tally{Number: int(dead), More: dead == mostDead}
	case !sqlguard.IsMissing(err):
		return v, err
	}
	return v, nil
}

// tally counts operations that are not done, by state.
func (a *Keys) tally(ctx context.Context, v *Overview) (err error) {
	if v.Now, err = a.Now(ctx); err != nil {
		return err
	}
	most := mostUnfinished
	if a.db.Dialect() == sqlplane.MySQL { // which reads as many of each state
		most /= 3
	}
	query := a.statement("select state, count(*), min(since) from " + dialect.Unfinished(a.db.Dialect(), "state, since", most) + " group by state")
	read := 0
	of := map[store.State]*Tally{store.StateRunning: &v.Running, store.StateWaiting: &v.Waiting, store.StateUnknown: &v.Unknown}
	err = a.db.Pool().Query(ctx, query, func(row sqlplane.Row) error {
		var state store.State
		var is Tally
		if err := row.Scan(&state, &is.Number, (*dialect.Time)(&is.Oldest)); err != nil {
			return err
		}
		read += is.Number
		if t := of[state]; t != nil {
			is.Oldest = shown(is.Oldest)
			*t = is
		}
		return nil
	})
	for _, t := range of {
		t.More = read >= most
	}
	return err
}
