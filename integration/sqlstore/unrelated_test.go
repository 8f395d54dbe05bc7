package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
)

// unrelated are clients whose keys have nothing to do with each other.
type unrelated struct {
	db     *sql.DB
	engine *once.Engine[*sql.Tx]
	level  store.Isolation

	reruns atomic.Int64
}

// Observe implements once.Observer.
func (u *unrelated) Observe(_ context.Context, e once.Event) {
	if e.Type == once.EventRerun {
		u.reruns.Add(1)
	}
}

var sqlLevels = map[store.Isolation]sql.IsolationLevel{
	store.DefaultIsolation: sql.LevelDefault,
	store.ReadCommitted:    sql.LevelReadCommitted,
	store.RepeatableRead:   sql.LevelRepeatableRead,
	store.Serializable:     sql.LevelSerializable,
}

const insertOneCharge = "insert into charge values (?)"

func charge(ctx context.Context, tx *sql.Tx, id string) (int, error) {
	_, err := tx.ExecContext(ctx, insertOneCharge, id)
	return 1, err
}

// flows are the ways to ask for an operation that inserts one row. They return whether the
// answer is a replay.
func (u *unrelated) flows() map[string]func(context.Context, string) (bool, error) {
	op := func(key string) once.Operation {
		return once.Operation{Scope: "unrelated", Key: key, Isolation: u.level}
	}
	do := func(ctx context.Context, op once.Operation) (bool, error) {
		r, err := once.Do(ctx, u.engine, op, func(ctx context.Context, tx *sql.Tx) (int, error) { return charge(ctx, tx, op.Key) })
		return r.Replayed, err
	}
	return map[string]func(context.Context, string) (bool, error){
		"Do": func(ctx context.Context, key string) (bool, error) { return do(ctx, op(key)) },
		"first attempt": func(ctx context.Context, key string) (bool, error) {
			first := op(key)
			first.Attempt.Number = 1
			return do(ctx, first)
		},
		"batch": func(ctx context.Context, key string) (bool, error) {
			r, err := once.DoBatch(ctx, u.engine, op(key), func(b *once.Batch) (int, error) {
				b.ExecRows(1, insertOneCharge, key)
				return 1, nil
			})
			return r.Replayed, err
		},
		"Join": func(ctx context.Context, key string) (replayed bool, err error) {
			tx, err := u.db.BeginTx(ctx, &sql.TxOptions{Isolation: sqlLevels[u.level]})
			if err != nil {
				return false, err
			}
			r, err := once.Join(ctx, u.engine, tx, op(key), func(ctx context.Context, tx *sql.Tx) (int, error) { return charge(ctx, tx, key) })
			if err != nil {
				return false, errors.Join(err, tx.Rollback())
			}
			return r.Replayed, tx.Commit()
		},
		"Join inside of Do": func(ctx context.Context, key string) (bool, error) {
			outer := op("outer of " + key)
			r, err := once.Do(ctx, u.engine, outer, func(ctx context.Context, tx *sql.Tx) (int, error) {
				_, err := once.Join(ctx, u.engine, tx, op(key), func(ctx context.Context, tx *sql.Tx) (int, error) { return charge(ctx, tx, key) })
				return 1, err
			})
			return r.Replayed, err
		},
	}
}

// run has each of 16 clients ask for operations of its own, and repeat every fourth one.
func (u *unrelated) run(t *testing.T, ask func(context.Context, string) (bool, error), each int) {
	const clients = 16
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	before := count(t, u.db, "select count(*) from charge")
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for n := range each {
				key := once.NewKey()
				if replayed, err := ask(ctx, key); err != nil || replayed {
					t.Errorf("operation %d: replayed %t, %v", n, replayed, err)
					return
				}
				if n%4 > 0 {
					continue
				}
				if replayed, err := ask(ctx, key); err != nil || !replayed {
					t.Errorf("the repeated operation %d: replayed %t, %v", n, replayed, err)
					return
				}
			}
		})
	}
	group.Wait()
	if n := u.reruns.Load(); n > 0 {
		t.Errorf("%d operations have run again", n)
	}
	if n := count(t, u.db, "select count(*) from charge") - before; n != clients*each {
		t.Errorf("%d effects of %d operations", n, clients*each)
	}
}

// fill stores records of other operations, as many as fill several pages.
func (u *unrelated) fill(t *testing.T) {
	t.Helper()
	const rows = 2000
	values := make([]string, rows)
	for i := range values {
		values[i] = fmt.Sprintf("('unrelated', '%s', 2, 'claim', 0, %d)", once.NewKey(), int64(1)<<50)
	}
	run(t, u.db, spelled(u.db, "insert into once_operation (scope, key , state, claim, since, expires_at) values ")+strings.Join(values, ", "))
}

// TestUnrelatedKeysDoNotConflictOnInnoDB: at no isolation level does an operation fail, wait
// for, or run again because of another one with another key.
func TestUnrelatedKeysDoNotConflictOnInnoDB(t *testing.T) {
	testenv.Prove(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		db, s := on.open(t, "", nil)
		db.SetMaxIdleConns(16)
		run(t, db, "create table charge (id varchar(100) primary key) collate utf8mb4_bin")
		for _, filled := range []bool{false, true} {
			for level, name := range map[store.Isolation]string{store.DefaultIsolation: "default", store.ReadCommitted: "READ COMMITTED", store.RepeatableRead: "REPEATABLE READ", store.Serializable: "SERIALIZABLE"} {
				u := &unrelated{db: db, level: level}
				u.engine = once.New(s, once.Config{Observer: u, Runs: 1})
				for flow, ask := range u.flows() {
					t.Run(fmt.Sprintf("%s, %s, filled %t", flow, name, filled), func(t *testing.T) { u.run(t, ask, 12) })
				}
			}
			(&unrelated{db: db}).fill(t)
		}
	})
}

// TestUnrelatedKeysDoNotConflictOnSQLite: writers of a file follow each other, and none fails.
func TestUnrelatedKeysDoNotConflictOnSQLite(t *testing.T) {
	testenv.Prove(t)
	for _, name := range []string{harness.SQLite, harness.Group} {
		src := newSource(t, name)
		db, err := sqlstore.Open(src.driver, src.dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		if err := sqlstore.Migrate(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		run(t, db, "create table charge (id varchar(100) primary key)")
		s, err := sqlstore.New(t.Context(), db, src.config)
		if err != nil {
			t.Fatal(err)
		}
		for _, filled := range []bool{false, true} {
			u := &unrelated{db: db, level: store.Serializable}
			u.engine = once.New(s, once.Config{Observer: u, Runs: 1})
			for flow, ask := range u.flows() {
				t.Run(fmt.Sprintf("%s, %s, filled %t", name, flow, filled), func(t *testing.T) { u.run(t, ask, 5) })
			}
			u.fill(t)
		}
	}
}
