package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/store"
)

// testLostAnswers proves that a caller can find out whether a Swap was applied if the answer was lost. The caller sends the
// same Change again and, if that is refused, looks for its nonce in the record.
func testLostAnswers(t *testing.T, o *operations) {
	t.Run("Each", func(t *testing.T) {
		for _, outcome := range []Point{"", SwapDown, SwapRetry, SwapTaken, SwapLostUndone, SwapLostApplied, SwapLostLater} {
			for step := range 3 {
				h := holder{t: t, o: o, s: &faults{ops: o.s}, id: newID()}
				for i, next := range []store.State{store.StateRunning, store.StateUnknown, store.StateDone} {
					if i == step && outcome != "" {
						h.s.Arm(Plan{At: []Point{outcome}})
					}
					h.step(next, fmt.Appendf(nil, "%d", i))
					if hits := h.s.Heal(); (len(hits) == 1) != (i == step && outcome != "") {
						t.Errorf("step %d: failed at %q", i, hits)
					}
					o.same(t, fmt.Sprintf("%q at step %d, after step %d", outcome, step, i), h.id, h.rec)
				}
			}
		}
	})
	t.Run("Counter", func(t *testing.T) { testCounter(t, o) })
}

// holder changes an operation step by step, through a store that loses answers.
type holder struct {
	t   *testing.T
	o   *operations
	s   *faults
	id  store.ID
	rec store.Record // the stored record
}

// step applies the next change, and repeats it until its outcome is known. Each change raises the fence.
func (h *holder) step(next store.State, data []byte) {
	h.t.Helper()
	c := change(h.id, store.Expect{Fence: h.rec.Fence, Nonce: h.rec.Nonce}, store.Record{State: next, Fence: h.rec.Fence + 1, Nonce: make([]byte, 16), Data: data})
	rand.Read(c.Next.Nonce)
	for range 5 {
		rec, err := h.s.Swap(bounded(h.t), c)
		switch store.KindOf(err) {
		case store.KindUnavailable, store.KindRetry, store.KindLost:
			continue
		case store.KindTaken:
			if !bytes.Equal(rec.Nonce, c.Next.Nonce) {
				continue // the store has only pretended it: no other caller changes the operation
			}
		default:
			if err != nil {
				h.t.Fatal("Swap:", err)
			}
		}
		h.rec = c.Next
		return
	}
	h.t.Fatalf("the Swap to %s has had no answer in all attempts", next)
}

// testCounter lets several processes add values to one record, and lose answers. Every value that was added successfully
// must be there once, and no other value may be there.
func testCounter(t *testing.T, o *operations) {
	seed := mathrand.Uint64()
	id, ctx := newID(), bounded(t)
	o.swap(t, change(id, store.Expect{}, store.Record{State: store.StateRunning, Fence: 1}))
	const adders, each = 4, 15
	var added [adders][]string
	var group sync.WaitGroup
	for i := range adders {
		r := mathrand.New(mathrand.NewPCG(seed, uint64(i)))
		s := &faults{ops: []store.Operations{o.s, o.peer}[i%2]}
		group.Go(func() {
			for range each {
				nonce, err := add(ctx, s, r, id)
				if err != nil {
					t.Error("seed", seed, err)
					return
				}
				added[i] = append(added[i], nonce)
			}
			s.Heal()
		})
	}
	group.Wait()
	rec := o.read(t, id)
	var got []string
	for nonce := range slices.Chunk(rec.Data, 16) {
		got = append(got, string(nonce))
	}
	want := slices.Concat(added[:]...)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || rec.Fence != 1+adders*each {
		t.Errorf("seed %d: %d entries were added, but the record has %d entries and the fence %d", seed, len(want), len(got), rec.Fence)
	}
}

// add adds a new nonce to the data of id. When it returns without an error, the nonce was added exactly once.
func add(ctx context.Context, s *faults, r *mathrand.Rand, id store.ID) (nonce string, err error) {
	own := make([]byte, 16)
	rand.Read(own)
	points := []Point{SwapDown, SwapTaken, SwapLostUndone, SwapLostApplied, SwapLostLater, ReadDown}
	for ctx.Err() == nil {
		s.Heal()
		s.Arm(Plan{At: points[r.IntN(len(points)):][:1], Later: 1 + r.IntN(3)})
		rec, err := s.Read(ctx, id)
		if err != nil {
			continue
		}
		if slices.ContainsFunc(slices.Collect(slices.Chunk(rec.Data, 16)), func(n []byte) bool { return bytes.Equal(n, own) }) {
			return string(own), nil
		}
		next := store.Record{State: store.StateRunning, Fence: rec.Fence + 1, Nonce: own, Data: append(rec.Data, own...)}
		c := store.Change{ID: id, Expect: store.Expect{Fence: rec.Fence, Nonce: rec.Nonce}, Next: next, Lease: time.Hour}
		for range 3 { // the same change, until it is refused: then a read shows the outcome
			if _, err = s.Swap(ctx, c); err == nil {
				return string(own), nil
			}
			if store.KindOf(err) == store.KindTaken {
				break
			}
		}
	}
	return "", ctx.Err()
}
