package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/oncelib/once"
	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlstore"
)

// mariadb opens a store on a new database with a table of effects, through a proxy if
// there is one.
func mariadb(t *testing.T, parameters string, proxy *faultnet.Proxy) (*sql.DB, *sqlstore.Store) {
	t.Helper()
	cfg, err := mysql.ParseDSN(testenv.NewMariaDB(t) + parameters)
	if err != nil {
		t.Fatal(err)
	}
	if proxy != nil {
		cfg.DialFunc = proxy.DialContext
	}
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sqlstore.OpenDB(store.MySQL, c)
	t.Cleanup(func() { _ = db.Close() })
	if err := sqlstore.Migrate(t.Context(), db, attemptlog.Migrations); err != nil {
		t.Fatal(err)
	}
	run(t, db, "create table effect (name varchar(100) not null)")
	s, err := sqlstore.New(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return db, s
}

func run(t *testing.T, db interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.ExecContext(context.Background(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func effect(ctx context.Context, tx *sql.Tx, name string) error {
	_, err := tx.ExecContext(ctx, "insert into effect values ('"+name+"')")
	return err
}

// TestMariaDBSettings: sessions on which the store could not keep its word are refused.
func TestMariaDBSettings(t *testing.T) {
	dsn := testenv.NewMariaDB(t)
	plain, err := sqlstore.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	if err := sqlstore.Migrate(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	for parameters, want := range map[string]string{
		"?autocommit=0":                        "Try: no autocommit",
		"?tx_isolation=%27READ-UNCOMMITTED%27": "Try: READ-COMMITTED",
		"?sql_mode=%27EMPTY_STRING_IS_NULL%27": "Try: a sql_mode without it",
		"?tx_isolation=%27SERIALIZABLE%27":     "",
		"?clientFoundRows=true&sql_mode=%27%27&time_zone=%27%2B13:00%27&charset=latin1&parseTime=true&multiStatements=true": "",
	} {
		db, err := sqlstore.Open("mysql", dsn+parameters)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		s, err := sqlstore.New(t.Context(), db)
		if strings.Contains(parameters, "EMPTY_STRING") { // nor are its tables made in such a session
			if err := sqlstore.Migrate(t.Context(), db); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the migration says %v", parameters, err)
			}
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", parameters, err)
		}
		if err != nil {
			continue
		}
		if err := sqlstore.Migrate(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		op := once.Operation{Scope: "settings", Key: "é😀" + parameters}
		for i := range 2 {
			r, err := once.Do(t.Context(), once.New(s, once.Config{}), op, func(context.Context, *sql.Tx) (string, error) { return "ß", nil })
			if err != nil || r.Replayed != (i == 1) || r.Value != "ß" {
				t.Errorf("%s: %+v, %v", parameters, r, err)
			}
			if age := time.Since(r.Since); i == 1 && (age < -time.Minute || age > time.Minute) {
				t.Errorf("%s: done %v ago", parameters, age)
			}
		}
	}
}

// TestMariaDBRoundTrips: an operation has none more than a bare transaction, and a replay
// is one, whatever the driver is set to.
func TestMariaDBRoundTrips(t *testing.T) {
	for _, parameters := range []string{"", "?interpolateParams=true"} {
		proxy, err := faultnet.Listen(testenv.SharedMariaDB(t).Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = proxy.Close() })
		db, s := mariadb(t, parameters, proxy)
		db.SetMaxOpenConns(1)
		trips := func(f func() error) int64 {
			before := proxy.Stats().RoundTrips
			if err := f(); err != nil {
				t.Error(err)
			}
			return proxy.Stats().RoundTrips - before
		}
		do := func(op once.Operation) func() error {
			op.Scope, op.Fingerprint = "trips", once.FingerprintOf([]byte("?"))
			return func() error {
				_, err := once.Do(t.Context(), once.New(s, once.Config{}), op, // an engine that has seen nothing
					func(ctx context.Context, tx *sql.Tx) (string, error) {
						return strings.Repeat("x", 1000), effect(ctx, tx, op.Key)
					})
				return err
			}
		}
		bare := trips(func() error {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				return err
			}
			if err := effect(t.Context(), tx, "bare"); err != nil {
				return err
			}
			return tx.Commit()
		})
		for what, want := range map[string][2]int64{
			"executed":             {trips(do(once.Operation{Key: "a"})), bare},
			"replayed":             {trips(do(once.Operation{Key: "a"})), 1},
			"executed, first":      {trips(do(once.Operation{Key: "b", First: true})), bare},
			"executed, level":      {trips(do(once.Operation{Key: "c", Isolation: store.Serializable})), bare},
			"replayed, not first":  {trips(do(once.Operation{Key: "b", First: true})), 2},
			"replayed, second try": {trips(do(once.Operation{Key: "b", Caller: once.Caller{Attempt: 2}})), 1},
		} {
			if want[0] != want[1] {
				t.Errorf("%q: %s: %d round trips, want %d", parameters, what, want[0], want[1])
			}
		}
	}
}

// TestCommittedFromBelow: a procedure commits, and may begin again. What it has committed
// stands, with a row that says "unknown": the caller is told that nobody knows, and the
// operation never runs again.
func TestCommittedFromBelow(t *testing.T) {
	db, s := mariadb(t, "", nil)
	run(t, db, "create procedure ends() commit",
		"create procedure goes_on() begin commit; start transaction; end",
		"create procedure rolls_back() rollback")
	e := once.New(s, once.Config{})
	swallows := errors.New("a statement fails, and that is swallowed")
	for _, call := range []string{"call ends()", "call goes_on()", "execute immediate 'commit'", "call rolls_back()"} {
		for _, handler := range []error{nil, errors.New("failed"), swallows, &once.Failure{Code: "declined"}} {
			op := once.Operation{Scope: "below", Key: fmt.Sprint(call, handler)}
			name := strings.NewReplacer("'", "", "(", "", ")", "").Replace(op.Key)
			do := func() error {
				_, err := once.Do(t.Context(), e, op, func(ctx context.Context, tx *sql.Tx) (int, error) {
					err := effect(ctx, tx, name)
					if err == nil {
						_, err = tx.ExecContext(ctx, call)
					}
					if handler == swallows { //nolint:errorlint // this very one
						_, _ = tx.ExecContext(ctx, "select nothing")
						return 1, err
					}
					return 1, errors.Join(err, handler)
				})
				return err
			}
			if err := do(); once.CodeOf(err) != once.CodeMisuse || once.EffectOf(err) != once.EffectInDoubt {
				t.Errorf("%s: %v", op.Key, err)
			}
			effects, code := 1, once.CodeUnknown
			if call == "call rolls_back()" { // it has undone the claim, too, and can be had again
				effects, code = 0, once.CodeMisuse
			}
			if err := do(); once.CodeOf(err) != code || once.EffectOf(err) != once.EffectInDoubt {
				t.Errorf("%s: the retry: %v", op.Key, err)
			}
			if n := count(t, db, "select count(*) from effect where name = ?", name); n != effects {
				t.Errorf("%s: %d effects", op.Key, n)
			}
			rec, err := s.Read(t.Context(), store.ID{Scope: op.Scope, Key: op.Key})
			if err != nil || (rec.State == store.StateUnknown) != (effects == 1) {
				t.Errorf("%s: %+v, %v", op.Key, rec, err)
			}
		}
	}
	// A person finds it in the list, and resolves it.
	id := store.ID{Scope: "below", Key: fmt.Sprint("call ends()", nil)}
	list, err := s.Unfinished(t.Context(), store.ID{}, 100)
	if err != nil || !slices.ContainsFunc(list, func(e store.Entry) bool { return e.ID == id && e.State == store.StateUnknown }) {
		t.Errorf("listed: %+v, %v", list, err)
	}
	resolved := store.Change{ID: id, Expect: store.Expect{Fence: 1}, Retain: time.Hour,
		Next: store.Record{State: store.StateDone, Fence: 1, Nonce: []byte("0123456789abcdef"), Result: store.Result{Body: []byte("1")}}}
	if _, err := s.Swap(t.Context(), resolved); err != nil {
		t.Error(err)
	}
}

// TestCommittedFromBelowAndLost: ROLLBACK is not answered, and the database cannot be asked. If
// the handler has run what may have committed, nobody can say that nothing was applied.
func TestCommittedFromBelowAndLost(t *testing.T) {
	proxy, err := faultnet.Listen(testenv.SharedMariaDB(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	db, s := mariadb(t, "", proxy)
	run(t, db, "create procedure ends() commit", "create procedure does_nothing() begin end")
	e := once.New(s, once.Config{Runs: 1})
	failed := errors.New("failed")
	for call, want := range map[string]struct {
		told    once.Effect
		effects int
		again   once.Code
	}{
		"call ends()":                {once.EffectInDoubt, 1, once.CodeUnknown},
		"execute immediate 'commit'": {once.EffectInDoubt, 1, once.CodeUnknown},
		"call does_nothing()":        {once.EffectInDoubt, 0, ""},
		"do 1":                       {once.EffectNotApplied, 0, ""},
	} {
		op := once.Operation{Scope: "below", Key: "lost: " + call, Wait: time.Minute} // the server may take its time to notice
		name := strings.NewReplacer("'", "", "(", "", ")", "").Replace(op.Key)
		do := func(end func() error) error {
			_, err := once.Do(t.Context(), e, op, func(ctx context.Context, tx *sql.Tx) (int, error) {
				err := effect(ctx, tx, name)
				if err == nil {
					_, err = tx.ExecContext(ctx, call)
				}
				return 1, errors.Join(err, end())
			})
			return err
		}
		err := do(func() error {
			proxy.SetUpstream("127.0.0.1:1") // nobody is there
			proxy.CutAll()
			return failed
		})
		proxy.SetUpstream(testenv.SharedMariaDB(t).Addr())
		if once.EffectOf(err) != want.told || !errors.Is(err, failed) {
			t.Errorf("%s: %v, want %v", call, err, want.told)
		}
		if n := count(t, db, "select count(*) from effect where name = ?", name); n != want.effects {
			t.Errorf("%s: %d effects", call, n)
		}
		if err := do(func() error { return nil }); once.CodeOf(err) != want.again {
			t.Errorf("%s: the retry: %v", call, err)
		}
	}
}

// TestSessionsAreLeftAsTheyWere, whatever a claim has met.
func TestSessionsAreLeftAsTheyWere(t *testing.T) {
	db, s := mariadb(t, "", nil)
	db.SetMaxOpenConns(2)
	ctx := t.Context()
	ask := store.BeginOptions{ID: store.ID{Scope: "session", Key: "k"}, Isolation: store.Serializable}
	holder, _, err := s.Begin(ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	var name string
	if err := db.QueryRowContext(ctx, "select database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	other, err := sql.Open("mysql", testenv.SharedMariaDB(t).DSN(name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	uncommitted, err := other.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = uncommitted.Rollback() }()
	run(t, uncommitted, "insert into effect values ('uncommitted')")
	check := func(what string) {
		t.Helper()
		var seen int // a level for the next transaction alone would be gone after it
		if err := db.QueryRowContext(ctx, "select count(*) from effect").Scan(&seen); err != nil || seen != 0 {
			t.Errorf("%s: the next transaction sees %d uncommitted rows, %v", what, seen, err)
		}
		var wait, open int
		var level string
		if err := db.QueryRowContext(ctx, "select @@innodb_lock_wait_timeout, @@in_transaction, @@tx_isolation").Scan(&wait, &open, &level); err != nil || wait != 50 || open != 0 || level != "REPEATABLE-READ" {
			t.Errorf("%s: lock wait %d, in a transaction %d, %s, %v", what, wait, open, level, err)
		}
	}
	if txn, rec, err := s.Begin(ctx, ask); txn != nil || rec.State != store.StateRunning || err != nil {
		t.Errorf("in flight: %+v, %v", rec, err)
	}
	check("in flight")
	if err := holder.Commit(ctx, store.Change{ID: ask.ID, Next: store.Record{State: store.StateDone, Fence: 1, Nonce: []byte("c")}, Retain: time.Hour}); err != nil {
		t.Fatal(err)
	}
	check("committed")
	for _, first := range []bool{false, true} { // found by looking, found by its key
		ask.First = first
		if txn, rec, err := s.Begin(ctx, ask); txn != nil || rec.State != store.StateDone || err != nil {
			t.Errorf("done: %+v, %v", rec, err)
		}
		check("done")
	}
	ask.ID.Key = strings.Repeat("k", 300) // no claim can be had for it
	if txn, _, err := s.Begin(ctx, ask); txn != nil || store.KindOf(err) != store.KindUnavailable {
		t.Errorf("too long: %v", err)
	}
	check("failed")
}

// TestLockedGap: who has locked the place where a row would be is no holder of the
// operation.
func TestLockedGap(t *testing.T) {
	db, s := mariadb(t, "", nil)
	ctx := t.Context()
	other, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback() }()
	run(t, other, "select * from once_operation for update")
	do := func() error {
		_, err := once.Do(ctx, once.New(s, once.Config{}), once.Operation{Scope: "gap", Key: "k"},
			func(context.Context, *sql.Tx) (int, error) { return 1, nil })
		return err
	}
	if err := do(); once.CodeOf(err) != once.CodeConflict || once.EffectOf(err) != once.EffectNotApplied {
		t.Error(err)
	}
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := do(); err != nil {
		t.Error(err)
	}
}

// TestJoinAnOldTransaction: a caller whose data is older than the record that is there.
func TestJoinAnOldTransaction(t *testing.T) {
	db, s := mariadb(t, "", nil)
	ctx := t.Context()
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		for _, expired := range []bool{false, true} {
			tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
			var n int
			if err := tx.QueryRowContext(ctx, "select count(*) from effect").Scan(&n); err != nil { // its data is of now
				t.Fatal(err)
			}
			op := once.Operation{Scope: "join", Key: fmt.Sprint(level, expired)}
			if expired {
				run(t, db, "insert into once_operation (scope, `key`, state, since, expires_at) values ('join', '"+op.Key+"', 2, 0, 1)")
			} else if _, err := once.Do(ctx, once.New(s, once.Config{}), op, func(context.Context, *sql.Tx) (string, error) { return "first", nil }); err != nil {
				t.Fatal(err)
			}
			r, err := once.Join(ctx, once.New(s, once.Config{}), tx, op, func(context.Context, *sql.Tx) (string, error) { return "joined", nil })
			switch {
			case !expired && (err != nil || !r.Replayed || r.Value != "first"):
				t.Errorf("%v: %+v, %v", level, r, err)
			case expired && (err != nil || r.Replayed || r.Value != "joined"):
				t.Errorf("%v: expired: %+v, %v", level, r, err)
			}
			if err := tx.Commit(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestMigrateHalfDone: a schema is not created in a transaction, so that a run that was
// killed leaves a part of it.
func TestMigrateHalfDone(t *testing.T) {
	ctx := t.Context()
	whole, _ := mariadb(t, "", nil)
	var name, table string
	if err := whole.QueryRowContext(ctx, "show create table once_operation").Scan(&name, &table); err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{"drop table once_schema", "delete from once_schema", "drop table once_operation, once_schema"} {
		run(t, whole, left)
		if err := sqlstore.Migrate(ctx, whole); err != nil {
			t.Errorf("after %s: %v", left, err)
		}
		status, err := sqlstore.Status(ctx, whole)
		if err != nil || len(status) == 0 || !status[len(status)-1].Applied {
			t.Errorf("after %s: %+v, %v", left, status, err)
		}
		var again string
		if err := whole.QueryRowContext(ctx, "show create table once_operation").Scan(&name, &again); err != nil || again != table {
			t.Errorf("after %s: %s, %v", left, again, err)
		}
	}
}
