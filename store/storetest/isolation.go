package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
)

// testIsolation proves the isolation levels by the data that transactions see, whatever the server calls the levels.
func testIsolation[TX any](t *testing.T, u *suite[TX]) {
	for _, level := range append([]store.Isolation{store.DefaultIsolation}, u.Isolations...) {
		id := newID()
		err := error(&store.Error{Kind: store.KindRetry})
		for run := 0; run < 20 && store.KindOf(err) == store.KindRetry; run++ { // the other cases run concurrently, and may conflict
			var txn store.Transaction[TX]
			if txn, _, err = u.s.Begin(bounded(t), store.BeginOptions{ID: id, Isolation: level}); err == nil {
				u.write(t, txn, id.Key)
				err = txn.Commit(bounded(t), done(id, "r"))
			}
		}
		if err != nil {
			t.Error(level, err)
		}
		u.wantEffects(t, id.Key, 1)
		if !u.OneLevel && level != store.DefaultIsolation {
			u.testLevel(t, level)
		}
	}
}

// others is how long a handler waits for a write of another transaction. If reads lock, that write waits for the handler, so
// the handler must give up.
var others = map[store.Isolation]time.Duration{
	store.ReadCommitted: time.Minute, store.RepeatableRead: 5 * time.Second, store.Serializable: 300 * time.Millisecond,
}

// testLevel lets a handler read a value twice while another transaction changes the value in between. It does so for
// each way to open a transaction.
func (u *suite[TX]) testLevel(t *testing.T, level store.Isolation) {
	t.Helper()
	begin := func(opts store.BeginOptions) func(handler func(context.Context, TX) error) error {
		return func(handler func(context.Context, TX) error) error {
			opts.Isolation = level
			txn, rec, err := u.s.Begin(bounded(t), opts)
			if err != nil || txn == nil {
				t.Fatalf("Begin has not granted the claim: record %+v, error %v", rec, err)
			}
			if err := handler(bounded(t), txn.Tx()); err != nil {
				t.Error(err)
			}
			return txn.Rollback(bounded(t))
		}
	}
	for how, run := range map[string]func(func(context.Context, TX) error) error{
		"Begin":           begin(store.BeginOptions{ID: newID()}),
		"Begin, first":    begin(store.BeginOptions{ID: newID(), First: true}),
		"Begin, no claim": begin(store.BeginOptions{}),
		"Do": func(handler func(context.Context, TX) error) error {
			op := operation(newID())
			op.Isolation = level
			_, err := once.Do(bounded(t), u.engine(u.s, once.Config{}), op, func(ctx context.Context, tx TX) (int, error) { return 0, handler(ctx, tx) })
			return err
		},
	} {
		key := newID().Key
		u.set(t, key, "before")
		var writers sync.WaitGroup
		err := run(func(ctx context.Context, tx TX) error {
			first, err := u.Get(ctx, tx, key)
			if err != nil {
				return err
			}
			next, written := once.NewKey(), make(chan struct{})
			writers.Go(func() {
				u.set(t, key, next)
				close(written)
			})
			waits := false
			select {
			case <-written:
			case <-time.After(others[level]):
				waits = true
			}
			second, err := u.Get(ctx, tx, key)
			if sees := second == next; sees != (level == store.ReadCommitted) || !sees && second != first {
				t.Errorf("isolation %d, %s: the transaction has read %q and then %q; another transaction has written %q in between (and waits: %t)", level, how, first, second, next, waits)
			}
			return err
		})
		writers.Wait()
		if err != nil {
			t.Errorf("isolation %d, %s: %v", level, how, err)
		}
	}
	if level == store.Serializable {
		u.testWriteSkew(t)
	}
}

// testWriteSkew lets each of two transactions read the row that the other one writes. If the two had run one after the
// other, the later one would have read another value. So one of them must fail.
func (u *suite[TX]) testWriteSkew(t *testing.T) {
	t.Helper()
	var errs [2]error
	for range 20 { // they may also conflict with other cases
		errs = u.skew(t)
		if (errs[0] == nil) != (errs[1] == nil) {
			return
		}
		if errs[0] == nil || store.KindOf(errs[0]) != store.KindRetry || store.KindOf(errs[1]) != store.KindRetry {
			break
		}
	}
	t.Errorf("SERIALIZABLE: each of two transactions has read the value that the other transaction has changed; want one commit and one error of kind Retry, got %v and %v", errs[0], errs[1])
}

func (u *suite[TX]) skew(t *testing.T) (errs [2]error) {
	t.Helper()
	ids := [2]store.ID{newID(), newID()}
	for _, id := range ids {
		u.set(t, id.Key, "before")
	}
	var txns [2]store.Transaction[TX]
	for i, id := range ids {
		txn, rec, err := u.s.Begin(bounded(t), store.BeginOptions{ID: id, Isolation: store.Serializable})
		if err == nil && txn != nil {
			txns[i] = txn
			_, err = u.Get(bounded(t), txn.Tx(), id.Key)
		}
		if err != nil || txn == nil {
			t.Fatalf("Begin and read: record %+v, error %v", rec, err)
		}
	}
	var group sync.WaitGroup
	for i, txn := range txns { // at the same time, because one may wait for the other
		c := done(ids[i], "r")
		c.Writes = []store.Statement{u.Set(ids[1-i].Key, "after")}
		ctx := bounded(t)
		group.Go(func() { errs[i] = txn.Commit(ctx, c) })
	}
	group.Wait()
	return errs
}

// set sets the value of key in a transaction of its own.
func (u *suite[TX]) set(t *testing.T, key, value string) {
	t.Helper()
	if _, err := u.peer.Swap(bounded(t), store.Change{Writes: []store.Statement{u.Set(key, value)}}); err != nil {
		t.Error("Set:", err)
	}
}
