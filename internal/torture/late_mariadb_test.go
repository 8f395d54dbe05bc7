package torture

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
)

// TestLateMariaDB is TestLate where sessions are threads, which cannot be stopped one by
// one: commits wait, as they do for a backup.
func TestLateMariaDB(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	m := startMariaDB(t)
	g := mariadbGround(t, m.DSN("mysql"))
	for _, flow := range []string{flowDo, flowFailure} {
		for _, runs := range []int{1, 3} {
			if err := lateCommit(t, g, flow, runs); err != nil {
				t.Errorf("%s, %d runs: %v. %s", flow, runs, err, rerun(t))
			}
		}
	}
}

// holdCommits makes every COMMIT wait until release is called.
func (g *testDB) holdCommits(ctx context.Context) (release func() error, err error) {
	conn, err := g.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	for _, stage := range []string{"START", "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT"} {
		if _, err := conn.ExecContext(ctx, "backup stage "+stage); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return func() error {
		_, err := conn.ExecContext(ctx, "backup stage END")
		return errors.Join(err, conn.Close())
	}, nil
}

func lateCommit(t *testing.T, g *testDB, flow string, runs int) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	line := newLeash(t, address(t, g.dsn))
	s := g.open(t, setup{dsn: line.dsn(g.dsn), conns: 1, engine: once.Config{Runs: runs, Settle: 300 * time.Millisecond}})
	defer s.Close()
	var release func() error
	var failed error
	arrived := false
	c := &client{s: s, name: "client", flow: flow, op: operation(once.NewKey()), first: func() {
		release, failed = g.holdCommits(ctx)
		line.cutAfter(committing(g.store), func() { arrived = true })
	}}
	got, told := c.ask(ctx)
	if failed != nil || !arrived || once.EffectOf(told) != once.EffectInDoubt {
		return fmt.Errorf("while the commit was on its way (%v), the client was told %+v: %w", arrived, got, errors.Join(told, failed))
	}
	var waiting int
	if err := g.db.QueryRowContext(ctx, "select count(*) from information_schema.processlist where state like '%commit%' or state like '%backup%'").Scan(&waiting); err != nil || waiting == 0 {
		return fmt.Errorf("%d commits wait: %w", waiting, err)
	}
	if err := release(); err != nil {
		return err
	}
	line.release()
	if err := g.until(ctx, fmt.Sprintf("select count(*) = 1 from once_operation where `key` = '%s' and state = 2", c.op.Key)); err != nil {
		return err
	}
	got, err := c.insist(ctx)
	if err == nil && got.Attempt != "client-0" {
		err = fmt.Errorf("the commit on its way was applied, and the answer is %+v", got)
	}
	if err != nil {
		return err
	}
	return g.truthful(ctx, c, got)
}
