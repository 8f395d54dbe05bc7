package pgxstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

// TestHandlersThatMisbehave: whatever a handler does to its transaction, what the
// caller is told is true, and the connection is fit for the next.
func TestHandlersThatMisbehave(t *testing.T) {
	t.Parallel()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 2 })
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	insert := func(ctx context.Context, tx pgx.Tx, id string) {
		if _, err := tx.Exec(ctx, "insert into charge values ($1, 1)", id); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct {
		name   string
		code   once.Code
		effect once.Effect
		rows   int
		run    func(ctx context.Context, tx pgx.Tx, id string) error
	}{
		{"swallows a server error", once.CodeAborted, once.EffectNotApplied, 0, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			_, _ = tx.Exec(ctx, "select 1/0")
			return nil
		}},
		{"swallows an error of the client", once.CodeAborted, once.EffectNotApplied, 0, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			if _, err := tx.Exec(ctx, "insert into account values ($1, 1)", make(chan int)); err == nil {
				t.Error("an argument that cannot be encoded was accepted")
			}
			if _, err := tx.Exec(ctx, "select 1"); store.KindOf(err) != store.KindAborted {
				t.Error("a statement after it was not refused:", err)
			}
			return nil
		}},
		{"swallows a client's error in a batch", once.CodeAborted, once.EffectNotApplied, 0, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			b := new(pgx.Batch)
			b.Queue("insert into account values ($1, 1)", make(chan int))
			if err := tx.SendBatch(ctx, b).Close(); err == nil {
				t.Error("an argument that cannot be encoded was accepted")
			}
			return nil
		}},
		{"swallows a batch that was never sent", once.CodeAborted, once.EffectNotApplied, 0, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			b := new(pgx.Batch)
			b.Queue("update account set balance = 0")
			_ = tx.SendBatch(ctx, b).Close()
			return nil
		}},
		{"reads a batch to its end and beyond", "", once.EffectApplied, 1, func(ctx context.Context, tx pgx.Tx, id string) error {
			b := new(pgx.Batch)
			b.Queue("insert into charge values ($1, 1)", id)
			b.Queue("select 1 where false")
			br := tx.SendBatch(ctx, b)
			if _, err := br.Exec(); err != nil {
				return err
			}
			if err := br.QueryRow().Scan(new(int)); !errors.Is(err, pgx.ErrNoRows) {
				t.Error(err)
			}
			_, _ = br.Exec() // there is none
			return br.Close()
		}},
		{"swallows a client's error inside of a savepoint", "", once.EffectApplied, 1, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			_ = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "insert into account values ($1, 1)", make(chan int))
				return err
			})
			return nil
		}},
		{"swallows a server error inside of a savepoint", "", once.EffectApplied, 1, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			_ = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "select 1/0")
				return err
			})
			return nil
		}},
		{"rolls back to a savepoint of its own", "", once.EffectApplied, 1, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			_, _ = tx.Exec(ctx, "savepoint mine")
			_, _ = tx.Exec(ctx, "select 1/0")
			_, err := tx.Exec(ctx, "rollback to mine")
			return err
		}},
		{"commits raw on the connection", once.CodeMisuse, once.EffectInDoubt, 1, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			_, err := tx.Conn().Exec(ctx, "commit")
			return err
		}},
		{"commits raw and fails on the connection", once.CodeMisuse, once.EffectInDoubt, 1, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			_, err := tx.Conn().Exec(ctx, "commit")
			return errors.Join(err, errors.New("and failed"))
		}},
		{"commits raw and begins again on the connection", once.CodeMisuse, once.EffectInDoubt, 1, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			_, err := tx.Conn().Exec(ctx, "commit; begin")
			return err
		}},
		{"commits raw, begins again, and fails on the connection", once.CodeMisuse, once.EffectInDoubt, 1, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			_, err := tx.Conn().Exec(ctx, "commit; begin")
			return errors.Join(err, errors.New("and failed"))
		}},
		{"commits and chains, and declines on the connection", once.CodeMisuse, once.EffectInDoubt, 1, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			_, err := tx.Conn().Exec(ctx, "commit and chain")
			return errors.Join(err, &once.Failure{Code: "declined"})
		}},
		{"commits by a statement, and swallows the refusal", once.CodeAborted, once.EffectNotApplied, 0, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			if _, err := tx.Exec(ctx, "commit; begin"); store.KindOf(err) != store.KindMisused {
				t.Error("not refused:", err)
			}
			return nil
		}},
		{"commits and chains by a query, and fails", once.CodeFailed, once.EffectNotApplied, 0, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			return tx.QueryRow(ctx, "/* all is well */ commit and chain").Scan()
		}},
		{"commits in a batch", once.CodeAborted, once.EffectNotApplied, 0, func(ctx context.Context, tx pgx.Tx, id string) error {
			b := new(pgx.Batch)
			b.Queue("insert into charge values ($1, 1)", id)
			b.Queue("commit")
			_ = tx.SendBatch(ctx, b).Close()
			return nil
		}},
		{"prepares a COMMIT", once.CodeAborted, once.EffectNotApplied, 0, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			_, _ = tx.Prepare(ctx, "mine", "commit")
			return nil
		}},
		{"appends a ROLLBACK", once.CodeAborted, once.EffectNotApplied, 0, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			appendTo(t, tx, store.Statement{SQL: "rollback"})
			return nil
		}},
		{"commits inside of a savepoint that is rolled back", "", once.EffectApplied, 1, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			_ = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "commit; begin")
				return err
			})
			return nil
		}},
		{"sets savepoints of its own in one text", "", once.EffectApplied, 1, func(ctx context.Context, tx pgx.Tx, id string) error {
			_, err := tx.Exec(ctx, "savepoint mine; insert into charge values ('"+id+"', 1); release mine")
			return err
		}},
		{"calls Commit", "", once.EffectApplied, 1, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			if err := tx.Commit(ctx); err == nil || !strings.Contains(err.Error(), "a handler cannot end its transaction") {
				t.Error("Commit:", err)
			}
			return nil
		}},
		{"defers Rollback as always", "", once.EffectApplied, 1, func(ctx context.Context, tx pgx.Tx, id string) error {
			defer func() { _ = tx.Rollback(ctx) }()
			insert(ctx, tx, id)
			return nil
		}},
		{"leaves rows open", once.CodeMisuse, once.EffectNotApplied, 0, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			_, err := tx.Query(ctx, "select generate_series(1, 10)")
			return err
		}},
		{"leaves a savepoint open", once.CodeMisuse, once.EffectNotApplied, 0, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			_, err := tx.Begin(ctx)
			return err
		}},
		{"violates a deferred constraint", once.CodeFailed, once.EffectNotApplied, 0, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			_, err := tx.Exec(ctx, "insert into child values (1, -1)")
			return err
		}},
		{"appends a write that fails", once.CodeFailed, once.EffectNotApplied, 0, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			appendTo(t, tx, store.Statement{SQL: "insert into account values (1, 1)"})
			return nil
		}},
		{"appends a write that affects too few rows", once.CodeFailed, once.EffectNotApplied, 0, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			appendTo(t, tx, store.Statement{SQL: "update account set balance = 1 where id = -1", Rows: 1})
			return nil
		}},
		{"loses its connection", once.CodeUnavailable, once.EffectNotApplied, 0, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			_, _ = tx.Exec(ctx, "select pg_terminate_backend(pg_backend_pid())")
			return nil
		}},
		{"runs out of time", once.CodeFailed, once.EffectNotApplied, 0, func(ctx context.Context, tx pgx.Tx, id string) error {
			insert(ctx, tx, id)
			ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			_, err := tx.Exec(ctx, "select pg_sleep(10)")
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := context.Background()
			id := strings.ReplaceAll(c.name, " ", "-")
			op := once.Operation{Scope: "misbehave", Key: id}
			_, err := once.Do(ctx, e, op, func(ctx context.Context, tx pgx.Tx) (int, error) { return 1, c.run(ctx, tx, id) })
			if once.CodeOf(err) != c.code || err != nil && once.EffectOf(err) != c.effect {
				t.Errorf("%v, want %q and %v", err, c.code, c.effect)
			}
			if n := count(t, pool, "select count(*) from charge where id = $1", id); n != c.rows {
				t.Errorf("%d effects, want %d", n, c.rows)
			}
			records := 0
			if c.code == "" {
				records = 1
			}
			if n := count(t, pool, "select count(*) from once_operation where key = $1", id); n != records {
				t.Errorf("%d records, want %d", n, records)
			}
			next := once.Operation{Scope: "misbehave", Key: id + " afterwards"}
			if _, err := once.Do(ctx, e, next, insertCharge(next.Key)); err != nil {
				t.Error("the next operation:", err)
			}
		})
	}
}

// TestATransactionThatEscapes: a handler that keeps its transaction does not get at
// the connection's next user.
func TestATransactionThatEscapes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	var escaped pgx.Tx
	_, err := once.Do(ctx, e, once.Operation{Scope: "escape", Key: "1"}, func(ctx context.Context, tx pgx.Tx) (charge, error) {
		escaped = tx
		return insertCharge("escape")(ctx, tx)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := escaped.Exec(ctx, "delete from charge"); !errors.Is(err, pgx.ErrTxClosed) {
		t.Error("Exec:", err)
	}
	if _, err := escaped.Begin(ctx); !errors.Is(err, pgx.ErrTxClosed) {
		t.Error("Begin:", err)
	}
	if err := escaped.QueryRow(ctx, "select 1").Scan(nil); !errors.Is(err, pgx.ErrTxClosed) {
		t.Error("QueryRow:", err)
	}
	if err := escaped.SendBatch(ctx, new(pgx.Batch)).Close(); !errors.Is(err, pgx.ErrTxClosed) {
		t.Error("SendBatch:", err)
	}
	if err := escaped.Rollback(ctx); !errors.Is(err, pgx.ErrTxClosed) {
		t.Error("Rollback:", err)
	}
}

// TestAppendedWritesFollowTheirSavepoint: a write that travels with COMMIT is gone
// if the savepoint in which it was appended is rolled back.
func TestAppendedWritesFollowTheirSavepoint(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	_, err := once.Do(ctx, e, once.Operation{Scope: "append", Key: "1"}, func(ctx context.Context, tx pgx.Tx) (int, error) {
		for _, keep := range []bool{false, true} {
			sp, err := tx.Begin(ctx)
			if err != nil {
				return 0, err
			}
			id := "gone"
			if keep {
				id = "kept"
			}
			appendTo(t, sp, store.Statement{SQL: "insert into charge values ($1, 1)", Args: []any{id}, Rows: 1})
			if keep {
				err = sp.Commit(ctx)
			} else {
				err = sp.Rollback(ctx)
			}
			if err != nil {
				return 0, err
			}
		}
		return 1, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, pool, "select count(*) from charge where id = 'kept'"); n != 1 {
		t.Error("the kept one is missing")
	}
	if n := count(t, pool, "select count(*) from charge"); n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
}

// TestMissingTableSaysWhatToDo: the first thing that a newcomer gets wrong.
func TestMissingTableSaysWhatToDo(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	if _, err := pool.Exec(ctx, "drop table once_operation"); err != nil {
		t.Fatal(err)
	}
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	_, err := once.Do(ctx, e, once.Operation{Scope: "s", Key: "k"}, insertCharge("x"))
	if once.CodeOf(err) != once.CodeUnavailable || !strings.Contains(err.Error(), "Try: once migrate up") {
		t.Error(err)
	}
}

// TestMigrateTogether: nodes that start at the same time.
func TestMigrateTogether(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			pool := openPool(t, func(cfg *pgxpool.Config) { cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = level })
			if _, err := pool.Exec(ctx, "drop table once_operation, once_schema"); err != nil {
				t.Fatal(err)
			}
			s := pgxstore.New(pool, pgxstore.Config{})
			if err := s.Check(ctx); !errors.Is(err, store.ErrNotMigrated) {
				t.Errorf("before: %v", err)
			}
			errs := make(chan error)
			for range 8 {
				go func() { errs <- pgxstore.Migrate(ctx, pool) }()
			}
			for range 8 {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
			if err := s.Check(ctx); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// attempt is the first attempt of an operation, or one that says nothing.
func attempt(first bool) (a once.Attempt) {
	if first {
		a.Number = 1
	}
	return a
}
