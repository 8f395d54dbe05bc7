package once_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

type tailKey struct{}

// commitWith lets look see the context of a COMMIT, whose caller is gone.
func commitWith(t *testing.T, look func(tail context.Context)) {
	t.Helper()
	looked := false
	due, stop := context.WithTimeout(t.Context(), once.DefaultSettle/2)
	defer stop()
	ctx, cancel := context.WithCancelCause(context.WithValue(due, tailKey{}, "the caller's"))
	e := once.New(&spy{Store: memstore.New(), commit: func(tail context.Context, txn store.Transaction[tx], c store.Change) error {
		looked = true
		cancel(errors.New("the caller has gone"))
		look(tail)
		return txn.Commit(t.Context(), c)
	}}, once.Config{})
	_, err := once.Do(ctx, e, once.Operation{Scope: "s", Key: "k"}, charge("k"))
	must(t, err)
	if !looked {
		t.Fatal("there was no COMMIT")
	}
}

func wantContext(ctx context.Context, t *testing.T, err error) {
	t.Helper()
	if ctx.Err() != err || context.Cause(ctx) != err { //nolint:errorlint // the very values of package context
		t.Errorf("%v because of %v, want %v", ctx.Err(), context.Cause(ctx), err)
	}
	if v := ctx.Value(tailKey{}); v != "the caller's" {
		t.Errorf("value %v", v)
	}
	select {
	case <-ctx.Done():
		if err == nil {
			t.Error("it is done")
		}
	default:
		if err != nil {
			t.Error("it is not done")
		}
	}
}

// TestCommitContextHasValuesAndNoEnd: a COMMIT has a context like any other, with the caller's values and without
// its end, whatever a store asks it first.
func TestCommitContextHasValuesAndNoEnd(t *testing.T) {
	for name, first := range map[string]func(context.Context){
		"nothing":  func(context.Context) {},
		"error":    func(tail context.Context) { _ = tail.Err() },
		"done":     func(tail context.Context) { tail.Done() },
		"a value":  func(tail context.Context) { tail.Value(tailKey{}) },
		"the time": func(tail context.Context) { tail.Deadline() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var after []context.Context
				commitWith(t, func(tail context.Context) {
					first(tail)
					after = append(after, tail)
				})
				commitWith(t, func(tail context.Context) {
					first(tail)
					wantContext(tail, t, nil)
					if due, ok := tail.Deadline(); !ok || time.Until(due) != once.DefaultSettle {
						t.Errorf("its time is over at %v", due)
					}
					after = append(after, tail)
				})
				for _, tail := range after { // its owner has ended it
					wantContext(tail, t, context.Canceled)
					pass(2 * once.DefaultSettle)
					wantContext(tail, t, context.Canceled)
				}
				commitWith(t, func(tail context.Context) {
					first(tail)
					pass(once.DefaultSettle)
					synctest.Wait()
					wantContext(tail, t, context.DeadlineExceeded)
					after = append(after, tail)
				})
				wantContext(after[2], t, context.DeadlineExceeded)
				commitWith(t, func(tail context.Context) {
					first(tail)
					<-tail.Done()
					wantContext(tail, t, context.DeadlineExceeded)
				})
			})
		})
	}
}
