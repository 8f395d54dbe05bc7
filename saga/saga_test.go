package saga_test

// The tests with databases are in integration/saga: "make test-of DIR=saga" runs them after these.

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// TestStartInTheCallersTransaction: a saga stands and falls with the caller's transaction. The same start again changes nothing, and another input is refused.
func TestStartInTheCallersTransaction(t *testing.T) {
	in(t, func(g fixture) {
		a := writes("a")
		d := saga.New("test", flowOf(a), a)
		other := saga.New("other", flowOf(a), a)
		r := g.runner(d, other)
		start := func(d *saga.Definition[string, string], input string, commit bool) (*saga.Handle[string], error) {
			tx := g.db.BeginTx()
			defer tx.Rollback()
			h, err := saga.Start(g.Context(), r, tx, d, sagaID, input)
			if err := count(tx, "caller"); err != nil {
				g.Error("the caller's transaction is not usable:", err)
			}
			if commit {
				if err := tx.Commit(); err != nil {
					g.Error(err)
				}
			}
			return h, err
		}
		h, err := start(d, "", false)
		if err != nil {
			g.Fatal(err)
		}
		if _, err := h.Result(g.Context()); once.EffectOf(err) != once.EffectNotApplied || !errors.Is(err, saga.ErrNothing) || g.counted("a") != 0 {
			g.Errorf("rolled back: %v", err)
		}
		first, err := start(d, "", true)
		if err != nil {
			g.Fatal(err)
		}
		for range 2 {
			again, err := start(d, "", true)
			if err != nil {
				g.Fatal(err)
			}
			if v, err := again.Result(g.Context()); v != "done" || err != nil || g.counted("a") != 1 {
				g.Errorf("%q, %v", v, err)
			}
		}
		if v, err := first.Result(g.Context()); v != "done" || err != nil || g.counted("a") != 1 || g.counted("caller") != 3 {
			g.Errorf("%q, %v", v, err)
		}
		if _, err := start(d, "x", true); once.CodeOf(err) != once.CodeMismatch {
			g.Errorf("another input: %v", err)
		}
		if _, err := start(other, "", true); once.CodeOf(err) != once.CodeMismatch {
			g.Errorf("another definition: %v", err)
		}
		if _, err := saga.Do(g.Context(), r, d, sagaID, "x"); once.CodeOf(err) != once.CodeMismatch || g.counted("a") != 1 {
			g.Errorf("Do with another input: %v", err)
		}
	})
}

// TestAnotherPathIsStuck: a step that was taken is not reached in a later run. Without the comparison the flow would take another one beside it.
// Steps that are appended or reordered, and new ones behind the others, are taken.
func TestAnotherPathIsStuck(t *testing.T) {
	visa, paypal, mail := writes("visa"), writes("paypal"), writes("mail")
	for name, c := range map[string]struct {
		then  []taken
		stuck []string
	}{
		"another branch": {[]taken{paypal, mail}, []string{"visa", "paypal"}},
		"inserted":       {[]taken{paypal, visa, mail}, []string{"visa", "paypal"}},
		"left out":       {[]taken{}, []string{"visa"}},
		"appended":       {[]taken{visa, mail, paypal}, nil},
		"the same":       {[]taken{visa, mail}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(g fixture) {
				wait := failing("wait", func() error { return saga.Again(time.Hour) })
				before := saga.New("test", flowOf(visa, wait), visa, wait)
				ctx, cancel := context.WithTimeout(g.Context(), time.Minute)
				defer cancel()
				if _, err := saga.Do(ctx, g.runner(before), before, sagaID, ""); once.CodeOf(err) != once.CodeInFlight || g.counted("visa") != 1 {
					g.Fatal(err)
				}
				now := saga.New("test", flowOf(c.then...), visa, paypal, mail)
				r := g.runner(now)
				v, err := saga.Do(g.Context(), r, now, sagaID, "")
				if r.Stats().Changed != 1 {
					g.Errorf("%+v", r.Stats())
				}
				switch {
				case c.stuck != nil:
					g.wantStuck(err, c.stuck...)
					if g.counted("paypal")+g.counted("mail") != 0 {
						g.Error("another step was taken")
					}
				case v != "done" || err != nil || g.counted("visa") != 1 || g.counted("mail") != 1:
					g.Errorf("%q, %v", v, err)
				}
			})
		})
	}
}

// TestUndoNeedsItsStep: a step that may have to be undone, and that the program does not have any more, makes the saga stuck; it is not left out.
func TestUndoNeedsItsStep(t *testing.T) {
	in(t, func(g fixture) {
		a, wait := writes("a"), failing("wait", func() error { return saga.Again(time.Hour) })
		before := saga.New("test", flowOf(a, wait), a, wait)
		ctx, cancel := context.WithTimeout(g.Context(), time.Minute)
		defer cancel()
		_, _ = saga.Do(ctx, g.runner(before), before, sagaID, "")
		now := saga.New("test", flowOf(wait), wait)
		g.cancel(nil)
		_, err := saga.Do(g.Context(), g.runner(now), now, sagaID, "")
		g.wantStuck(err, `"a"`)
		if err := g.decide(retry); err != nil {
			g.Fatal(err)
		}
		if _, err := saga.Do(g.Context(), g.runner(before), before, sagaID, ""); failureOf(err) != saga.CodeCancelled || g.counted("undo a") != 1 {
			g.Errorf("%v", err)
		}
	})
}

// TestWakeEndsAWait: a saga that waits goes on when it is woken, and not before.
func TestWakeEndsAWait(t *testing.T) {
	in(t, func(g fixture) {
		asked := 0
		approved := saga.Tx("approved", func(_ context.Context, tx *memstore.Tx, _ string) (string, error) {
			asked++
			if _, ok, err := tx.Get("approval"); !ok || err != nil {
				return "", errors.Join(err, saga.Again(24*time.Hour))
			}
			return "", nil
		})
		d := saga.New("test", flowOf(approved), approved)
		r := g.runner(d)
		ctx, cancel := context.WithCancel(g.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		tx := g.db.BeginTx()
		h, err := saga.Start(g.Context(), r, tx, d, sagaID, "")
		if err := errors.Join(err, tx.Commit()); err != nil {
			g.Fatal(err)
		}
		<-time.After(time.Hour)
		if s := g.status(); s.State != "waiting" || asked != 1 {
			g.Errorf("%+v, asked %d times", s, asked)
		}
		tx = g.db.BeginTx()
		if err := errors.Join(tx.Put("approval", "yes"), r.Wake(g.Context(), tx, sagaID), tx.Commit()); err != nil {
			g.Fatal(err)
		}
		woken := time.Now()
		if v, err := h.Result(g.Context()); v != "done" || err != nil || asked != 2 || time.Since(woken) > 3*time.Second {
			g.Errorf("%q, %v, %v", v, err, time.Since(woken))
		}
		cancel()
		if err := <-ended; err != nil {
			g.Error(err)
		}
	})
}

// TestDrainReleasesSagas: a runner that ends lets go of its sagas behind the step that is under way, and another one goes on at once. It runs once.
func TestDrainReleasesSagas(t *testing.T) {
	in(t, func(g fixture) {
		begun := make(chan struct{})
		goOn := make(chan struct{})
		a, b := writes("a"), writes("b")
		slow := saga.Tx("slow", func(_ context.Context, tx *memstore.Tx, _ string) (string, error) {
			close(begun)
			<-goOn
			return "", count(tx, "slow")
		})
		d := saga.New("test", flowOf(a, slow, b), a, slow, b)
		ctx, cancel := context.WithCancel(g.Context())
		r := g.runner(d)
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		again, done := context.WithTimeout(g.Context(), time.Minute)
		defer done()
		if err := r.Run(again); err == nil {
			g.Fatal("a runner that runs is run again")
		}
		tx := g.db.BeginTx()
		if _, err := saga.Start(g.Context(), r, tx, d, sagaID, ""); errors.Join(err, tx.Commit()) != nil {
			g.Fatal(err)
		}
		<-begun
		cancel()
		synctest.Wait()
		close(goOn)
		if err := <-ended; err != nil {
			g.Error(err)
		}
		if s := g.status(); s.State != "waiting" || g.counted("slow") != 1 || g.counted("b") != 0 {
			g.Errorf("%+v", s)
		}
		if err := r.Run(again); err == nil || g.counted("b") != 0 {
			g.Errorf("a runner that has ended runs again: %v", err)
		}
		before := time.Now()
		if v, err := g.do(d); v != "done" || err != nil || g.counted("slow") != 1 || time.Since(before) > 2*time.Second {
			g.Errorf("%q, %v after %v", v, err, time.Since(before))
		}
	})
}

// TestDrainOfUndos: the same of a saga on its way back: behind the undo that is under way, another node goes on with the next one.
func TestDrainOfUndos(t *testing.T) {
	in(t, func(g fixture) {
		begun, goOn := make(chan struct{}), make(chan struct{})
		a, b := writes("a"), writes("b").Undo(func(_ context.Context, tx *memstore.Tx, _, _ string) error {
			close(begun)
			<-goOn
			return count(tx, "undo b")
		})
		c := failing("c", func() error { return &once.Failure{Code: "no"} })
		d := saga.New("test", flowOf(a, b, c), a, b, c)
		r := g.runner(d)
		stop := g.run(r)
		g.start(r, d, sagaID)
		<-begun
		go func() {
			<-time.After(time.Second)
			close(goOn)
		}()
		stop()
		if s := g.status(); s.State != "waiting" || g.counted("undo b") != 1 || g.counted("undo a") != 0 {
			g.Errorf("%+v", s)
		}
		if _, err := g.do(d); failureOf(err) != "no" || g.counted("undo b") != 1 || g.counted("undo a") != 1 {
			g.Errorf("%v", err)
		}
	})
}

// TestOtherSagasAreLeftAlone: a runner leaves sagas of definitions that it does not know, and a Completer those of all.
func TestOtherSagasAreLeftAlone(t *testing.T) {
	in(t, func(g fixture) {
		a, wait := writes("a"), failing("call", func() error { return saga.Again(time.Minute) })
		d := saga.New("test", flowOf(a, wait), a, wait)
		ctx, cancel := context.WithTimeout(g.Context(), time.Second)
		defer cancel()
		_, _ = saga.Do(ctx, g.runner(d), d, sagaID, "")
		before, err := g.db.Read(g.Context(), recordID)
		if err != nil {
			g.Fatal(err)
		}
		other := saga.New("other", flowOf(a), a)
		own, done := context.WithTimeout(g.Context(), 10*time.Minute)
		defer done()
		leases := lease.New(g.db, lease.Config{TTL: testTTL})
		completer := lease.Completer{Store: leases, Every: time.Second, Log: quiet, Handlers: lease.Handlers{"test": func(context.Context, once.Operation) error {
			g.Error("a Completer runs a saga")
			return nil
		}}}
		go func() { _ = completer.Run(own) }()
		if err := g.runner(other).Run(own); err != nil {
			g.Error(err)
		}
		err = lease.Resolve(g.Context(), g.db, recordID, lease.Resolution{CallID: "x", RunAgain: true})
		if err == nil {
			g.Error("lease.Resolve decides about a saga")
		}
		after, err := g.db.Read(g.Context(), recordID)
		if err != nil || after.Fence != before.Fence || string(after.Data) != string(before.Data) || after.State != store.StateWaiting {
			g.Errorf("%+v, before %+v, %v", after, before, err)
		}
	})
}

// TestNoDataBehindTheEnd: of a saga that has ended, the outcome and what its steps have come to are kept, and no input or result.
func TestNoDataBehindTheEnd(t *testing.T) {
	for _, no := range []error{nil, &once.Failure{Code: "no"}} {
		in(t, func(g fixture) {
			a, b := writes("a"), failing("b", func() error { return no })
			d := saga.New("test", func(ctx saga.Context, in string) (string, error) { _, err := inOrder(ctx, in, a, b); return "", err }, a, b)
			_, _ = saga.Do(g.Context(), g.runner(d), d, sagaID, "secret")
			rec, err := g.db.Read(g.Context(), recordID)
			if err != nil || rec.State != store.StateDone || strings.Contains(string(rec.Data), "secret") || len(g.status().Steps) != 2 {
				g.Errorf("%s, %v", rec.Data, err)
			}
		})
	}
}

// TestTooMuchToSave: a saga saves 64 KiB. More is refused at the start, and makes it stuck later, before anything is committed.
func TestTooMuchToSave(t *testing.T) {
	in(t, func(g fixture) {
		long := strings.Repeat("x", saga.MaxSaved)
		a := saga.Tx("a", func(_ context.Context, tx *memstore.Tx, _ string) (string, error) { return long, count(tx, "a") })
		d := saga.New("test", flowOf(a), a)
		if _, err := saga.Do(g.Context(), g.runner(d), d, sagaID, long); once.CodeOf(err) != once.CodeInvalid || !strings.Contains(err.Error(), "Try: ") {
			g.Errorf("%v", err)
		}
		_, err := g.do(d)
		g.wantStuck(err, `"a"`, "one step for many rows")
		if g.counted("a") != 0 {
			g.Error("it is committed")
		}
	})
}

// TestWrongFlows: what a program cannot mean makes the saga stuck and says so, or panics when it starts.
func TestWrongFlows(t *testing.T) {
	a, stranger := writes("a"), writes("stranger")
	for word, flow := range map[string]func(saga.Context, string) (string, error){
		"DoKey":    flowOf(a, a),
		"saga.New": flowOf(stranger),
	} {
		in(t, func(g fixture) {
			_, err := g.do(saga.New("test", flow, a))
			g.wantStuck(err, word)
		})
	}
	keyed := func(ctx saga.Context, in string) (string, error) {
		_, err := a.DoKey(ctx, "1", "1")
		if err == nil {
			_, err = a.DoKey(ctx, "2", "2")
		}
		return "done", err
	}
	in(t, func(g fixture) {
		if v, err := g.do(saga.New("test", keyed, a)); v != "done" || err != nil || g.counted("a1") != 1 || g.counted("a2") != 1 {
			g.Errorf("%q, %v", v, err)
		}
	})
	last := saga.Tx("last", func(context.Context, *memstore.Tx, string) (int, error) { return 0, nil }).Last()
	foreign := saga.Tx("foreign", func(context.Context, string, string) (string, error) { return "", nil })
	for name, fn := range map[string]func(){
		"two of a name":       func() { saga.New("test", flowOf(a), a, a) },
		"no name":             func() { saga.New("", flowOf(a), a) },
		"a slash":             func() { writes("a/b") },
		"the last of another": func() { saga.New("test", flowOf(a), last) },
		"another store":       func() { newFixture(t).runner(saga.New("test", flowOf(a), foreign)) },
		"two definitions":     func() { newFixture(t).runner(saga.New("test", flowOf(a), a), saga.New("test", flowOf(a), a)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			fn()
		}()
	}
}
