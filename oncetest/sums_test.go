package oncetest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/oncetest"
	"github.com/oncelib/once/store/sqlstore"
)

// TestSums: a balance that is updated twice is seen, whatever its column is in SQLite: without a type, larger than a float64 has digits for, larger than 64 bits in
// sum, or a part of a unique key.
func TestSums(t *testing.T) {
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
		texts := complaints(t, func(tb testing.TB) {
			oncetest.HTTP(tb, oncetest.Service{
				Request: post, Database: counting,
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
		if said := fmt.Sprint(texts...); !strings.Contains(said, "account.balance +200") {
			t.Errorf("%s: it says %q", column, said)
		}
		if err := setup.Close(); err != nil {
			t.Error(err)
		}
	}
}

// bank answers each request, after an effect.
type bank func()

func (b bank) RoundTrip(r *http.Request) (*http.Response, error) {
	b()
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("ok")), Header: http.Header{}, Request: r}, nil
}

// TestADebitIsAnEffect: of a call whose outcome is unknown there is at most one effect, also if the effect is negative.
func TestADebitIsAnEffect(t *testing.T) {
	for _, amount := range []int64{100, -100} {
		var balance atomic.Int64
		texts := complaints(t, func(tb testing.TB) {
			oncetest.Do(tb, oncetest.Work{
				Count: map[string]func() int{"balance": func() int { return int(balance.Load()) }},
				Skip: []oncetest.Fault{
					oncetest.FaultStore, oncetest.FaultStatement, oncetest.FaultMismatch, oncetest.FaultConcurrent, oncetest.FaultDeath, oncetest.FaultNotSent,
				},
				Start: func(p *oncetest.Process) func(context.Context, once.Operation) (any, error) {
					client, results := p.Transport(bank(func() { balance.Add(amount) })), map[string]error{}
					send := func(ctx context.Context) error {
						r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://bank.test", nil)
						if err != nil {
							return err
						}
						resp, err := client.RoundTrip(r)
						if err != nil {
							return err
						}
						return resp.Body.Close()
					}
					return func(ctx context.Context, op once.Operation) (any, error) {
						err, known := results[op.Key]
						if !known {
							if send(ctx) != nil {
								_ = send(ctx) // wrong
								err = &once.Error{Code: once.CodeUnknown}
							}
							results[op.Key] = err
						}
						return "paid", err
					}
				},
			})
		})
		if said := fmt.Sprint(texts...); len(texts) != 1 || !strings.Contains(said, fmt.Sprintf("balance %+d", 2*amount)) {
			t.Errorf("%d: it says %q", amount, said)
		}
	}
}
