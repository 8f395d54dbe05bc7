package oncetest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	_ "modernc.org/sqlite"

	"github.com/oncelib/once/oncetest"
	"github.com/oncelib/once/store/sqlstore"
)

func post() *http.Request {
	return httptest.NewRequest(http.MethodPost, "http://shop.test/charges", strings.NewReader(`{"amount":5}`))
}

// TestALockThatIsKept: a handler that keeps its lock where its call has failed never answers again. Each kind of fault that shows it says so once, whether the
// handler waits with its context or without it, and the next kind has a new process.
func TestALockThatIsKept(t *testing.T) {
	for _, waitsWithContext := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			over := make(chan struct{}) // ends what waits, as the end of a process would
			var requests atomic.Int64
			texts := complaints(t, func(tb testing.TB) {
				bank := oncetest.NewProvider(tb, oncetest.ProviderConfig{Dedupes: true})
				oncetest.HTTP(tb, oncetest.Service{
					Request: post,
					Skip:    []oncetest.Fault{oncetest.FaultStore, oncetest.FaultStatement, oncetest.FaultMismatch},
					Start: func(p *oncetest.Process) http.Handler {
						lock, client := make(chan struct{}, 1), &http.Client{Transport: p.Transport(bank)}
						return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							requests.Add(1)
							ctx := context.Background()
							if waitsWithContext {
								ctx = r.Context()
							}
							select {
							case lock <- struct{}{}:
							case <-over:
							case <-ctx.Done():
								http.Error(w, "later", http.StatusServiceUnavailable)
								return
							}
							out := r.Clone(r.Context())
							out.RequestURI = ""
							resp, err := client.Do(out)
							if err != nil {
								http.Error(w, "later", http.StatusServiceUnavailable) // and the lock is kept
								return
							}
							_ = resp.Body.Close()
							<-lock
							fmt.Fprint(w, "charged")
						})
					},
				})
			})
			close(over)
			said := fmt.Sprint(texts...)
			if len(texts) != 2 || strings.Count(said, "never answered: by nothing in 10s") != 2 || !strings.Contains(said, "not sent") || !strings.Contains(said, "not answered") {
				t.Errorf("with context, %v: it says %q", waitsWithContext, said)
			}
			if n := requests.Load(); n > 40 {
				t.Errorf("with context, %v: %d requests: one that has no answer is sent again", waitsWithContext, n)
			}
		})
	}
}

// leaking is a service on SQLite that is right, but for a transaction that it leaves open where leaks says so. All of its work, and the count of its effects, goes
// over one connection. leaked are these transactions.
func leaking(t *testing.T, tb testing.TB, leaks func(err error) bool, leaked chan<- *sql.Tx) (s oncetest.Service, file string) {
	t.Helper()
	file = "file:" + filepath.Join(t.TempDir(), "leaks.db") + "?_pragma=journal_mode(wal)&_pragma=busy_timeout(100)&_txlock=immediate"
	setup, err := sqlstore.Open("sqlite", file)
	if err == nil {
		err = errors.Join(sqlstore.Migrate(t.Context(), setup), run(setup, "create table charge (name text primary key)"), setup.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return oncetest.Service{
		Request: post,
		Skip:    []oncetest.Fault{oncetest.FaultStore, oncetest.FaultStatement, oncetest.FaultMismatch},
		Start: func(p *oncetest.Process) http.Handler {
			pool := p.Open("sqlite", file)
			pool.SetMaxOpenConns(1)
			s, err := sqlstore.New(t.Context(), pool, sqlstore.Config{})
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
		"never answered: by nothing: the pool of the handler has no connection in 10s": func(err error) bool { return err != nil },
		"the effects cannot be counted: ":                                              func(error) bool { return true },
	} {
		synctest.Test(t, func(t *testing.T) {
			leaked := make(chan *sql.Tx, 1000)
			texts := complaints(t, func(tb testing.TB) {
				s, _ := leaking(t, tb, leaks, leaked)
				oncetest.HTTP(tb, s)
			})
			close(leaked)
			for tx := range leaked {
				_ = tx.Rollback() // its connection may be cut
			}
			if said := fmt.Sprint(texts...); !strings.Contains(said, want) {
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
	s, file := leaking(t, t, func(error) bool { return false }, nil)
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
