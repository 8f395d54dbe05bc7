package outbox

import (
	"testing"

	"github.com/oncelib/once/internal/hold"
)

// TestRecentSweep: what a mark has passed since the last sweep but one is swept often.
func TestRecentSweep(t *testing.T) {
	p := newPart(hold.Part{})
	for _, c := range []struct{ mark, old int64 }{{10, 0}, {20, 10}, {35, 20}, {35, 35}} {
		p.mark = c.mark
		p.age()
		if p.swept(false) != c.old || p.swept(true) != 0 {
			t.Errorf("at %d: from %d, and all of them from %d; want %d and 0", c.mark, p.swept(false), p.swept(true), c.old)
		}
	}
}
