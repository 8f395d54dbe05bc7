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

// Bounds of a group.
const (
	maxMembers = 128
	maxAge     = 10 * time.Millisecond  // of a group that takes another member
	maxGuest   = 100 * time.Millisecond // for a member while others wait for its group's COMMIT
)

// leastPatience is the shortest busy_timeout that leaves handlers some time.
const leastPatience = time.Second

// writer has the transactions of a store follow each other, and those that wait for each
// other share a COMMIT. Whoever has the turn may use the connection.
type writer struct {
	*line
	s *Store

	alone map[store.ID]struct{} // who is to share no COMMIT; of the line's lock

	// The rest is touched only by whoever has the turn.

	conn *sql.Conn // kept while somebody waits
	g    *group    // the open one
}

func newWriter(ctx context.Context, s *Store) (*writer, error) {
	if s.dialect.name != SQLite {
		return nil, errors.New("for SQLite only; servers do it by themselves. Try: without it")
	}
	if s.patient() < leastPatience {
		return nil, fmt.Errorf("with a busy_timeout of %v a handler may hold the file for half of that. Try: _pragma=busy_timeout(5000) in the data source name", s.patient())
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return &writer{line: s.line, s: s, alone: map[store.ID]struct{}{}}, conn.Raw(sqlguard.CanGroup)
}

// open begins a transaction when it is its turn.
func (w *writer) open(ctx context.Context, ask store.Ask) (*txn, error) {
	w.mu.Lock()
	_, alone := w.alone[ask.ID]
	w.mu.Unlock()
	if err := w.wait(ctx, w.s.bound(ask), alone); err != nil {
		return nil, err
	}
	var t *txn
	err := ctx.Err()
	if err == nil {
		t, err = w.begin(ctx, ask, alone)
	}
	if err != nil {
		w.next()
	}
	return t, err
}

// patient is how long SQLite waits for the file.
func (s *Store) patient() time.Duration { return time.Duration(s.busy) * time.Millisecond }

// bound is how long somebody waits for the file.
func (s *Store) bound(ask store.Ask) time.Duration {
	if lock := ask.Timeouts.Lock; lock > 0 {
		return min(s.patient(), lock)
	}
	return s.patient()
}

// begin begins a member of the open group, or a group.
func (w *writer) begin(ctx context.Context, ask store.Ask, alone bool) (*txn, error) {
	first := w.g == nil
	if w.conn == nil {
		var err error
		if w.conn, err = w.s.acquire(ctx, ask.Timeouts.Acquire); err != nil {
			return nil, err
		}
	}
	guard := new(sqlguard.Txn)
	m := newMember(w, first, guard)
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t := &txn{s: w.s, conn: w.conn, guard: guard, cancel: cancel, member: m}
	hurried := false
	if first {
		t.stop = context.AfterFunc(ctx, cancel)
		hurried = w.s.patience(ctx, w.conn, ask.Timeouts.Lock)
	} else { // which is begun at once, and would take the group with it
		t.stop = func() bool { return true }
	}
	var err error
	t.tx, err = w.conn.BeginTx(t.guard.PartOf(own, m.part), nil)
	if hurried {
		err = errors.Join(err, t.patient(err == nil))
	}
	if err != nil {
		t.stop()
		cancel()
		m.unbind()
		w.failed(first, err)
		return nil, err
	}
	if first {
		w.g = &group{began: time.Now(), alone: alone, done: make(chan struct{})}
	}
	m.join(w.g, t, ask)
	return t, nil
}

// failed is for a member that could not be begun.
func (w *writer) failed(first bool, err error) {
	if first {
		w.drop()
		return
	}
	_, end := w.conn.ExecContext(context.Background(), "rollback")
	w.over(errors.Join(err, end))
	w.drop()
}

// drop gives the connection back; a broken one is not kept.
func (w *writer) drop() {
	_ = w.conn.Close()
	w.conn = nil
}

// next gives the turn away. If nobody is to follow in the open group, that is committed
// before.
func (w *writer) next() {
	w.mu.Lock()
	if w.g != nil && (len(w.queue) == 0 || !w.g.takes(w.queue[0])) {
		w.mu.Unlock()
		w.commit()
		w.mu.Lock()
	}
	defer w.mu.Unlock()
	if len(w.queue) == 0 && w.conn != nil {
		w.drop()
	}
	w.pass()
}

// commit commits the open group.
func (w *writer) commit() {
	err := w.conn.Raw(sqlguard.CommitGroup)
	w.over(err)
	if err != nil {
		w.drop()
	}
}

// over ends the open group. Who was in it when it failed will try again alone.
func (w *writer) over(err error) {
	g := w.g
	w.g = nil
	if err != nil {
		g.err = err
		w.single(g.ids...)
	}
	close(g.done)
}

// maxAlone bounds what is kept of callers who never came back.
const maxAlone = 4096

func (w *writer) single(ids ...store.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.alone) > maxAlone {
		clear(w.alone)
	}
	for _, id := range ids {
		w.alone[id] = struct{}{}
	}
}

// forgive undoes single for one that was committed.
func (w *writer) forgive(id store.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.alone, id)
}

// own marks a statement as the store's own.
func (s *Store) own(ctx context.Context) context.Context {
	if s.writer == nil {
		return ctx
	}
	return sqlguard.Own(ctx)
}
