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
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
	"github.com/oncelib/once/store/upkeep"
)

// innodb is a kind of server whose tables are InnoDB's.
type innodb struct {
	name    string
	mysql   bool
	server  func(testing.TB) *testenv.MariaDB // that the tests of this package share
	created func(testing.TB) string           // a new database on it
	level   string                            // the variable that has the isolation level
}

var (
	onMariaDB = innodb{"MariaDB", false, testenv.SharedMariaDB, testenv.NewMariaDB, "tx_isolation"}
	onMySQL   = innodb{"MySQL", true, testenv.SharedMySQL, testenv.NewMySQL, "transaction_isolation"}
)

// onInnoDB runs a test on each kind of server.
func onInnoDB(t *testing.T, test func(t *testing.T, on innodb)) {
	t.Helper()
	for _, on := range []innodb{onMariaDB, onMySQL} {
		t.Run(on.name, func(t *testing.T) {
			harness.Cell(t, !on.mysql)
			test(t, on)
		})
	}
}

// sequence is a table of the numbers from 1 to n, in its column seq.
func sequence(n int) string {
	return fmt.Sprintf("(with recursive c(seq) as (select 1 union all select seq + 1 from c where seq < %d) select seq from c) as seqs", n)
}

// open opens a store on a new database with a table of effects, through a proxy if
// there is one.
func (on innodb) open(t *testing.T, parameters string, proxy *faultnet.Proxy) (*sql.DB, *sqlstore.Store) {
	t.Helper()
	cfg, err := mysql.ParseDSN(on.created(t) + parameters)
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
	db := sqlstore.OpenDB(sqlplane.MySQL, c)
	t.Cleanup(func() { _ = db.Close() })
	if err := sqlstore.Migrate(t.Context(), db, attemptlog.Migrations); err != nil {
		t.Fatal(err)
	}
	run(t, db, "create table effect (name varchar(100) not null)")
	s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return db, s
}

// severalInPacket is what sqlstore.Open adds to a data source name.
const severalInPacket = "?multiStatements=true&interpolateParams=true"

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

// TestInnoDBSettings: sessions on which the store could not keep its word are refused.
func TestInnoDBSettings(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		dsn := on.created(t)
		plain, err := sqlstore.Open("mysql", dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = plain.Close() }()
		if err := sqlstore.Migrate(t.Context(), plain); err != nil {
			t.Fatal(err)
		}
		settings := map[string]string{
			"?autocommit=0": "Try: autocommit=1",
			"?" + on.level + "=%27READ-UNCOMMITTED%27": "Try: READ-COMMITTED",
			"?" + on.level + "=%27SERIALIZABLE%27":     "",
			"?clientFoundRows=true&sql_mode=%27%27&time_zone=%27%2B13:00%27&charset=latin1&parseTime=true&multiStatements=true": "",
			"?sql_mode=%27ANSI,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES%27":                                                       "",
			"?completion_type=%27CHAIN%27":   "",
			"?completion_type=%27RELEASE%27": "",
		}
		if on.mysql {
			settings["?sql_mode=%27TIME_TRUNCATE_FRACTIONAL,REAL_AS_FLOAT,HIGH_NOT_PRECEDENCE%27"] = ""
			settings["?sql_require_primary_key=1"] = ""
			settings["?sql_generate_invisible_primary_key=1"] = ""
		} else {
			settings["?sql_mode=%27EMPTY_STRING_IS_NULL%27"] = "Try: a sql_mode without EMPTY_STRING_IS_NULL"
		}
		for parameters, want := range settings {
			db, err := sqlstore.Open("mysql", dsn+parameters)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
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
	})
}

// TestInnoDBRoundTrips: an operation has none more than a bare transaction if connections take several statements in a packet, else three. A
// first attempt has one less, and a batch is one. A replay is one, whatever the driver is set to.
func TestInnoDBRoundTrips(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		for _, parameters := range []string{"", "?interpolateParams=true", severalInPacket} {
			proxy, err := faultnet.Listen(on.server(t).Addr())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = proxy.Close() })
			db, s := on.open(t, parameters, proxy)
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
			failing := func(key string, handler error) func() error {
				return func() error {
					_, err := once.Do(t.Context(), once.New(s, once.Config{}), once.Operation{Scope: "trips", Key: key},
						func(ctx context.Context, tx *sql.Tx) (string, error) {
							return "", errors.Join(effect(ctx, tx, key), handler)
						})
					if err == nil {
						return errors.New("it has not failed")
					}
					return nil
				}
			}
			batch := func(key string) func() error {
				return func() error {
					_, err := once.DoBatch(t.Context(), once.New(s, once.Config{}), once.Operation{Scope: "trips", Key: key}, func(b *once.Batch) (int, error) {
						for range 3 {
							b.ExecRows(1, "insert into effect values (?)", "it's one; 'two'")
						}
						return 1, nil
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
			// The claim with its look-up, the record, the end of the claim; a level; SHOW WARNINGS after a rollback.
			want := map[string]int64{"executed": bare + 3, "executed, first": bare + 3, "executed, level": bare + 4, "replayed": 1, "replayed, not first": 1, "replayed, second try": 1,
				"failed": bare + 4, "declined": bare + 8, "batch": bare + 5, "batch replayed": 1}
			if parameters == "" { // each of the writes is prepared
				want["batch"] += 3
			}
			if parameters == severalInPacket {
				want = map[string]int64{"executed": bare, "executed, first": bare - 1, "executed, level": bare, "replayed": 1, "replayed, not first": 4, "replayed, second try": 1,
					"failed": bare + 1, "declined": bare + 2, "batch": 1, "batch replayed": 3}
				if !on.mysql { // whose ROLLBACK leaves the warning of the key that was there
					want["replayed, not first"], want["batch replayed"] = 5, 4
				}
			}
			for _, c := range []struct {
				what  string
				trips int64
			}{
				{"executed", trips(do(once.Operation{Key: "a"}))},
				{"replayed", trips(do(once.Operation{Key: "a"}))},
				{"executed, first", trips(do(once.Operation{Key: "b", Attempt: once.Attempt{Number: 1}}))},
				{"executed, level", trips(do(once.Operation{Key: "c", Isolation: store.Serializable}))},
				{"replayed, not first", trips(do(once.Operation{Key: "b", Attempt: once.Attempt{Number: 1}}))},
				{"replayed, second try", trips(do(once.Operation{Key: "b", Attempt: once.Attempt{Number: 2}}))},
				{"failed", trips(failing("d", errors.New("failed")))},
				{"declined", trips(failing("e", &once.Failure{Code: "declined"}))},
				{"batch", trips(batch("f"))},
				{"batch replayed", trips(batch("f"))},
			} {
				t.Logf("%q: %s: %d round trips, bare: %d", parameters, c.what, c.trips, bare)
				if c.trips != want[c.what] {
					t.Errorf("%q: %s: %d round trips, want %d", parameters, c.what, c.trips, want[c.what])
				}
			}
		}
	})
}

// TestCommittedFromBelow: a procedure commits, and may begin again. What it has committed
// stands, with a row that says "unknown": the caller is told that the outcome is unknown, and the
// operation never runs again.
func TestCommittedFromBelow(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		db, s := on.open(t, "", nil)
		run(t, db, "create procedure ends() commit",
			"create procedure goes_on() begin commit; start transaction; end",
			"create procedure rolls_back() rollback")
		e := once.New(s, once.Config{})
		swallows := errors.New("a statement fails, and that is swallowed")
		for _, call := range []string{"call ends()", "call goes_on()", "prepare p from 'commit'; execute p", "call rolls_back()"} {
			for _, handler := range []error{nil, errors.New("failed"), swallows, &once.Failure{Code: "declined"}} {
				op := once.Operation{Scope: "below", Key: fmt.Sprint(call, handler)}
				name := strings.NewReplacer("'", "", "(", "", ")", "").Replace(op.Key)
				do := func() error {
					_, err := once.Do(t.Context(), e, op, func(ctx context.Context, tx *sql.Tx) (int, error) {
						err := effect(ctx, tx, name)
						for statement := range strings.SplitSeq(call, "; ") {
							if err == nil {
								_, err = tx.ExecContext(ctx, statement)
							}
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
		list, _, err := s.Unfinished(t.Context(), upkeep.Listing{Limit: 100})
		if err != nil || !slices.ContainsFunc(list, func(e upkeep.Entry) bool { return e.ID == id && e.State == store.StateUnknown }) {
			t.Errorf("listed: %+v, %v", list, err)
		}
		resolved := store.Change{ID: id, Expect: store.Expect{Fence: 1}, Retain: time.Hour,
			Next: store.Record{State: store.StateDone, Fence: 1, Nonce: []byte("0123456789abcdef"), Result: store.Result{Body: []byte("1")}}}
		if _, err := s.Swap(t.Context(), resolved); err != nil {
			t.Error(err)
		}
	})
}

// TestCommittedFromBelowAndLost: ROLLBACK is not answered, and the database cannot be asked. If
// the handler has run what may have committed, no error can say that nothing was applied.
func TestCommittedFromBelowAndLost(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		proxy, err := faultnet.Listen(on.server(t).Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = proxy.Close() })
		db, s := on.open(t, "", proxy)
		run(t, db, "create procedure ends() commit", "create procedure does_nothing() begin end")
		e := once.New(s, once.Config{Runs: 1})
		failed := errors.New("failed")
		for call, want := range map[string]struct {
			told    once.Effect
			effects int
			again   once.Code
		}{
			"call ends()":                        {once.EffectInDoubt, 1, once.CodeUnknown},
			"prepare p from 'commit'; execute p": {once.EffectInDoubt, 1, once.CodeUnknown},
			"call does_nothing()":                {once.EffectInDoubt, 0, ""},
			"do 1":                               {once.EffectNotApplied, 0, ""},
		} {
			op := once.Operation{Scope: "below", Key: "lost: " + call, Wait: time.Minute} // the server may take its time to notice
			name := strings.NewReplacer("'", "", "(", "", ")", "").Replace(op.Key)
			do := func(end func() error) error {
				_, err := once.Do(t.Context(), e, op, func(ctx context.Context, tx *sql.Tx) (int, error) {
					err := effect(ctx, tx, name)
					for statement := range strings.SplitSeq(call, "; ") {
						if err == nil {
							_, err = tx.ExecContext(ctx, statement)
						}
					}
					return 1, errors.Join(err, end())
				})
				return err
			}
			err := do(func() error {
				proxy.SetUpstream("127.0.0.1:1") // no server is there
				proxy.CutAll()
				return failed
			})
			proxy.SetUpstream(on.server(t).Addr())
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
	})
}

// TestAMigrationThatFailsAtItsLock does not leave the lock to its pool: others migrate.
func TestAMigrationThatFailsAtItsLock(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		ctx, cancel := context.WithTimeout(t.Context(), 55*time.Second) // the lock is waited for longer
		defer cancel()
		cfg, err := mysql.ParseDSN(on.created(t))
		if err != nil {
			t.Fatal(err)
		}
		base, err := mysql.NewConnector(cfg)
		if err != nil {
			t.Fatal(err)
		}
		first := sqlstore.OpenDB(sqlplane.MySQL, cutAnswers{base, "get_lock"})
		defer func() { _ = first.Close() }()
		if err := sqlstore.Migrate(ctx, first); err == nil {
			t.Error("migrated without an answer")
		}
		second := sqlstore.OpenDB(sqlplane.MySQL, base)
		defer func() { _ = second.Close() }()
		if err := sqlstore.Migrate(ctx, second); err != nil {
			t.Error(err)
		}
	})
}

// TestLockedGap: a transaction has locked the place where a row would be. The handler runs, once, and the record waits for
// the place as long as the session says.
func TestLockedGap(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		db, s := on.open(t, "?innodb_lock_wait_timeout=1", nil)
		ctx := t.Context()
		other, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = other.Rollback() }()
		run(t, other, "select * from once_operation for update")
		runs := 0
		do := func() error {
			_, err := once.Do(ctx, once.New(s, once.Config{}), once.Operation{Scope: "gap", Key: "k"},
				func(context.Context, *sql.Tx) (int, error) { runs++; return 1, nil })
			return err
		}
		if err := do(); once.CodeOf(err) != once.CodeUnavailable || once.EffectOf(err) != once.EffectNotApplied || runs != 1 {
			t.Errorf("after %d runs: %v", runs, err)
		}
		if err := other.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := do(); err != nil {
			t.Error(err)
		}
	})
}

// TestJoinAnOldTransaction: a caller whose data is older than the record that is there.
func TestJoinAnOldTransaction(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		db, s := on.open(t, "", nil)
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
	})
}

// TestMigrateHalfDone: a schema is not created in a transaction, so that a run that was
// killed leaves a part of it.
func TestMigrateHalfDone(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		ctx := t.Context()
		whole, _ := on.open(t, "", nil)
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
	})
}
