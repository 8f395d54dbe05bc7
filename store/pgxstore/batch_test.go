package pgxstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/pgxstore"
)

// declare is insertCharge as a batch.
func declare(id string) func(*once.Batch) (charge, error) {
	return func(b *once.Batch) (charge, error) {
		b.Exec("insert into charge values ($1, 5)", id)
		b.ExecRows(1, "update account set balance = balance - 1 where id = $1", 7)
		return charge{id}, nil
	}
}

// modes are the ways in which pgx can carry a batch.
var modes = map[string]func(*pgxpool.Config){
	"prepared": func(*pgxpool.Config) {},
	"traced":   func(c *pgxpool.Config) { c.ConnConfig.Tracer = quiet{} },
	"exec":     func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec },
	"simple":   func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol },
}

func engineOn(pool *pgxpool.Pool) *once.Engine[pgx.Tx] {
	return once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{})
}

func TestBatchExecutesThenReplays(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			pool := openPool(t, mode)
			for _, level := range []store.Isolation{store.DefaultIsolation, store.ReadCommitted, store.RepeatableRead, store.Serializable} {
				id := fmt.Sprint("c", level)
				op := once.Operation{Scope: "t", Key: id, Fingerprint: once.FingerprintOf([]byte("a")), Isolation: level}
				for i := range 3 {
					r, err := once.DoBatch(ctx, engineOn(pool), op, declare(id))
					if err != nil || r.Value.ID != id || r.Replayed != (i > 0) {
						t.Fatalf("call %d: %+v, %v", i, r, err)
					}
				}
				if n := count(t, pool, "select count(*) from charge where id = $1", id); n != 1 {
					t.Fatalf("%d effects", n)
				}
				op.Fingerprint = once.FingerprintOf([]byte("b"))
				_, err := once.DoBatch(ctx, engineOn(pool), op, declare(id))
				if once.CodeOf(err) != once.CodeMismatch || once.EffectOf(err) != once.EffectNotApplied {
					t.Fatal(err)
				}
			}
			if n := count(t, pool, "select balance from account where id = 7"); n != 1000000-4 {
				t.Errorf("a balance of %d", n)
			}
		})
	}
}

// TestBatchIsOneRoundTrip counts on the wire, and transactions by their ids. Collisions in
// between must not cost the next ones their prepared statements.
func TestBatchIsOneRoundTrip(t *testing.T) {
	for _, mode := range []string{"prepared", "traced"} {
		t.Run(mode, func(t *testing.T) { batchIsOneRoundTrip(t, modes[mode]) })
	}
}

func batchIsOneRoundTrip(t *testing.T, configure func(*pgxpool.Config)) {
	t.Parallel()
	ctx := context.Background()
	var wire faultnet.Wire
	pool := openPool(t, configure, func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.DialFunc = wire.DialContext
	})
	e := engineOn(pool)
	n := 0
	op := func() once.Operation {
		n++
		return once.Operation{Scope: "trips", Key: fmt.Sprint("b", n)}
	}
	executed := func(op once.Operation) error {
		r, err := once.DoBatch(ctx, e, op, declare(op.Key))
		if r.Replayed {
			err = errors.New("replayed")
		}
		return err
	}
	done, other := op(), pgxstore.New(pool, pgxstore.Config{})
	if err := executed(done); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		want int64
		run  func() error
	}{
		{"executed", 1, func() error { return executed(op()) }},
		{"executed, no replay after", 1, func() error { o := op(); o.Attempt.FirstSent = time.Now(); return executed(o) }},
		{"executed, bounded", 1, func() error {
			o := op()
			o.Timeouts = store.Timeouts{Lock: time.Minute, Statement: time.Minute}
			return executed(o)
		}},
		{"executed, serializable", 1, func() error { o := op(); o.Isolation = store.Serializable; return executed(o) }},
		{"replayed here", 1, func() error { _, err := once.DoBatch(ctx, e, done, declare("again")); return err }},
		{"replayed elsewhere", 3, func() error { // the last of them while no caller waits
			r, err := once.DoBatch(ctx, once.New(other, once.Config{}), done, declare("again"))
			if !r.Replayed {
				err = errors.Join(err, errors.New("executed"))
			}
			return err
		}},
		{"executed after collisions", 1, func() error { return executed(op()) }},
		{"final failure", 1, func() error {
			_, err := once.DoBatch(ctx, e, op(), func(b *once.Batch) (charge, error) {
				b.Exec("insert into charge values ('declined', 1)")
				return charge{}, &once.Failure{Code: "declined"}
			})
			if errors.As(err, new(*once.Failure)) {
				return nil
			}
			return fmt.Errorf("no failure: %w", err)
		}},
	} {
		var got int64
		for range 3 { // the first time prepares
			before := wire.Counts().RoundTrips
			if err := c.run(); err != nil {
				t.Fatal(c.name, err)
			}
			if _, err := pool.Exec(ctx, ""); err != nil { // waits until the connection is free again
				t.Fatal(err)
			}
			got = wire.Counts().RoundTrips - before - 1
		}
		if got != c.want {
			t.Errorf("%s: %d round trips, want %d", c.name, got, c.want)
		}
	}
	if n := count(t, pool, "select count(*) from charge c join once_operation o on o.key = c.id and o.xmin = c.xmin"); n != count(t, pool, "select count(*) from charge") {
		t.Errorf("%d effects have a key of the same transaction", n)
	}
}

// TestBatchRefusals: nothing of a batch that fails is applied, its error is the
// operation's own, and a retry executes.
func TestBatchRefusals(t *testing.T) {
	sqlState := func(code string) func(error) bool {
		return func(err error) bool {
			var pe *pgconn.PgError
			return errors.As(err, &pe) && pe.Code == code
		}
	}
	anything := func(error) bool { return true }
	for mode, configure := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			pool := openPool(t, configure)
			if _, err := pool.Exec(ctx, "insert into charge values ('taken', 1); create procedure ends() language plpgsql as 'begin commit; end'"); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				name string
				code once.Code
				is   func(error) bool
				add  func(b *once.Batch)
			}{
				{"a business collision", once.CodeFailed, sqlState("23505"), func(b *once.Batch) { b.Exec("insert into charge values ('taken', 2)") }},
				{"a check", once.CodeFailed, sqlState("23514"), func(b *once.Batch) { b.Exec("update account set balance = -1") }},
				{"a deferred constraint", once.CodeFailed, sqlState("23503"), func(b *once.Batch) { b.Exec("insert into child values (1, -1)") }},
				{"no row", once.CodeFailed, isRows, func(b *once.Batch) { b.ExecRows(1, "update account set balance = 1 where id = -1") }},
				{"too many rows", once.CodeFailed, isRows, func(b *once.Batch) { b.ExecRows(1, "update account set balance = 1 where id < 3;") }},
				{"an own cast", once.CodeFailed, func(err error) bool { return sqlState("22P02")(err) && !isRows(err) }, func(b *once.Batch) {
					b.ExecRows(1, "update account set balance = ('x' || id)::int where id = 1")
				}},
				{"an own division", once.CodeFailed, sqlState("22012"), func(b *once.Batch) { b.Exec("select 1 / (id - 1) from account") }},
				{"no SQL", once.CodeFailed, sqlState("42P01"), func(b *once.Batch) { b.Exec("insert into nowhere values (1)") }},
				{"no number", once.CodeFailed, anything, func(b *once.Batch) { b.Exec("insert into charge values ($1, $2::int)", "x", make(chan int)) }},
				{"COMMIT", once.CodeMisuse, anything, func(b *once.Batch) { b.Exec(" /* now */ -- really\n COMMIT") }},
				{"hidden COMMIT", once.CodeMisuse, anything, func(b *once.Batch) { b.Exec("/* /* */ insert */ commit") }},
				{"CALL", once.CodeMisuse, anything, func(b *once.Batch) { b.Exec("call ends()") }},
				{"DO", once.CodeMisuse, anything, func(b *once.Batch) { b.Exec("do 'begin commit; end'") }},
				{"ROLLBACK", once.CodeMisuse, anything, func(b *once.Batch) { b.Exec("rollback") }},
				{"nothing", once.CodeMisuse, anything, func(b *once.Batch) { b.Exec("") }},
				{"two statements", "", anything, func(b *once.Batch) {
					b.Exec("insert into charge values ('half', 1); commit")
					b.Exec("select 1 / 0")
				}},
				{"two statements, counted", "", anything, func(b *once.Batch) { b.ExecRows(1, "insert into charge values ('half', 1); commit") }},
			} {
				op := once.Operation{Scope: "refused", Key: c.name}
				runs := 0
				e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Runs: 1})
				_, err := once.DoBatch(ctx, e, op, func(b *once.Batch) (charge, error) {
					runs++
					b.Exec("insert into charge values ($1, 1)", "before "+c.name)
					c.add(b)
					b.Exec("insert into charge values ($1, 1)", "after "+c.name)
					return charge{}, nil
				})
				if c.code != "" && once.CodeOf(err) != c.code || once.EffectOf(err) != once.EffectNotApplied || !c.is(err) || runs != 1 {
					t.Errorf("%s: %d runs, %v", c.name, runs, err)
				}
				if n := count(t, pool, "select count(*) from charge where id <> 'taken' and id not like 'then%'"); n != 0 {
					t.Errorf("%s: %d effects", c.name, n)
				}
				if r, err := once.DoBatch(ctx, e, op, declare("then "+c.name)); err != nil || r.Replayed {
					t.Errorf("%s: the retry: %+v, %v", c.name, r, err)
				}
			}
		})
	}
}

func isRows(err error) bool { return errors.Is(err, store.ErrRows) }

// TestBatchOptions: an operation is kept as it would be by Do.
func TestBatchOptions(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	sealer, err := once.NewEncrypter(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{HashKeys: true, Encrypter: sealer, Synced: true})
	op := once.Operation{Scope: "options", Key: "k", Request: []byte("POST"), Retain: 2 * time.Hour, Isolation: store.RepeatableRead, Attempt: once.Attempt{Number: 1}}
	if _, err := pool.Exec(ctx, "create table seen (level text)"); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		r, err := once.DoBatch(ctx, e, op, func(b *once.Batch) (int, error) {
			b.ExecRows(1, "insert into seen select current_setting('transaction_isolation')")
			return 7, nil
		})
		if err != nil || r.Value != 7 || r.Replayed != (i > 0) {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if n := count(t, pool, "select count(*) from seen where level = 'repeatable read'"); n != 1 {
		t.Errorf("%d effects at the level that was asked for", n)
	}
	rec, err := pgxstore.New(pool, pgxstore.Config{}).Read(ctx, store.ID{Scope: "options", Key: keyname.Hashed("k")})
	if err != nil || rec.State != store.StateDone {
		t.Fatal(rec, err)
	}
	if plain, err := sealer.Decrypt(rec.Request, seal.Label("options", keyname.Hashed("k"))); err != nil || string(plain) != "POST" {
		t.Errorf("%q, %v", plain, err)
	}
	if n := count(t, pool, "select count(*) from once_operation where expires_at - since between '1:59' and '2:01'"); n != 1 {
		t.Error("not kept for as long as was asked for")
	}
	named := once.Operation{Scope: "options", Key: "named"}
	if _, err := once.DoBatch(ctx, e, named, func(b *once.Batch) (int, error) {
		b.ExecRows(1, "insert into charge values (@id, @n)", pgx.NamedArgs{"id": "named", "n": 3})
		return 1, nil
	}); err != nil {
		t.Error(err)
	}
	if n := count(t, pool, "select amount from charge where id = 'named'"); n != 3 {
		t.Error(n)
	}
}

// TestBatchIsObserved: an observer is told what is known, and no more.
func TestBatchIsObserved(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := openPool(t)
	var last once.Event
	outside := false
	e := once.New(pgxstore.New(pool, pgxstore.Config{}), once.Config{Observer: observer(func(e once.Event) {
		last = e
		outside = outside || e.Type == once.EventEffectOutsideTx
	})})
	op := once.Operation{Scope: "observed", Key: "k"}
	for _, c := range []struct {
		fn       func(*once.Batch) (charge, error)
		outcome  once.Outcome
		from, to string
	}{
		{func(*once.Batch) (charge, error) { return charge{}, errors.New("no") }, "failed", "", ""},
		{declare("k"), once.OutcomeExecuted, "absent", "done"},
		{declare("k"), once.OutcomeReplayed, "done", "done"},
	} {
		_, _ = once.DoBatch(ctx, e, op, c.fn)
		if last.Outcome != c.outcome || last.From != c.from || last.To != c.to {
			t.Errorf("%s: %q to %q, want %s, %q to %q", last.Outcome, last.From, last.To, c.outcome, c.from, c.to)
		}
	}
	if outside {
		t.Error("a batch of two writes was said to have none")
	}
	op.Key = "nothing"
	if _, err := once.DoBatch(ctx, e, op, func(*once.Batch) (int, error) { return 1, nil }); err != nil || !outside {
		t.Error("a batch without a write was not reported:", err)
	}
}

type observer func(once.Event)

func (o observer) Observe(_ context.Context, e once.Event) { o(e) }
