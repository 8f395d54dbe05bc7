package saga

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/torture/harness"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
)

// planEnv makes this binary a node that starts a saga: it holds a plan.
const planEnv = "ONCE_TORTURE_SAGA"

// plan is what a node does.
type plan struct {
	Opening opening
	Key     string
	No      bool
	Undo    bool  // in place of a saga, it undoes an operation
	At      int64 // it kills itself at this point; 0: never
}

// beNode is a node that starts a saga. It prints how many points it has passed.
func beNode(of string) int {
	var p plan
	err := json.Unmarshal([]byte(of), &p)
	if err == nil {
		err = p.run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (p plan) run(ctx context.Context) error {
	if p.Opening.Store == harness.Pgx {
		s, end, err := p.Opening.openPgx(ctx)
		if err != nil {
			return err
		}
		defer end()
		return starts(ctx, p, system[pgx.Tx]{opening: p.Opening, db: s, no: p.No})
	}
	s, end, err := p.Opening.openSQLStore(ctx)
	if err != nil {
		return err
	}
	defer end()
	return starts(ctx, p, system[*sql.Tx]{opening: p.Opening, db: s, no: p.No})
}

func starts[TX any](ctx context.Context, p plan, s system[TX]) error {
	var points atomic.Int64
	s.at = func(string) {
		if points.Add(1) == p.At {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	var err error
	if db := (&pointStore[TX]{s.db, s.at}); p.Undo {
		_, err = s.undo(ctx, once.New[TX](db, once.Config{Observer: once.Discard}), p.Key)
	} else {
		d := s.definition()
		_, err = saga.Do(ctx, s.runner(db, d), d, idOf(p.Key), p.Key)
	}
	fmt.Println("points", points.Load(), strings.ReplaceAll(fmt.Sprint(err), "\n", " "))
	return nil
}

// pointStore passes a point before and after each thing that may change the database.
type pointStore[TX any] struct {
	sqlStore[TX]

	at func(point string)
}

// Unwrap lets the other abilities of the store be found.
func (s *pointStore[TX]) Unwrap() any { return s.sqlStore }

func (s *pointStore[TX]) Swap(ctx context.Context, c store.Change) (store.Record, error) {
	s.at("swap")
	defer s.at("swapped")
	return s.sqlStore.Swap(ctx, c)
}

func (s *pointStore[TX]) Begin(ctx context.Context, opts store.BeginOptions) (store.Claim[TX], store.Record, error) {
	c, rec, err := s.sqlStore.Begin(ctx, opts)
	if c == nil {
		return c, rec, err
	}
	return &pointClaim[TX]{c, s.at}, rec, err
}

type pointClaim[TX any] struct {
	store.Claim[TX]

	at func(point string)
}

func (c *pointClaim[TX]) Unwrap() any { return c.Claim }

func (c *pointClaim[TX]) Commit(ctx context.Context, ch store.Change) error {
	c.at("commit")
	defer c.at("committed")
	return c.Claim.Commit(ctx, ch)
}

// TestKill: a node is killed (SIGKILL) before and after each commit and request of a saga that completes, and of one that is undone. Another
// node brings it to its end: each effect is there once, and undone once if the saga has turned.
func TestKill(t *testing.T) {
	testenv.Core(t)
	on(t, kills[pgx.Tx], kills[*sql.Tx])
}

func kills[TX any](t *testing.T, s system[TX]) {
	for _, s.no = range []bool{false, true} {
		var total int64
		_, err := fmt.Sscanf(s.start(t, "not killed", 0), "points %d", &total)
		must(t, err)
		s.finish(t, fmt.Sprintf("not killed, no %t", s.no))
		var killed atomic.Int64
		keys := make([]string, total)
		var all sync.WaitGroup
		places := make(chan struct{}, 2)
		for i := range total {
			places <- struct{}{}
			all.Go(func() {
				defer func() { <-places }()
				key := fmt.Sprintf("point %d", i+1)
				if s.start(t, key, i+1) == "" {
					killed.Add(1)
				}
				keys[i] = fmt.Sprintf("%s, no %t", key, s.no)
			})
		}
		all.Wait()
		for _, key := range keys { // what was killed before its first commit is started again by its starter
			if _, err := s.runner(s.db, s.definition()).Status(t.Context(), idOf(key)); err != nil {
				d := s.definition()
				_, err := saga.Do(t.Context(), s.runner(s.db, d), d, idOf(key), key)
				if err != nil && once.EffectOf(err) != once.EffectNotApplied {
					t.Error(key, err)
				}
			}
		}
		s.finish(t, keys...)
		for _, key := range keys {
			s.judge(t, key)
		}
		testenv.Reportf(t, "%s, no %t: killed at %d of %d points", s.Store, s.no, killed.Load(), total)
		if killed.Load() < 8 {
			t.Errorf("vacuous: killed %d times", killed.Load())
		}
	}
}

// start runs a node to its end, and returns what it says; "" if it was killed.
func (s system[TX]) start(t *testing.T, key string, at int64) (said string) {
	t.Helper()
	return s.run(t, plan{Opening: s.opening, Key: fmt.Sprintf("%s, no %t", key, s.no), No: s.no, At: at})
}

func (s system[TX]) run(t *testing.T, p plan) (said string) {
	t.Helper()
	b, err := json.Marshal(p)
	must(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), planEnv+"="+string(b))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said = lines.Text()
	}
	err = cmd.Wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if err != nil && !status.Signaled() {
		t.Error(err)
	}
	return said
}
