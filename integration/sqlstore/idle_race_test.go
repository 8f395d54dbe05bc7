package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/oncelib/once/internal/sql/txlimit"
	"github.com/oncelib/once/store/sqlstore"
)

// TestIdleRace lets the end of a transaction by time fall around the statements of its
// handler and around its COMMIT, in real time and on a real file, while others want the
// connection: whatever comes first, what is told is true, and a retry makes one effect of it.
func TestIdleRace(t *testing.T) {
	const (
		tries = 150
		bound = time.Millisecond
	)
	for name, c := range map[string]struct {
		cfg   sqlstore.Config
		conns int
	}{"line": {conns: 1}, "lines": {}, "group": {cfg: sqlstore.Config{GroupCommit: true}}} {
		t.Run(name, func(t *testing.T) {
			newCrowd(t, t.TempDir(), c.cfg, nil, func(w *crowd) {
				w.db.SetMaxOpenConns(c.conns)
				seed := rand.Uint64()
				random := rand.New(rand.NewPCG(seed, 0))
				var inStatement, inCommit, committed, refused int
				for try := range tries {
					victim := newMember(fmt.Sprint("victim-", try))
					victim.op.Timeouts.Idle = bound
					pause := func() { pass(bound - 300*time.Microsecond + time.Duration(random.Int64N(int64(600*time.Microsecond)))) }
					inHandler := false
					victim.work = func(ctx context.Context, tx *sql.Tx, _ int) (string, error) {
						if try%2 == 0 {
							pause()
							if _, err := tx.ExecContext(ctx, "insert into charge values ('second')"); err != nil {
								inHandler = true
								if errors.As(err, new(*txlimit.TimeoutError)) { // decided, and not yet rolled back
									refused++
								}
								return "", err
							}
							_, err := tx.ExecContext(ctx, "delete from charge where id = 'second'")
							return "", err
						}
						pause()
						return "", nil
					}
					beside := newMember(fmt.Sprint("beside-", try))
					w.besides(victim, beside)
					w.executed(beside)
					switch {
					case victim.err == nil:
						committed++
						w.executed(victim)
						continue
					case inHandler:
						inStatement++
					default:
						inCommit++
					}
					w.isBusy(victim, "idle-in-transaction timeout")
					w.holds(victim.key, 0)
					again := newMember(victim.key)
					w.do(again)
					w.executed(again)
				}
				w.holds("second", 0)
				t.Logf("ended before a statement %d times (%d of them before the ROLLBACK), before COMMIT %d, committed %d", inStatement, refused, inCommit, committed)
				if inStatement < 5 || inCommit < 5 || committed < 5 {
					t.Errorf("vacuous, seed %d", seed)
				}
			})
		})
	}
}

// besides runs both at a time.
func (c *crowd) besides(a, b *member) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.do(b)
	}()
	c.do(a)
	<-done
}
