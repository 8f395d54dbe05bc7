package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// TestTablesThatAreNotTransactional: what a handler has written to one stands after a
// rollback. Then it is not said that nothing was applied, whatever has rolled back, and the
// handler does not run again: the operation is recorded as unknown, until a person decides.
func TestTablesThatAreNotTransactional(t *testing.T) {
	testenv.Prove(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		db, s := on.open(t, severalInPacket, nil)
		run(t, db, "create table notes (name varchar(100) not null) engine = MyISAM", "create table taken (id int primary key)", "insert into taken values (1), (2)")
		e := once.New(s, once.Config{Runs: 3})
		failed := errors.New("failed")
		fails := func(context.Context, *sql.Tx) error { return failed }
		calls := notesCalls{db, e}
		for name, c := range map[string]struct {
			after  func(ctx context.Context, tx *sql.Tx) error
			call   func(ctx context.Context, op once.Operation, handler noteHandler) error // nil: Do
			engine string
			told   bool // that all is well, and the caller of a join rolls back all the same
		}{
			"fails":                  {after: fails},
			"fails, MEMORY":          {after: fails, engine: "MEMORY"},
			"fails, CSV":             {after: fails, engine: "CSV"},
			"declines":               {after: func(context.Context, *sql.Tx) error { return &once.Failure{Code: "declined"} }},
			"swallows an error":      {after: func(ctx context.Context, tx *sql.Tx) error { _, _ = tx.ExecContext(ctx, "select nothing"); return nil }},
			"calls Commit":           {after: func(_ context.Context, tx *sql.Tx) error { _ = tx.Commit(); return nil }},
			"calls Rollback":         {after: func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() }},
			"loses a deadlock":       {after: func(ctx context.Context, tx *sql.Tx) error { return loseDeadlock(ctx, t, db, tx) }},
			"swallows a deadlock":    {after: func(ctx context.Context, tx *sql.Tx) error { _ = loseDeadlock(ctx, t, db, tx); return nil }},
			"fails, and had expired": {after: fails},
			"fails, a temporary table": {after: func(ctx context.Context, tx *sql.Tx) error {
				run(t, tx, "create temporary table scratch (n int)")
				return failed
			}},
			"fails in a join":               {after: fails, call: calls.joinAndRollBack},
			"fails, its caller commits":     {after: fails, call: calls.joinAndCommit},
			"fails in a join of a handler":  {after: fails, call: calls.joinInside},
			"deadlocks in a join":           {after: func(ctx context.Context, tx *sql.Tx) error { return loseDeadlock(ctx, t, db, tx) }, call: calls.joinAndRollBack},
			"swallows a deadlock in a join": {after: func(ctx context.Context, tx *sql.Tx) error { _ = loseDeadlock(ctx, t, db, tx); return nil }, call: calls.joinAndRollBack},
			"a join that is rolled back":    {after: func(context.Context, *sql.Tx) error { return nil }, call: calls.joinAndRollBack, told: true},
		} {
			t.Run(name, func(t *testing.T) {
				ctx := t.Context()
				table := "notes"
				if c.engine != "" {
					table = "notes_" + c.engine
					run(t, db, "create table "+table+" (name varchar(100) not null) engine = "+c.engine)
				}
				if strings.HasSuffix(name, "expired") {
					run(t, db, "insert into once_operation (scope, `key`, state, claim, since, expires_at) values ('engine', '"+name+"', 2, 'x', 0, 1000)")
				}
				runs := 0
				handler := func(ctx context.Context, tx *sql.Tx) (int, error) {
					runs++
					_, err := tx.ExecContext(ctx, "insert into "+table+" values (?)", name)
					if err = errors.Join(err, effect(ctx, tx, name)); err != nil {
						return 0, err
					}
					return 1, c.after(ctx, tx)
				}
				if c.call == nil {
					c.call = calls.do
				}
				op := once.Operation{Scope: "engine", Key: name, Wait: time.Minute} // until the server has seen the end of a connection
				if err := c.call(ctx, op, handler); !c.told && once.EffectOf(err) != once.EffectInDoubt || !strings.Contains(fmt.Sprint(err), "Try: alter table") {
					t.Errorf("%v", err)
				}
				notes, effects := count(t, db, "select count(*) from "+table+" where name = ?", name), count(t, db, "select count(*) from effect where name = ?", name)
				if notes != 1 || effects != 0 {
					t.Errorf("%d notes and %d effects: the case is not what the test is about", notes, effects)
				}
				if err := calls.do(ctx, op, handler); once.CodeOf(err) != once.CodeUnknown {
					t.Errorf("the retry: %v", err)
				}
				if runs != 1 {
					t.Errorf("the handler has run %d times", runs)
				}
				if strings.Contains(name, "join") {
					return
				}
				decided := store.Change{ID: store.ID{Scope: op.Scope, Key: op.Key}, Expect: store.Expect{Fence: 1}}
				if _, err := s.Swap(ctx, decided); err != nil {
					t.Errorf("a person decides that it shall run again: %v", err)
				}
				c.after = func(context.Context, *sql.Tx) error { return nil }
				if err := calls.do(ctx, op, handler); err != nil || runs != 2 {
					t.Errorf("then it has run %d times: %v", runs, err)
				}
			})
		}
		// A transaction that commits, or has written to no such table, is as ever.
		for name, want := range map[string]struct {
			fail    error
			code    once.Code
			effects int
		}{"commits": {nil, "", 1}, "fails, and has written to none": {failed, once.CodeFailed, 0}} {
			_, err := once.Do(t.Context(), e, once.Operation{Scope: "engine", Key: name}, func(ctx context.Context, tx *sql.Tx) (int, error) {
				if want.fail == nil {
					run(t, tx, "insert into notes values ('"+name+"')")
				}
				return 1, errors.Join(effect(ctx, tx, name), want.fail)
			})
			if n := count(t, db, "select count(*) from effect where name = ?", name); once.CodeOf(err) != want.code || n != want.effects {
				t.Errorf("%s: %v, %d effects", name, err, n)
			}
		}
	})
}

// TestNothingRunsBeforeItIsUnknown: while an incomplete rollback is found out and recorded, statement by statement, no
// other call gets the operation.
func TestNothingRunsBeforeItIsUnknown(t *testing.T) {
	testenv.Prove(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		for _, parameters := range []string{"", severalInPacket} {
			nothingRunsBefore(t, on, parameters)
		}
	})
}

func nothingRunsBefore(t *testing.T, on innodb, parameters string) {
	t.Helper()
	cfg, err := mysql.ParseDSN(on.created(t) + parameters)
	if err != nil {
		t.Fatal(err)
	}
	base, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	other := sqlstore.OpenDB(sqlplane.MySQL, base)
	t.Cleanup(func() { _ = other.Close() })
	if err := sqlstore.Migrate(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	run(t, other, "create table notes (name varchar(100) not null) engine = MyISAM")
	rival, err := sqlstore.New(t.Context(), other, sqlstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	op := once.Operation{Scope: "engine", Key: "k"}
	before, asked := func() {}, 0
	db := sqlstore.OpenDB(sqlplane.MySQL, eachStatement{base, func() { before() }})
	t.Cleanup(func() { _ = db.Close() })
	s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	failed := errors.New("failed")
	_, err = once.Do(t.Context(), once.New(s, once.Config{}), op, func(_ context.Context, tx *sql.Tx) (int, error) {
		run(t, tx, "insert into notes values ('k')")
		before = func() {
			asked++
			_, err := once.Do(t.Context(), once.New(rival, once.Config{}), op, func(context.Context, *sql.Tx) (int, error) { return 2, nil })
			if code := once.CodeOf(err); code != once.CodeInFlight && code != once.CodeUnknown {
				t.Errorf("before statement %d: %v", asked, err)
			}
		}
		return 0, failed
	})
	if once.EffectOf(err) != once.EffectInDoubt || asked < 3 {
		t.Errorf("%q: %v, after %d statements", parameters, err, asked)
	}
}

// eachStatement is MySQL's driver, which tells of each statement before it is sent.
type eachStatement struct {
	driver.Connector
	before func()
}

func (e eachStatement) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := e.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return eachStatementConn{conn.(mysqlConn), e.before}, nil
}

type eachStatementConn struct {
	mysqlConn
	before func()
}

func (c eachStatementConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.before()
	return c.mysqlConn.ExecContext(ctx, query, args)
}

func (c eachStatementConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.before()
	return c.mysqlConn.QueryContext(ctx, query, args)
}

// TestTemporaryTables: they vanish with the connection, so that a handler which has made one and fails has applied nothing,
// although ROLLBACK warns as if it had. It may be tried again.
func TestTemporaryTables(t *testing.T) {
	testenv.Prove(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		db, s := on.open(t, "", nil)
		e := once.New(s, once.Config{Runs: 1})
		calls := notesCalls{db, e}
		for _, engine := range []string{"InnoDB", "MEMORY", "MyISAM"} {
			for name, call := range map[string]func(context.Context, once.Operation, noteHandler) error{"Do": calls.do, "Join": calls.joinAndRollBack} {
				failed := errors.New("failed")
				op := once.Operation{Scope: "temporary", Key: engine + name}
				err := call(t.Context(), op, func(_ context.Context, tx *sql.Tx) (int, error) {
					run(t, tx, "create temporary table scratch (n int not null) engine = "+engine, "insert into scratch values (1)")
					return 0, failed
				})
				if !errors.Is(err, failed) || once.EffectOf(err) != once.EffectNotApplied {
					t.Errorf("%s, %s: %v", engine, name, err)
				}
				op.Wait = time.Minute // until the server has seen the end of the connection
				if err := calls.do(t.Context(), op, func(context.Context, *sql.Tx) (int, error) { return 1, nil }); err != nil {
					t.Errorf("%s, %s, the retry: %v", engine, name, err)
				}
			}
		}
	})
}

type noteHandler = func(context.Context, *sql.Tx) (int, error)

// notesCalls are the ways to run a handler.
type notesCalls struct {
	db *sql.DB
	e  *once.Engine[*sql.Tx]
}

func (n notesCalls) do(ctx context.Context, op once.Operation, handler noteHandler) error {
	_, err := once.Do(ctx, n.e, op, handler)
	return err
}

func (n notesCalls) join(ctx context.Context, op once.Operation, handler noteHandler, end func(*sql.Tx) error) error {
	tx, err := n.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	_, err = once.Join(ctx, n.e, tx, op, handler)
	return errors.Join(err, end(tx))
}

func (n notesCalls) joinAndRollBack(ctx context.Context, op once.Operation, handler noteHandler) error {
	return n.join(ctx, op, handler, (*sql.Tx).Rollback)
}

func (n notesCalls) joinAndCommit(ctx context.Context, op once.Operation, handler noteHandler) error {
	return n.join(ctx, op, handler, (*sql.Tx).Commit)
}

// joinInside joins in the handler of another operation, which fails as well.
func (n notesCalls) joinInside(ctx context.Context, op once.Operation, handler noteHandler) error {
	outer := op
	outer.Key = "around " + op.Key
	err := n.do(ctx, outer, func(ctx context.Context, tx *sql.Tx) (int, error) {
		_, err := once.Join(ctx, n.e, tx, op, handler)
		return 0, err
	})
	again := n.do(ctx, outer, func(context.Context, *sql.Tx) (int, error) { return 1, nil })
	if once.CodeOf(again) != once.CodeUnknown {
		return fmt.Errorf("the operation around it: %w", again)
	}
	return err
}

// loseDeadlock has tx lose a deadlock against a transaction that has changed more. InnoDB
// spares one that has written to tables it cannot roll back, so that both have.
func loseDeadlock(ctx context.Context, t *testing.T, db *sql.DB, tx *sql.Tx) error {
	t.Helper()
	other, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = other.Rollback() }()
	run(t, other, "insert into notes values ('the other one')", "insert into taken select 100 + seq from "+sequence(100), "update taken set id = id where id = 1", "delete from taken where id = 1")
	if _, err := tx.ExecContext(ctx, "delete from taken where id = 2"); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		_, err := tx.ExecContext(context.WithoutCancel(ctx), "delete from taken where id = 1")
		ended <- err
	}()
	run(t, other, "delete from taken where id = 2")
	if err = <-ended; err == nil || !strings.Contains(err.Error(), "1213") {
		t.Errorf("%v, and not a deadlock", err)
	}
	return err
}

// TestASessionThatAHandlerHasChangedEnds: it is not used again after the handler, whether it commits or
// fails, and whether or not the engine opened the transaction. Other operations keep their connection.
func TestASessionThatAHandlerHasChangedEnds(t *testing.T) {
	testenv.Prove(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		db, s := on.open(t, "", nil)
		db.SetMaxOpenConns(1)
		ctx := t.Context()
		e := once.New(s, once.Config{Runs: 1})
		own := "@@max_statement_time, @@tx_read_only"
		if on.mysql {
			own = "@@max_execution_time, @@wait_timeout, @@transaction_read_only"
		}
		settings := "select connection_id(), concat_ws(' ', @@sql_mode, @@time_zone, @@foreign_key_checks, @@unique_checks, @@innodb_lock_wait_timeout, @@lock_wait_timeout, " + own + ", @@" + on.level + ", @@sql_log_bin, @@autocommit, @@character_set_client, database())"
		session := func() (id int, is string) {
			t.Helper()
			if err := db.QueryRowContext(ctx, settings).Scan(&id, &is); err != nil {
				t.Fatal(err)
			}
			return id, is
		}
		_, want := session()
		failed := errors.New("failed")
		keys := 0
		statements := map[string]bool{
			"set session sql_mode = 'ANSI_QUOTES'":                                true,
			"set session transaction isolation level read uncommitted":            true,
			"set time_zone = '+13:00', foreign_key_checks = 0, unique_checks = 0": true,
			"set innodb_lock_wait_timeout = 1, lock_wait_timeout = 1":             true,
			"set session transaction read only":                                   true,
			"set names latin1":                                                    true,
			"use information_schema":                                              true,
			"do get_lock('once test', 0)":                                         true,
			"create temporary table left_behind (n int)":                          true,
			"set @mine = 1": false,
			"do 1":          false,
		}
		if on.mysql {
			statements["set session max_execution_time = 50000"] = true
			statements["prepare p from 'do 1'; execute p"] = true
		} else {
			statements["set session max_statement_time = 50"] = true
			statements["execute immediate concat('set time_zone = ', quote('+01:00'))"] = true
			statements["set statement max_statement_time = 5 for do 1"] = false
		}
		for statement, ends := range statements {
			for _, flow := range []string{"commits", "fails", "joins"} {
				if strings.HasPrefix(statement, "use ") && flow != "fails" {
					continue // the record's table is not in that database
				}
				keys++
				op := once.Operation{Scope: "session", Key: fmt.Sprint(keys)}
				handler := func(ctx context.Context, tx *sql.Tx) (int, error) {
					run(t, tx, strings.Split(statement, "; ")...)
					if flow == "fails" {
						return 0, failed
					}
					return 1, nil
				}
				before, _ := session()
				var err error
				if flow == "joins" {
					tx, begun := db.BeginTx(ctx, nil)
					if begun != nil {
						t.Fatal(begun)
					}
					_, err = once.Join(ctx, e, tx, op, handler)
					err = errors.Join(err, tx.Commit())
				} else {
					_, err = once.Do(ctx, e, op, handler)
				}
				if (err != nil) != (flow == "fails") {
					t.Errorf("%s, %s: %v", statement, flow, err)
				}
				after, is := session()
				if is != want || (after != before) != ends {
					t.Errorf("%s, %s: the next one has session %d after %d: %s, want %s", statement, flow, after, before, is, want)
				}
				for end, held := time.Now().Add(time.Minute), true; held; { // until the server has seen the connection end
					if err := db.QueryRowContext(ctx, "select is_used_lock('once test') is not null").Scan(&held); err != nil || time.Now().After(end) {
						t.Fatalf("%s, %s: the lock is held: %t, %v", statement, flow, held, err)
					}
				}
			}
		}
	})
}
