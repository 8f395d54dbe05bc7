package sqlstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/oncelib/once"
	"github.com/oncelib/once/attemptlog"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// failingCommit is MySQL's driver on which one COMMIT is refused by a group of servers: it has been
// rolled back.
type failingCommit struct {
	driver.Connector
	with *mysql.MySQLError // nil: no longer
}

func (f *failingCommit) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := f.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return failingCommitConn{conn.(mysqlConn), f}, nil
}

type failingCommitConn struct {
	mysqlConn
	f *failingCommit
}

func (c failingCommitConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if with := c.f.with; with != nil && query == "COMMIT" {
		c.f.with = nil
		if _, err := c.mysqlConn.ExecContext(ctx, "ROLLBACK", nil); err != nil {
			return nil, err
		}
		return nil, with
	}
	return c.mysqlConn.ExecContext(ctx, query, args)
}

// TestAGroupRefusesACommit: what a group of servers refuses is settled, because a member that leaves its group refuses
// what the others may apply. Here nothing was applied: the handler runs again.
func TestAGroupRefusesACommit(t *testing.T) {
	cfg, err := mysql.ParseDSN(testenv.NewMySQL(t))
	if err != nil {
		t.Fatal(err)
	}
	base, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	group := &failingCommit{Connector: base}
	db := sqlstore.OpenDB(sqlplane.MySQL, group)
	t.Cleanup(func() { _ = db.Close() })
	if err := sqlstore.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	run(t, db, "create table effect (name varchar(100) not null)")
	s, err := sqlstore.New(t.Context(), db, sqlstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		with    mysql.MySQLError
		code    once.Code
		told    once.Effect
		runs    int
		effects int
	}{
		"certification":  {mysql.MySQLError{Number: 3101, Message: "Plugin instructed the server to rollback the current transaction."}, "", once.EffectApplied, 2, 1},
		"no group":       {mysql.MySQLError{Number: 3100, Message: "Error on observer while running replication hook 'before_commit'."}, "", once.EffectApplied, 2, 1},
		"settled by key": {mysql.MySQLError{Number: 1180, Message: "Got error 1 during COMMIT"}, "", once.EffectApplied, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			group.with = &c.with
			_, err := once.Do(t.Context(), once.New(s, once.Config{}), once.Operation{Scope: "group", Key: name}, func(ctx context.Context, tx *sql.Tx) (int, error) {
				runs++
				return 1, effect(ctx, tx, name)
			})
			if once.CodeOf(err) != c.code || err != nil && once.EffectOf(err) != c.told || runs != c.runs {
				t.Errorf("%v after %d runs", err, runs)
			}
			if n := count(t, db, "select count(*) from effect where name = ?", name); n != c.effects {
				t.Errorf("%d effects, want %d", n, c.effects)
			}
		})
	}
}

// TestAServerBecomesReadOnly while a handler runs: nothing is applied, the store is unavailable, and the
// connection leaves the pool. Where a lock wait ends the whole transaction, an error that the handler
// swallows applies nothing either.
func TestAServerBecomesReadOnly(t *testing.T) {
	testenv.Prove(t)
	testenv.Need(t, "mysql")
	ctx := t.Context()
	m, err := testenv.StartMariaDB(ctx, testenv.MariaDBConfig{MySQL: true, Settings: map[string]string{"innodb-rollback-on-timeout": "ON", "transaction-isolation": "SERIALIZABLE"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	if err := m.CreateDatabase("app"); err != nil {
		t.Fatal(err)
	}
	db, err := sqlstore.Open("mysql", m.DSN("app")+"?innodb_lock_wait_timeout=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := sqlstore.Migrate(ctx, db); err != nil {
		t.Fatal(err)
	}
	run(t, db, "create table effect (name varchar(100) not null)", "create table taken (id int primary key)", "insert into taken values (1)")
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	e := once.New(s, once.Config{Runs: 1})
	do := func(key string, handler func(ctx context.Context, tx *sql.Tx) error) error {
		_, err := once.Do(ctx, e, once.Operation{Scope: "s", Key: key, Wait: time.Minute}, // until the server has seen the end of a connection
			func(ctx context.Context, tx *sql.Tx) (int, error) { return 1, handler(ctx, tx) })
		return err
	}
	nothing := func(what string, err error, code once.Code) {
		t.Helper()
		if once.CodeOf(err) != code || once.EffectOf(err) != once.EffectNotApplied {
			t.Errorf("%s: %v", what, err)
		}
		if n := count(t, db, "select count(*) from effect"); n != 0 {
			t.Errorf("%s: %d effects", what, n)
		}
	}
	for _, setting := range []string{"super_read_only", "read_only"} { // a user with the right to write may do so on the second
		nothing(setting+" in the handler", do(setting, func(ctx context.Context, tx *sql.Tx) error {
			run(t, db, "set global super_read_only = on")
			return effect(ctx, tx, "refused")
		}), once.CodeFailed)
		run(t, db, "set global super_read_only = off", "set global read_only = off")
		nothing(setting+" at the end", do(setting, func(ctx context.Context, tx *sql.Tx) error {
			err := effect(ctx, tx, "refused")
			run(t, db, "set global super_read_only = on")
			return err
		}), once.CodeUnavailable)
		run(t, db, "set global super_read_only = off", "set global "+setting+" = on")
		nothing(setting+" before", do(setting, func(ctx context.Context, tx *sql.Tx) error { return effect(ctx, tx, "refused") }), once.CodeUnavailable)
		run(t, db, "set global super_read_only = off", "set global read_only = off")
	}
	nothing("a lock wait", do("wait", func(ctx context.Context, tx *sql.Tx) error {
		other, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = other.Rollback() }()
		run(t, other, "update taken set id = 2")
		_ = effect(ctx, tx, "lost")
		_, _ = tx.ExecContext(ctx, "update taken set id = 3") // swallowed
		return nil
	}), once.CodeAborted)
	if err := do("wait", func(ctx context.Context, tx *sql.Tx) error { return effect(ctx, tx, "done") }); err != nil {
		t.Error(err)
	}
}

// TestMySQLLogins: with caching_sha2_password, the default of MySQL, in both of its forms, and with TLS.
func TestMySQLLogins(t *testing.T) {
	ctx := t.Context()
	dsn := testenv.NewMySQL(t)
	server := testenv.SharedMySQL(t)
	_, name, _ := strings.Cut(dsn, "/")
	for _, q := range []string{"drop user if exists sha2@'127.0.0.1', secure@'127.0.0.1'", "create user sha2@'127.0.0.1' identified by 'secret'",
		"create user secure@'127.0.0.1' identified by 'secret' require ssl", "grant all on *.* to sha2@'127.0.0.1', secure@'127.0.0.1'"} {
		if _, err := server.Query(ctx, name, q); err != nil {
			t.Fatal(err)
		}
	}
	ca, err := os.ReadFile(filepath.Join(server.DataDir(), "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	certificate := &tls.Config{RootCAs: roots, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} // the certificate has no host name: its chain is verified below
	certificate.VerifyConnection = func(cs tls.ConnectionState) error {
		_, err := cs.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots})
		return err
	}
	if err := mysql.RegisterTLSConfig("once", certificate); err != nil {
		t.Fatal(err)
	}
	defer mysql.DeregisterTLSConfig("once")
	for _, c := range []struct{ login, parameters, want string }{
		{"sha2:secret", "", ""},                 // full: the password is sent under the server's RSA key
		{"sha2:secret", "?charset=utf8mb4", ""}, // fast: the server has it in its cache
		{"sha2:secret", "?tls=skip-verify", ""},
		{"secure:secret", "?tls=once", ""},
		{"secure:secret", "?tls=skip-verify", ""},
		{"secure:secret", "", "Access denied"},
		{"sha2:wrong", "", "Access denied"},
		{"sha2:secret", "?tls=true", "certificate"},
	} {
		db, err := sqlstore.Open("mysql", c.login+"@tcp("+server.Addr()+")/"+name+c.parameters)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		err = sqlstore.Migrate(ctx, db)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s%s: %v", c.login, c.parameters, err)
		}
		if err != nil {
			continue
		}
		s, err := sqlstore.New(ctx, db, sqlstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := once.Do(ctx, once.New(s, once.Config{}), once.Operation{Scope: "login", Key: c.login + c.parameters}, func(context.Context, *sql.Tx) (int, error) { return 1, nil }); err != nil {
			t.Error(err)
		}
		var cipher, variable string
		if err := db.QueryRowContext(ctx, "show status like 'Ssl_cipher'").Scan(&variable, &cipher); err != nil || (cipher != "") != strings.Contains(c.parameters, "tls=") {
			t.Errorf("%s%s: cipher %q, %v", c.login, c.parameters, cipher, err)
		}
	}
}

// TestMySQLPrimaryKeys: each table has a primary key of its own, which a server may demand, and to which one
// that adds invisible keys adds nothing.
func TestMySQLPrimaryKeys(t *testing.T) {
	tables := func(parameters string) map[string]string {
		t.Helper()
		db, err := sqlstore.Open("mysql", testenv.NewMySQL(t)+parameters)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if err := sqlstore.Migrate(t.Context(), db, attemptlog.Migrations, operate.Migrations, journal.Migrations); err != nil {
			t.Fatalf("%s: %v", parameters, err)
		}
		rows, err := db.QueryContext(t.Context(), "show tables")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for rows.Next() {
			names = append(names, "")
			if err := rows.Scan(&names[len(names)-1]); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil || len(names) < 4 {
			t.Fatal(names, err)
		}
		made := map[string]string{}
		for _, name := range names {
			var text string
			if err := db.QueryRowContext(t.Context(), "show create table "+name).Scan(&name, &text); err != nil {
				t.Fatal(err)
			}
			made[name] = text
		}
		return made
	}
	want := tables("")
	for _, parameters := range []string{"?sql_require_primary_key=1", "?sql_generate_invisible_primary_key=1"} {
		got := tables(parameters)
		if len(got) != len(want) {
			t.Errorf("%s: %d tables, want %d", parameters, len(got), len(want))
		}
		for name, text := range got {
			if text != want[name] {
				t.Errorf("%s: %s, want %s", parameters, text, want[name])
			}
		}
	}
}

// TestMySQLClaimsKnowTheLastHolder: which transaction gets the claim sees what its last holder has committed,
// although it has asked for both at once. Here it is made to wait, in place of being refused.
func TestMySQLClaimsKnowTheLastHolder(t *testing.T) {
	testenv.Both(t)
	onInnoDB(t, knowTheLastHolder)
}

func knowTheLastHolder(t *testing.T, on innodb) {
	db, s := on.open(t, "", nil)
	ctx := t.Context()
	id := store.ID{Scope: "s", Key: "k"}
	holder, _, err := s.Begin(ctx, store.BeginOptions{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Tx().QueryRowContext(ctx, "select 1").Scan(new(int)); err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	name := lockOf(t, s, db, id)
	var locked, state sql.NullInt64
	seen := make(chan error, 1)
	var session int
	if err := conn.QueryRowContext(ctx, "select connection_id()").Scan(&session); err != nil {
		t.Fatal(err)
	}
	go func() {
		seen <- conn.QueryRowContext(ctx, "select l.locked, state from (select get_lock('"+name+"', 60) as locked) l left join once_operation on scope = 's' and `key` = 'k'").Scan(&locked, &state)
	}()
	for waiting := false; !waiting; {
		if err := db.QueryRowContext(ctx, "select count(*) > 0 from information_schema.processlist where id = ? and state like '%lock%'", session).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	if err := holder.Commit(ctx, store.Change{ID: id, Next: store.Record{State: store.StateDone, Fence: 1, Nonce: []byte("n")}}); err != nil {
		t.Fatal(err)
	}
	if err := <-seen; err != nil || locked.Int64 != 1 || state.Int64 != int64(store.StateDone) {
		t.Errorf("locked %v, state %v, %v", locked, state, err)
	}
}

// lockOf finds out what the lock of an operation is called: its statement is in the list of processes while
// another session has locked the table.
func lockOf(t *testing.T, s *sqlstore.Store, db *sql.DB, id store.ID) string {
	t.Helper()
	ctx := t.Context()
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	run(t, conn, "lock tables once_operation write")
	asked := make(chan error, 1)
	go func() { _, _, err := s.Begin(ctx, store.BeginOptions{ID: id}); asked <- err }()
	var info string
	for info == "" {
		err := db.QueryRowContext(ctx, "select info from information_schema.processlist where info like 'select l.locked%' and state like '%metadata lock%'").Scan(&info)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			t.Fatal(err)
		}
	}
	run(t, conn, "unlock tables")
	if err := <-asked; err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "get_lock('")
	name, _, _ := strings.Cut(rest, "'")
	return name
}
