package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// failures is MySQL's driver, which tells of each statement that has failed.
type failures struct {
	driver.Connector
	told func(query string, err error)
}

func (f *failures) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := f.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return failuresConn{conn.(mysqlConn), f}, nil
}

// mysqlConn is what a connection of the driver can do.
type mysqlConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type failuresConn struct {
	mysqlConn
	f *failures
}

func (c failuresConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	r, err := c.mysqlConn.ExecContext(ctx, query, args)
	if err != nil {
		c.f.told(query, err)
	}
	return r, err
}

// TestJoinBesideALockedGap: the place of the operation's row is locked, as InnoDB locks it when
// a page is split beside a row that another transaction has locked. Nothing is in flight.
func TestJoinBesideALockedGap(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		ctx := t.Context()
		name := on.created(t)
		cfg, err := mysql.ParseDSN(name)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
		base, err := mysql.NewConnector(cfg)
		if err != nil {
			t.Fatal(err)
		}
		refused := 0
		unlock := func() {}
		db := sqlstore.OpenDB(sqlplane.MySQL, &failures{base, func(query string, err error) {
			if strings.Contains(query, "insert into once_operation") && strings.Contains(err.Error(), "1205") {
				refused++
				unlock()
			}
		}})
		t.Cleanup(func() { _ = db.Close() })
		if err := sqlstore.Migrate(ctx, db); err != nil {
			t.Fatal(err)
		}
		s, err := sqlstore.New(ctx, db, sqlstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		e := once.New(s, once.Config{Runs: 1})
		join := func(key string) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			_, err = once.Join(ctx, e, tx, once.Operation{Scope: "gap", Key: key}, func(context.Context, *sql.Tx) (int, error) { return 1, nil })
			if err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return tx.Commit()
		}
		other, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		if err != nil {
			t.Fatal(err)
		}
		run(t, other, "select * from once_operation for update")
		unlock = func() { _ = other.Rollback() }
		if err := join("unlocked in time"); once.EffectOf(err) != once.EffectNotApplied || once.CodeOf(err) == once.CodeInFlight || refused != 1 { // it has waited as long as the session says
			t.Errorf("after %d refusals: %v", refused, err)
		}

		// One that is in flight is told so all the same.
		refused, unlock = 0, func() {}
		holder, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = holder.Rollback() }()
		if _, err := once.Join(ctx, e, holder, once.Operation{Scope: "gap", Key: "held"}, func(context.Context, *sql.Tx) (int, error) { return 1, nil }); err != nil {
			t.Fatal(err)
		}
		if err := join("held"); once.CodeOf(err) != once.CodeInFlight || refused != 0 {
			t.Errorf("after %d refusals: %v", refused, err)
		}
	})
}

// TestSerializableJoinsLockNoPlace: to look for what is absent locks its place, in a
// SERIALIZABLE transaction, against all keys that belong there. Joins do not look, whether the
// level is that of the transaction, of the session, or of the operation around it.
func TestSerializableJoinsLockNoPlace(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		ctx := t.Context()
		for _, parameters := range []string{"", "?" + on.level + "=%27SERIALIZABLE%27"} {
			db, s := on.open(t, parameters, nil)
			level := sql.LevelSerializable
			if parameters != "" {
				level = sql.LevelDefault
			}
			e := once.New(s, once.Config{Runs: 1})
			join := func(tx *sql.Tx, key string) (bool, error) {
				r, err := once.Join(ctx, e, tx, once.Operation{Scope: "place", Key: key}, func(ctx context.Context, tx *sql.Tx) (int, error) { return 1, effect(ctx, tx, key) })
				return r.Replayed, err
			}
			for n := range 2 { // the second time there are rows
				var open []*sql.Tx
				for i := range 4 {
					tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
					if err != nil {
						t.Fatal(err)
					}
					open = append(open, tx)
					if replayed, err := join(tx, fmt.Sprintf("joined %d %d", n, i)); err != nil || replayed {
						t.Errorf("%q: the join %d: replayed %t, %v", parameters, i, replayed, err)
					}
					op := once.Operation{Scope: "place", Key: fmt.Sprintf("outer %d %d", n, i)}
					if parameters == "" {
						op.Isolation = store.Serializable
					}
					if _, err := once.Do(ctx, e, op, func(_ context.Context, tx *sql.Tx) (int, error) {
						_, err := join(tx, fmt.Sprintf("inner %d %d", n, i))
						return 1, err
					}); err != nil {
						t.Errorf("%q: the join inside of operation %d: %v", parameters, i, err)
					}
				}
				for i, tx := range open {
					if err := tx.Commit(); err != nil {
						t.Errorf("%q: the transaction %d: %v", parameters, i, err)
					}
				}
			}
			tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
			if err != nil {
				t.Fatal(err)
			}
			if replayed, err := join(tx, "joined 0 0"); err != nil || !replayed {
				t.Errorf("%q: again: replayed %t, %v", parameters, replayed, err)
			}
			if err := tx.Commit(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestAJoinInsideKeepsTheSession: once's own lock is no change that a handler has made.
func TestAJoinInsideKeepsTheSession(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		db, s := on.open(t, "", nil)
		db.SetMaxOpenConns(1)
		ctx := t.Context()
		e := once.New(s, once.Config{Runs: 1})
		before := count(t, db, "select connection_id()")
		for _, key := range []string{"first", "second"} {
			_, err := once.Do(ctx, e, once.Operation{Scope: "outer", Key: key}, func(ctx context.Context, tx *sql.Tx) (int, error) {
				r, err := once.Join(ctx, e, tx, once.Operation{Scope: "inner", Key: "k"}, func(ctx context.Context, tx *sql.Tx) (int, error) {
					return 1, effect(ctx, tx, key)
				})
				if r.Replayed != (key == "second") {
					t.Errorf("%s: replayed %t", key, r.Replayed)
				}
				return 1, err
			})
			if err != nil {
				t.Errorf("%s: %v", key, err)
			}
			if after := count(t, db, "select connection_id()"); after != before {
				t.Errorf("%s: session %d after %d", key, after, before)
			}
			if on.mysql {
				if n := count(t, db, "select release_all_locks()"); n != 0 {
					t.Errorf("%s: %d locks are left", key, n)
				}
			}
		}
	})
}
