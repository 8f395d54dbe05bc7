package memstore

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/oncelib/once/store"
)

var (
	errChanged = errors.New("memstore: another transaction has changed a key that this transaction has read")
	errRenewed = errors.New("memstore: the expired lease was renewed by its owner during this transaction")
	errKeep    = errors.New("memstore: store.Change.KeepRequest is set, but Expect.Fence is 0, so there is no stored record whose request could be kept. Try: set Expect.Fence to the fence of the stored record")
	errEnded   = errors.New("memstore: the handler has ended the transaction")
)

// claim claims id until the transaction ends. The caller has checked that no other transaction has claimed it.
func (t *Tx) claim(id store.ID) {
	if !id.IsZero() && t.s.claims[id] != t {
		t.s.claims[id] = t
		t.claims = append(t.claims, id)
	}
}

// end gives the claims of the transaction back. The transaction is over.
func (t *Tx) end() {
	for _, id := range t.claims {
		delete(t.s.claims, id)
	}
	t.claims, t.over = nil, true
}

// check returns an error if c does not apply to the rows that this transaction sees. It also returns the record that c
// conflicts with.
func (t *Tx) check(c *store.Change) (store.Record, error) {
	for _, h := range c.Held {
		if !holds(t.seen(h.ID), h) {
			return store.Record{}, notHeld(h)
		}
	}
	if c.ID.IsZero() {
		return store.Record{}, nil
	}
	rec := t.s.inTheWay(c.ID, t)
	if holder := t.s.claims[c.ID]; holder != nil && holder != t || !matches(rec, c.Expect) {
		return rec, taken(rec)
	}
	if c.Expect.Fence == 0 && t.s.late(c.StaleAfter) {
		return store.Record{}, stale()
	}
	return store.Record{}, nil
}

// matches reports whether rec meets expect.
func matches(rec store.Record, expect store.Expect) bool {
	switch {
	case rec.State == store.StateAbsent || expect.Fence == 0:
		return rec.State == store.StateAbsent && expect.Fence == 0
	case rec.State == store.StateDone, rec.Fence != expect.Fence:
		return false
	case len(expect.Nonce) > 0 && !bytes.Equal(rec.Nonce, expect.Nonce):
		return false
	}
	return !expect.LeaseExpired || rec.LeaseExpired
}

// holds reports whether r is a running operation under the claim of h.
func holds(r *row, h store.Hold) bool {
	// An operation that was released may be claimed again with the same fence, so the nonce is compared as well.
	return r != nil && r.rec.State == store.StateRunning && r.rec.Fence == h.Fence && bytes.Equal(r.rec.Nonce, h.Nonce)
}

// seen returns the row of id as this transaction sees it, or nil if no such row exists.
func (t *Tx) seen(id store.ID) *row {
	for _, p := range slices.Backward(t.pending) {
		if p.id == id {
			return p.row
		}
	}
	return t.s.live(id)
}

// commit applies the transaction and c, or nothing. The transaction is over in both cases.
func (t *Tx) commit(c store.Change) (inTheWay store.Record, err error) {
	defer t.end()
	if rec, err := t.prepare(c); err != nil {
		return rec, err
	}
	if err := t.validate(); err != nil {
		return inTheWay, &store.Error{Kind: store.KindRetry, Err: err}
	}
	for _, w := range t.writes {
		if w.gone {
			delete(t.s.table, w.key)
		} else {
			t.s.table[w.key] = w.value
		}
	}
	for _, p := range t.pending {
		if p.row == nil {
			delete(t.s.rows, p.id)
		} else {
			t.s.rows[p.id] = p.row
		}
	}
	return inTheWay, nil
}

// validate returns an error if another transaction has changed what this one depends on.
func (t *Tx) validate() error {
	// No locks are held between reads and commit, so the commit must see that the reads are still true.
	for _, r := range t.reads {
		if v, ok := t.s.table[r.key]; v != r.value || ok == r.gone {
			return errChanged
		}
	}
	for _, h := range t.held {
		if !holds(t.s.live(h.ID), h) {
			return notHeld(h)
		}
	}
	for _, p := range t.pending {
		// Only Renew changes an operation that another transaction has claimed.
		if p.takesOver && !t.s.live(p.id).lapsed(t.s.now()) {
			return errRenewed
		}
	}
	return nil
}

// prepare adds c to the changes that the commit will apply. It returns the record that c conflicts with.
func (t *Tx) prepare(c store.Change) (inTheWay store.Record, err error) {
	if t.err != nil {
		return inTheWay, aborted(t.err)
	}
	if c.KeepRequest && c.Expect.Fence == 0 {
		return inTheWay, &store.Error{Kind: store.KindMisused, Err: errKeep}
	}
	if rec, err := t.check(&c); err != nil {
		return rec, err
	}
	for _, s := range c.Writes {
		if err := t.exec(s); err != nil {
			return inTheWay, &store.Error{Kind: store.KindOther, Err: err}
		}
	}
	for _, h := range c.Held {
		if t.seen(h.ID) == t.s.live(h.ID) { // a row that this transaction has written cannot be taken by another
			t.held = append(t.held, h)
		}
	}
	if c.ID.IsZero() {
		return inTheWay, nil
	}
	old := t.seen(c.ID)
	// A renewal between now and the commit must win, so the commit checks the lease once more.
	p := pending{id: c.ID, takesOver: c.Expect.LeaseExpired && old != nil && old == t.s.live(c.ID)}
	if c.Next.State != store.StateAbsent {
		p.row = newRow(&c, old, t.s.now())
	}
	t.claim(c.ID)
	t.pending = append(t.pending, p)
	return inTheWay, nil
}

// txn is a transaction that memstore has opened for an operation.
type txn struct{ tx Tx }

func (t *txn) Tx() *Tx { return &t.tx }

func (t *txn) Statements() int { return t.tx.statements() }

func (t *txn) Commit(ctx context.Context, c store.Change) error {
	t.tx.s.mu.Lock()
	defer t.tx.s.mu.Unlock()
	if t.tx.over {
		return &store.Error{Kind: store.KindEnded, Err: errEnded}
	}
	// The end of ctx before the commit is applied means that nothing is applied, as with a database.
	if err := ctx.Err(); err != nil {
		t.tx.end()
		return down(err)
	}
	_, err := t.tx.commit(c)
	return err
}

func (t *txn) Rollback(context.Context) error {
	t.tx.s.mu.Lock()
	defer t.tx.s.mu.Unlock()
	if t.tx.over {
		return &store.Error{Kind: store.KindEnded, Err: errEnded}
	}
	t.tx.end()
	return nil
}

// joined is an operation inside a transaction of the caller.
type joined struct {
	tx    *Tx
	since savepoint
}

// savepoint records how much a transaction had done at some moment. Reads are not undone: later decisions may depend on
// them.
type savepoint struct {
	writes, pending, held, count int
	err                          error
}

func (t *Tx) here() savepoint {
	return savepoint{len(t.writes), len(t.pending), len(t.held), t.count, t.err}
}

func (t *Tx) undo(to savepoint) {
	t.writes, t.pending, t.held, t.err = t.writes[:to.writes], t.pending[:to.pending], t.held[:to.held], to.err
}

func (j *joined) Tx() *Tx { return j.tx }

func (j *joined) Statements() int { return j.tx.statements() - j.since.count }

func (j *joined) Commit(ctx context.Context, c store.Change) error {
	j.tx.s.mu.Lock()
	defer j.tx.s.mu.Unlock()
	if j.tx.over {
		return &store.Error{Kind: store.KindEnded, Err: errEnded}
	}
	_, err := j.tx.prepare(c)
	if e := ctx.Err(); err == nil && e != nil {
		err = down(e)
	}
	if err != nil {
		j.tx.undo(j.since) // the caller may continue and commit its transaction
	}
	return err
}

// Write implements [upkeep.Writer].
func (s *Store) Write(ctx context.Context, tx *Tx, c store.Change) (store.Record, error) {
	if err := ctx.Err(); err != nil {
		return store.Record{}, down(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := tx.fits(s); err != nil {
		return store.Record{}, err
	}
	since := tx.here()
	if rec, err := tx.prepare(c); err != nil {
		// A refused change must leave the caller's transaction as it was.
		tx.undo(since)
		return rec, err
	}
	return c.Next, nil
}

func (j *joined) Rollback(context.Context) error {
	j.tx.s.mu.Lock()
	defer j.tx.s.mu.Unlock()
	if j.tx.over {
		return &store.Error{Kind: store.KindEnded, Err: errEnded}
	}
	j.tx.undo(j.since)
	return nil
}
