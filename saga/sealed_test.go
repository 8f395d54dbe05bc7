package saga_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// sealedRunner is a runner whose records are encrypted under a key of this byte.
func (g fixture) sealedRunner(key byte, keep bool, definitions ...saga.AnyDefinition) *saga.Runner[*memstore.Tx] {
	return g.runnerWith(encrypterOf(g.T, key), keep, definitions...)
}

func (g fixture) runnerWith(e once.Encrypter, keep bool, definitions ...saga.AnyDefinition) *saga.Runner[*memstore.Tx] {
	return saga.NewRunner[*memstore.Tx](g.db, saga.Config{
		TTL: testTTL, Attempts: 3, UndoAttempts: 3, Every: time.Second, Retain: once.Forever, Observer: saga.Log(quiet), Encrypter: e, KeepData: keep,
	}, definitions...)
}

func encrypterOf(t *testing.T, key byte) once.Encrypter {
	t.Helper()
	e, err := once.NewEncrypter([]byte(strings.Repeat(string(key), 32)))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestSealedRecordHasNoPlainText: with an Encrypter, nothing that steps are given, return or refuse with is in the record in plain text, at any time. The saga goes
// on from it after each step, and is undone from it. At the end its result is read with the key, and the data is there only if it is kept.
func TestSealedRecordHasNoPlainText(t *testing.T) {
	for _, keep := range []bool{false, true} {
		for _, no := range []error{nil, &once.Failure{Code: "no", Message: "secret refusal"}} {
			in(t, func(g fixture) {
				plain := func(when string) {
					rec, err := g.db.Read(g.Context(), recordID)
					if all := string(rec.Data) + string(rec.Result.Body); err != nil || rec.State == store.StateAbsent || strings.Contains(all, "secret") {
						g.Errorf("%s: %s, %v", when, all, err)
					}
				}
				a := saga.Tx("a", func(_ context.Context, _ *memstore.Tx, in string) (string, error) { return in + " result", nil }).
					Undo(func(_ context.Context, _ *memstore.Tx, in, result string) error {
						if plain("undo"); in != "secret" || result != "secret result" {
							return errors.New("not what was stored")
						}
						return nil
					})
				waits := true
				b := saga.Tx("b", func(_ context.Context, _ *memstore.Tx, in string) (string, error) {
					if plain("b"); waits {
						waits = false
						return "", saga.Again(time.Second)
					}
					return in, no
				})
				d := saga.New("test", func(ctx saga.Context, in string) (string, error) {
					if out, err := a.Do(ctx, in); err != nil || out != "secret result" {
						return "", errors.Join(err, errors.New(out))
					}
					return b.Do(ctx, in)
				}, a, b)
				for range 2 { // it is read twice
					v, err := saga.Do(g.Context(), g.sealedRunner('k', keep, d), d, sagaID, "secret")
					var f *once.Failure
					if no == nil && (v != "secret" || err != nil) || no != nil && (!errors.As(err, &f) || f.Message != "secret refusal") {
						g.Errorf("%q, %v", v, err)
					}
				}
				plain("end")
				st, err := saga.StatusOf(g.Context(), g.db, sagaID, encrypterOf(t, 'k'))
				if err != nil || (string(st.Input) == `"secret"`) != keep || (string(st.Steps[0].Result) == `"secret result"`) != keep {
					g.Errorf("%+v, %v", st, err)
				}
				if st, err = saga.StatusOf(g.Context(), g.db, sagaID, nil); err != nil || !st.Sealed || st.Input != nil || len(st.Steps) != 2 {
					g.Errorf("without the key: %+v, %v", st, err)
				}
				if _, err = saga.StatusOf(g.Context(), g.db, sagaID, encrypterOf(t, 'x')); err == nil {
					g.Error("another key opens it")
				}
			})
		}
	}
}

// TestSealedElsewhere: a node without the key leaves a saga to the others, and its record as it is. What is encrypted is bound to its saga.
func TestSealedElsewhere(t *testing.T) {
	in(t, func(g fixture) {
		ready := false
		a := saga.Tx("a", func(_ context.Context, _ *memstore.Tx, in string) (string, error) {
			if !ready {
				return "", saga.Again(time.Second)
			}
			return in, nil
		})
		d := saga.New("test", flowOf(a), a)
		run := func(r *saga.Runner[*memstore.Tx], id saga.ID, most time.Duration) (string, error) {
			ctx, cancel := context.WithTimeout(g.Context(), most)
			defer cancel()
			return saga.Do(ctx, r, d, id, "secret")
		}
		other := saga.ID{Tenant: "acme", Key: "other"}
		for _, id := range []saga.ID{sagaID, other} {
			if _, err := run(g.sealedRunner('k', false, d), id, 500*time.Millisecond); once.CodeOf(err) != once.CodeInFlight {
				g.Fatal(err)
			}
		}
		ready = true
		for _, r := range []*saga.Runner[*memstore.Tx]{g.runner(d), g.sealedRunner('x', false, d)} {
			before, _ := g.db.Read(g.Context(), recordID)
			_, err := run(r, sagaID, time.Minute)
			after, _ := g.db.Read(g.Context(), recordID)
			if once.CodeOf(err) != once.CodeInFlight || string(before.Data) != string(after.Data) || before.Fence != after.Fence {
				g.Errorf("without the key: %v", err)
			}
		}
		moved, err := g.db.Read(g.Context(), recordID)
		if err != nil {
			g.Fatal(err)
		}
		own, _ := g.db.Read(g.Context(), store.ID{Scope: recordID.Scope, Key: other.Key})
		c := store.Change{ID: store.ID{Scope: recordID.Scope, Key: other.Key}, KeepRequest: true, Expect: store.Expect{Fence: own.Fence}, Next: store.Record{State: store.StateWaiting, Fence: own.Fence + 1, Nonce: own.Nonce, Data: moved.Data}}
		if _, err := g.db.Swap(g.Context(), c); err != nil {
			g.Fatal(err)
		}
		if _, err := run(g.sealedRunner('k', false, d), other, time.Minute); once.CodeOf(err) != once.CodeInFlight {
			g.Errorf("the secrets of another saga are taken: %v", err)
		}
		if v, err := run(g.sealedRunner('k', false, d), sagaID, time.Minute); v != "done" || err != nil {
			g.Errorf("%q, %v", v, err)
		}
	})
}

// bothKeys encrypts under a new key, and decrypts what was encrypted under the old one, too.
type bothKeys struct {
	once.Encrypter
	old once.Encrypter
}

func (b bothKeys) Decrypt(encrypted, label []byte) ([]byte, error) {
	if plain, err := b.Encrypter.Decrypt(encrypted, label); err == nil {
		return plain, nil
	}
	return b.old.Decrypt(encrypted, label)
}

// TestKeyRotation: a saga that was begun under an old key goes on at a node that knows both, which writes all of it under the new one. After that the
// old key is not needed, neither for the next steps nor for undos, and it opens nothing. What has ended under the old key is read with both.
func TestKeyRotation(t *testing.T) {
	in(t, func(g fixture) {
		old, both, now := encrypterOf(t, 'k'), bothKeys{encrypterOf(t, 'n'), encrypterOf(t, 'k')}, encrypterOf(t, 'n')
		stage, undone := 0, ""
		a := saga.Tx("a", func(_ context.Context, _ *memstore.Tx, in string) (string, error) { return in + " result", nil }).
			Undo(func(_ context.Context, _ *memstore.Tx, in, result string) error {
				undone = in + ", " + result
				return nil
			})
		waits := func(name string, until int) *saga.TxStep[*memstore.Tx, string, string] {
			return saga.Tx(name, func(_ context.Context, _ *memstore.Tx, in string) (string, error) {
				if stage < until {
					return "", saga.Again(time.Second)
				}
				return in, nil
			})
		}
		b, c := waits("b", 1), waits("c", 2)
		short, no := saga.New("short", flowOf(a), a), failing("no", func() error { return &once.Failure{Code: "no", Message: "secret refusal"} })
		long := saga.New("long", flowOf(a, b, c, no), a, b, c, no)
		run := func(e once.Encrypter, d *saga.Definition[string, string], key string) (string, error) {
			ctx, cancel := context.WithTimeout(g.Context(), 5*time.Second)
			defer cancel()
			defer synctest.Wait() // the work that a caller leaves may be at a step at this instant
			return saga.Do(ctx, g.runnerWith(e, true, short, long), d, saga.ID{Tenant: "acme", Key: key}, "secret")
		}
		reads := func(when string, e once.Encrypter, want bool) {
			t.Helper()
			st, err := saga.StatusOf(g.Context(), g.db, sagaID, e)
			if got := string(st.Input) == `"secret"`; got != want || (err == nil) != want {
				t.Errorf("%s: it is read: %t, want %t: %v", when, got, want, err)
			}
		}
		if v, err := run(old, short, "short"); v != "done" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
		if v, err := run(both, short, "short"); v != "done" || err != nil {
			t.Errorf("it has ended under the old key: %q, %v", v, err)
		}
		for i, e := range []once.Encrypter{old, both} {
			stage = i
			if _, err := run(e, long, sagaID.Key); once.CodeOf(err) != once.CodeInFlight {
				t.Error(err)
			}
			reads("the old key", old, i == 0)
			reads("the new key", now, i == 1)
			reads("both keys", both, true)
		}
		stage = 2
		var f *once.Failure
		if _, err := run(now, long, sagaID.Key); !errors.As(err, &f) || f.Message != "secret refusal" || undone != "secret, secret result" {
			t.Errorf("%v, undone %q", err, undone)
		}
	})
}

// TestSealedDecisions: a person without the key decides all but the value of a call.
func TestSealedDecisions(t *testing.T) {
	in(t, func(g fixture) {
		charge := saga.Call("charge", func(context.Context, string, string) (string, error) { return "", errTimeout })
		d := saga.New("test", func(ctx saga.Context, in string) (string, error) { return charge.Do(ctx, in) }, charge)
		stuck := func() {
			g.Helper()
			if _, err := saga.Do(g.Context(), g.sealedRunner('k', false, d), d, sagaID, "secret"); !errors.Is(err, saga.ErrStuck) {
				g.Fatal(err)
			}
		}
		stuck()
		force := saga.Decision{Action: saga.ActionForce, Step: "charge"}
		for _, decision := range []saga.Decision{retry, force} {
			if err := g.decide(decision); err != nil {
				g.Fatal(err)
			}
			stuck()
		}
		force.Value = []byte(`"secret charge"`)
		if err := g.decide(force); err == nil {
			g.Error("a value is stored in plain text")
		}
		force.Encrypter = encrypterOf(t, 'k')
		if err := g.decide(force); err != nil {
			g.Fatal(err)
		}
		if rec, _ := g.db.Read(g.Context(), recordID); strings.Contains(string(rec.Data), "secret") {
			g.Errorf("%s", rec.Data)
		}
		if v, err := saga.Do(g.Context(), g.sealedRunner('k', false, d), d, sagaID, "secret"); v != "secret charge" || err != nil {
			g.Errorf("%q, %v", v, err)
		}
	})
}
