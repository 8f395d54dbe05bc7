package integration

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
)

const flowGroup = "group" // operations that share a COMMIT

// crew are the operations of one group: two of them are the same, and one is declined.
var crew = []struct {
	suffix string
	flow   string
}{{"-a", flowDo}, {"-b", flowDo}, {"-c", flowFailure}, {"-d", flowDo}, {"-b", flowDo}, {"-e", flowDo}}

// performGroup has all of a crew follow the first one, dead or alive.
func performGroup(ctx context.Context, p plan) error {
	k := &killer{mode: p.Mode, at: p.At}
	if p.Cold {
		k.arm()
	}
	s, err := stores[p.Store](ctx, setup{dsn: p.DSN, hook: k.named})
	if err != nil {
		return err
	}
	k.arm()
	entered, come := make(chan struct{}), make(chan struct{})
	errs := make([]error, len(crew))
	var all sync.WaitGroup
	for i, c := range crew {
		op := operation(p.Key + c.suffix)
		w := work{key: op.Key, attempt: fmt.Sprintf("%s %d", p.Attempt, i), hook: k.named}
		if i == 0 {
			w.before = func() { close(entered); <-come }
		}
		all.Go(func() {
			a, err := run(ctx, s.Another(), c.flow, op, w) // an engine of its own: nothing coalesces
			if err == nil {
				k.named("before the acknowledgement")
				err = acknowledge(fmt.Sprintf("%s-%d", p.Witness, i), a)
			}
			errs[i] = err
		})
		if i == 0 {
			<-entered
		}
	}
	if err := queued(ctx, len(crew)-1); err != nil {
		return err
	}
	close(come)
	all.Wait()
	k.named("before the end")
	s.Close()
	return errors.Join(errs...)
}

// queued returns when n goroutines wait for their turn in a group. Only the runtime
// knows, so it is asked until it says so.
func queued(ctx context.Context, n int) error {
	stacks := make([]byte, 1<<20)
	for ctx.Err() == nil {
		if got := stacks[:runtime.Stack(stacks, true)]; strings.Count(string(got), "sqlitegroup.(*line).wait(") == n {
			return nil
		}
		runtime.Gosched()
	}
	return fmt.Errorf("vacuous: no group: %w", ctx.Err())
}

// TestKillGroup kills a process at every point of a group: who was answered finds
// exactly that, and who was not finds his operation done once, or not at all.
func TestKillGroup(t *testing.T) {
	testenv.Prove(t)
	t.Parallel()
	testenv.Need(t, "strace")
	var met tally
	start := time.Now()
	for _, journal := range []string{"WAL", "DELETE"} {
		s := &killLoop{t: t, g: sqliteTestDB(t, harness.Group+"-"+journal, journal)}
		s.g.Kind = harness.Group
		s.groups(append([]string{byName}, syscalls...)...)
		met.merge(&s.tally)
	}
	// Beside a living neighbour, who shares the dead one's memory.
	s := &killLoop{t: t, g: newTestDB(t, harness.Group)}
	s.successor = s.g.open(t, setup{})
	s.groups("pwrite64", "fdatasync", "fcntl")
	s.tally.merge(&met)
	s.report(start)
}

// groups kills at points 1, 2, ... of each mode until the victim survives.
func (s *killLoop) groups(modes ...string) {
	s.t.Helper()
	for _, mode := range modes {
		s.visit(flowGroup, mode, 1, s.strikeGroup)
	}
}

func (s *killLoop) strikeGroup(ctx context.Context, p *point) (survived bool, err error) {
	victim := s.plan(p, newKey(p), byVictim)
	victim.Cold = p.traced()
	_, killed, err := victim.carryOut(s.t, p.tracer()...)
	if err != nil {
		return false, err
	}
	successor := s.successor
	if successor == nil { // one who has to recover the file
		if successor, err = stores[s.g.Kind](ctx, setup{dsn: s.g.DSN}); err != nil {
			return false, err
		}
		defer successor.Close()
	}
	for i, c := range crew {
		key := victim.Key + c.suffix
		member := &point{store: p.store, flow: c.flow, mode: p.mode, at: p.at}
		ack, acked, err := acknowledged(fmt.Sprintf("%s-%d", victim.Witness, i))
		if err != nil {
			return false, err
		}
		if !killed && !acked {
			return false, fmt.Errorf("member %d has survived and acknowledged nothing", i)
		}
		if acked {
			if err := s.stands(ctx, member, key, ack); err != nil {
				return false, fmt.Errorf("member %d was acknowledged, but: %w", i, err)
			}
		}
		got, err := run(ctx, successor, c.flow, operation(key), work{key: key, attempt: bySuccessor})
		if err != nil {
			return false, fmt.Errorf("member %d, repeated: %w", i, err)
		}
		if acked && got != ack {
			return false, fmt.Errorf("member %d: the acknowledged answer was %+v, the repeated one is %+v", i, ack, got)
		}
		if err := s.stands(ctx, member, key, got); err != nil {
			return false, fmt.Errorf("member %d: %w", i, err)
		}
		if killed {
			s.tally.note(flowGroup, acked, got.Attempt)
		}
	}
	return !killed, nil
}

// merge is add, also to an empty one.
func (t *tally) merge(other *tally) {
	if t.points == nil {
		t.points = map[string]int{}
	}
	t.add(other)
}

// TestStormOfGroups is TestStormOfDuplicates in one process, whose duplicates are in each other's
// groups, and beside another one.
func TestStormOfGroups(t *testing.T) {
	testenv.Prove(t)
	unleash(t, newTestDB(t, harness.Group), 2, 32, scale(40, 400))
}
