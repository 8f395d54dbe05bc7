package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
	"github.com/oncelib/once/internal/testenv"
)

// committer is a text with which a handler commits by itself.
type committer struct {
	text string
	runs bool // nothing refuses it
}

func committers(store string) []committer {
	switch store {
	case harness.MariaDB:
		return []committer{{"commit and chain", false}, {"create table implicit (id int)", false}, {"execute immediate 'commit'", true}}
	case harness.MySQL:
		return []committer{{"commit and chain", false}, {"create table implicit (id int)", false}, {"call commit_from_below()", true}}
	}
	return []committer{
		{"commit; begin", false}, {"commit and chain", false}, {"rollback and chain", false},
		{"insert into charge (key, attempt) values ('other', 'x'); end; begin", false},
	}
}

// TestEndedAndLost lets a handler commit by itself and begin another transaction, after
// which the connection is lost before anything can be found out: with COMMIT, with its
// answer, or with the ROLLBACK after a handler that has failed. No caller may be told that
// nothing was applied while what the handler has committed stands, nor execute again.
func TestEndedAndLost(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	testenv.Need(t, "postgresql", "mariadb", "mysql")
	for _, name := range []string{harness.Pgx, harness.Postgres, harness.MariaDB, harness.MySQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCutter(t, name)
			for _, co := range committers(name) {
				for _, fails := range []bool{false, true} {
					lost := map[string]faultnet.Fault{"COMMIT": c.beforeCommit(), "its answer": c.afterCommit()}
					if innodb(name) { // where it is not sent before it is known whether there is a transaction
						const question = "RELEASE SAVEPOINT once_begun"
						lost = map[string]faultnet.Fault{question: faultnet.CutBefore(question), "its answer": faultnet.SwallowAnswer(question, ready(name))}
					}
					if fails || !co.runs {
						lost = map[string]faultnet.Fault{"ROLLBACK": c.beforeRollback(fails)}
					}
					for what, fault := range lost {
						if err := c.endedAndLost(t, co, fails, fault); err != nil {
							t.Errorf("%q, the handler fails: %v, %s is lost: %v. %s", co.text, fails, what, err, rerun(t))
						}
					}
				}
			}
		})
	}
}

// beforeRollback cuts before what the store sends. That of pgxstore goes together with a
// question if nothing is known to be wrong with the transaction.
func (c *cutter) beforeRollback(fails bool) faultnet.Fault {
	switch {
	case innodb(c.Kind):
		return faultnet.CutBefore("ROLLBACK")
	case c.Kind == harness.Pgx && !fails:
		return faultnet.CutBefore("rollback\x00")
	}
	return faultnet.CutBefore("ROLLBACK\x00")
}

func (c *cutter) endedAndLost(t *testing.T, co committer, fails bool, fault faultnet.Fault) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := c.behind(t, 1, once.Config{Settle: brief})
	defer s.Close()
	op := operation(once.NewKey())
	op.Wait = patience // for the server to notice
	for {              // a COMMIT on a busy machine may take longer than brief
		err := warm(ctx, s, plan{Key: op.Key, Attempt: "warm"})
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return err
		}
	}
	trigger := c.proxy.Arm(fault)
	defer c.proxy.Disarm()
	var ran error
	_, _, told := s.Do(ctx, op, work{key: op.Key, attempt: "ends", also: func(ctx context.Context, exec execer) error {
		if ran = exec(ctx, co.text); fails {
			return errors.New("the handler fails")
		}
		return nil
	}})
	if (ran == nil) != co.runs {
		return fmt.Errorf("refused: %w", ran)
	}
	select {
	case <-trigger.Fired():
	default:
		return fmt.Errorf("vacuous: the fault has not struck: %w", told)
	}
	stands, err := c.state(ctx, op.Key)
	switch {
	case err != nil:
		return err
	case told == nil:
		return fmt.Errorf("told that all is well, and the database has %+v", stands)
	case co.runs != (once.EffectOf(told) == once.EffectInDoubt), co.runs != (stands != state{}):
		return fmt.Errorf("told %w, and the database has %+v", told, stands)
	}
	_, _, err = s.Do(ctx, op, work{key: op.Key, attempt: "again"})
	if co.runs != (once.CodeOf(err) == once.CodeUnknown) || !co.runs && err != nil {
		return fmt.Errorf("again: %w", err)
	}
	want := executed("again")
	if co.runs {
		want = stands
	}
	if got, err := c.state(ctx, op.Key); err != nil || got != want {
		return fmt.Errorf("in the end the database has %+v, %w", got, err)
	}
	return nil
}
