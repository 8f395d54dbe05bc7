package oncetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/oncelib/once/oncetest"
	"github.com/oncelib/once/store/sqlstore"
)

// leaking is a service on SQLite that is right, but for a transaction that it leaves open where leaks says so. All of its work, and the count of its effects, goes
// over one connection. leaked are these transactions.
func leaking(tb testing.TB, leaks func(err error) bool, leaked chan<- *sql.Tx) (s oncetest.Service, file string) {
	tb.Helper()
	file = "file:" + filepath.Join(tb.TempDir(), "leaks.db") + "?_pragma=journal_mode(wal)&_pragma=busy_timeout(100)&_txlock=immediate"
	setup, err := sqlstore.Open("sqlite", file)
	if err == nil {
		err = errors.Join(sqlstore.Migrate(tb.Context(), setup), run(setup, "create table charge (name text primary key)"), setup.Close())
	}
	if err != nil {
		tb.Fatal(err)
	}
	return oncetest.Service{
		Request: request,
		Skip:    []oncetest.Fault{oncetest.FaultStore, oncetest.FaultStatement, oncetest.FaultMismatch},
		Start: func(p *oncetest.Process) http.Handler {
			pool := p.Open("sqlite", file)
			pool.SetMaxOpenConns(1)
			s, err := sqlstore.New(tb.Context(), pool, sqlstore.Config{})
			if err != nil {
				tb.Fatalf("%v", err)
			}
			oncetest.Store(p, s)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tx, err := pool.BeginTx(context.Background(), nil)
				if err == nil {
					_, err = tx.Exec("insert into charge values (?) on conflict do nothing", r.Header.Get("Idempotency-Key"))
					switch {
					case leaks(err):
						leaked <- tx
					case err == nil:
						err = tx.Commit()
					default:
						_ = tx.Rollback()
					}
				}
				if err != nil {
					http.Error(w, "later", http.StatusServiceUnavailable)
					return
				}
				fmt.Fprint(w, "charged")
			})
		},
	}, file
}

func run(db *sql.DB, query string) error {
	_, err := db.Exec(query)
	return err
}

// TestAConnectionThatIsKept: a handler that leaves its transaction open has no connection for the next request, and the test none to count effects.
func TestAConnectionThatIsKept(t *testing.T) {
	for want, leaks := range map[string]func(err error) bool{
		"never answered: the connection pool of the handler has no free connection in 10s": func(err error) bool { return err != nil },
		"the effects cannot be counted: ":                                                  func(error) bool { return true },
	} {
		synctest.Test(t, func(t *testing.T) {
			leaked := make(chan *sql.Tx, 1000)
			said := complaint(t, func(tb testing.TB) {
				s, _ := leaking(tb, leaks, leaked)
				oncetest.HTTP(tb, s)
			})
			close(leaked)
			for tx := range leaked {
				_ = tx.Rollback() // its connection may be cut
			}
			if !strings.Contains(said, want) {
				t.Errorf("it says %q, and not %q", said, want)
			}
		})
	}
}

// TestACountThatFailsEndsItsSubtest: effects that cannot be counted end the subtest of one fault, and not the test around it.
func TestACountThatFailsEndsItsSubtest(t *testing.T) {
	const inner = "ONCETEST_COUNT_FAILS"
	if os.Getenv(inner) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inner+"=1")
		out, err := cmd.CombinedOutput()
		text := string(out)
		if err == nil || !strings.Contains(text, "cannot be counted") || strings.Contains(text, "FailNow") || !strings.Contains(text, "FAIL: "+t.Name()+"/concurrent") {
			t.Errorf("%v\n%s", err, text)
		}
		return
	}
	s, file := leaking(t, func(error) bool { return false }, nil)
	start, requests := s.Start, atomic.Int64{}
	s.Start = func(p *oncetest.Process) http.Handler {
		h, away := start(p), p.Open("sqlite", file)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r)
			if requests.Add(1) > 5 { // those without a fault, and a duplicate
				_ = run(away, "drop table if exists charge")
			}
		})
	}
	oncetest.HTTP(t, s)
}

// TestSumsOfEachColumnType: a balance that is updated twice is seen, whatever its column is in SQLite: without a type, larger than a float64 has digits for, larger than 64 bits in
// sum, or a part of a unique key.
func TestSumsOfEachColumnType(t *testing.T) {
	for column, start := range map[string]string{
		"balance integer":                      "0",
		"balance":                              "0",
		"balance decimal":                      "0.1",
		"balance bigint":                       "4000000000000000000), ('b', 9000000000000000000",
		"balance integer, unique (k, balance)": "0",
	} {
		file := "file:" + filepath.Join(t.TempDir(), "sums.db") + "?_pragma=journal_mode(wal)&_pragma=busy_timeout(100)&_txlock=immediate"
		setup, err := sqlstore.Open("sqlite", file)
		if err != nil {
			t.Fatal(err)
		}
		for _, query := range []string{
			"create table charge (name text primary key)", "create table account (k text primary key, " + column + ")", "insert into account values ('a', " + start + ")",
			"create unique index beside on account (lower(k))",
		} {
			err = errors.Join(err, run(setup, query))
		}
		counting, newErr := sqlstore.New(t.Context(), setup, sqlstore.Config{NoOperations: true})
		if err = errors.Join(err, newErr); err != nil {
			t.Fatal(err)
		}
		said := complaint(t, func(tb testing.TB) {
			oncetest.HTTP(tb, oncetest.Service{
				Request: request, Database: counting,
				Skip: []oncetest.Fault{oncetest.FaultConcurrent, oncetest.FaultStore, oncetest.FaultStatement, oncetest.FaultMismatch, oncetest.FaultDeath},
				Start: func(p *oncetest.Process) http.Handler {
					pool := p.Open("sqlite", file)
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						key, known := r.Header.Get("Idempotency-Key"), 0
						err := pool.QueryRow("select count(*) from charge where name = ?", key).Scan(&known)
						if err == nil && known == 0 {
							if err = run(pool, "update account set balance = balance + 100 where k = 'a'"); err == nil { // wrong: in a transaction of its own
								_, err = pool.Exec("insert into charge values (?)", key)
							}
						}
						if err != nil {
							http.Error(w, "later", http.StatusServiceUnavailable)
							return
						}
						fmt.Fprint(w, "charged")
					})
				},
			})
		})
		if !strings.Contains(said, "account.balance +200") {
			t.Errorf("%s: it says %q", column, said)
		}
		if err := setup.Close(); err != nil {
			t.Error(err)
		}
	}
}
