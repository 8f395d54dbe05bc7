package integration

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// TestTimeoutsBoundAStuckCall: a call that is stuck gets an error within its bound, and holds up no other for
// longer than that.
func TestTimeoutsBoundAStuckCall(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	testenv.Need(t, "postgresql", "mariadb", "mysql")
	for _, name := range []string{harness.Pgx, harness.Postgres, harness.MariaDB, harness.MySQL, harness.SQLite, harness.Group} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newTestDB(t, name)
			switch r := g.open(t, setup{conns: 4}).(type) {
			case *rig[pgx.Tx]:
				timeouts(t, g, r)
			case *rig[*sql.Tx]:
				timeouts(t, g, r)
			default:
				t.Fatalf("a system of type %T", r)
			}
		})
	}
}

const (
	brief = 100 * time.Millisecond
	ages  = 60 * time.Second // no bound holds
)

func timeouts[TX any](t *testing.T, g *testDB, r *rig[TX]) {
	insert := func(ctx context.Context, tx TX, key string) error {
		return r.exec(ctx, tx, insertCharge, key, "stuck")
	}
	runs := 0 // of the newest operation
	do := func(op once.Operation, fn func(ctx context.Context, tx TX) error) (once.Result[bool], error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*ages)
		defer cancel()
		runs = 0
		return once.Do(ctx, r.engine, op, func(ctx context.Context, tx TX) (bool, error) {
			runs++
			return true, fn(ctx, tx)
		})
	}
	refused := func(t *testing.T, err error) {
		t.Helper()
		var e *once.Error
		if !errors.As(err, &e) || e.Code != once.CodeUnavailable || e.Effect != once.EffectNotApplied || e.After <= 0 {
			t.Errorf("got %v", err)
		}
	}
	ended := func(t *testing.T, err error) { // in the handler
		t.Helper()
		if refused(t, err); runs == 0 {
			t.Error("vacuous: the handler has not run")
		}
	}
	empty := func(t *testing.T, key string) {
		t.Helper()
		if s, err := g.state(t.Context(), key); err != nil || s != (state{}) {
			t.Errorf("the database has %+v, %v", s, err)
		}
	}

	t.Run("lock", func(t *testing.T) {
		const change = "update ledger set attempts = 'stuck'"
		if _, err := g.db.ExecContext(t.Context(), "insert into ledger values ('row', '')"); err != nil {
			t.Fatal(err)
		}
		other, err := g.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = other.Rollback() }()
		if _, err := other.ExecContext(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		op := operation(once.NewKey())
		op.Timeouts = store.Timeouts{Lock: brief}
		_, err = do(op, func(ctx context.Context, tx TX) error {
			return errors.Join(insert(ctx, tx, op.Key), r.exec(ctx, tx, change))
		})
		if oneWriter(g.Kind) { // it has waited for its turn to write, before the handler
			refused(t, err)
		} else {
			ended(t, err)
		}
		empty(t, op.Key)
	})

	// As a session does that alters it. SQLite has no such lock, only that of the file.
	if !oneWriter(g.Kind) {
		t.Run("table", func(t *testing.T) {
			conn, err := g.db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			texts := [2]string{"begin; lock table entry in access exclusive mode", "rollback"}
			if innodb(g.Kind) {
				texts = [2]string{"lock tables entry write", "unlock tables"}
			}
			if _, err := conn.ExecContext(t.Context(), texts[0]); err != nil {
				t.Fatal(err)
			}
			op := operation(once.NewKey())
			op.Timeouts = store.Timeouts{Lock: brief}
			_, err = do(op, func(ctx context.Context, tx TX) error {
				ctx, cancel := context.WithTimeout(ctx, ages)
				defer cancel()
				return errors.Join(insert(ctx, tx, op.Key), r.exec(ctx, tx, insertEntry, op.Key, "stuck"))
			})
			ended(t, err)
			if _, err := conn.ExecContext(t.Context(), texts[1]); err != nil {
				t.Error(err)
			}
			empty(t, op.Key)
		})
	}

	sleeping := "select pg_sleep(60)"
	if oneWriter(g.Kind) {
		sleeping = "with recursive c(n) as (select 1 union all select n + 1 from c) select count(*) from c"
	}
	switch g.Kind { // sleep() ends without an error
	case harness.MariaDB:
		sleeping = "select count(*) from seq_1_to_1000000 a join seq_1_to_1000000 b on a.seq <> b.seq"
	case harness.MySQL:
		sleeping = "with recursive c(n) as (select 1 union all select n + 1 from c where n < 1000) select count(*) from c a join c b on a.n <> b.n join c d on a.n <> d.n"
	}
	t.Run("statement", func(t *testing.T) {
		for bound := brief; ; bound *= 4 { // a slow machine needs more to come to the handler
			op := operation(once.NewKey())
			op.Timeouts = store.Timeouts{Statement: bound}
			_, err := do(op, func(ctx context.Context, tx TX) error {
				return errors.Join(insert(ctx, tx, op.Key), r.exec(ctx, tx, sleeping))
			})
			if runs == 0 && bound < ages/4 {
				continue
			}
			ended(t, err)
			empty(t, op.Key)
			break
		}
	})

	// The holder hangs between two statements, as a process that was stopped does. Its
	// duplicate is in flight until the server, or on SQLite the process, has had enough, and
	// then executes.
	t.Run("idle", func(t *testing.T) {
		peer := g.open(t, setup{conns: 1}).(*rig[TX]) // another process
		stuck := func(bound time.Duration) (met bool) {
			op := operation(once.NewKey())
			duplicate := op
			op.Timeouts = store.Timeouts{Idle: bound}
			hangs, goOn, told := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				first := true
				_, err := do(op, func(ctx context.Context, tx TX) error {
					if err := insert(ctx, tx, op.Key); err != nil || !first {
						return err
					}
					first = false
					close(hangs)
					<-goOn
					return r.exec(ctx, tx, insertEntry, op.Key, "stuck")
				})
				told <- err
			}()
			select {
			case <-hangs:
			case err := <-told:
				t.Log("the holder: ", err)
				return false
			}
			for began := time.Now(); ; {
				res, err := once.Do(t.Context(), peer.engine, duplicate, func(ctx context.Context, tx TX) (bool, error) {
					return true, errors.Join(insert(ctx, tx, op.Key), peer.exec(ctx, tx, insertEntry, op.Key, "stuck"))
				})
				if once.CodeOf(err) == once.CodeInFlight && time.Since(began) < ages {
					met = true
					continue
				}
				if err != nil || res.Replayed {
					t.Errorf("the duplicate: %+v, %v", res, err)
				}
				met = met || oneWriter(g.Kind) // it has waited for the file, which the holder had
				break
			}
			close(goOn)
			// It fails, and has either been beaten already or asks for itself once more.
			err := <-told
			if once.CodeOf(err) == once.CodeUnavailable { // that one, too, was ended before it could ask
				t.Log("the holder, when it went on: ", err)
				met = false
			} else if err != nil {
				t.Errorf("the holder, when it went on: %v", err)
			}
			if s, err := g.state(t.Context(), op.Key); err != nil || s != (state{Charges: 1, Entries: 1, Keys: 1}) {
				t.Errorf("the database has %+v, %v", s, err)
			}
			return met
		}
		for bound := brief; !stuck(bound); bound *= 4 { // a slow machine needs more to be in time for the holder
			if bound >= ages/4 {
				t.Fatal("the duplicate has never been in flight, or the holder never in time")
			}
		}
	})

	t.Run("acquire", func(t *testing.T) {
		small := g.open(t, setup{conns: 1, engine: once.Config{Timeouts: store.Timeouts{Acquire: brief}}}).(*rig[TX])
		patient := func() once.Operation { // must get its connection
			op := operation(once.NewKey())
			op.Timeouts.Acquire = ages
			return op
		}
		done := patient()
		run := func(op once.Operation) error {
			ctx, cancel := context.WithTimeout(t.Context(), 2*ages)
			defer cancel()
			_, err := once.Do(ctx, small.engine, op, func(ctx context.Context, tx TX) (bool, error) { return true, insert(ctx, tx, op.Key) })
			if ctx.Err() != nil {
				t.Errorf("after %v: %v", 2*ages, err)
			}
			return err
		}
		if err := run(done); err != nil {
			t.Fatal(err)
		}
		busy, free, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := once.Do(t.Context(), small.engine, patient(), func(context.Context, TX) (bool, error) {
				close(busy)
				<-free
				return true, nil
			})
			ended <- err
		}()
		select {
		case <-busy:
		case err := <-ended:
			t.Fatal("the holder: ", err)
		}
		refused(t, run(operation(once.NewKey())))
		again := done
		again.Timeouts = store.Timeouts{}
		refused(t, run(again)) // a replay, too, needs a connection
		close(free)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := run(done); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}
