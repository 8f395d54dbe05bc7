package sqlitegroup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once/internal/base/waits"
	"github.com/oncelib/once/store"
)

// These are the limits of a group.
const (
	maxMembers = 128
	maxAge     = 10 * time.Millisecond  // an older group accepts no further member
	maxGuest   = 100 * time.Millisecond // the time limit of a member while others wait for the COMMIT of its group
)

// leastBusyTimeout is the shortest busy_timeout that leaves enough time for handlers.
const leastBusyTimeout = time.Second

// group is an open transaction of SQLite with its sequential members. Only the writer whose turn it is may use it, except for
// done and err.
type group struct {
	began  time.Time
	alone  bool          // the group accepts no second member
	closed bool          // the group accepts no further member
	ids    []store.ID    // the operations of all members so far
	done   chan struct{} // closed when the group has ended
	err    error         // set before done is closed: why no write of the group was applied, or why this is not known
}

// accepts reports whether the writer that waits with t may become a member.
func (g *group) accepts(t *turn) bool {
	return !g.alone && !g.closed && !t.alone && len(g.ids) < maxMembers && time.Since(g.began) < maxAge
}

// groups lets operations that wait for each other share a COMMIT. Only the writer whose turn it is may use the connection.
type groups struct {
	*line

	f *File

	alone map[store.ID]struct{} // the operations that must not share a COMMIT; protected by the lock of the line

	// Only the writer whose turn it is uses the fields below.

	conn *sql.Conn // kept while other writers wait for their turn
	open *group    // nil: no group is open
}

// UseGroups lets operations share a COMMIT from now on, if the driver supports this.
func (f *File) UseGroups(ctx context.Context) error {
	if f.busyTimeout < leastBusyTimeout {
		return fmt.Errorf("the busy_timeout of SQLite is %v, which is too short for group commits: a handler may hold the write lock only for half of this time. Try: _pragma=busy_timeout(5000) in the data source name", f.busyTimeout)
	}
	conn, err := f.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	f.groups = &groups{line: f.line, f: f, alone: map[store.ID]struct{}{}}
	return conn.Raw(checkDriver)
}

// Join waits for the turn of an operation, and begins it as a member of a group. connect returns the connection of a new group.
func (f *File) Join(ctx context.Context, ask store.BeginOptions, connect func(context.Context) (*sql.Conn, error)) (*Member, error) {
	g := f.groups
	g.mu.Lock()
	_, alone := g.alone[ask.ID]
	g.mu.Unlock()
	began := time.Now()
	err := g.wait(ctx, f.LockWait(ask.Timeouts.Lock), alone)
	addLockWait(ask.Waits, began)
	if err != nil {
		return nil, err
	}
	var m *Member
	err = ctx.Err()
	if err == nil {
		m, err = g.begin(ctx, ask, alone, connect)
	}
	if err != nil {
		g.next()
		return nil, err
	}
	return m, nil
}

// addLockWait adds the time since began to the operation's wait for the file.
func addLockWait(w *waits.Waits, began time.Time) {
	if w != nil {
		w.Lock += time.Since(began)
	}
}

// begin begins a member of the open group, or a new group.
func (g *groups) begin(ctx context.Context, ask store.BeginOptions, alone bool, connect func(context.Context) (*sql.Conn, error)) (*Member, error) {
	first := g.open == nil
	if g.conn == nil {
		var err error
		if g.conn, err = connect(ctx); err != nil {
			return nil, err
		}
	}
	m := newMember(g, first)
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	m.Cancel = cancel
	shortened := false
	if first {
		m.Detach = context.AfterFunc(ctx, cancel)
		shortened = g.f.shortenBusyTimeout(ctx, g.conn, ask.Timeouts.Lock)
	} else { // a SAVEPOINT does not wait, and its cancellation would roll back the group
		m.Detach = func() bool { return true }
	}
	var err error
	began := time.Now()
	m.Tx, err = g.conn.BeginTx(m.Guard.InGroup(own, m.txn), nil)
	addLockWait(ask.Waits, began)
	if shortened {
		err = errors.Join(err, g.f.restoreBusyTimeout(g.conn, m.Tx))
	}
	if err != nil {
		m.Detach()
		cancel()
		m.cancelStatements()
		g.beginFailed(first, err)
		return nil, err
	}
	if first {
		g.open = &group{began: time.Now(), alone: alone, done: make(chan struct{})}
	}
	m.join(g.open, ask)
	return m, nil
}

// beginFailed closes the connection after a member could not begin. If a group was open, it ends this group.
func (g *groups) beginFailed(first bool, err error) {
	if first {
		g.closeConn()
		return
	}
	// It is not known whether the savepoint exists. Only the end of the group gives the connection a known state.
	_, end := g.conn.ExecContext(context.Background(), "rollback")
	g.end(errors.Join(err, end))
	g.closeConn()
}

// closeConn returns the connection to the pool, which drops a broken one.
func (g *groups) closeConn() {
	_ = g.conn.Close()
	g.conn = nil
}

// next ends a turn. If no further member will follow in the open group, it first commits the group.
func (g *groups) next() {
	g.mu.Lock()
	if g.open != nil && (len(g.queue) == 0 || !g.open.accepts(g.queue[0])) {
		g.mu.Unlock()
		g.commit()
		g.mu.Lock()
	}
	defer g.mu.Unlock()
	if len(g.queue) == 0 && g.conn != nil {
		g.closeConn()
	}
	if g.open != nil { // the next member joins this group
		g.pass()
		return
	}
	g.leave()
}

// commit commits the open group.
func (g *groups) commit() {
	err := g.conn.Raw(commitGroup)
	g.end(err)
	if err != nil {
		g.closeConn()
	}
}

// end ends the open group. The members of a failed group will try again alone.
func (g *groups) end(err error) {
	ended := g.open
	g.open = nil
	if err != nil {
		ended.err = err
		g.runAlone(ended.ids...)
	}
	close(ended.done)
}

// maxAlone limits how many operations are remembered for callers that never return.
const maxAlone = 4096

// runAlone makes operations not share a COMMIT when they come again.
func (g *groups) runAlone(ids ...store.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.alone) > maxAlone {
		// A forgotten operation may fail once more in a group. This is the only cost.
		clear(g.alone)
	}
	for _, id := range ids {
		g.alone[id] = struct{}{}
	}
}

// committed reverts runAlone for an operation that was committed.
func (g *groups) committed(id store.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.alone, id)
}
