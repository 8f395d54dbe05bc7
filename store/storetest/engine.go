package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/store"
)

func operation(id store.ID) once.Operation { return once.Operation{Scope: id.Scope, Key: id.Key} }

// charge returns a handler that makes one effect and returns a new value in every run.
func (u *suite[TX]) charge(key string) func(context.Context, TX) (string, error) {
	return func(ctx context.Context, tx TX) (string, error) {
		if err := u.Write(ctx, tx, key); err != nil {
			return "", err
		}
		return once.NewKey(), nil
	}
}

// testEngine proves what the engine promises on top of the store.
func testEngine[TX any](t *testing.T, u *suite[TX]) {
	e, other := u.engine(u.s, once.Config{}), u.engine(u.peer, once.Config{})
	t.Run("Replay", func(t *testing.T) {
		id := newID()
		op := operation(id)
		op.Fingerprint = once.FingerprintOf([]byte("a"))
		first, err := once.Do(bounded(t), e, op, u.charge(id.Key))
		if err != nil || first.Replayed {
			t.Fatalf("%+v, %v", first, err)
		}
		for _, e := range []*once.Engine[TX]{e, other, u.engine(u.peer, once.Config{Synced: true})} {
			r, err := once.Do(bounded(t), e, op, u.charge(id.Key))
			if err != nil || !r.Replayed || r.Value != first.Value || r.Since.IsZero() && u.Shared == nil {
				t.Errorf("%+v, %v, want a replay of %q", r, err, first.Value)
			}
		}
		op.Fingerprint = once.FingerprintOf([]byte("b"))
		if _, err := once.Do(bounded(t), other, op, u.charge(id.Key)); once.CodeOf(err) != once.CodeMismatch {
			t.Errorf("%v, want %s", err, once.CodeMismatch)
		}
		u.wantEffects(t, id.Key, 1)
	})
	t.Run("Failure", func(t *testing.T) {
		for _, keep := range []bool{false, true} {
			id := newID()
			fn := func(ctx context.Context, tx TX) (string, error) {
				v, err := u.charge(id.Key)(ctx, tx)
				return v, errors.Join(err, &once.Failure{Code: "declined", Message: v, Detail: []byte(`{"n":9007199254740993}`), CommitWrites: keep})
			}
			var first *once.Failure
			for i, e := range []*once.Engine[TX]{e, e, other} {
				r, err := once.Do(bounded(t), e, operation(id), fn)
				f := (*once.Failure)(nil)
				if !errors.As(err, &f) || r.Replayed != (i > 0) {
					t.Fatalf("%+v, %v, want a failure", r, err)
				}
				if i == 0 {
					first = f
				}
				if f.Code != first.Code || f.Message != first.Message || !bytes.Equal(f.Detail, first.Detail) || f.CommitWrites != keep {
					t.Errorf("replayed %+v, want %+v", f, first)
				}
				if applied := once.EffectOf(err) == once.EffectApplied; applied != keep {
					t.Errorf("the effect is %s, but the writes were kept: %v", once.EffectOf(err), keep)
				}
			}
			want := 0
			if keep {
				want = 1
			}
			u.wantEffects(t, id.Key, want)
		}
	})
	t.Run("Unwinds", func(t *testing.T) { testUnwinds(t, u, e) })
	t.Run("Wait", func(t *testing.T) { testWait(t, u, e, other) })
	t.Run("HashKeys", func(t *testing.T) {
		id := newID()
		hashing := u.engine(u.s, once.Config{HashKeys: true})
		for i := range 2 {
			if r, err := once.Do(bounded(t), hashing, operation(id), u.charge(id.Key)); err != nil || r.Replayed != (i == 1) {
				t.Errorf("%+v, %v", r, err)
			}
		}
		u.wantState(t, id, store.StateAbsent)
		u.wantState(t, store.ID{Scope: id.Scope, Key: keyname.Hashed(id.Key)}, store.StateDone)
		u.wantEffects(t, id.Key, 1)
	})
	t.Run("Seal", func(t *testing.T) {
		sealer, err := once.NewEncrypter(make([]byte, 32))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []error{nil, &once.Failure{Code: "declined"}} { // nil is written by Commit, the failure by Swap
			id := newID()
			op := operation(id)
			op.Request = everyByte()
			_, err = once.Do(bounded(t), u.engine(u.s, once.Config{Encrypter: sealer}), op, func(context.Context, TX) (string, error) { return "", f })
			if (err == nil) != (f == nil) {
				t.Fatal(err)
			}
			plain, err := sealer.Decrypt(u.read(t, id).Request, seal.Label(id.Scope, id.Key))
			if err != nil || !bytes.Equal(plain, op.Request) {
				t.Errorf("the stored request is decrypted to %q, error %v", plain, err)
			}
		}
	})
}

// testUnwinds proves that a handler which panics or exits its goroutine leaves nothing behind.
func testUnwinds[TX any](t *testing.T, u *suite[TX], e *once.Engine[TX]) {
	for name, unwind := range map[string]func(){
		"panic": func() { panic("boom") }, "panic nil": func() { panic(nil) }, "Goexit": runtime.Goexit, //nolint:govet // on purpose
	} {
		id := newID()
		ctx := bounded(t)
		var wg sync.WaitGroup
		wg.Go(func() {
			defer func() { _ = recover() }()
			_, err := once.Do(ctx, e, operation(id), func(ctx context.Context, tx TX) (string, error) {
				_, err := u.charge(id.Key)(ctx, tx)
				if err == nil {
					unwind()
				}
				return "", err
			})
			t.Errorf("%s: Do has returned the error %v", name, err)
		})
		wg.Wait()
		u.wantState(t, id, store.StateAbsent)
		u.wantEffects(t, id.Key, 0)
		if r, err := once.Do(ctx, e, operation(id), u.charge(id.Key)); err != nil || r.Replayed {
			t.Errorf("%s: the next call: %+v, %v", name, r, err)
		}
		u.wantEffects(t, id.Key, 1)
	}
}

// testWait proves that a duplicate waits if its Operation.Wait says so, and only then.
func testWait[TX any](t *testing.T, u *suite[TX], e, other *once.Engine[TX]) {
	for _, second := range []*once.Engine[TX]{e, other} {
		if second == other && (u.OneWriter || u.ClaimsByCommit) {
			break // the duplicate waits in the database whatever its Wait is, or is executed as well
		}
		id := newID()
		ctx := bounded(t)
		entered, leave := make(chan struct{}), make(chan struct{})
		var first, waited once.Result[string]
		var firstErr, waitedErr error
		var wg sync.WaitGroup
		wg.Go(func() {
			first, firstErr = once.Do(ctx, e, operation(id), func(ctx context.Context, tx TX) (string, error) {
				close(entered)
				<-leave
				return u.charge(id.Key)(ctx, tx)
			})
		})
		<-entered
		if _, err := once.Do(ctx, second, operation(id), u.charge(id.Key)); once.CodeOf(err) != once.CodeInFlight || once.EffectOf(err) != once.EffectNotApplied {
			t.Errorf("a duplicate without Wait got %v, want %s", err, once.CodeInFlight)
		}
		op := operation(id)
		op.Wait = 30 * time.Millisecond
		if _, err := once.Do(ctx, second, op, u.charge(id.Key)); once.CodeOf(err) != once.CodeInFlight {
			t.Errorf("a duplicate with a short Wait got %v, want %s", err, once.CodeInFlight)
		}
		op.Wait = time.Minute
		wg.Go(func() { waited, waitedErr = once.Do(ctx, second, op, u.charge(id.Key)) })
		close(leave)
		wg.Wait()
		if firstErr != nil || waitedErr != nil || !waited.Replayed || waited.Value != first.Value {
			t.Errorf("the first call got %+v, error %v; the waiting duplicate got %+v, error %v", first, firstErr, waited, waitedErr)
		}
		u.wantEffects(t, id.Key, 1)
	}
}

// outcome returns a word for the result that a caller has received.
func outcome[T any](r once.Result[T], err error) string {
	switch f := (*once.Failure)(nil); {
	case errors.As(err, &f):
		return "failure " + f.Code
	case err != nil:
		return fmt.Sprintf("%s (%s)", once.CodeOf(err), once.EffectOf(err))
	case r.Replayed:
		return "replayed"
	}
	return "executed"
}
