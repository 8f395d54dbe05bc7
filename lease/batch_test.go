package lease_test

import (
	"context"
	"errors"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// A batch has no phases: it is misused, and not executed.
func TestBatchIsMisused(t *testing.T) {
	s := memstore.New()
	e := once.New(lease.New(s, lease.Config{}), once.Config{Observer: once.Discard})
	for _, number := range []int{1, 0} {
		_, err := once.DoBatch(t.Context(), e, once.Operation{Scope: "s", Key: "k", Attempt: once.Attempt{Number: number}}, func(b *once.Batch) (int, error) {
			b.ExecRows(1, "insert", "row", "1")
			return 1, nil
		})
		wantOutcome(t, err, once.CodeMisuse, once.EffectNotApplied)
	}
	if v, ok := s.Get("row"); ok {
		t.Errorf("it has written %s", v)
	}
}

// A phase that is a batch commits its writes and its value together, or nothing: the next run goes on behind it, or runs it again.
func TestPhaseThatIsABatch(t *testing.T) {
	s := memstore.New()
	ran := map[string]int{}
	phase := func(ctx context.Context, r *lease.Run, name, row string) (string, error) {
		return lease.InBatch(ctx, r, name, func(b *once.Batch) (string, error) {
			ran[name]++
			b.Exec("put", name, row)
			b.ExecRows(1, "insert", row, name)
			return name + " has written " + row, nil
		})
	}
	row := "1" // which the phase before has inserted
	run := func(ctx context.Context, r *lease.Run) (string, error) {
		a, err := phase(ctx, r, "a", "1")
		if err != nil {
			return "", err
		}
		b, err := phase(ctx, r, "b", row)
		return a + ", " + b, err
	}
	_, err := once.Do(t.Context(), node(s), op, run)
	if _, is := s.Get("b"); is || once.CodeOf(err) != once.CodeFailed || once.EffectOf(err) != once.EffectInDoubt {
		t.Errorf("written: %t, %v", is, err)
	}
	if rec := wantState(t, s, store.StateWaiting); rec.RecoveryPoint != "a" || rec.Fence != 2 {
		t.Errorf("at %q, fence %d", rec.RecoveryPoint, rec.Fence)
	}
	row = "2"
	r, err := once.Do(t.Context(), node(s), op, run)
	if err != nil || r.Value != "a has written 1, b has written 2" || ran["a"] != 1 || ran["b"] != 2 {
		t.Errorf("%+v, %v, ran %v", r, err, ran)
	}
	if v, _ := s.Get("b"); v != "2" {
		t.Errorf("b is %q", v)
	}
}

// An owner that another one has taken the operation from commits no batch.
func TestBatchOfAnOwnerThatWasTakenOver(t *testing.T) {
	s := memstore.New()
	_, err := once.Do(t.Context(), node(s), op, func(ctx context.Context, r *lease.Run) (string, error) {
		write := func(name string) (string, error) {
			return lease.InBatch(ctx, r, name, func(b *once.Batch) (string, error) {
				b.Exec("put", name, name)
				return name, nil
			})
		}
		if _, err := write("a"); err != nil {
			return "", err
		}
		rec, err := s.Read(ctx, id)
		must(t, err)
		other := rec
		other.Fence, other.Nonce = rec.Fence+1, []byte("another owner...")
		_, err = s.Swap(ctx, store.Change{ID: id, Expect: store.Expect{Fence: rec.Fence}, Next: other})
		must(t, err)
		_, err = write("b")
		if !errors.Is(err, lease.ErrLost) {
			t.Errorf("phase b: %v", err)
		}
		return "done", nil
	})
	if _, is := s.Get("b"); is || err == nil {
		t.Errorf("written: %t, %v", is, err)
	}
}
