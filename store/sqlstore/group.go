package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/sqlguard"
	"github.com/oncelib/once/store"
)

// group is an open transaction of SQLite and its members, who follow each other. But for
// done and err it belongs to whoever has the writer's turn.
type group struct {
	began  time.Time
	alone  bool          // it takes no second member
	closed bool          // it takes no further one
	ids    []store.ID    // of all members so far
	done   chan struct{} // closed when it has ended
	err    error         // then: why nothing, or perhaps nothing, of it was applied
}

// takes reports whether another one may follow.
func (g *group) takes(t *turn) bool {
	return !g.alone && !g.closed && !t.alone && len(g.ids) < maxMembers && time.Since(g.began) < maxAge
}

// member is the part of one transaction in a group.
type member struct {
	w      *writer
	g      *group
	id     store.ID
	part   *sqlguard.Part
	guard  *sqlguard.Txn
	unbind context.CancelFunc // ends its statements
	left   bool               // its turn is over
	stays  bool               // it is to be committed
}

func newMember(w *writer, first bool, guard *sqlguard.Txn) *member {
	bound, unbind := context.WithCancel(context.Background())
	return &member{w: w, part: sqlguard.NewPart(first, bound), guard: guard, unbind: unbind}
}

// join makes m, which is t's, a member of g, for a limited time.
func (m *member) join(g *group, t *txn, ask store.Ask) {
	m.g, m.id = g, ask.ID
	g.ids = append(g.ids, ask.ID)
	t.limit(ask, m.limit())
}

// limit is how long m may take. Those behind it wait for twice as long at least.
func (m *member) limit() time.Duration {
	most := m.w.s.patient() / 2
	if !m.part.First {
		most = min(most, maxGuest)
	}
	return most
}

// leave ends m's turn.
func (m *member) leave(stays bool) {
	if m.left {
		return
	}
	m.left, m.stays = true, stays
	<-m.part.Over()
	m.unbind()
	m.g.closed = m.g.closed || m.part.Settings()
	switch {
	case m.part.Gone():
		m.w.over(errGone)
		m.w.drop()
	case m.part.First && !stays: // it was the only one so far
		m.w.over(nil)
		m.w.drop()
	}
	m.w.next()
}

// commit ends the turn of a member that is to be committed, and returns when it is.
func (m *member) commit(tx *sql.Tx) error {
	if m.guard.Lift() != nil {
		return m.undone()
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	m.leave(true)
	switch {
	case !m.ended():
		return &store.Error{Kind: store.Lost, Err: errStuck}
	case m.g.err == nil:
		m.w.forgive(m.id)
		return nil
	case len(m.g.ids) == 1:
		return m.g.err
	}
	kind := store.Retry
	if commit := (*sqlguard.CommitError)(nil); errors.As(m.g.err, &commit) && commit.InDoubt {
		kind = store.Lost
	}
	return &store.Error{Kind: kind, Err: fmt.Errorf("of %d operations together: %w", len(m.g.ids), m.g.err)}
}

// undone ends the turn of a member that was rolled back. It may have read what others of
// its group have written: what it tells is true only when that has been committed.
func (m *member) undone() error {
	ended := m.guard.Lift()
	if m.stays {
		return nil // commit has said what there is to say
	}
	m.leave(false)
	if ended != nil {
		return m.late(ended)
	}
	if !m.ended() {
		return &store.Error{Kind: store.Busy, Err: errStuck}
	}
	if m.g.err != nil {
		return &store.Error{Kind: store.Retry, Err: m.g.err}
	}
	return nil
}

// late is the error of a member that was ended by its limits.
func (m *member) late(limit error) error {
	timeout := (*sqlguard.TimeoutError)(nil)
	switch {
	case errors.As(limit, &timeout) && !timeout.Whole():
		return &store.Error{Kind: store.Busy, Err: limit}
	case m.part.First:
		return &store.Error{Kind: store.Busy, Err: errLong}
	}
	m.w.single(m.id)
	return &store.Error{Kind: store.Retry, Err: errSlow}
}

// ended waits until m's group has ended, for as long as for the file: there are
// statements that a driver cannot interrupt.
func (m *member) ended() bool {
	select {
	case <-m.g.done:
		return true
	default:
	}
	select {
	case <-m.g.done:
		return true
	case <-time.After(m.w.s.patient()):
		return false
	}
}

var (
	errStuck = errors.New("another operation, with which this one was to be committed, has not ended within busy_timeout. Try: statements that end")
	errGone  = errors.New("a statement of one of them has rolled back all that were to be committed together")
	errSlow  = errors.New("the handler has kept others waiting, and was rolled back to be run again alone")
	errLong  = errors.New("the handler has held the file for half of busy_timeout, and was rolled back. Try: a shorter handler, or a longer busy_timeout")
)
