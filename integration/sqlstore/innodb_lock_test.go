package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/store/upkeep"
)

// beside is a store and a lock that another transaction of its database has.
type beside struct {
	db *sql.DB
	s  *sqlstore.Store
}

func (b beside) do(ctx context.Context, op once.Operation) error {
	e := once.New(b.s, once.Config{}) // a new engine has seen nothing
	_, err := once.Do(ctx, e, op, func(ctx context.Context, tx *sql.Tx) (int, error) { return 1, effect(ctx, tx, op.Key) })
	return err
}

func (b beside) join(ctx context.Context, op once.Operation) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err = once.Join(ctx, once.New(b.s, once.Config{}), tx, op, func(ctx context.Context, tx *sql.Tx) (int, error) { return 1, effect(ctx, tx, op.Key) }); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (b beside) swap(ctx context.Context, expect store.Expect, id store.ID) error {
	_, err := b.s.Swap(ctx, store.Change{ID: id, Expect: expect, Next: store.Record{State: store.StateDone, Fence: 1, Nonce: []byte("0123456789abcdef")}, Retain: time.Hour})
	return err
}

func (b beside) sweep(ctx context.Context, keep func(context.Context, []upkeep.Expired) error) error {
	swept, err := b.s.Sweep(ctx, upkeep.Sweep{Limit: 10, Archive: keep})
	if err == nil && swept.Rows == 0 {
		err = errNothingSwept
	}
	return err
}

var errNothingSwept = errors.New("nothing was swept")

var heldNonce = []byte("fedcba9876543210")

// TestALockIsNoOutage: another transaction has locked a row of the store's, its place between other
// rows or in an index, or the table. The server is there: so each path of the store says within its bounds that it is
// busy, or that the operation is in flight, and never that the store is down. Afterwards it goes on.
func TestALockIsNoOutage(t *testing.T) {
	testenv.Prove(t)
	const (
		gap     = "select * from once_operation for update"
		place   = "select expires_at from once_operation force index (once_operation_expires_at) where expires_at is null for update"
		row     = "select 1 from once_operation where `key` = 'expired' for update"
		heldRow = "select 1 from once_operation where `key` = 'held' for update"
		entry   = "select expires_at from once_operation force index (once_operation_expires_at) where expires_at = 1000 lock in share mode"
		table   = "lock tables once_operation write, effect write"

		busy = "busy"
		left = "left"
	)
	op := func(key string) once.Operation { return once.Operation{Scope: "s", Key: key} }
	cases := map[string]struct {
		lock string
		do   func(ctx context.Context, b beside) error
		want string
	}{
		"a claim, its gap":   {lock: gap, want: busy, do: func(ctx context.Context, b beside) error { return b.do(ctx, op("new")) }},
		"a claim, the row":   {lock: row, want: busy, do: func(ctx context.Context, b beside) error { return b.do(ctx, op("expired")) }},
		"a claim, its index": {lock: place, want: busy, do: func(ctx context.Context, b beside) error { return b.do(ctx, op("expired")) }},
		"a claim, the table": {lock: table, want: busy, do: func(ctx context.Context, b beside) error { return b.do(ctx, op("new")) }},
		"a join, its gap":    {lock: gap, want: busy, do: func(ctx context.Context, b beside) error { return b.join(ctx, op("new")) }},
		"a join, the row":    {lock: row, want: busy, do: func(ctx context.Context, b beside) error { return b.join(ctx, op("expired")) }},
		"a join, its index":  {lock: place, want: busy, do: func(ctx context.Context, b beside) error { return b.join(ctx, op("expired")) }},
		"a look-up, the table": {lock: table, want: busy, do: func(ctx context.Context, b beside) error {
			_, err := b.s.Read(ctx, store.ID{Scope: "s", Key: "done"})
			return err
		}},
		"a swap, its gap": {lock: gap, want: busy, do: func(ctx context.Context, b beside) error {
			return b.swap(ctx, store.Expect{}, store.ID{Scope: "s", Key: "new"})
		}},
		"a swap, its index": {lock: place, want: busy, do: func(ctx context.Context, b beside) error {
			return b.swap(ctx, store.Expect{}, store.ID{Scope: "s", Key: "expired"})
		}},
		"a resolution, the row": {lock: heldRow, want: busy, do: func(ctx context.Context, b beside) error {
			return b.swap(ctx, store.Expect{Fence: 1}, store.ID{Scope: "s", Key: "held"})
		}},
		"a renewal, the row": {lock: heldRow, want: busy, do: renewHeld},
		"a sweep, the row":   {lock: row, want: left, do: func(ctx context.Context, b beside) error { return b.sweep(ctx, nil) }},
		"a sweep, its index": {lock: entry, want: left, do: func(ctx context.Context, b beside) error { return b.sweep(ctx, nil) }},
		"a sweep, the table": {lock: table, want: busy, do: func(ctx context.Context, b beside) error { return b.sweep(ctx, nil) }},
		"a replay, the row":  {lock: "select 1 from once_operation where `key` = 'done' for update", do: func(ctx context.Context, b beside) error { return b.do(ctx, op("done")) }},
	}
	onInnoDB(t, func(t *testing.T, on innodb) {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // nothing waits for that long
				defer cancel()
				db, s := on.open(t, "?innodb_lock_wait_timeout=1&lock_wait_timeout=1", nil)
				b := beside{db, s}
				prepareBeside(ctx, t, b)
				run(t, db, "insert into once_operation (scope, `key`, state, claim, since, expires_at) values ('s', 'expired', 2, 'x', 0, 1000)")
				other := lockBeside(ctx, t, b, c.lock)
				err := c.do(ctx, b)
				got := ""
				switch {
				case errors.Is(err, errNothingSwept):
					got = left
				case err != nil:
					got = store.KindOf(err).String()
				}
				if got != c.want || once.CodeOf(err) != "" && once.EffectOf(err) != once.EffectNotApplied {
					t.Errorf("%v, want %q", err, c.want)
				}
				run(t, other, "rollback", "unlock tables")
				if c.want == "" {
					return
				}
				if err := c.do(ctx, b); err != nil {
					t.Errorf("after the lock: %v", err)
				}
			})
		}
	})
}

func renewHeld(ctx context.Context, b beside) error {
	renewed, err := b.s.Renew(ctx, []store.Hold{{ID: store.ID{Scope: "s", Key: "held"}, Fence: 1, Nonce: heldNonce}}, time.Hour)
	if err == nil && len(renewed) != 1 {
		err = errors.New("it is held no longer")
	}
	return err
}

// prepareBeside stores an operation that is done and one that is held.
func prepareBeside(ctx context.Context, t *testing.T, b beside) {
	t.Helper()
	if err := b.do(ctx, once.Operation{Scope: "s", Key: "done"}); err != nil {
		t.Fatal(err)
	}
	held := store.Change{ID: store.ID{Scope: "s", Key: "held"}, Next: store.Record{State: store.StateRunning, Fence: 1, Nonce: heldNonce}, Lease: time.Hour}
	if _, err := b.s.Swap(ctx, held); err != nil {
		t.Fatal(err)
	}
}

// lockBeside returns a connection whose transaction has a lock.
func lockBeside(ctx context.Context, t *testing.T, b beside, lock string) *sql.Conn {
	t.Helper()
	other, err := b.db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	run(t, other, "set transaction isolation level repeatable read", "start transaction", lock)
	return other
}
