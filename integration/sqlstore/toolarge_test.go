package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/base/toolarge"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/retry"
	"github.com/oncelib/once/store/sqlplane"
	"github.com/oncelib/once/store/sqlstore"
)

// final reports what is wrong with the error of an operation whose result is too large.
func final(err error) error {
	if once.CodeOf(err) != once.CodeFailed || once.EffectOf(err) != once.EffectNotApplied || !errors.As(err, new(*toolarge.Error)) || !strings.Contains(err.Error(), "Try: ") {
		return fmt.Errorf("not the error of what is too large: %w", err)
	}
	if class, _ := retry.Classify(err); class != retry.ClassFinal {
		return fmt.Errorf("it would be retried, as %v: %w", class, err)
	}
	return nil
}

// TestResultsTooLargeForInnoDB: a result, or a value of a batch, for which max_allowed_packet
// of the server or of the driver has no room is an error at once, and a final one: the server
// itself closes the connection and says nothing.
func TestResultsTooLargeForInnoDB(t *testing.T) {
	testenv.Prove(t)
	onInnoDB(t, func(t *testing.T, on innodb) {
		testenv.Need(t, "mariadb", "mysql")
		ctx := t.Context()
		m, err := testenv.StartMariaDB(ctx, testenv.MariaDBConfig{MySQL: on.mysql, Settings: map[string]string{"max-allowed-packet": "1M"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		if err := m.CreateDatabase("app"); err != nil {
			t.Fatal(err)
		}
		open := func(parameters string) (*sql.DB, *once.Engine[*sql.Tx]) {
			t.Helper()
			db, err := sqlstore.Open("mysql", m.DSN("app")+parameters)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			if err := sqlstore.Migrate(ctx, db); err != nil {
				t.Fatal(err)
			}
			run(t, db, "create table if not exists effect (name varchar(100) not null)", "create table if not exists paper (body longtext not null)")
			s, err := sqlstore.New(ctx, db, sqlstore.Config{})
			if err != nil {
				t.Fatal(err)
			}
			return db, once.New(s, once.Config{})
		}
		for name, c := range map[string]struct {
			parameters string
			large      int
		}{
			"of the server":                      {"", 600_000},
			"of the server, arguments filled in": {"?interpolateParams=true", 600_000},
			"of the driver":                      {"?maxAllowedPacket=200000", 110_000},
		} {
			db, e := open(c.parameters)
			large := strings.Repeat("x", c.large)
			runs := 0
			handler := func(result string) func(context.Context, *sql.Tx) (string, error) {
				return func(ctx context.Context, tx *sql.Tx) (string, error) {
					runs++
					return result, effect(ctx, tx, name)
				}
			}
			do := func(op once.Operation, result string) error {
				_, err := once.Do(ctx, e, op, handler(result))
				return err
			}
			for flow, ask := range map[string]func(op once.Operation) error{
				"Do":            func(op once.Operation) error { return do(op, large) },
				"first attempt": func(op once.Operation) error { op.Attempt.Number = 1; return do(op, large) },
				"failure": func(op once.Operation) error {
					_, err := once.Do(ctx, e, op, func(context.Context, *sql.Tx) (int, error) {
						runs++
						return 0, &once.Failure{Code: "declined", Detail: json.RawMessage(`"` + large + `"`)}
					})
					return err
				},
				"batch": func(op once.Operation) error {
					_, err := once.DoBatch(ctx, e, op, func(b *once.Batch) (string, error) {
						runs++
						b.Exec("insert into effect values (?)", name)
						return large, nil
					})
					return err
				},
				"value of a batch": func(op once.Operation) error {
					_, err := once.DoBatch(ctx, e, op, func(b *once.Batch) (int, error) {
						runs++
						b.Exec("insert into effect values (?)", name)
						b.Exec("insert into paper values (?)", large+large)
						return 1, nil
					})
					return err
				},
				"Join": func(op once.Operation) error {
					tx, err := db.BeginTx(ctx, nil)
					if err != nil {
						return err
					}
					_, err = once.Join(ctx, e, tx, op, handler(large))
					if commit := tx.Commit(); commit != nil {
						t.Errorf("%s: the caller's transaction is not usable: %v", name, commit)
					}
					return err
				},
			} {
				if flow == "value of a batch" && name == "of the driver" {
					continue // prepared, it is sent in pieces
				}
				runs = 0
				op := once.Operation{Scope: "large", Key: name + flow, Wait: time.Minute} // until the server has seen the end of a connection
				if err := final(ask(op)); err != nil {
					t.Errorf("%s, %s: %.500v", name, flow, err)
				}
				if n := count(t, db, "select count(*) from effect where name = ?", name); n != 0 || runs != 1 {
					t.Errorf("%s, %s: %d effects of %d runs", name, flow, n, runs)
				}
				if err := do(op, "small"); err != nil {
					t.Errorf("%s, %s: with a smaller result: %v", name, flow, err)
				}
				run(t, db, "delete from effect")
			}
		}

		// What has room by itself is not too large together with what it might travel with.
		db, e := open("")
		text := func(bytes int) string { return "insert into paper values ('" + strings.Repeat("x", bytes) + "')" }
		for _, attempt := range []int{0, 1} {
			_, err := once.Do(ctx, e, once.Operation{Scope: "alone", Key: fmt.Sprint(attempt), Attempt: once.Attempt{Number: attempt}}, func(ctx context.Context, tx *sql.Tx) (int, error) {
				_, err := tx.ExecContext(ctx, text(1<<20-100))
				return 1, err
			})
			if err != nil {
				t.Errorf("a statement of one packet: %v", err)
			}
		}
		if _, err := once.DoBatch(ctx, e, once.Operation{Scope: "alone", Key: "batch"}, func(b *once.Batch) (string, error) {
			b.Exec(text(515_000))
			return strings.Repeat("y", 400_000), nil
		}); err != nil {
			t.Errorf("a batch of two packets: %v", err)
		}
		if n := count(t, db, "select count(*) from paper"); n != 3 {
			t.Errorf("%d rows, want 3", n)
		}

		// Limits change, and the service need not be started again.
		admin, _ := open("")
		limit := func(n int) { run(t, admin, fmt.Sprintf("set global max_allowed_packet = %d", n)) }
		do := func(db *sql.DB, e *once.Engine[*sql.Tx], key string, size int) error {
			db.SetMaxIdleConns(0) // sessions keep the limit that they began with
			_, err := once.Do(ctx, e, once.Operation{Scope: "large", Key: key, Wait: time.Minute}, func(context.Context, *sql.Tx) (string, error) { return strings.Repeat("x", size), nil })
			return err
		}
		limit(32 << 20)
		db, e = open("")
		limit(64 << 10)
		const key = "the limit was lowered" // the connection is closed while the record is being sent
		err = do(db, e, key, 6_000_000)
		for asks := 1; once.CodeOf(err) == once.CodeUnavailable && asks < 3; asks++ {
			err = do(db, e, key, 6_000_000)
		}
		if err := final(err); err != nil {
			t.Errorf("%s: %.500v", key, err)
		}
		limit(32 << 20)
		if err := do(db, e, "the limit was raised", 6_000_000); err != nil {
			t.Errorf("%.500v", err)
		}
	})
}

// TestResultsTooLargeForSQLite: of more than SQLITE_MAX_LENGTH bytes.
func TestResultsTooLargeForSQLite(t *testing.T) {
	const tooBig = 18
	for name, config := range map[string]sqlstore.Config{"alone": {}, "GroupCommit": {GroupCommit: true}} {
		seen := &spy{dsn: newSource(t, harness.SQLite).dsn}
		db := sqlstore.OpenDB(sqlplane.SQLite, seen)
		t.Cleanup(func() { _ = db.Close() })
		if err := sqlstore.Migrate(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		s, err := sqlstore.New(t.Context(), db, config)
		if err != nil {
			t.Fatal(err)
		}
		refused := 0
		seen.bend(func(text string) error {
			if !strings.Contains(text, "insert into once_operation") {
				return nil
			}
			refused++
			return codeError(tooBig)
		}, nil)
		e := once.New(s, once.Config{})
		for flow, result := range map[string]error{"value": nil, "failure": &once.Failure{Code: "declined"}} {
			refused = 0
			_, err := once.Do(t.Context(), e, once.Operation{Scope: "large", Key: flow}, func(context.Context, *sql.Tx) (int, error) { return 1, result })
			if err := final(err); err != nil || refused != 1 {
				t.Errorf("%s, %s: %v after %d refusals", name, flow, err, refused)
			}
		}
	}
}
