package simulate

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestClockRunsEventsInOrder(t *testing.T) {
	var c clock
	random := rand.New(rand.NewPCG(1, 1))
	type entry struct {
		at time.Duration
		no int
	}
	var last entry
	seen := 0
	for no := range 2000 {
		at := time.Duration(random.IntN(300))
		c.after(at, func() {
			if at < last.at || at == last.at && no < last.no || c.now != at {
				t.Errorf("event %d, due at %v, at %v, after event %d of %v", no, at, c.now, last.no, last.at)
			}
			last = entry{at, no}
			seen++
			if no%2 == 0 {
				c.after(1000, func() { seen++ })
			}
		})
	}
	if c.run(300); seen != 2000 || c.now != 300 {
		t.Errorf("%d events have happened by %v", seen, c.now)
	}
	if c.run(5000); seen != 3000 {
		t.Errorf("%d events in all", seen)
	}
}
