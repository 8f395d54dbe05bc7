package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// TestLateInnoDB is TestCommitIsAppliedLate where sessions are threads, which cannot be stopped one by
// one: commits wait, as they do on MariaDB for a backup, and on MySQL for a semi-synchronous
// replica.
func TestLateInnoDB(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	for _, name := range innodbStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := serverTestDB(t, name, startInnoDB(t, name, testenv.MariaDBConfig{Settings: holdingCommits(name)}).DSN("mysql"))
			for _, flow := range []string{flowDo, flowFailure} {
				for _, runs := range []int{1, 3} {
					if err := lateCommit(t, g, flow, runs); err != nil {
						t.Errorf("%s, %d runs: %v. %s", flow, runs, err, rerun(t))
					}
				}
			}
		})
	}
}

// holdingCommits are the settings of a server on which holdCommits works.
func holdingCommits(store string) map[string]string {
	if store == harness.MySQL {
		return map[string]string{"log-bin": "on", "server-id": "1", "plugin-load-add": "semisync_source.so"}
	}
	return nil
}

// holdCommits makes every COMMIT wait until release is called.
func (g *testDB) holdCommits(ctx context.Context) (release func() error, err error) {
	conn, err := g.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	stages, end := []string{"backup stage START", "backup stage FLUSH", "backup stage BLOCK_DDL", "backup stage BLOCK_COMMIT"}, "backup stage END"
	if g.Kind == harness.MySQL {
		stages, end = []string{"set global rpl_semi_sync_source_timeout = 1000000000, rpl_semi_sync_source_enabled = 1"}, "set global rpl_semi_sync_source_enabled = 0"
	}
	for _, stage := range stages {
		if _, err := conn.ExecContext(ctx, stage); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return func() error {
		_, err := conn.ExecContext(ctx, end)
		return errors.Join(err, conn.Close())
	}, nil
}

func lateCommit(t *testing.T, g *testDB, flow string, runs int) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	line := newHoldingProxy(t, address(t, g.DSN))
	s := g.open(t, setup{dsn: line.dsn(g.DSN), conns: 1, engine: once.Config{Runs: runs, Settle: 300 * time.Millisecond}})
	defer s.Close()
	var release func() error
	var failed error
	arrived := false
	c := &client{s: s, name: "client", flow: flow, op: operation(once.NewKey()), first: func() {
		release, failed = g.holdCommits(ctx)
		line.cutAfter(committing(g.Kind), func() { arrived = true })
	}}
	got, told := c.ask(ctx)
	if failed != nil || !arrived || once.EffectOf(told) != once.EffectInDoubt {
		return fmt.Errorf("while the commit was on its way (%v), the client was told %+v: %w", arrived, got, errors.Join(told, failed))
	}
	if err := g.until(ctx, "select count(*) > 0 from information_schema.processlist where state like '%commit%' or state like '%backup%' or state like '%semi-sync%'"); err != nil {
		return err
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
