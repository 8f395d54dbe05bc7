// Package memstore is a store in memory for tests, examples and demos. A Store of this package keeps
// operations, and a table of strings for the user's data. All data is lost when the process ends.
//
// Transactions are optimistic and serializable: writes are buffered until the commit, and the commit fails with
// [store.KindRetry] if a key that was read has changed.
//
// A memstore has no SQL. The statements of a [store.Change] are "put", "insert" and "delete"; their arguments
// are a key and, except for "delete", a value.
package memstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oncelib/once/internal/base/ability"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// Store is a [store.Store] in memory. The methods of Store can be called concurrently.
type Store struct {
	mu     sync.Mutex
	ahead  time.Duration // of the process's clock; see Advance
	rows   map[store.ID]*row
	claims map[store.ID]*Tx
	table  map[string]string
}

var (
	_ store.Store[*Tx]   = (*Store)(nil)
	_ store.Joiner[*Tx]  = (*Store)(nil)
	_ upkeep.Writer[*Tx] = (*Store)(nil)
	_ store.Classifier   = (*Store)(nil)
	_ ability.Counter    = (*txn)(nil)
	_ ability.Counter    = (*joined)(nil)
)

// New returns an empty store.
func New() *Store {
	return &Store{rows: map[store.ID]*row{}, claims: map[store.ID]*Tx{}, table: map[string]string{}}
}

// Get returns the committed value of key.
func (s *Store) Get(key string) (value string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok = s.table[key]
	return value, ok
}

// Advance moves the store's clock forward. The store's clock decides when leases end and records expire.
func (s *Store) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// BeginTx opens a transaction that the caller ends. Use BeginTx for once.Join, and for work without an
// operation.
func (s *Store) BeginTx() *Tx {
	t := new(Tx)
	t.open(s)
	return t
}

// Read implements [store.Operations].
func (s *Store) Read(ctx context.Context, id store.ID) (store.Record, error) {
	if err := ctx.Err(); err != nil {
		return store.Record{}, down(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read(id), nil
}

// Swap implements [store.Operations].
func (s *Store) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	if err := ctx.Err(); err != nil {
		return store.Record{}, down(err)
	}
	// A swap is a transaction that reads and commits under one lock, so nothing can come between.
	var t Tx
	t.open(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec, err := t.commit(c); err != nil {
		return rec, err
	}
	return c.Next, nil
}

// Begin implements [store.Store].
func (s *Store) Begin(ctx context.Context, opts store.BeginOptions) (store.Transaction[*Tx], store.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, store.Record{}, down(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.inTheWay(opts.ID, nil)
	if rec.State != store.StateAbsent {
		return nil, rec, nil
	}
	if s.late(opts.StaleAfter) {
		return nil, store.Record{}, stale()
	}
	t := new(txn)
	t.tx.open(s)
	t.tx.refusal = opts.Refuse
	t.tx.claim(opts.ID)
	return t, rec, nil
}

// Join implements [store.Joiner].
func (s *Store) Join(ctx context.Context, tx *Tx, opts store.BeginOptions) (store.Transaction[*Tx], store.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, store.Record{}, down(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := tx.fits(s); err != nil {
		return nil, store.Record{}, err
	}
	if rec := s.inTheWay(opts.ID, tx); rec.State != store.StateAbsent {
		return nil, rec, nil
	}
	if s.late(opts.StaleAfter) {
		return nil, store.Record{}, stale()
	}
	if tx.claim(opts.ID); opts.Refuse != nil {
		tx.refusal = opts.Refuse
	}
	return &joined{tx: tx, since: tx.here()}, store.Record{}, nil
}

// fits returns an error if t cannot be used with s.
func (t *Tx) fits(s *Store) error {
	switch {
	case t.s != s:
		return &store.Error{Kind: store.KindMisused, Err: errors.New("the transaction belongs to another store")}
	case t.over:
		return &store.Error{Kind: store.KindEnded, Err: errOver}
	case t.err != nil:
		return aborted(t.err)
	}
	return nil
}

// Classify implements [store.Classifier].
func (s *Store) Classify(err error) store.Kind { return store.KindOf(err) }

// inTheWay returns the record that keeps tx from claiming id. Its State is StateAbsent if id is free.
func (s *Store) inTheWay(id store.ID, tx *Tx) store.Record {
	if tx != nil {
		for _, p := range slices.Backward(tx.pending) {
			if p.id != id { // a transaction sees its own writes
				continue
			}
			if p.row == nil {
				return store.Record{}
			}
			return p.row.record(s.now())
		}
	}
	rec := s.read(id)
	// The holder has written no record yet, so the answer is that a process works on it.
	if holder := s.claims[id]; rec.State == store.StateAbsent && holder != nil && holder != tx {
		return store.Record{State: store.StateRunning}
	}
	return rec
}

func (s *Store) read(id store.ID) store.Record {
	r := s.rows[id]
	if r == nil {
		return store.Record{}
	}
	now := s.now()
	// An expired record keeps its nonce, so that a writer whose answer was lost still recognises its record.
	if r.expired(now) {
		return store.Record{Nonce: slices.Clone(r.rec.Nonce)}
	}
	return r.record(now)
}

// live returns the row of id, or nil if no row exists or it is expired.
func (s *Store) live(id store.ID) *row {
	r := s.rows[id]
	if r != nil && r.expired(s.now()) {
		return nil
	}
	return r
}

func (s *Store) now() time.Time { return time.Now().Add(s.ahead) }

// late reports whether it is too late to execute an absent operation.
func (s *Store) late(staleAfter time.Time) bool {
	return !staleAfter.IsZero() && !s.now().Before(staleAfter)
}

func stale() error            { return &store.Error{Kind: store.KindStale, Err: errLate} }
func down(err error) error    { return &store.Error{Kind: store.KindUnavailable, Err: err} }
func aborted(err error) error { return &store.Error{Kind: store.KindAborted, Err: err} }
func taken(rec store.Record) error {
	return &store.Error{Kind: store.KindTaken, Err: fmt.Errorf("another caller has changed the operation: its state is %s and its fence is %d now", rec.State, rec.Fence)}
}
func notHeld(h store.Hold) error {
	return &store.Error{Kind: store.KindTaken, Err: fmt.Errorf("this process no longer owns the operation %q of scope %q with fence %d: another process has taken the operation over", h.ID.Key, h.ID.Scope, h.Fence)}
}
