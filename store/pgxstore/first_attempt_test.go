package pgxstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

// beginnings are the ways in which a handler can begin, each with one row of charge.
var beginnings = []struct {
	name  string
	trips int64 // of all of the operation; the bare transaction needs one for BEGIN and one for COMMIT
	run   func(ctx context.Context, tx pgx.Tx, id string) error
}{
	{"Exec", 2, func(ctx context.Context, tx pgx.Tx, id string) error {
		tag, err := tx.Exec(ctx, "insert into charge values ($1, 1)", id)
		if err == nil && tag.RowsAffected() != 1 {
			err = fmt.Errorf("tag %q", tag)
		}
		return err
	}},
	{"Exec without arguments", 3, func(ctx context.Context, tx pgx.Tx, id string) error {
		_, err := tx.Exec(ctx, "select 1; insert into charge values ('"+id+"', 1)")
		return err
	}},
	{"Exec with an option", 3, func(ctx context.Context, tx pgx.Tx, id string) error {
		_, err := tx.Exec(ctx, "insert into charge values ($1, 1)", pgx.QueryExecModeExec, id)
		return err
	}},
	{"Exec with names", 3, func(ctx context.Context, tx pgx.Tx, id string) error {
		_, err := tx.Exec(ctx, "insert into charge values (@id, 1)", pgx.NamedArgs{"id": id})
		return err
	}},
	{"Query", 2, func(ctx context.Context, tx pgx.Tx, id string) error {
		rows, err := tx.Query(ctx, "insert into charge select $1 || g, g from generate_series(0, 0) g returning id, amount", id)
		if err != nil {
			return err
		}
		got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
			ID     string
			Amount int32
		}])
		if err == nil && (len(got) != 1 || got[0].ID != id+"0" || got[0].Amount != 0) {
			err = fmt.Errorf("rows %+v", got)
		}
		return err
	}},
	{"Query that is left early", 2, func(ctx context.Context, tx pgx.Tx, id string) error {
		rows, err := tx.Query(ctx, "with i as (insert into charge values ($1, 1)) select g from generate_series(1, 10000) g", id)
		if err != nil {
			return err
		}
		rows.Next()
		rows.Close()
		rows.Close()
		return rows.Err()
	}},
	{"QueryRow", 2, func(ctx context.Context, tx pgx.Tx, id string) error {
		var amount int
		return tx.QueryRow(ctx, "insert into charge values ($1, 1) returning amount", id).Scan(&amount)
	}},
	{"QueryRow without a row", 3, func(ctx context.Context, tx pgx.Tx, id string) error {
		if err := tx.QueryRow(ctx, "select amount from charge where id = $1", id).Scan(new(int)); !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("a row: %w", err)
		}
		_, err := tx.Exec(ctx, "insert into charge values ($1, 1)", id)
		return err
	}},
	{"SendBatch", 3, func(ctx context.Context, tx pgx.Tx, id string) error {
		b := new(pgx.Batch)
		b.Queue("insert into charge values ($1, 1)", id)
		return tx.SendBatch(ctx, b).Close()
	}},
	{"CopyFrom", 0, func(ctx context.Context, tx pgx.Tx, id string) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"charge"}, []string{"id", "amount"}, pgx.CopyFromRows([][]any{{id, 1}}))
		return err
	}},
	{"Prepare", 0, func(ctx context.Context, tx pgx.Tx, id string) error {
		if _, err := tx.Prepare(ctx, "mine", "insert into charge values ($1, 1)"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "mine", id)
		return errors.Join(err, tx.Conn().Deallocate(ctx, "mine"))
	}},
	{"savepoint", 0, func(ctx context.Context, tx pgx.Tx, id string) error {
		return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into charge values ($1, 1)", id)
			return err
		})
	}},
	{"the connection", 0, func(ctx context.Context, tx pgx.Tx, id string) error {
		_, err := tx.Conn().Exec(ctx, "insert into charge values ($1, 1)", id)
		return err
	}},
	{"large objects", 0, func(ctx context.Context, tx pgx.Tx, id string) error {
		objects := tx.LargeObjects()
		if _, err := objects.Create(ctx, 0); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "insert into charge values ($1, 1)", id)
		return err
	}},
	{"appended", 2, func(ctx context.Context, tx pgx.Tx, id string) error {
		return new(pgxstore.Store).On(tx).Append(ctx, store.Statement{SQL: "insert into charge values ($1, 1)", Args: []any{id}})
	}},
}

// TestAFirstAttemptOpensWithItsFirstStatement, whatever that is, and within one transaction,
// with a tracer and without.
func TestAFirstAttemptOpensWithItsFirstStatement(t *testing.T) {
	for _, mode := range []string{"prepared", "traced"} {
		for what, putOff := range putsOff {
			t.Run(mode+", "+what, func(t *testing.T) { aFirstAttemptOpensWithItsFirstStatement(t, modes[mode], putOff) })
		}
	}
}

// putsOff are operations whose claims travel with the handler's first statement.
var putsOff = map[string]func(*once.Operation){
	"first attempt": func(op *once.Operation) { op.Attempt.Number = 1 },
	"optimistic":    func(op *once.Operation) { op.Optimistic = true },
}

func aFirstAttemptOpensWithItsFirstStatement(t *testing.T, configure func(*pgxpool.Config), putOff func(*once.Operation)) {
	t.Parallel()
	var wire faultnet.Wire
	pool := openPool(t, configure, func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.DialFunc = wire.DialContext
	})
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	for _, b := range beginnings {
		for _, end := range []error{nil, errors.New("declined")} {
			var trips int64
			for i := range 3 { // the first times prepare statements
				id := fmt.Sprint(b.name, i, end)
				op := once.Operation{Scope: "opening", Key: once.NewKey(), Isolation: store.RepeatableRead}
				putOff(&op)
				before := wire.Counts().RoundTrips
				_, err := once.Do(t.Context(), e, op, func(ctx context.Context, tx pgx.Tx) (int, error) {
					if err := b.run(ctx, tx, id); err != nil {
						t.Errorf("%s: %v", b.name, err)
					}
					return 1, end
				})
				trips = wire.Counts().RoundTrips - before
				want := 0
				if end == nil {
					want = 1
				}
				if n := count(t, pool, "select count(*) from charge where id like $1 || '%'", id); !errors.Is(err, end) || n != want {
					t.Errorf("%s: %d charges, want %d: %v", b.name, n, want, err)
				}
			}
			if end == nil && b.trips > 0 && trips != b.trips {
				t.Errorf("%s: %d round trips, want %d", b.name, trips, b.trips)
			}
		}
	}
}

// endings are what a handler may make of an error of its first statement.
var endings = map[string]func(err error) error{
	"passes it on": func(err error) error { return err },
	"hides it":     func(error) error { return errors.New("something went wrong") },
	"swallows it":  func(error) error { return nil },
	"fails":        func(error) error { return &once.Failure{Code: "declined"} },
	"fails, kept":  func(error) error { return &once.Failure{Code: "declined", CommitWrites: true} },
}

// TestAClaimThatWasPutOff is held by another transaction: nothing of the handler's gets to the
// database, and whatever it makes of that, the caller is told that it is in flight, or gets
// the other one's answer.
func TestAClaimThatWasPutOff(t *testing.T) {
	for what, putOff := range putsOff {
		t.Run(what, func(t *testing.T) { aClaimThatWasPutOff(t, putOff) })
	}
}

func aClaimThatWasPutOff(t *testing.T, putOff func(*once.Operation)) {
	t.Parallel()
	pool := openPool(t)
	here, there := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Runs: 1}), once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	for _, b := range beginnings {
		for how, end := range endings {
			if b.name == "appended" && how == "hides it" {
				continue // it fails by itself, before anything was sent
			}
			for _, wait := range []time.Duration{0, time.Minute} {
				op := once.Operation{Scope: "put off", Key: once.NewKey(), Wait: wait}
				putOff(&op)
				holds, release := make(chan struct{}), make(chan struct{})
				held := make(chan error, 1)
				go func() {
					_, err := once.Do(context.Background(), there, op, func(ctx context.Context, tx pgx.Tx) (charge, error) {
						c, err := insertCharge(op.Key+"there")(ctx, tx)
						close(holds)
						<-release
						return c, err
					})
					held <- err
				}()
				<-holds
				ran := 0
				r, err := once.Do(t.Context(), here, op, func(ctx context.Context, tx pgx.Tx) (charge, error) {
					ran++
					err := b.run(ctx, tx, op.Key+"here")
					if wait > 0 {
						close(release)
					}
					if err == nil && b.name != "appended" {
						t.Errorf("%s: it has run", b.name)
					}
					return charge{}, end(err)
				})
				if wait == 0 {
					close(release)
				}
				if e := <-held; e != nil {
					t.Fatal(e)
				}
				said := fmt.Sprintf("%s, and the handler %s: ran %d times: %+v, %v", b.name, how, ran, r, err)
				switch {
				case ran != 1:
					t.Error(said)
				case wait == 0 && (once.CodeOf(err) != once.CodeInFlight || once.EffectOf(err) != once.EffectNotApplied):
					t.Error(said)
				case wait > 0 && (err != nil || !r.Replayed || r.Value.ID != op.Key+"there"):
					t.Error(said)
				}
				if n := count(t, pool, "select count(*) from charge where id like $1 || 'here%'", op.Key); n != 0 {
					t.Errorf("%s, and the handler %s: %d charges", b.name, how, n)
				}
			}
		}
	}
}

// TestAFirstStatementThatFails fails as any other: on the server, and before.
func TestAFirstStatementThatFails(t *testing.T) {
	t.Parallel()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Runs: 1})
	for name, run := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"syntax": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "inzert $1", 1); return err },
		"argument": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "select $1::int", make(chan int))
			return err
		},
		"division": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "select 1 / $1::int", 0)
			return err
		},
		"row": func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, "select 1 / $1::int", 0).Scan(new(int))
		},
		"scan": func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, "select $1::text", "x").Scan(new(int))
		},
		"context": func(ctx context.Context, tx pgx.Tx) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			_, err := tx.Exec(ctx, "select $1::int", 1)
			return err
		},
		"refused": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "commit"); return err },
	} {
		for _, swallows := range []bool{false, true} {
			op := once.Operation{Scope: "fails", Key: once.NewKey(), Attempt: once.Attempt{Number: 1}}
			_, err := once.Do(t.Context(), e, op, func(ctx context.Context, tx pgx.Tx) (int, error) {
				err := run(ctx, tx)
				if err == nil {
					t.Errorf("%s: no error", name)
				}
				if swallows {
					return 1, nil
				}
				return 0, err
			})
			want := once.CodeFailed
			if swallows {
				want = once.CodeAborted
			}
			if name == "scan" && swallows { // a matter between the handler and its variable
				want = ""
			}
			if once.CodeOf(err) != want {
				t.Errorf("%s (swallowed: %t): %v", name, swallows, err)
			}
			if _, err := once.Do(t.Context(), e, op, insertCharge(op.Key)); want != "" && err != nil {
				t.Errorf("%s, again: %v", name, err)
			}
		}
	}
}

// TestAFirstAttemptOnABrokenConnection runs again on another one.
func TestAFirstAttemptOnABrokenConnection(t *testing.T) {
	t.Parallel()
	const conns = 5
	pool := openPool(t, func(c *pgxpool.Config) { c.MinConns, c.MaxConns = conns, conns })
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Runs: 2})
	if _, err := once.Do(t.Context(), e, once.Operation{Scope: "broken", Key: "before"}, insertCharge("before")); err != nil {
		t.Fatal(err) // which has asked the server whether it keeps claims
	}
	all := pool.Config().ConnConfig.Copy()
	other, err := pgx.ConnectConfig(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(context.Background()) }()
	var open []*pgxpool.Conn
	for range conns {
		c, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	for _, c := range open {
		c.Release()
	}
	if _, err := other.Exec(t.Context(), "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"); err != nil {
		t.Fatal(err)
	}
	ran := 0
	op := once.Operation{Scope: "broken", Key: "k", Attempt: once.Attempt{Number: 1}}
	r, err := once.Do(t.Context(), e, op, func(ctx context.Context, tx pgx.Tx) (charge, error) {
		ran++
		return insertCharge("broken")(ctx, tx)
	})
	if err != nil || r.Replayed || ran != 2 || count(t, pool, "select count(*) from charge") != 2 {
		t.Errorf("ran %d times: %+v, %v", ran, r, err)
	}
}

// TestRowsOfAnEarlierHandler cannot disturb the present user of the connection.
func TestRowsOfAnEarlierHandler(t *testing.T) {
	t.Parallel()
	pool := openPool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
	var kept pgx.Rows
	for _, open := range []bool{false, true} {
		_, err := once.Do(t.Context(), e, once.Operation{Scope: "rows", Key: once.NewKey(), Attempt: once.Attempt{Number: 1}}, func(ctx context.Context, tx pgx.Tx) (int, error) {
			var err error
			kept, err = tx.Query(ctx, "select g from generate_series(1, $1::int) g", 1)
			for !open && kept.Next() {
			}
			return 1, err
		})
		if want := map[bool]once.Code{true: once.CodeMisuse}[open]; once.CodeOf(err) != want {
			t.Errorf("open %t: %v", open, err)
		}
		earlier := kept
		_, err = once.Do(t.Context(), e, once.Operation{Scope: "rows", Key: once.NewKey(), Attempt: once.Attempt{Number: 1}}, func(ctx context.Context, tx pgx.Tx) (int, error) {
			rows, err := tx.Query(ctx, "select g from generate_series(1, $1::int) g", 3)
			if err != nil {
				return 0, err
			}
			earlier.Close()
			n := 0
			for rows.Next() {
				n++
			}
			if n != 3 {
				t.Errorf("%d rows of 3", n)
			}
			return n, rows.Err()
		})
		if err != nil {
			t.Error(err)
		}
	}
}
