package integration

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

// idle is how long a server bears a stopped process. MariaDB and MySQL count in seconds.
const idle = 300 * time.Millisecond

// TestStopAtEveryPoint stops a process at every named point of an operation, as a debugger, a
// container that is frozen or a virtual machine that is moved does. Its duplicate in
// another process has an answer all the same, and when the stopped one goes on it gives
// the same one.
func TestStopAtEveryPoint(t *testing.T) {
	testenv.Core(t)
	t.Parallel()
	testenv.Need(t, "postgresql", "mariadb", "mysql")
	for _, name := range []string{harness.Pgx, harness.Postgres, harness.MariaDB, harness.MySQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sampleMySQL(t, name)
			g := newTestDB(t, name)
			successor := g.open(t, setup{})
			taken, kept, inFlight := 0, 0, 0
			harness.Loop(t, 2, func(at int) bool {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				st := stop{g: g, successor: successor, at: int64(at)}
				stopped, err := st.visit(ctx, t)
				if err != nil {
					t.Fatalf("stopped at point %d: %v. %s", at, err, rerun(t))
				}
				inFlight += st.inFlight
				switch st.got.Attempt {
				case bySuccessor:
					taken++
				case byVictim:
					kept++
				}
				return stopped
			})
			testenv.Reportf(t, "%s: of %d stops, %d operations were taken over, %d had committed; %d times in flight", name, taken+kept, taken, kept, inFlight)
			if taken == 0 || kept == 0 || inFlight == 0 {
				t.Errorf("vacuous. %s", rerun(t))
			}
		})
	}
}

// stop is one point at which a process is stopped.
type stop struct {
	g         *testDB
	successor system
	at        int64
	got       answer
	inFlight  int
}

// visit reports whether the process came to the point.
func (s *stop) visit(ctx context.Context, t *testing.T) (stopped bool, err error) {
	t.Helper()
	key := once.NewKey()
	p := plan{Store: s.g.Kind, DSN: s.g.DSN, Flow: flowDo, Mode: byStop, At: s.at, Key: key, Attempt: byVictim, Witness: filepath.Join(t.TempDir(), "witness")}
	c := harness.Start(t, p)
	if !c.UntilStopped(t) {
		_, _, err := c.Ends()
		return false, err
	}
	defer c.Signal(syscall.SIGCONT)
	for {
		got, _, err := s.successor.Do(ctx, operation(key), work{key: key, attempt: bySuccessor})
		if once.CodeOf(err) == once.CodeInFlight && ctx.Err() == nil {
			s.inFlight++
			continue
		}
		if err != nil {
			return true, fmt.Errorf("the duplicate: %w", err)
		}
		s.got = got
		break
	}
	c.Signal(syscall.SIGCONT)
	if _, killed, err := c.Ends(); err != nil || killed {
		return true, fmt.Errorf("when it went on (killed: %v): %w", killed, err)
	}
	ack, acked, err := acknowledged(p.Witness)
	if err == nil && (!acked || ack != s.got) {
		err = fmt.Errorf("the stopped one has answered %+v (%v), its duplicate %+v", ack, acked, s.got)
	}
	state, e := s.g.state(ctx, key)
	if e == nil && state != executed(s.got.Attempt) {
		e = fmt.Errorf("the database has %+v", state)
	}
	return true, errors.Join(err, e)
}
