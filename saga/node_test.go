package saga_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
	"github.com/oncelib/once/store/upkeep"
)

// mortal is the store of a node that dies: it renews no lease then. Its looks are counted.
type mortal struct {
	*memstore.Store

	dead  atomic.Bool
	looks atomic.Int64
}

func (m *mortal) Renew(ctx context.Context, holds []store.Hold, d time.Duration) ([]store.Hold, error) {
	if m.dead.Load() {
		return nil, errDead
	}
	return m.Store.Renew(ctx, holds, d)
}

func (m *mortal) Unfinished(ctx context.Context, page upkeep.Listing) ([]upkeep.Entry, store.ID, error) {
	if page.State == store.StateWaiting {
		m.looks.Add(1)
	}
	return m.Store.Unfinished(ctx, page)
}

func (m *mortal) runner(d saga.AnyDefinition) *saga.Runner[*memstore.Tx] {
	return saga.NewRunner[*memstore.Tx](m, saga.Config{TTL: testTTL, Every: time.Second, Retain: once.Forever}, d)
}

// start starts a saga in a transaction of the caller.
func (g fixture) start(r *saga.Runner[*memstore.Tx], d *saga.Definition[string, string], id saga.ID) *saga.Handle[string] {
	g.Helper()
	tx := g.db.BeginTx()
	h, err := saga.Start(g.Context(), r, tx, d, id, "")
	if err := errors.Join(err, tx.Commit()); err != nil {
		g.Fatal(err)
	}
	return h
}

// run runs a runner until the test calls stop.
func (g fixture) run(r *saga.Runner[*memstore.Tx]) (stop func()) {
	ctx, cancel := context.WithCancel(g.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() {
		g.Helper()
		cancel()
		if err := <-ended; err != nil {
			g.Error(err)
		}
	}
}

// TestNodeDies: a node keeps its saga beside another one, however long a step takes. When it dies, the other one goes on within the rest of the
// lease, a TTL between two lists and a look. What the dead one commits later is refused, and its starter is told what has become of the saga.
func TestNodeDies(t *testing.T) {
	in(t, func(g fixture) {
		var begun atomic.Int64
		goOn := make(chan struct{})
		a := writes("a")
		slow := saga.Tx("slow", func(_ context.Context, tx *memstore.Tx, _ string) (string, error) {
			if begun.Add(1) == 1 {
				<-goOn
			}
			return "", count(tx, "slow")
		})
		d := saga.New("test", flowOf(a, slow), a, slow)
		m := &mortal{Store: g.db}
		told := make(chan string, 1)
		go func() {
			v, err := saga.Do(g.Context(), m.runner(d), d, sagaID, "")
			told <- fmt.Sprint(v, err)
		}()
		other := g.runner(d)
		stop := g.run(other)
		<-time.After(5 * testTTL / 2)
		if n := other.Stats().Taken; n != 0 || begun.Load() != 1 {
			g.Errorf("%d sagas were taken from a node that lives", n)
		}
		m.dead.Store(true)
		died := time.Now()
		for g.status().State != saga.StateCompleted && time.Since(died) < 5*testTTL {
			<-time.After(100 * time.Millisecond)
		}
		if took := time.Since(died); took > 2*testTTL+time.Second || other.Stats().Taken != 1 {
			g.Errorf("after %v the saga is %+v", took, g.status())
		}
		close(goOn)
		if said := <-told; said != "done<nil>" || g.counted("a") != 1 || g.counted("slow") != 1 {
			g.Errorf("%q, done %d times", said, g.counted("slow"))
		}
		stop()
	})
}

// TestFullNodeGathers: a node that has no room looks again when half of it is free, and not behind each saga that ends.
func TestFullNodeGathers(t *testing.T) {
	in(t, func(g fixture) {
		const room, many = 16, 96 // Config.Concurrency
		var n atomic.Int64
		work := saga.Call("work", func(context.Context, string, string) (string, error) {
			<-time.After(time.Duration(n.Add(1)) * time.Millisecond) // they end one after the other
			return "", nil
		}).SafeToRepeat()
		d := saga.New("test", func(ctx saga.Context, in string) (string, error) { return work.Do(ctx, in) }, work)
		m := &mortal{Store: g.db}
		r := m.runner(d)
		for i := range many {
			g.start(r, d, saga.ID{Key: fmt.Sprint(i)})
		}
		stop := g.run(r)
		began := time.Now()
		for r.Stats().Completed < many && time.Since(began) < time.Minute {
			<-time.After(time.Millisecond)
		}
		if s, looks := r.Stats(), m.looks.Load(); s.Completed != many || looks > 2*many/room+4 {
			g.Errorf("%+v after %d looks", s, looks)
		}
		stop()
	})
}

// TestUndosAreSeen: an operator sees which steps are still to be undone, which undo is under way and how often it has failed. What an undo says
// no with is there until a person has decided, and the starter still receives the cause of the compensation.
func TestUndosAreSeen(t *testing.T) {
	in(t, func(g fixture) {
		saw := func(state string, tries int, steps string) {
			g.Helper()
			s := g.status()
			var is []string
			for _, st := range s.Steps {
				is = append(is, st.Step+" "+st.State)
			}
			if got := strings.Join(is, ", "); s.State != state || s.Tries != tries || got != steps || s.Turned != "no" {
				g.Errorf("%s, want %s, %d, %s: %+v", got, state, tries, steps, s)
			}
		}
		var down, gone atomic.Bool
		down.Store(true)
		gone.Store(true)
		a := writes("a").Undo(func(_ context.Context, tx *memstore.Tx, _, _ string) error {
			if saw("running", 0, "a done, b undone, c failed"); gone.Load() {
				return &once.Failure{Code: "account.closed", Message: "the account is closed"}
			}
			return count(tx, "undo a")
		})
		b := writes("b").Undo(func(_ context.Context, tx *memstore.Tx, _, _ string) error {
			if down.Load() {
				return errors.New("down")
			}
			return count(tx, "undo b")
		})
		c := failing("c", func() error { return &once.Failure{Code: "no"} })
		d := saga.New("test", flowOf(a, b, c), a, b, c)
		told := make(chan error, 1)
		go func() {
			_, err := g.do(d)
			told <- err
		}()
		<-time.After(time.Second / 2)
		saw("waiting", 1, "a done, b done, c failed")
		down.Store(false)
		g.wantStuck(<-told, `the undo of step "a" has returned a final failure`, "account.closed", "the account is closed")
		saw("stuck", 0, "a done, b undone, c failed")
		gone.Store(false)
		if err := g.decide(retry); err != nil {
			g.Fatal(err)
		}
		if _, err := g.do(d); failureOf(err) != "no" || g.counted("undo a") != 1 || g.counted("undo b") != 1 {
			g.Errorf("%v: %d, %d", err, g.counted("undo a"), g.counted("undo b"))
		}
		saw("compensated", 0, "a undone, b undone, c failed")
	})
}

// TestDoWhileRunEnds: a saga that saga.Do begins while Run waits for an earlier one takes no step, and Run does not wait for it.
func TestDoWhileRunEnds(t *testing.T) {
	in(t, func(g fixture) {
		begun, goOn := make(chan string), map[string]chan struct{}{"early": make(chan struct{}), "late": make(chan struct{})}
		a := writes("a")
		d := saga.New("test", func(ctx saga.Context, in string) (string, error) {
			begun <- in
			<-goOn[in]
			return a.Do(ctx, in)
		}, a)
		r := g.runner(d)
		ctx, cancel := context.WithTimeout(g.Context(), time.Hour)
		defer cancel()
		var callers sync.WaitGroup
		do := func(key string) {
			callers.Go(func() { _, _ = saga.Do(ctx, r, d, saga.ID{Key: key}, key) })
			<-begun
		}
		stop := g.run(r)
		do("early")
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		synctest.Wait()
		do("late")
		close(goOn["early"])
		select {
		case <-stopped:
		case <-ctx.Done():
			g.Error("Run waits for a saga that has begun after its end")
		}
		close(goOn["late"])
		callers.Wait()
		if g.counted("aearly")+g.counted("alate") > 0 {
			g.Error("a node that stops has begun a step")
		}
	})
}
