package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/waits"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/store/upkeep"
)

// running is a change to an operation whose holder goes on, under the next fence.
func running(id store.ID, fence int64) store.Change {
	return store.Change{
		ID: id, Expect: store.Expect{Fence: fence}, Lease: time.Hour,
		Next: store.Record{State: store.StateRunning, Fence: fence + 1, Nonce: nonceOf(id), RecoveryPoint: fmt.Sprint("point ", fence), Data: []byte("data")},
	}
}

// finished is the change that finishes it.
func finished(id store.ID, fence int64) store.Change {
	return store.Change{ID: id, Expect: store.Expect{Fence: fence}, Next: store.Record{State: store.StateDone, Fence: fence + 1, Nonce: nonceOf(id)}, Retain: time.Hour}
}

func nonceOf(id store.ID) []byte { return []byte("nonce of " + id.Key) }

func holdOf(id store.ID, fence int64) store.Hold {
	return store.Hold{ID: id, Fence: fence, Nonce: nonceOf(id)}
}

func swap(t *testing.T, s *sqlstore.Store, c store.Change) {
	t.Helper()
	if rec, err := s.Swap(context.Background(), c); err != nil {
		t.Fatalf("%v: %v, in the way is %+v", c.ID, err, rec)
	}
}

func read(t *testing.T, s *sqlstore.Store, id store.ID) store.Record {
	t.Helper()
	rec, err := s.Read(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// TestCommitRunningInAGroup: members of a group commit leased work, each in its savepoint. One whose hold
// is lost is undone, and the others stand.
func TestCommitRunningInAGroup(t *testing.T) {
	for bad := range 4 { // it begins the group, or joins it
		inCrowd(t, func(c *crowd) {
			partition := store.ID{Scope: "hold", Key: "partition"}
			swap(t, c.s, running(partition, 0))
			blocker, _, err := c.s.Begin(context.Background(), store.BeginOptions{}) // the others wait behind it
			if err != nil {
				t.Fatal(err)
			}
			errs := make([]error, 4)
			for i := range errs {
				id := store.ID{Scope: "group", Key: fmt.Sprint(i)}
				change, opts := running(id, 0), store.BeginOptions{ID: id}
				change.Held = []store.Hold{holdOf(partition, 1)}
				if i == bad {
					change.Held[0].Fence = 7
				}
				if i%2 == 1 { // a transaction that has claimed nothing may write any operation
					opts.ID = store.ID{}
				}
				go func() {
					txn, _, err := c.s.Begin(context.Background(), opts)
					if err == nil {
						_, err = txn.Tx().Exec("insert into charge values ('" + id.Key + "')")
						err = errors.Join(err, txn.Commit(context.Background(), change))
					}
					errs[i] = err
				}()
				synctest.Wait()
			}
			_ = c.spy.take()
			if err := blocker.Commit(context.Background(), store.Change{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for i, err := range errs {
				id := store.ID{Scope: "group", Key: fmt.Sprint(i)}
				rec, n := read(t, c.s, id), count(t, c.db, "select count(*) from charge where id = $1", id.Key)
				switch {
				case i == bad && (store.KindOf(err) != store.KindTaken || rec.State != store.StateAbsent || n != 0):
					t.Errorf("%d, whose hold is lost: %v, %+v, %d effects", i, err, rec, n)
				case i != bad && (err != nil || rec.State != store.StateRunning || rec.RecoveryPoint != "point 0" || string(rec.Data) != "data" || n != 1):
					t.Errorf("%d: %v, %+v, %d effects", i, err, rec, n)
				}
			}
			if got := c.spy.take(joins, commits); !slices.Equal(got, []int{4, 1}) {
				t.Errorf("vacuous: joined, committed: %v", got)
			}
		})
	}
}

// levelled are the databases that have levels.
func levelled(t *testing.T, test func(t *testing.T, db *sql.DB, s *sqlstore.Store, level store.Isolation)) {
	on(t, func(t *testing.T, db *sql.DB, s *sqlstore.Store) {
		if strings.HasPrefix(path(t), "SQLite") {
			t.Skip("SQLite has only one isolation level, so the case cannot exist")
		}
		for level, name := range map[store.Isolation]string{store.DefaultIsolation: "default", store.ReadCommitted: "read committed", store.RepeatableRead: "repeatable read", store.Serializable: "serializable"} {
			t.Run(name, func(t *testing.T) { test(t, db, s, level) })
		}
	})
}

func path(t *testing.T) string {
	_, sub, _ := strings.Cut(t.Name(), "/")
	kind, _, _ := strings.Cut(sub, ",")
	return kind
}

// TestCommitBehindASnapshot: a transaction has read before others have changed what it commits. At every
// level the commit applies to what there is, or not at all.
func TestCommitBehindASnapshot(t *testing.T) {
	testenv.Both(t)
	levelled(t, func(t *testing.T, db *sql.DB, s *sqlstore.Store, level store.Isolation) {
		for name, c := range map[string]struct {
			before  []func(store.ID) store.Change // the snapshot
			between []func(store.ID) store.Change // and the commit
			commit  func(store.ID) store.Change
			applies bool
		}{
			"as it was":                  {changes(running, 0), nil, next(running, 1), true},
			"taken over":                 {changes(running, 0), changes(running, 1), next(running, 1), false},
			"finished":                   {changes(running, 0), changes(finished, 1), next(running, 1), false},
			"absent":                     {nil, nil, next(running, 0), true},
			"begun":                      {nil, changes(running, 0), next(running, 0), false},
			"done":                       {nil, changes(finished, 0), next(finished, 0), false},
			"held":                       {changes(running, 0), nil, holding(1), true},
			"taken over from the holder": {changes(running, 0), changes(running, 1), holding(1), false},
			"finished by the holder":     {changes(running, 0), changes(finished, 1), holding(1), false},
		} {
			id := store.ID{Scope: fmt.Sprint("snapshot", level), Key: name}
			for _, c := range c.before {
				swap(t, s, c(id))
			}
			txn, _, err := s.Begin(t.Context(), store.BeginOptions{Isolation: level})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := txn.Tx().ExecContext(t.Context(), spelled(db, "insert into charge values ('"+id.Scope+name+"')")); err != nil {
				t.Fatal(err)
			}
			var n int
			if err := txn.Tx().QueryRowContext(t.Context(), "select count(*) from charge").Scan(&n); err != nil {
				t.Fatal(err)
			}
			for _, c := range c.between {
				swap(t, s, c(id))
			}
			before := read(t, s, id)
			change := c.commit(id)
			err = txn.Commit(t.Context(), change)
			after, effects := read(t, s, id), count(t, db, "select count(*) from charge where id = $1", id.Scope+name)
			switch {
			case c.applies && (err != nil || effects != 1):
				t.Errorf("%s: %v, %d effects", name, err, effects)
			case c.applies && change.ID == id && (after.State != change.Next.State || after.Fence != change.Next.Fence):
				t.Errorf("%s: then %+v", name, after)
			case !c.applies && store.KindOf(err) != store.KindTaken && store.KindOf(err) != store.KindRetry:
				t.Errorf("%s: %v, want taken or retry", name, err)
			case !c.applies && (effects != 0 || after.Fence != before.Fence || after.State != before.State):
				t.Errorf("%s: refused, but then %+v, before %+v, %d effects", name, after, before, effects)
			}
		}
	})
}

func next(c func(store.ID, int64) store.Change, fence int64) func(store.ID) store.Change {
	return func(id store.ID) store.Change { return c(id, fence) }
}

func changes(c func(store.ID, int64) store.Change, fence int64) []func(store.ID) store.Change {
	return []func(store.ID) store.Change{next(c, fence)}
}

// holding is a change of another operation while id is held.
func holding(fence int64) func(store.ID) store.Change {
	return func(id store.ID) store.Change {
		c := running(store.ID{Scope: id.Scope, Key: id.Key + ", another one"}, 0)
		c.Held = []store.Hold{holdOf(id, fence)}
		return c
	}
}

// TestHeldStaysHeld: until a join has been committed by its caller, no other transaction takes over what it has
// demanded to be held.
func TestHeldStaysHeld(t *testing.T) {
	testenv.Both(t)
	levelled(t, func(t *testing.T, db *sql.DB, s *sqlstore.Store, level store.Isolation) {
		for _, commit := range []bool{true, false} {
			id := store.ID{Scope: fmt.Sprint("stays", level), Key: fmt.Sprint(commit)}
			swap(t, s, running(id, 0))
			own, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: map[store.Isolation]sql.IsolationLevel{
				store.ReadCommitted: sql.LevelReadCommitted, store.RepeatableRead: sql.LevelRepeatableRead, store.Serializable: sql.LevelSerializable}[level]})
			if err != nil {
				t.Fatal(err)
			}
			j, _, err := s.Join(t.Context(), own, store.BeginOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := j.Commit(t.Context(), store.Change{Held: []store.Hold{holdOf(id, 1)}}); err != nil {
				t.Fatal(err)
			}
			taken := make(chan error)
			go func() {
				_, err := s.Swap(context.Background(), running(id, 1))
				taken <- err
			}()
			select {
			case err := <-taken:
				t.Errorf("taken over before the caller's transaction has ended: %v", err)
			case <-time.After(50 * time.Millisecond): // it may be late, and then shows nothing
			}
			if commit {
				err = own.Commit()
			} else {
				err = own.Rollback()
			}
			if err != nil {
				t.Error(err)
			}
			if err := <-taken; err != nil {
				t.Errorf("afterwards: %v", err)
			}
		}
	})
}

// TestHeldByEachOther: two change each their own operation while they hold that of the other. One after the
// other they are applied, and no deadlock undoes any: a lock that is waited for has its place in one order.
func TestHeldByEachOther(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, _ *sql.DB, s *sqlstore.Store) {
		a, b := store.ID{Scope: "each", Key: "a"}, store.ID{Scope: "each", Key: "b"}
		swap(t, s, running(a, 0))
		swap(t, s, running(b, 0))
		const rounds = 200
		errs := make(chan error)
		for _, ids := range [][2]store.ID{{a, b}, {b, a}} {
			go func() {
				for range rounds {
					c := running(ids[0], 1) // the fence stays, so that the other one's hold does
					c.Next.Fence, c.Held = 1, []store.Hold{holdOf(ids[1], 1)}
					if _, err := s.Swap(context.Background(), c); err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		for range 2 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestClaimsAreNoRecords: an open transaction has claimed an operation. That is no operation to those who list,
// renew, hold or expect a fence, nor to a join inside of the handler. None of them waits for it.
func TestClaimsAreNoRecords(t *testing.T) {
	testenv.Both(t)
	levelled(t, func(t *testing.T, _ *sql.DB, s *sqlstore.Store, level store.Isolation) {
		id := store.ID{Scope: "claims", Key: fmt.Sprint(level)}
		txn, _, err := s.Begin(t.Context(), store.BeginOptions{ID: id, Isolation: level})
		if err != nil || txn == nil {
			t.Fatal(txn, err)
		}
		list, _, err := s.Unfinished(t.Context(), upkeep.Listing{Limit: 100})
		if err != nil || slices.ContainsFunc(list, func(e upkeep.Entry) bool { return e.ID == id }) {
			t.Errorf("listed: %v, %v", list, err)
		}
		for _, nonce := range [][]byte{nil, {}, nonceOf(id)} {
			if renewed, err := s.Renew(t.Context(), []store.Hold{{ID: id, Fence: 1, Nonce: nonce}}, time.Hour); err != nil || len(renewed) != 0 {
				t.Errorf("renewed: %v, %v", renewed, err)
			}
			join, _, err := s.Join(t.Context(), txn.Tx(), store.BeginOptions{})
			if err != nil {
				t.Fatal(err)
			}
			c := finished(id, 1)
			c.Expect.Nonce = nonce
			if err := join.Commit(t.Context(), c); store.KindOf(err) != store.KindTaken {
				t.Errorf("a join finishes what its caller has claimed: %v", err)
			}
			join, _, err = s.Join(t.Context(), txn.Tx(), store.BeginOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := join.Commit(t.Context(), store.Change{Held: []store.Hold{{ID: id, Fence: 1, Nonce: nonce}}}); store.KindOf(err) != store.KindTaken {
				t.Errorf("a claim is held: %v", err)
			}
		}
		if err := txn.Commit(t.Context(), running(id, 0)); err != nil {
			t.Error(err)
		}
		if rec := read(t, s, id); rec.State != store.StateRunning || rec.RecoveryPoint != "point 0" {
			t.Errorf("%+v", rec)
		}
	})
}

// TestOwnClaim: what is committed in the transaction that has claimed the operation expects that it is absent,
// and is of that operation.
func TestOwnClaim(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, db *sql.DB, s *sqlstore.Store) {
		for name, tt := range map[string]struct {
			change func(id store.ID) store.Change
			kind   store.Kind
		}{
			"another operation": {func(store.ID) store.Change { return finished(store.ID{Scope: "own", Key: "other"}, 0) }, store.KindMisused},
			"none":              {func(store.ID) store.Change { return store.Change{} }, store.KindMisused},
			"a fence":           {func(id store.ID) store.Change { return finished(id, 1) }, store.KindTaken},
			"keeps":             {func(id store.ID) store.Change { c := finished(id, 0); c.KeepRequest = true; return c }, store.KindMisused},
		} {
			id := store.ID{Scope: "own", Key: name}
			for range 2 { // it has left no claim
				txn, _, err := s.Begin(t.Context(), store.BeginOptions{ID: id})
				if err != nil || txn == nil {
					t.Fatal(name, txn, err)
				}
				if _, err := txn.Tx().ExecContext(t.Context(), "insert into charge values ('own')"); err != nil {
					t.Fatal(err)
				}
				if err := txn.Commit(t.Context(), tt.change(id)); err == nil || store.KindOf(err) != tt.kind {
					t.Errorf("%s: %v, want %s", name, err, tt.kind)
				}
			}
		}
		id := store.ID{Scope: "own", Key: "released"}
		txn, _, err := s.Begin(t.Context(), store.BeginOptions{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := txn.Tx().ExecContext(t.Context(), "insert into charge values ('released')"); err != nil {
			t.Fatal(err)
		}
		if err := txn.Commit(t.Context(), store.Change{ID: id}); err != nil {
			t.Error("released:", err)
		}
		for _, state := range []store.State{store.StateRunning, store.StateUnknown, store.StateDone} { // with nothing else to tell them apart
			id := store.ID{Scope: "bare", Key: state.String()}
			txn, _, err := s.Begin(t.Context(), store.BeginOptions{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			if err := txn.Commit(t.Context(), store.Change{ID: id, Next: store.Record{State: state, Fence: 1, Nonce: nonceOf(id)}}); err != nil {
				t.Error(err)
			}
			if rec := read(t, s, id); rec.State != state || rec.Fence != 1 {
				t.Errorf("%s: %+v", state, rec)
			}
		}
		if n := count(t, db, "select count(*) from charge"); n != 1 {
			t.Errorf("%d effects, want that of the one which has released its claim", n)
		}
		if n := count(t, db, "select count(*) from once_operation where scope = 'own'"); n != 0 {
			t.Errorf("%d records, want none", n)
		}
	})
}

// TestJoinReplacesAnExpiredFailure: the writes of a join were undone, and the deletion of an expired record with
// them. The failure is stored all the same.
func TestJoinReplacesAnExpiredFailure(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, db *sql.DB, s *sqlstore.Store) {
		id := store.ID{Scope: "expired", Key: "k"}
		c := finished(id, 0)
		c.Retain = -time.Hour
		swap(t, s, c)
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		declined := &once.Failure{Code: "declined"}
		_, err = once.Join(t.Context(), once.New(s, once.Config{}), tx, once.Operation{Scope: id.Scope, Key: id.Key},
			func(context.Context, *sql.Tx) (int, error) { return 0, declined })
		if f := (*once.Failure)(nil); !errors.As(err, &f) || once.CodeOf(err) != "" {
			t.Error(err)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		if rec := read(t, s, id); rec.State != store.StateDone || rec.Result.Kind != store.ResultFailure {
			t.Errorf("%+v", rec)
		}
	})
}

// TestOlderSchema: a database without the column of the newest migration is told so.
func TestOlderSchema(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, db *sql.DB, s *sqlstore.Store) {
		for _, statement := range []string{"drop index once_operation_unfinished", "alter table once_operation drop column trace"} {
			if strings.HasPrefix(statement, "drop") && (path(t) == "MariaDB" || path(t) == "MySQL") {
				continue // it has no such index
			}
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
			_, _, errs := s.Unfinished(t.Context(), upkeep.Listing{Limit: 10})
			if path(t) == "PostgreSQL" && strings.HasPrefix(statement, "drop") {
				continue // it is slow there, and does its work
			}
			if !errors.Is(errs, store.ErrNotMigrated) {
				t.Errorf("%s: %v", statement, errs)
			}
		}
		_, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
		if !errors.Is(err, store.ErrNotMigrated) || !strings.Contains(err.Error(), "Try: once migrate up") {
			t.Error(err)
		}
		for _, change := range []store.Change{finished(store.ID{Scope: "s", Key: "k"}, 0), running(store.ID{Scope: "s", Key: "k"}, 1)} {
			if _, err := s.Swap(t.Context(), change); !errors.Is(err, store.ErrNotMigrated) {
				t.Errorf("Swap: %v", err)
			}
		}
	})
}

// TestStatementsOfADo: on SQLite an ordinary operation that need not wait looks up once, in its transaction.
func TestStatementsOfADo(t *testing.T) {
	inLine(t, func(c *crowd) {
		m := newMember("ordinary")
		c.do(m)
		var got []string
		for _, text := range c.spy.log {
			words := strings.Fields(text)
			got = append(got, strings.Join(words[:min(len(words), 3)], " "))
		}
		want := []string{"pragma busy_timeout =", begin, "pragma busy_timeout =", "select 1 from", "insert into charge", "insert into once_operation", commits}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		c.executed(m)
	})
}

// TestBeginTellsWhatItWaitedFor: what a Begin has waited for is told apart: for the turn to write, and for a connection.
func TestBeginTellsWhatItWaitedFor(t *testing.T) {
	testenv.Both(t)
	for name, cfg := range map[string]sqlstore.Config{"line": {}, "group": {GroupCommit: true}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				newCrowd(t, dir, cfg, func(int) { synctest.Wait() }, func(c *crowd) { waitsOfSQLite(t, c) })
			})
		})
	}
	on(t, func(t *testing.T, db *sql.DB, s *sqlstore.Store) {
		if strings.HasPrefix(path(t), "SQLite") {
			return
		}
		var none waits.Waits
		txn, _, err := s.Begin(t.Context(), store.BeginOptions{ID: store.ID{Scope: "waits", Key: "k"}, Waits: &none})
		if err != nil {
			t.Fatal(err)
		}
		if none.Lock != 0 {
			t.Errorf("a claim never waits: %v", none.Lock)
		}
		db.SetMaxOpenConns(1)
		const long = 20 * time.Millisecond
		before := db.Stats().WaitCount
		go func() {
			for db.Stats().WaitCount == before {
				runtime.Gosched()
			}
			pass(long)
			_ = txn.Rollback(context.Background())
		}()
		var waits waits.Waits
		began := time.Now()
		next, _, err := s.Begin(t.Context(), store.BeginOptions{ID: store.ID{Scope: "waits", Key: "l"}, Waits: &waits})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = next.Rollback(context.Background()) }()
		if took := time.Since(began); waits.Acquire < long || waits.Acquire > took || waits.Lock != 0 {
			t.Errorf("of %v: %+v", took, waits)
		}
	})
}

// waitsOfSQLite runs where no time passes but that which is waited for.
func waitsOfSQLite(t *testing.T, c *crowd) {
	begin := func(w *waits.Waits) store.Transaction[*sql.Tx] {
		txn, _, err := c.s.Begin(context.Background(), store.BeginOptions{ID: store.ID{Scope: "waits", Key: once.NewKey()}, Waits: w})
		if err != nil {
			t.Fatal(err)
		}
		return txn
	}
	var first, second waits.Waits
	txn := begin(&first)
	go func() {
		pass(time.Second)
		_ = txn.Rollback(context.Background())
	}()
	_ = begin(&second).Rollback(context.Background())
	if first != (waits.Waits{}) || second.Acquire != 0 || second.Lock < time.Second || second.Lock > 2*time.Second {
		t.Errorf("the first one %+v, the second one, behind it, %+v", first, second)
	}
	c.db.SetMaxOpenConns(1)
	conn, err := c.db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		pass(time.Second)
		_ = conn.Close()
	}()
	var third waits.Waits
	_ = begin(&third).Rollback(context.Background())
	if third.Acquire < time.Second || third.Lock != 0 {
		t.Errorf("without a connection: %+v", third)
	}
}
