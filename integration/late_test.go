package integration

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
)

// TestCommitIsAppliedLate loses the connection after the server has got the commit, and before it
// has begun to work on it: the session is stopped, as a busy machine might. A caller that
// asks meanwhile must not be told that nothing was applied, because it will be.
func TestCommitIsAppliedLate(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	testenv.Need(t, "postgresql")
	for _, name := range []string{harness.Pgx, harness.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newTestDB(t, name)
			for _, flow := range []string{flowDo, flowFailure} {
				for _, runs := range []int{1, 3} {
					if err := late(t, g, flow, runs); err != nil {
						t.Errorf("%s, %d runs: %v. %s", flow, runs, err, rerun(t))
					}
				}
			}
		})
	}
}

// sleeper is a client whose commit reaches a session that is stopped.
type sleeper struct {
	g     *testDB
	proxy *holdingProxy
	pid   int
	err   error
}

func newSleeper(t *testing.T, g *testDB) *sleeper {
	t.Helper()
	s := &sleeper{g: g, proxy: newHoldingProxy(t, address(t, g.DSN))}
	t.Cleanup(s.wake)
	return s
}

// dsn is direct's database, behind the proxy. Nothing is prepared, so that a commit can
// be seen.
func (s *sleeper) dsn(direct string) string {
	return s.proxy.dsn(direct) + "&default_query_exec_mode=exec"
}

// onCommit has the next commit of a flow reach a session that is stopped, and its
// client cut. It is called in the handler, when one transaction is open.
func (s *sleeper) onCommit(ctx context.Context, flow string) {
	s.err = s.g.db.QueryRowContext(ctx, `select pid from pg_stat_activity
 where datname = current_database() and state = 'idle in transaction'`).Scan(&s.pid)
	pattern := committing(s.g.Kind)
	if flow == flowFailure && s.g.Kind == harness.Pgx {
		pattern = "insert into once_operation" // the pipeline is the transaction
	}
	s.proxy.cutAfter(pattern, func() { s.err = errors.Join(s.err, syscall.Kill(s.pid, syscall.SIGSTOP)) })
}

// wake lets the session go on, and tells it that its client is gone.
func (s *sleeper) wake() {
	if s.pid != 0 {
		_ = syscall.Kill(s.pid, syscall.SIGCONT)
	}
	s.proxy.release()
}

// gone returns when the session is over.
func (s *sleeper) gone(ctx context.Context) error {
	return s.g.until(ctx, fmt.Sprintf(`select not exists (select from pg_stat_activity where pid = %d)`, s.pid))
}

func late(t *testing.T, g *testDB, flow string, runs int) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sl := newSleeper(t, g)
	s := g.open(t, setup{dsn: sl.dsn(g.DSN), conns: 1, engine: once.Config{Runs: runs, Settle: 300 * time.Millisecond}})
	defer s.Close()
	c := &client{s: s, name: "client", flow: flow, op: operation(once.NewKey()), first: func() { sl.onCommit(ctx, flow) }}
	got, told := c.ask(ctx)
	if sl.err != nil || told == nil || once.EffectOf(told) != once.EffectInDoubt {
		return fmt.Errorf("while the commit was on its way, the client was told %+v: %w", got, errors.Join(told, sl.err))
	}
	sl.wake()
	if err := sl.gone(ctx); err != nil {
		return err
	}
	got, err := c.insist(ctx)
	if err != nil {
		return err
	}
	if got.Attempt != "client-0" {
		return fmt.Errorf("the commit on its way was applied, and the answer is %+v", got)
	}
	return g.truthful(ctx, c, got)
}

// gated is a database in which claims wait at a gate, between the moment whose data
// they see and the lock that they try to get.
type gated struct{ *testDB }

const gate = `
create schema gated;
create function gated.pg_try_advisory_xact_lock(bigint) returns boolean language plpgsql as $$
begin
	perform pg_catalog.pg_advisory_lock_shared(1, 1);
	perform pg_catalog.pg_advisory_unlock_shared(1, 1);
	return pg_catalog.pg_try_advisory_xact_lock($1);
end $$;`

func newGated(t *testing.T, name string) gated {
	t.Helper()
	g := gated{newTestDB(t, name)}
	if _, err := g.db.ExecContext(t.Context(), gate); err != nil {
		t.Fatal(err)
	}
	return g
}

// dsnThrough is for connections that have to go through the gate.
func (g gated) dsnThrough() string {
	return g.DSN + "&search_path=" + url.QueryEscape("gated,pg_catalog,public")
}

// shut shuts the gate until open is called.
func (g gated) shut(ctx context.Context) (open func() error, err error) {
	conn, err := g.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	_, err = conn.ExecContext(ctx, "select pg_advisory_lock(1, 1)")
	return func() error {
		_, err := conn.ExecContext(ctx, "select pg_advisory_unlock(1, 1)")
		return errors.Join(err, conn.Close())
	}, err
}

// waiting returns when a call waits at the gate.
func (g gated) waiting(ctx context.Context) error {
	return g.until(ctx, `select exists (select from pg_locks join pg_database on oid = database
 where datname = current_database() and locktype = 'advisory' and classid = 1 and objid = 1 and not granted)`)
}

// TestOldLook has a claim granted just after another one was committed: a look-up that
// is older than the lock misses that. In the pipeline of pgxstore it is younger, unless
// the whole transaction has one snapshot.
func TestOldLook(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	testenv.Need(t, "postgresql")
	harness.Each(t, []string{harness.Pgx, harness.Postgres}, func(t *testing.T, name string) {
		g := newGated(t, name)
		for _, l := range levels {
			if err := oldLook(t, g, l); err != nil {
				t.Errorf("%s: %v. %s", l.name, err, rerun(t))
			}
		}
		if err := oldSettling(t, g); err != nil {
			t.Errorf("settling: %v. %s", err, rerun(t))
		}
	})
}

// oldLook: if the look-up is old the handler runs in vain, and the answer is the
// other's in any case.
func oldLook(t *testing.T, g gated, l level) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	taken := 0
	late := g.open(t, setup{dsn: g.dsnThrough(), hook: func(place string) {
		if place == "taken" {
			taken++
		}
	}})
	open, err := g.shut(ctx)
	if err != nil {
		return err
	}
	op := operation(once.NewKey())
	op.Isolation = l.is
	done := make(chan error, 1)
	go func() {
		got, replayed, err := late.Do(ctx, op, work{key: op.Key, attempt: "late"})
		reached := true // above READ COMMITTED the handler's own writes collide before the record does
		if l.is == store.ReadCommitted {
			reached = (taken == 1) == (g.Kind != harness.Pgx)
		}
		if err == nil && (got.Attempt != "early" || !replayed || !reached) {
			err = fmt.Errorf("%+v, replayed: %v, taken at the primary key %d times", got, replayed, taken)
		}
		done <- err
	}()
	if err := g.waiting(ctx); err != nil {
		return errors.Join(err, open())
	}
	_, _, err = g.open(t, setup{}).Do(ctx, op, work{key: op.Key, attempt: "early"})
	if err = errors.Join(err, open(), <-done); err != nil {
		return err
	}
	s, err := g.state(ctx, op.Key)
	if err == nil && s != executed("early") {
		err = fmt.Errorf("the database has %+v", s)
	}
	return err
}

// oldSettling: a commit whose answer was lost is asked for, is applied between the
// look and the lock, and must not be reported as not applied.
func oldSettling(t *testing.T, g gated) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sl := newSleeper(t, g.testDB)
	s := g.open(t, setup{dsn: sl.dsn(g.dsnThrough()), conns: 1, engine: once.Config{Runs: 1, Settle: patience}})
	defer s.Close()
	var open func() error
	shut := make(chan error, 1)
	c := &client{s: s, name: "client", op: operation(once.NewKey()), first: func() {
		var err error
		sl.onCommit(ctx, flowDo)
		open, err = g.shut(ctx)
		shut <- errors.Join(err, sl.err)
	}}
	told := make(chan error, 1)
	go func() {
		_, err := c.ask(ctx)
		told <- err
	}()
	err := errors.Join(<-shut, g.waiting(ctx)) // settling has looked, and found nothing
	sl.wake()
	if err = errors.Join(err, sl.gone(ctx), open(), <-told); err != nil {
		return fmt.Errorf("the client was told: %w", err)
	}
	return g.truthful(ctx, c, answer{Key: c.op.Key, Attempt: "client-0"})
}
