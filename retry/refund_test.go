package retry

import (
	"sync"
	"testing"
)

// TestRefundedBudgetIsSpentAgain: what is given back can be spent again, and no more than that.
func TestRefundedBudgetIsSpentAgain(t *testing.T) {
	b := Budget{Burst: 3}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for range 1000 {
				if !b.Spend(ClassUnknown) {
					t.Error("three places are too few for three")
				}
				b.Refund(ClassUnknown)
			}
		})
	}
	all.Wait()
	if left := b.State().Left; left != 3 {
		t.Errorf("%v are left", left)
	}
	b.Refund(ClassUnknown)
	if left := b.State().Left; left != 3 {
		t.Errorf("%v are left in a bucket of 3", left)
	}
	for range 3 {
		b.Spend(ClassUnknown)
	}
	b.Refund(ClassThrottled)
	if left := b.State().Left; left != 0.5 {
		t.Errorf("%v are left, want 0.5", left)
	}
}
