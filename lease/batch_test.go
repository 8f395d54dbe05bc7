package lease_test

import (
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
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
