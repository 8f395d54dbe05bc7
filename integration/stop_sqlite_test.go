package integration

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// TestStopSQLite stops a process at every named point, some of them inside of its
// transaction, which has the lock of the file. No other process can take that away from it: the
// others are told to come back, each as soon as it has waited for its busy_timeout and no
// later for their being many. When the process goes on, or is killed, all is well.
func TestStopSQLite(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	g := newTestDB(t, harness.SQLite)
	const busy = 300 * time.Millisecond
	dsn := strings.Replace(g.DSN, "busy_timeout(30000)", fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()), 1)
	st := stuck{g: g, successor: g.open(t, setup{dsn: dsn}), busy: busy}
	for _, signal := range []syscall.Signal{syscall.SIGCONT, syscall.SIGKILL} {
		harness.Loop(t, 5, func(at int) bool {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			stopped, err := st.visit(ctx, t, int64(at), signal)
			if err != nil {
				t.Fatalf("stopped at point %d, then %v: %v. %s", at, signal, err, rerun(t))
			}
			return stopped
		})
	}
	testenv.Reportf(t, "of %d stops, %d held the file: %d requests were told to come back, after %v at most; %d were taken over", st.stops, st.held, st.refused, st.longest.Round(time.Millisecond), st.taken)
	if st.held < 5 || st.held == st.stops || st.taken == 0 || st.taken == st.stops {
		t.Errorf("vacuous. %s", rerun(t))
	}
}

type stuck struct {
	g         *testDB
	successor system
	busy      time.Duration

	stops, held, refused, taken int
	longest                     time.Duration
}

func (s *stuck) visit(ctx context.Context, t *testing.T, at int64, then syscall.Signal) (stopped bool, err error) {
	t.Helper()
	p := plan{
		Store: s.g.Kind, DSN: s.g.DSN, Flow: flowDo, Mode: byStop, At: at,
		Key: once.NewKey(), Attempt: byVictim, Witness: filepath.Join(t.TempDir(), "witness"),
	}
	c := harness.Start(t, p)
	if !c.UntilStopped(t) {
		_, _, err := c.Ends()
		return false, err
	}
	s.stops++
	held, err := s.locked(ctx)
	if err == nil && held {
		s.held++
		var longest time.Duration
		for tries := 1; err == nil; tries++ { // a machine that is slow once is not slow each time
			if longest, err = s.crowd(ctx, p.Key); err != nil || longest <= many*s.busy {
				break
			}
			if tries == 5 { // as if one had come after the other
				err = fmt.Errorf("a request has waited for %v", longest)
			}
		}
		s.longest = max(s.longest, longest)
	}
	if err != nil {
		c.Kill()
		return true, err
	}
	c.Signal(then)
	if _, _, err := c.Ends(); err != nil {
		return true, err
	}
	got, _, err := s.successor.Do(ctx, operation(p.Key), work{key: p.Key, attempt: bySuccessor})
	if err != nil {
		return true, fmt.Errorf("afterwards: %w", err)
	}
	if got.Attempt == bySuccessor {
		s.taken++
	}
	ack, acked, err := acknowledged(p.Witness)
	if err == nil && (acked && ack != got || !acked && then == syscall.SIGCONT) {
		err = fmt.Errorf("the stopped one has answered %+v (%v), its duplicate %+v", ack, acked, got)
	}
	state, e := s.g.state(ctx, p.Key)
	if e == nil && state != executed(got.Attempt) {
		e = fmt.Errorf("the database has %+v", state)
	}
	return true, errors.Join(err, e)
}

// locked reports whether a process has the lock of the file.
func (s *stuck) locked(ctx context.Context) (bool, error) {
	conn, err := s.g.db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "pragma busy_timeout = 0"); err != nil {
		return false, err
	}
	if _, err := conn.ExecContext(ctx, "begin immediate"); err != nil {
		return strings.Contains(err.Error(), "SQLITE_BUSY"), nil
	}
	_, err = conn.ExecContext(ctx, "rollback")
	return false, err
}

// many is the number of the other operations.
const many = 8

// crowd are the duplicate and the operations of others, all at one time. It returns how long one of them has waited.
func (s *stuck) crowd(ctx context.Context, key string) (longest time.Duration, err error) {
	keys := []string{key}
	for range many {
		keys = append(keys, once.NewKey())
	}
	errs, took := make([]error, len(keys)), make([]time.Duration, len(keys))
	var group sync.WaitGroup
	for i, key := range keys {
		group.Go(func() {
			began := time.Now()
			_, _, errs[i] = s.successor.Do(ctx, operation(key), work{key: key, attempt: bySuccessor})
			took[i] = time.Since(began)
		})
	}
	group.Wait()
	for i, err := range errs {
		var e *once.Error
		if !errors.As(err, &e) || e.Code != once.CodeUnavailable || e.Effect != once.EffectNotApplied || e.After <= 0 {
			return longest, fmt.Errorf("while it is stopped: %w", err)
		}
		s.refused++
		longest = max(longest, took[i])
	}
	return longest, nil
}
