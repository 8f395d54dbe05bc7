package saga

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlplane"
)

// TestForwardsRaceWithUndos: two forwards and two undos of one operation meet, on two nodes. Either it was executed once and undone once, with its
// value, or it was refused for good; and each caller is told which.
func TestForwardsRaceWithUndos(t *testing.T) {
	testenv.Both(t)
	on(t, undoRace[pgx.Tx], undoRace[*sql.Tx])
}

// TestManyForwardsRaceWithUndos is the same with 1,200 of each, on PostgreSQL.
func TestManyForwardsRaceWithUndos(t *testing.T) {
	testenv.Core(t)
	d := newDatabase(t, harness.Pgx)
	s, _ := harness.OpenPgx(t, d)
	undoRaces(t, system[pgx.Tx]{Database: d, db: s}, 600)
}

func undoRace[TX any](t *testing.T, s system[TX]) { undoRaces(t, s, 24) }

func undoRaces[TX any](t *testing.T, s system[TX], keys int) {
	nodes := [2]*once.Engine[TX]{}
	for i := range nodes {
		nodes[i] = once.New[TX](s.db, once.Config{Observer: once.Discard})
	}
	var executed, refused, anomalies atomic.Int64
	places := make(chan struct{}, 4)
	var all sync.WaitGroup
	for i := range keys {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			done, wrong := s.undoRace(t.Context(), nodes, fmt.Sprint("d-", i), i%3)
			switch {
			case wrong != "":
				anomalies.Add(1)
				t.Errorf("d-%d: %s", i, wrong)
			case done:
				executed.Add(1)
			default:
				refused.Add(1)
			}
		})
	}
	all.Wait()
	testenv.Reportf(t, "%s: %d forwards and %d undos: %d operations executed and undone once, %d refused, %d anomalies", s.Kind, 2*keys, 2*keys, executed.Load(), refused.Load(), anomalies.Load())
	if executed.Load() == 0 || refused.Load() == 0 {
		t.Errorf("vacuous: %d executed, %d refused", executed.Load(), refused.Load())
	}
}

// undoRace lets two forwards meet two undos, of which the first come first. It reports whether the operation was executed, and what is wrong with that.
func (s system[TX]) undoRace(ctx context.Context, nodes [2]*once.Engine[TX], key string, first int) (executed bool, wrong string) {
	var values, undid [2]string
	answer := func(i, kind int) {
		if kind == 0 {
			v, err := s.forward(ctx, nodes[i], key)
			if values[i] = v; err != nil {
				values[i] = err.Error()
			}
			return
		}
		did, err := s.undo(ctx, nodes[i], key)
		undid[i] = fmt.Sprint(did, err)
	}
	if first < 2 { // one of a kind is there before the race; of the third none is
		answer(0, first)
	}
	var race sync.WaitGroup
	start := make(chan struct{})
	for i := range nodes {
		for kind := range 2 {
			race.Go(func() {
				<-start
				answer(i, kind)
			})
		}
	}
	close(start)
	race.Wait()

	count, err := s.effects(ctx, key)
	executed = len(count) > 0
	want := undid == [2]string{"false <nil>", "false <nil>"} && values[0] == values[1] && values[0] == "CONFLICT.idempotency.undone: This operation was undone before it was executed."
	if executed {
		want = undid == [2]string{"true <nil>", "true <nil>"} && values[0] == values[1] && len(count) == 2 && count["do "+values[0]] == 1 && count["undo "+values[0]] == 1
	}
	if err != nil || !want {
		return executed, fmt.Sprintf("effects %v; the forwards were told %q, the undos %q; %v", count, values, undid, err)
	}
	return executed, ""
}

// TestUndoIsKilled: a process is killed (SIGKILL) before and after each commit of an undo, of what was executed and of what was not. The next
// undo finishes it.
func TestUndoIsKilled(t *testing.T) {
	testenv.Prove(t)
	on(t, undoKilled[pgx.Tx], undoKilled[*sql.Tx])
}

func undoKilled[TX any](t *testing.T, s system[TX]) {
	whole := once.New[TX](s.db, once.Config{Observer: once.Discard})
	for _, executed := range []bool{true, false} {
		harness.Loop(t, 2, func(at int) (killed bool) {
			key, value := fmt.Sprintf("executed %t, point %d", executed, at), ""
			if executed {
				v, err := s.forward(t.Context(), whole, key)
				must(t, err)
				value = v
			}
			killed = s.run(t, plan{Database: s.Database, Key: key, Undo: true, At: int64(at)}) == ""
			for range 2 {
				if did, err := s.undo(t.Context(), whole, key); did != executed || err != nil {
					t.Errorf("%s: %v, %v", key, did, err)
				}
			}
			late, err := s.forward(t.Context(), whole, key)
			count, e := s.effects(t.Context(), key)
			must(t, e)
			if executed && (err != nil || late != value || len(count) != 2 || count["undo "+value] != 1) || !executed && (err == nil || len(count) != 0) {
				t.Errorf("%s: effects %v; a late forward: %q, %v", key, count, late, err)
			}
			return killed
		})
	}
}

// depositOf is the operation that is undone.
func depositOf(key string) once.Operation {
	return once.Operation{Scope: "acme deposits", Key: key, Wait: patience}
}

func (s system[TX]) forward(ctx context.Context, e *once.Engine[TX], key string) (string, error) {
	r, err := once.Do(ctx, e, depositOf(key), func(ctx context.Context, tx TX) (string, error) {
		value := once.NewKey()
		_, err := s.db.On(tx).Exec(ctx, s.insert(key, "do "+value))
		return value, err
	})
	return r.Value, err
}

func (s system[TX]) undo(ctx context.Context, e *once.Engine[TX], key string) (bool, error) {
	return once.Undo(ctx, e, depositOf(key), func(ctx context.Context, tx TX, value string) error {
		_, err := s.db.On(tx).Exec(ctx, s.insert(key, "undo "+value))
		return err
	})
}

// effects are how often each effect of a key is there.
func (s system[TX]) effects(ctx context.Context, key string) (map[string]int, error) {
	count := map[string]int{}
	err := s.db.Pool().Query(ctx, harness.Text(s.db, "select what from effect where saga = ?", key), func(row sqlplane.Row) error {
		var what string
		err := row.Scan(&what)
		count[what]++
		return err
	})
	return count, err
}
