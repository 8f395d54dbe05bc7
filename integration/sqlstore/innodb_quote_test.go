package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
)

// opened opens a pool as a user does, and makes its tables.
func (on innodb) opened(t *testing.T, parameters string, tables ...string) (*sql.DB, *once.Engine[*sql.Tx]) {
	t.Helper()
	db, err := sqlstore.Open("mysql", on.created(t)+parameters)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := sqlstore.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	run(t, db, tables...)
	s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return db, once.New(s, once.Config{Timeouts: store.Timeouts{Lock: 7 * time.Second, Statement: 9 * time.Second, Idle: 11 * time.Second}})
}

// tries are operations of a scope: one of which nothing is known, and a first attempt.
func tries(scope string) (list []once.Operation) {
	for n := range 2 {
		list = append(list, once.Operation{Scope: scope, Key: fmt.Sprint("attempt ", n), Attempt: once.Attempt{Number: n}})
	}
	return list
}

// executes is a handler of one statement.
func executes(text string, args ...any) func(context.Context, *sql.Tx) (int, error) {
	return func(ctx context.Context, tx *sql.Tx) (int, error) {
		_, err := tx.ExecContext(ctx, text, args...)
		return 1, err
	}
}

// TestArgumentsStayArguments in every charset of a connection, also one in which the backslash that the driver would put before a quote is the
// second half of another character: there they are sent beside the text.
func TestArgumentsStayArguments(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		ctx := t.Context()
		for parameters, lead := range map[string]string{
			"": "é", "?charset=latin1": "\xbf", "?charset=gbk": "\xbf", "?charset=big5": "\xa1", "?charset=sjis": "\x95", "?character_set_client=gbk": "\xbf",
			"?charset=gbk&interpolateParams=true": "\xbf",
		} {
			evil := lead + "'), ('injected'), ('" + lead // ends the text, if the backslash of an escape is swallowed
			db, e := on.opened(t, parameters, "create table effect (name varbinary(100) not null)")
			ways := map[string]func() error{
				"outside": func() error {
					_, err := db.ExecContext(ctx, "insert into effect values (?)", evil)
					return err
				},
				"a query outside": func() error {
					run(t, db, fmt.Sprintf("insert into effect values (x'%x')", evil))
					return db.QueryRowContext(ctx, "select name from effect where name = ?", []byte(evil)).Scan(new([]byte))
				},
				"a batch": func() error {
					_, err := once.DoBatch(ctx, e, once.Operation{Scope: "quote", Key: "batch"}, func(b *once.Batch) (int, error) {
						b.Exec("insert into effect values (?)", evil)
						return 1, nil
					})
					return err
				},
			}
			for _, op := range tries("quote") {
				ways[op.Key] = func() error {
					_, err := once.Do(ctx, e, op, executes("insert into effect values (?)", evil))
					return err
				}
			}
			converts := strings.HasPrefix(parameters, "?character_set_client") // into the charset of the connection, which has no such character
			for way, insert := range ways {
				if err := insert(); err != nil && !converts {
					t.Errorf("%s, %s: %v", parameters, way, err)
				}
				if n := count(t, db, "select count(*) from effect where name = 'injected'"); n != 0 {
					t.Errorf("%s, %s: an argument has ended its text", parameters, way)
				}
				if all, same := count(t, db, "select count(*) from effect"), count(t, db, fmt.Sprintf("select count(*) from effect where name = x'%x'", evil)); !converts && (all != 1 || same != 1) {
					t.Errorf("%s, %s: %d rows, %d of them are the argument", parameters, way, all, same)
				}
				run(t, db, "delete from effect")
			}
		}
	})
}

// TestArgumentsBehindBackslashes: with ANSI_QUOTES a backslash in a name is no escape, which the driver does not know.
func TestArgumentsBehindBackslashes(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		db, e := on.opened(t, "?sql_mode=%27ANSI_QUOTES%27", "create table odd (`a\\` varchar(100), b varchar(100))")
		for _, op := range tries("odd") {
			if _, err := once.Do(t.Context(), e, op, executes(`insert into odd ("a\", "b") values (?, '"?')`, "it's")); err != nil {
				t.Error(err)
			}
		}
		if n := count(t, db, "select count(*) from odd where `a\\` = 'it''s' and b = '\"?'"); n != 2 {
			t.Errorf("%d rows, want 2", n)
		}
	})
}

// TestSecondStatementsAreRefused, whatever comes before them: what cannot be prepared, comments, and comments that the server executes.
func TestSecondStatementsAreRefused(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		ctx := t.Context()
		db, e := on.opened(t, "", "create table effect (name varchar(100) not null)", "insert into effect values ('kept')")
		var name string
		if err := db.QueryRowContext(ctx, "select database()").Scan(&name); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{
			"use `" + name + "`; delete from effect",
			"set @a = 1; delete from effect",
			"do 0; delete from effect",
			"insert into effect values ('a') /*! ; delete from effect */",
			"insert into effect values ('a') /*!50000 ; delete from effect */",
			"insert into effect values ('a') /*M! ; delete from effect */; delete from effect",
			"select 1 -- '\n; delete from effect",
			"select 1 # '\n; delete from effect",
			"/* ' */ select 1; delete from effect",
			"; delete from effect",
			"select 1 --;\n; delete from effect",
			"set names gbk; delete from effect",
			"lock tables effect write; delete from effect",
			"handler effect open; delete from effect",
		} {
			for _, op := range tries(text) {
				if _, err := once.Do(ctx, e, op, executes(text)); err == nil {
					t.Errorf("%q is run in a handler", text)
				}
			}
			if _, err := db.ExecContext(ctx, text); err == nil {
				t.Errorf("%q is run", text)
			}
			if n := count(t, db, "select count(*) from effect"); n != 1 {
				t.Fatalf("%q: %d rows, want 1", text, n)
			}
		}
	})
}

// TestAFirstAttemptLeavesItsSession: however a handler ends, also before it has sent anything, it costs no connection, and leaves no bounds and no
// lock behind.
func TestAFirstAttemptLeavesItsSession(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		ctx := t.Context()
		db, e := on.opened(t, "", "create table effect (name varchar(100) not null)")
		db.SetMaxOpenConns(1)
		own := "@@max_statement_time, @@idle_transaction_timeout"
		if on.mysql {
			own = "@@max_execution_time, @@wait_timeout"
		}
		session := func() (is string) {
			if err := db.QueryRowContext(ctx, "select concat_ws(' ', connection_id(), @@innodb_lock_wait_timeout, @@lock_wait_timeout, "+own+")").Scan(&is); err != nil {
				t.Fatal(err)
			}
			return is
		}
		was, failed := session(), errors.New("failed")
		for _, c := range []struct {
			key     string
			handler func(ctx context.Context, tx *sql.Tx) (int, error)
		}{ // the session has no variables yet when the first one ends
			{"before", func(context.Context, *sql.Tx) (int, error) { return 0, failed }},
			{"with it", executes("insert into nothing values (1)")},
			{"after", func(ctx context.Context, tx *sql.Tx) (int, error) {
				return 0, errors.Join(effect(ctx, tx, "a"), failed)
			}},
			{"a failure", func(ctx context.Context, tx *sql.Tx) (int, error) {
				return 0, errors.Join(effect(ctx, tx, "a"), &once.Failure{Code: "no"})
			}},
			{"nothing to do", func(context.Context, *sql.Tx) (int, error) { return 1, nil }},
			{"a result", executes("insert into effect values ('b')")},
			{"a failure only", func(context.Context, *sql.Tx) (int, error) { return 0, &once.Failure{Code: "no"} }},
		} {
			_, _ = once.Do(ctx, e, once.Operation{Scope: "session", Key: c.key, Attempt: once.Attempt{Number: 1}}, c.handler)
			if is := session(); is != was {
				t.Errorf("%s: the session is %s, and was %s", c.key, is, was)
			}
			if n := count(t, db, "select release_all_locks()"); n != 0 {
				t.Errorf("%s: %d locks are left", c.key, n)
			}
		}
	})
}

// TestASessionEndsBehindTheClaim: a session that is killed before the first statement of its handler applies nothing and leaves no claim.
func TestASessionEndsBehindTheClaim(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		ctx := t.Context()
		db, e := on.opened(t, "", "create table effect (name varchar(100) not null)")
		server := on.server(t)
		var name string
		if err := db.QueryRowContext(ctx, "select database()").Scan(&name); err != nil {
			t.Fatal(err)
		}
		for _, op := range tries("killed") {
			op.Wait = time.Minute // until the server has seen the end of the session
			runs := 0
			handler := func(ctx context.Context, tx *sql.Tx) (int, error) {
				if runs++; runs == 1 {
					ids, err := server.Query(ctx, "", "select id from information_schema.processlist where db = '"+name+"'")
					if err != nil || len(strings.Fields(ids)) == 0 {
						t.Errorf("vacuous: no session to kill: %s, %v", ids, err)
					}
					for id := range strings.FieldsSeq(ids) {
						_, _ = server.Query(ctx, "", "kill "+id) // it may have ended by itself
					}
				}
				return 1, effect(ctx, tx, op.Key)
			}
			_, err := once.Do(ctx, e, op, handler)
			for tries := 0; err != nil && tries < 3; tries++ {
				if once.EffectOf(err) != once.EffectNotApplied {
					t.Errorf("%s: %v, %v", op.Key, err, once.EffectOf(err))
				}
				op.Attempt.Number++
				_, err = once.Do(ctx, e, op, handler)
			}
			if n := count(t, db, "select count(*) from effect where name = '"+op.Key+"'"); n != 1 || err != nil || runs < 2 {
				t.Errorf("%s: %d effects of %d runs, %v", op.Key, n, runs, err)
			}
		}
	})
}

// TestACancelledFirstAttemptLeavesNoLock: the end of a context in the middle of the packet that claims leaves no claim behind, once the statement is over
// in the server.
func TestACancelledFirstAttemptLeavesNoLock(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		db, e := on.opened(t, "", "create table effect (name varchar(100) not null)")
		op := once.Operation{Scope: "cancelled", Attempt: once.Attempt{Number: 1}}
		for tries, cancelled := 0, false; !cancelled; tries++ { // on a busy machine the end of the context may come after that of the statement
			if tries == 10 {
				t.Fatal("it was never cancelled")
			}
			run(t, db, "delete from effect")
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				defer cancel()
				for n := 0; n == 0 && ctx.Err() == nil; {
					_ = db.QueryRowContext(ctx, "select count(*) from information_schema.processlist where db = database() and id <> connection_id() and info like '%sleep(1)%'").Scan(&n)
				}
			}()
			op.Key = fmt.Sprint("k", tries)
			_, err := once.Do(ctx, e, op, executes("insert into effect select 'cut' from dual where sleep(1) = 0"))
			cancelled = err != nil
			cancel()
		}
		op.Attempt.Number = 2
		again := func() error {
			_, err := once.Do(t.Context(), e, op, executes("insert into effect values ('k')"))
			return err
		}
		err := again()
		for end := time.Now().Add(time.Minute); once.CodeOf(err) == once.CodeInFlight && time.Now().Before(end); {
			err = again()
		}
		if all, cut := count(t, db, "select count(*) from effect"), count(t, db, "select count(*) from effect where name = 'cut'"); err != nil || all != 1 || cut != 0 {
			t.Errorf("%v, %d effects, %d of what was cut", err, all, cut)
		}
	})
}

// TestReadOnlySessionsApplyNothing: transactions of a session that is read only are refused before anything is applied, in one packet and in several.
func TestReadOnlySessionsApplyNothing(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		ctx := t.Context()
		dsn := on.created(t)
		db, err := sqlstore.Open("mysql", dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if err := sqlstore.Migrate(ctx, db); err != nil {
			t.Fatal(err)
		}
		run(t, db, "create table effect (name varchar(100) not null)")
		variable := "tx_read_only"
		if on.mysql {
			variable = "transaction_read_only"
		}
		reader, err := sqlstore.Open("mysql", dsn+"?"+variable+"=1")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = reader.Close() }()
		s, err := sqlstore.New(ctx, reader, sqlstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		e := once.New(s, once.Config{})
		ways := map[string]func() error{"batch": func() error {
			_, err := once.DoBatch(ctx, e, once.Operation{Scope: "reader", Key: "batch"}, func(b *once.Batch) (int, error) {
				b.Exec("insert into effect values (?)", "a")
				return 1, nil
			})
			return err
		}}
		for _, op := range tries("reader") {
			ways[op.Key] = func() error { _, err := once.Do(ctx, e, op, executes("insert into effect values ('a')")); return err }
			op.Key += ", nothing"
			ways[op.Key] = func() error {
				_, err := once.Do(ctx, e, op, func(context.Context, *sql.Tx) (int, error) { return 1, nil })
				return err
			}
		}
		for way, ask := range ways {
			if err := ask(); err == nil || once.EffectOf(err) != once.EffectNotApplied {
				t.Errorf("%s: %v, %v", way, err, once.EffectOf(err))
			}
		}
		if effects, records := count(t, db, "select count(*) from effect"), count(t, db, "select count(*) from once_operation"); effects != 0 || records != 0 {
			t.Errorf("%d effects, %d records", effects, records)
		}
	})
}
