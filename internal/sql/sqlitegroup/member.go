package sqlitegroup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/sql/sqlguard"
	"github.com/oncelib/once/internal/sql/txlimit"
	"github.com/oncelib/once/store"
)

// Member is an operation in a group.
type Member struct {
	Conn  *sql.Conn // the connection of the group: a member does not close it
	Tx    *sql.Tx
	Guard *sqlguard.Txn

	Detach func() bool        // after this call, the end of the caller's context does not roll back any more
	Cancel context.CancelFunc // ends the context of Tx

	groups           *groups
	group            *group
	id               store.ID
	txn              *memberTx
	cancelStatements context.CancelFunc
	turnOver         bool
	wantsCommit      bool
}

func newMember(g *groups, first bool) *Member {
	bound, cancel := context.WithCancel(context.Background())
	return &Member{Conn: g.conn, Guard: new(sqlguard.Txn), groups: g, txn: newMemberTx(first, bound), cancelStatements: cancel}
}

// join makes m a member of g, for a limited time. After this time m is rolled back, and the next member gets its turn. The handler
// of m gets an error when it uses the transaction again.
func (m *Member) join(g *group, ask store.BeginOptions) {
	m.group, m.id = g, ask.ID
	g.ids = append(g.ids, ask.ID)
	m.Guard.Limit(txlimit.Limits{Idle: ask.Timeouts.Idle, Statement: ask.Timeouts.Statement, Whole: m.limit()}, func() {
		m.cancelStatements()
		_ = m.Tx.Rollback() // the transaction may have ended already
		m.Leave()
	})
}

// limit returns how long m may take. The members after it wait for at least twice as long.
func (m *Member) limit() time.Duration {
	most := m.groups.f.busyTimeout / 2
	if !m.txn.first {
		most = min(most, maxGuest)
	}
	return most
}

// Leave ends the turn of m without a COMMIT, if it has not ended yet.
func (m *Member) Leave() { m.leave(false) }

// leave ends the turn of m.
func (m *Member) leave(wantsCommit bool) {
	if m.turnOver {
		return
	}
	m.turnOver, m.wantsCommit = true, wantsCommit
	// COMMIT or ROLLBACK may still be running, and the next member uses the same connection.
	<-m.txn.over
	m.cancelStatements()
	m.group.closed = m.group.closed || m.txn.pragma.Load()
	switch {
	case m.txn.gone.Load():
		m.groups.end(errRolledBack)
		m.groups.closeConn()
	case m.txn.first && !wantsCommit: // m was the only member so far
		m.groups.end(nil)
		m.groups.closeConn()
	}
	m.groups.next()
}

// Commit ends the turn of m. It returns after the COMMIT of the group is on the disk.
func (m *Member) Commit() error {
	if m.Guard.Lift() != nil {
		return m.RolledBack()
	}
	if err := m.Tx.Commit(); err != nil {
		return err
	}
	m.leave(true)
	switch {
	case !m.groupEnded():
		return &store.Error{Kind: store.KindLost, Err: errNotEnded}
	case m.group.err == nil:
		m.groups.committed(m.id)
		return nil
	case len(m.group.ids) == 1:
		// No other member can be the reason, so another run alone would not help.
		return m.group.err
	}
	kind := store.KindRetry
	if commit := (*sqlguard.CommitError)(nil); errors.As(m.group.err, &commit) && commit.InDoubt {
		kind = store.KindLost
	}
	return &store.Error{Kind: kind, Err: fmt.Errorf("the group commit of %d operations has failed: %w", len(m.group.ids), m.group.err)}
}

// RolledBack ends the turn of a member whose Tx was rolled back. The member may have read writes of other members, so RolledBack
// returns nil only after these writes were committed.
func (m *Member) RolledBack() error {
	ended := m.Guard.Lift()
	if m.wantsCommit {
		return nil // Commit has already returned the error
	}
	m.leave(false)
	if ended != nil {
		return m.limitReached(ended)
	}
	if !m.groupEnded() {
		return &store.Error{Kind: store.KindBusy, Err: errNotEnded}
	}
	if m.group.err != nil {
		return &store.Error{Kind: store.KindRetry, Err: m.group.err}
	}
	return nil
}

// limitReached returns the error of a member that a limit has ended.
func (m *Member) limitReached(limit error) error {
	timeout := (*txlimit.TimeoutError)(nil)
	switch {
	case errors.As(limit, &timeout) && !timeout.Whole():
		return &store.Error{Kind: store.KindBusy, Err: limit}
	case m.txn.first:
		return &store.Error{Kind: store.KindBusy, Err: errTooLong}
	}
	m.groups.runAlone(m.id)
	return &store.Error{Kind: store.KindRetry, Err: errSlow}
}

// groupEnded waits until the group of m has ended, for at most the time of a wait for the file: a driver cannot interrupt some
// statements.
func (m *Member) groupEnded() bool {
	select {
	case <-m.group.done:
		return true
	default:
	}
	select {
	case <-m.group.done:
		return true
	case <-time.After(m.groups.f.busyTimeout):
		return false
	}
}

var (
	errNotEnded   = errors.New("another operation of the same group commit has not ended within busy_timeout. Try: shorter handlers, or a longer busy_timeout")
	errRolledBack = errors.New("a statement of one operation has rolled back all operations of its group commit")
	errSlow       = errors.New("the handler has delayed other operations of its group commit, so the handler was rolled back and runs again without a group")
	errTooLong    = errors.New("the handler was rolled back, because the handler has held the write lock of the SQLite file for half of busy_timeout. Try: a shorter handler, or a longer busy_timeout")
)
