package sqlguard

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
)

// inPackets returns a pool whose server takes several statements in a packet, which has been found out.
func inPackets(t *testing.T, f *fake) *sql.DB {
	t.Helper()
	db := open(t, f, MySQL)
	conn, err := db.Conn(t.Context())
	must(t, err)
	must(t, conn.Raw(func(dc any) error {
		s, _ := SessionOf(dc, MySQL)
		several, err := s.TakesSeveral(t.Context())
		if err == nil && !several {
			err = errDriver
		}
		return err
	}))
	must(t, conn.Close())
	f.took()
	return db
}

// TestPacketsOfBeginAndCommit: what begins and what ends a transaction travels with its first statement and with COMMIT or ROLLBACK.
func TestPacketsOfBeginAndCommit(t *testing.T) {
	t.Parallel()
	rollback := []string{"query ROLLBACK; SHOW WARNINGS; DO IF(@@warning_count = 0, f(), 0), IF(@@warning_count = 0, g(), 0)", "rows close"}
	const closing = "exec INSERT record; COMMIT; DO f(), g()"
	const opening = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; "
	for name, tt := range map[string]struct {
		run    func(tx *sql.Tx) error
		keeps  bool // and commits
		failed error
		want   []string
	}{
		"exec":            {run: execs("INSERT t"), keeps: true, want: []string{"exec " + opening + "INSERT t", closing}},
		"query":           {run: func(tx *sql.Tx) error { return drained(tx.Query("SELECT t")) }, keeps: true, want: []string{"query " + opening + "SELECT t", "rows close", closing}},
		"nothing":         {run: execs(), keeps: true, want: []string{"exec " + opening + closing[len("exec "):]}},
		"nothing, undone": {run: execs(), want: []string{"exec DO f(), g()"}},
		"undone":          {run: execs("INSERT t"), want: append([]string{"exec " + opening + "INSERT t"}, rollback...)},
		"not plain": {run: execs("CALL p()", "INSERT t"), keeps: true, want: []string{
			"exec " + opening[:len(opening)-2], "exec " + setMark, "exec CALL p()", "exec INSERT t", "exec " + releaseMark + "; INSERT record; COMMIT; DO f(), g()",
		}},
		"prepared": {run: func(tx *sql.Tx) error {
			s, err := tx.Prepare("INSERT t")
			if err == nil {
				_, err = s.Exec()
			}
			return err
		}, keeps: true, want: []string{"exec " + opening[:len(opening)-2], "prepare INSERT t", "stmt exec INSERT t", closing}},
		"prepared by the driver's wish": {run: execs("INSERT t"), failed: driver.ErrSkip, keeps: true, want: []string{
			"exec " + opening + "INSERT t", "exec " + opening[:len(opening)-2], "prepare INSERT t", "stmt exec INSERT t", closing,
		}},
		"failed": {run: execs("INSERT t"), failed: errorNo(1048), want: append([]string{"exec " + opening + "INSERT t"}, rollback...)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			txn := new(Txn)
			tx, err := inPackets(t, f).BeginTx(txn.Context(t.Context()), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
			must(t, err)
			txn.DoAfter("f()")
			txn.DoAfter("g()")
			txn.Last(Statement{Text: "INSERT record"})
			f.took()
			f.failing("exec "+opening+"INSERT t", tt.failed)
			if err := tt.run(tx); err != nil && (tt.failed == nil || tt.keeps) {
				t.Fatal(err)
			}
			if tt.keeps {
				must(t, tx.Commit())
			} else {
				must(t, tx.Rollback())
			}
			wantCalls(t, f, tt.want...)
		})
	}
}

func execs(texts ...string) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error {
		for _, text := range texts {
			if _, err := tx.Exec(text); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestARollbackInAPacketIsIncomplete: what is to be done after waits until that is recorded.
func TestARollbackInAPacketIsIncomplete(t *testing.T) {
	t.Parallel()
	f := newFake()
	const rollback = "ROLLBACK; SHOW WARNINGS; DO IF(@@warning_count = 0, f(), 0)"
	f.results[rollback] = []error{nil}
	txn := new(Txn)
	tx, err := inPackets(t, f).BeginTx(txn.Context(t.Context()), nil)
	must(t, err)
	txn.DoAfter("f()")
	must(t, execs("INSERT t")(tx))
	f.took()
	must(t, tx.Rollback())
	wantCalls(t, f, "query "+rollback, "rows close", "exec DO f()")
}

// TestATextOfSeveralStatements is prepared first where the server would take them, and a server prepares only one.
func TestATextOfSeveralStatements(t *testing.T) {
	t.Parallel()
	const several = "SELECT '\\'; DELETE t; -- '" // or one: that depends on the sql_mode
	for _, code := range []uint16{0, mysqlSyntax, mysqlUnpreparable} {
		f := newFake()
		if code != 0 {
			f.failing("prepare "+several, errorNo(code))
		}
		refused := code == mysqlSyntax
		alone := sql.OpenDB(WrapAlone(f, MySQL))
		t.Cleanup(func() { alone.Close() })
		if _, err := alone.Exec(several); (err != nil) != refused {
			t.Errorf("%d, outside of transactions: %v", code, err)
		}
		wantRun(t, f, "exec "+several, !refused)
		if err := drained(alone.Query(several)); (err != nil) != refused {
			t.Errorf("%d, a query: %v", code, err)
		}
		wantRun(t, f, "query "+several, !refused)
		tx, err := inPackets(t, f).BeginTx(new(Txn).Context(t.Context()), nil)
		must(t, err)
		if err := execs(several)(tx); (err != nil) != refused {
			t.Errorf("%d, in a transaction: %v", code, err)
		}
		wantRun(t, f, "exec START TRANSACTION; "+several, false) // it is not plain, so that BEGIN goes alone
		if err := tx.Commit(); errors.As(err, new(*RefusedError)) != refused {
			t.Errorf("%d: %v", code, err)
		}
	}
	f := newFake()
	db := open(t, f, MySQL)
	must(t, func() error { _, err := db.Exec(several); return err }()) // the data source name of the user allows it
	wantCalls(t, f, "exec "+several)
}

func wantRun(t *testing.T, f *fake, call string, want bool) {
	t.Helper()
	ran := false
	for _, c := range f.took() {
		ran = ran || c == call
	}
	if ran != want {
		t.Errorf("%s: run %t", call, ran)
	}
}
