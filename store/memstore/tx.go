package memstore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/oncelib/once/store"
)

// Tx is a transaction on the store's table of strings. As in PostgreSQL, a failed statement makes the
// transaction unusable: later statements and the commit are refused.
type Tx struct {
	s       *Store
	reads   []cell    // the values that were read from the table
	writes  []cell    // in order; the last write of a key counts
	pending []pending // records that commit with the transaction
	held    []store.Hold
	claims  []store.ID
	count   int
	err     error // the first statement that failed
	over    bool
	refusal func() bool // store.BeginOptions.Refuse

	room struct { // first storage of the slices above: most transactions are small
		reads, writes [1]cell
		claims        [1]store.ID
		pending       [1]pending
	}
}

// cell is a key with a value that was read or written.
type cell struct {
	key, value string
	gone       bool
}

// pending is a change whose record commits with the transaction.
type pending struct {
	id        store.ID
	row       *row // nil: the record is deleted
	takesOver bool // the lease of the committed record must be over
}

var (
	errOver   = errors.New("memstore: the transaction has ended. Try: use the transaction only before the handler returns")
	errLate   = errors.New("memstore: the operation has no record, and its first attempt is older than the retention, so the record may have expired. Try: find out whether the operation has taken effect, before you use a new key")
	errExists = errors.New("memstore: the key exists already")
)

func (t *Tx) open(s *Store) {
	t.s, t.reads, t.writes = s, t.room.reads[:0], t.room.writes[:0]
	t.claims, t.pending = t.room.claims[:0], t.room.pending[:0]
}

// Get returns the value of key, as this transaction sees it.
func (t *Tx) Get(key string) (value string, ok bool, err error) {
	err = t.statement(func() error {
		value, ok = t.see(key)
		return nil
	})
	return value, ok, err
}

// Put sets the value of key.
func (t *Tx) Put(key, value string) error {
	return t.statement(func() error {
		t.writes = append(t.writes, cell{key: key, value: value})
		return nil
	})
}

// Insert sets the value of key. Insert fails if key exists, as an insert fails at a unique
// constraint.
func (t *Tx) Insert(key, value string) error {
	return t.statement(func() error { return t.insert(key, value) })
}

// Delete removes key, if it exists.
func (t *Tx) Delete(key string) error {
	return t.statement(func() error {
		t.writes = append(t.writes, cell{key: key, gone: true})
		return nil
	})
}

// Commit commits and ends a transaction of [Store.BeginTx]. A handler must not call Commit: the writes of the
// handler would be committed without the record of the operation, and the operation would fail.
func (t *Tx) Commit() error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.over {
		return errOver
	}
	_, err := t.commit(store.Change{})
	return err
}

// Rollback ends a transaction of [Store.BeginTx] and discards the writes of the transaction. After
// Commit, Rollback does nothing.
func (t *Tx) Rollback() {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.end()
}

func (t *Tx) statement(run func() error) error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	switch {
	case t.over:
		return errOver
	case t.err != nil:
		return fmt.Errorf("memstore: the transaction accepts no more statements, because an earlier statement has failed: %w", t.err)
	}
	t.count++
	if t.err = t.refused(); t.err == nil {
		t.err = run()
	}
	return t.err
}

// errRefused is the error of a statement that store.BeginOptions.Refuse has failed.
var errRefused = errors.New("memstore: a test has made this statement fail")

// refused returns the error of a statement that a test has asked to fail, or nil.
func (t *Tx) refused() error {
	if t.refusal != nil && t.refusal() {
		return errRefused
	}
	return nil
}

func (t *Tx) statements() int {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	return t.count
}

// see returns the value of key as this transaction sees it. It remembers values of the table for validate.
func (t *Tx) see(key string) (string, bool) {
	for _, w := range slices.Backward(t.writes) {
		if w.key == key {
			return w.value, !w.gone
		}
	}
	// A read of an own write says nothing about other transactions, so only reads of the table are remembered.
	v, ok := t.s.table[key]
	t.reads = append(t.reads, cell{key, v, !ok})
	return v, ok
}

func (t *Tx) insert(key, value string) error {
	if _, ok := t.see(key); ok {
		return fmt.Errorf("%w: %q", errExists, key)
	}
	t.writes = append(t.writes, cell{key: key, value: value})
	return nil
}
