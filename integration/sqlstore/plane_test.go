package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/toolarge"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// charging is a statement that inserts a charge.
func charging(s *sqlstore.Store, id string) store.Statement {
	return store.Statement{SQL: dialect.Text(s.Dialect(), "insert into charge (id) values (?)"), Args: []any{id}}
}

func charges(t *testing.T, db *sql.DB, id string) int {
	t.Helper()
	return count(t, db, "select count(*) from charge where id = $1", id)
}

// TestPlaneRefusesUnguarded: a statement is not run in a transaction that could commit although it
// has failed.
func TestPlaneRefusesUnguarded(t *testing.T) {
	testenv.Both(t)
	onSources(t, func(t *testing.T, src source) {
		guarded, err := sqlstore.Open(src.driver, src.dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = guarded.Close() }()
		if err := sqlstore.Migrate(t.Context(), guarded); err != nil {
			t.Fatal(err)
		}
		run(t, guarded, "create table charge (id varchar(100) primary key)")
		s, err := sqlstore.New(t.Context(), guarded, src.config)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := sql.Open(src.driver, src.dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = plain.Close() }()
		tx, err := plain.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.On(tx).Exec(t.Context(), charging(s, "a"))
		if store.KindOf(err) != store.KindMisused || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%v, want an error of kind %q", err, store.KindMisused)
		}
		run(t, tx, "insert into charge (id) values ('b')") // it is still usable
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		if n := charges(t, guarded, "a"); n != 0 {
			t.Error("the statement was run")
		}
	})
}

// TestPlaneRoundTrips: a statement of a capability costs what one of the handler does, and one of Pool
// is sent alone.
func TestPlaneRoundTrips(t *testing.T) {
	t.Parallel()
	for name, open := range planes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, s, proxy := open(t)
			db.SetMaxOpenConns(1)
			trips := func(fn func() error) (n int64) {
				for i := range 4 { // the first times prepare, and pgx asks a connection that was not used for a second whether it is there
					before := proxy.Stats().RoundTrips
					if err := fn(); err != nil {
						t.Error(err)
					}
					if trips := proxy.Stats().RoundTrips - before; i == 0 || trips < n {
						n = trips
					}
				}
				return n
			}
			do := func(fn func(ctx context.Context, tx *sql.Tx, st store.Statement) error) int64 {
				return trips(func() error {
					op := once.Operation{Scope: "trips", Key: once.NewKey()}
					_, err := once.Do(t.Context(), once.New(s, once.Config{}), op, func(ctx context.Context, tx *sql.Tx) (string, error) {
						return "", fn(ctx, tx, charging(s, op.Key))
					})
					return err
				})
			}
			byHand := do(func(ctx context.Context, tx *sql.Tx, st store.Statement) error {
				_, err := tx.ExecContext(ctx, st.SQL, st.Args...)
				return err
			})
			byPlane := do(func(ctx context.Context, tx *sql.Tx, st store.Statement) error {
				_, err := s.On(tx).Exec(ctx, st)
				return err
			})
			alone := trips(func() error {
				_, err := db.ExecContext(t.Context(), charging(s, "").SQL, once.NewKey())
				return err
			})
			pool := trips(func() error { _, err := s.Pool().Exec(t.Context(), charging(s, once.NewKey())); return err })
			if byPlane != byHand || pool != alone {
				t.Errorf("in a handler %d round trips, by hand %d; by Pool %d, alone %d", byPlane, byHand, pool, alone)
			}
		})
	}
}

// planes opens stores on servers behind a proxy, with a table of charges.
var planes = map[string]func(t *testing.T) (*sql.DB, *sqlstore.Store, *faultnet.Proxy){
	"PostgreSQL": func(t *testing.T) (*sql.DB, *sqlstore.Store, *faultnet.Proxy) {
		t.Helper()
		dsn, server := testenv.NewDatabase(t), testenv.SharedPostgres(t)
		proxy := proxyTo(t, server.Addr())
		db, err := sqlstore.Open("pgx", strings.Replace(dsn, server.Addr(), proxy.Addr(), 1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		if err := sqlstore.Migrate(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		run(t, db, "create table charge (id varchar(100) primary key)")
		s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return db, s, proxy
	},
	"MariaDB": onMariaDB.plane,
	"MySQL":   onMySQL.plane,
}

func (on innodb) plane(t *testing.T) (*sql.DB, *sqlstore.Store, *faultnet.Proxy) {
	t.Helper()
	proxy := proxyTo(t, on.server(t).Addr())
	db, s := on.open(t, "", proxy)
	run(t, db, "create table charge (id varchar(100) primary key)")
	return db, s, proxy
}

// idleAnswer ends every answer of a server outside of a transaction. That of MariaDB falls silent.
func idleAnswer(s *sqlstore.Store) string {
	if s.Dialect() == sqlplane.MySQL {
		return ""
	}
	return faultnet.PostgresIdle
}

// TestPlaneLostAnswers: what may have been applied is said to be lost, and nothing else is.
func TestPlaneLostAnswers(t *testing.T) {
	t.Parallel()
	const marked = "insert into charge (id) values ('%s') /* lost */"
	for name, open := range planes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, s, proxy := open(t)
			db.SetMaxOpenConns(1)
			marking := func(id string) store.Statement {
				return store.Statement{SQL: strings.Replace(marked, "%s", id, 1)}
			}
			within := func(st store.Statement) error {
				return s.Within(t.Context(), store.DefaultIsolation, func(ctx context.Context, r sqlplane.Runner) error {
					_, err := r.Exec(ctx, st)
					return err
				})
			}
			pool := func(st store.Statement) error { _, err := s.Pool().Exec(t.Context(), st); return err }
			reading := func(store.Statement) error {
				return s.Pool().Query(t.Context(), store.Statement{SQL: "select id from charge /* lost */"}, func(sqlplane.Row) error { return nil })
			}
			for i, c := range []struct {
				what    string
				fault   faultnet.Fault
				call    func(store.Statement) error
				kind    store.Kind
				applied int
			}{
				{"the answer to a statement of Pool", faultnet.SwallowAnswer("/* lost */", idleAnswer(s)), pool, store.KindLost, 1},
				{"a statement of Pool", faultnet.CutBefore("/* lost */"), pool, store.KindLost, 0},
				{"a read of Pool", faultnet.CutBefore("/* lost */"), reading, store.KindUnavailable, 0},
				{"a statement of a transaction", faultnet.CutBefore("/* lost */"), within, store.KindUnavailable, 0},
				{"COMMIT", faultnet.CutBefore("COMMIT"), within, store.KindLost, 0},
				{"the answer to COMMIT", faultnet.SwallowAnswer("COMMIT", idleAnswer(s)), within, store.KindLost, 1},
			} {
				proxy.CutAll()
				for db.PingContext(t.Context()) != nil { // connections that were cut are dropped
				}
				trigger := proxy.Arm(c.fault)
				id := strings.Repeat("x", i+1)
				err := c.call(marking(id))
				proxy.Disarm()
				if trigger.Count() == 0 {
					t.Errorf("%s: the fault has not struck", c.what)
				}
				if store.KindOf(err) != c.kind || !errors.As(err, new(*store.Error)) {
					t.Errorf("%s is lost: %v, want kind %q", c.what, err, c.kind)
				}
				if n := charges(t, db, id); n != c.applied {
					t.Errorf("%s is lost: applied %d times, want %d", c.what, n, c.applied)
				}
			}
		})
	}
}

// TestPlaneReadOnly: what a server that takes no writes refuses was not applied, and another one may
// take it.
func TestPlaneReadOnly(t *testing.T) {
	t.Parallel()
	db, s, _ := planes["PostgreSQL"](t)
	db.SetMaxOpenConns(1)
	run(t, db, "set default_transaction_read_only = on")
	_, err := s.Pool().Exec(t.Context(), charging(s, "a"))
	if store.KindOf(err) != store.KindUnavailable {
		t.Errorf("%v, want kind %q", err, store.KindUnavailable)
	}
	if _, err := s.Pool().Exec(t.Context(), charging(s, "a")); err != nil { // on another connection
		t.Error(err)
	}
}

// TestPlaneOnSQLite: what only reads waits for no writer, and what writes waits for its turn.
func TestPlaneOnSQLite(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]sqlstore.Config{"alone": {}, "groups": {GroupCommit: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := sqlstore.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "test.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(60000)")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			if err := sqlstore.Migrate(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			run(t, db, "create table charge (id varchar(100) primary key)")
			s, err := sqlstore.New(t.Context(), db, cfg)
			if err != nil {
				t.Fatal(err)
			}
			holder, _, err := s.Begin(t.Context(), store.BeginOptions{ID: store.ID{Scope: "s", Key: "k"}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.On(holder.Tx()).Exec(t.Context(), charging(s, "a")); err != nil {
				t.Fatal(err)
			}
			n := -1
			err = s.Pool().Query(t.Context(), store.Statement{SQL: "with c as (select 1) select count(*) from charge"}, func(row sqlplane.Row) error { return row.Scan(&n) })
			if err != nil || n != 0 {
				t.Errorf("%d rows, %v: it reads what is committed", n, err)
			}
			short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err = s.Pool().Exec(short, charging(s, "b"))
			if store.KindOf(err) != store.KindUnavailable {
				t.Errorf("%v, want kind %q: another writer has the file", err, store.KindUnavailable)
			}
			waits := make(chan error, 1)
			go func() {
				_, err := s.Pool().Exec(t.Context(), charging(s, "c"))
				waits <- err
			}()
			if err := holder.Commit(t.Context(), store.Change{ID: store.ID{Scope: "s", Key: "k"}, Next: store.Record{State: store.StateDone, Fence: 1, Nonce: []byte("n")}}); err != nil {
				t.Error(err)
			}
			if err := <-waits; err != nil {
				t.Error(err)
			}
			if n := count(t, db, "select count(*) from charge"); n != 2 {
				t.Errorf("%d charges, want 2", n)
			}
		})
	}
}

// TestPlaneTooLarge: a value for which the server has no room is an error that says so, and costs no
// connection.
func TestPlaneTooLarge(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	onInnoDB(t, func(t *testing.T, on innodb) {
		db, s, _ := on.plane(t)
		packet := count(t, db, "select @@max_allowed_packet")
		st := store.Statement{SQL: "insert into charge (id) values (left(?, 1))", Args: []any{make([]byte, packet+1)}}
		_, err := s.Pool().Exec(t.Context(), st)
		inTx := s.Within(t.Context(), store.DefaultIsolation, func(ctx context.Context, r sqlplane.Runner) error {
			if _, err := r.Exec(ctx, charging(s, "a")); err != nil {
				t.Error(err)
			}
			_, err = r.Exec(ctx, st)
			return nil // swallowed
		})
		for _, err := range []error{err, inTx} {
			if !errors.As(err, new(*toolarge.Error)) {
				t.Errorf("%v, want a TooLargeError", err)
			}
		}
		if n := count(t, db, "select count(*) from charge"); n != 0 {
			t.Errorf("%d charges, want none", n)
		}
	})
}
