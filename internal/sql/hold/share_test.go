package hold

// The tests with databases are in integration/hold: "make test-of DIR=internal/sql/hold" runs them after these.

import (
	"fmt"
	"testing"
	"time"
)

// TestShareSpreadsPartsEvenly: the shares of all nodes together are all parts, no share is more than one above another, and what is spread
// evenly stays.
func TestShareSpreadsPartsEvenly(t *testing.T) {
	for parts := range 20 {
		for nodes := 1; nodes <= 7; nodes++ {
			for held := range 3 { // none yet; all by one node; spread evenly, the last nodes with one more
				counts := map[string]int{}
				for n := range nodes {
					counts[fmt.Sprint(n)] = 0
					if held == 2 {
						counts[fmt.Sprint(n)] = (parts + n) / nodes
					}
				}
				if held == 1 {
					counts["0"] = parts
				}
				sum := 0
				for node, has := range counts {
					n := share(parts, counts, node)
					sum += n
					if n < parts/nodes || n > (parts+nodes-1)/nodes {
						t.Errorf("%d parts, %v: the share of %s is %d", parts, counts, node, n)
					}
					if held == 2 && n != has {
						t.Errorf("%d parts are spread evenly, %v, and the share of %s is %d", parts, counts, node, n)
					}
				}
				if sum != parts {
					t.Errorf("%d parts, %v: the shares are %d parts", parts, counts, sum)
				}
			}
		}
	}
}

// TestClockWatch: only a clock that was set is noticed, and not answers that take long.
func TestClockWatch(t *testing.T) {
	var w clockWatch
	start := time.Now()
	store := start.Add(-time.Hour)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for i, c := range []struct {
		now            int // of the database
		sent, answered int
		want           bool
	}{
		{0, 0, 0, false},          // the first look
		{5, 1, 9, false},          // the answer takes 8 s
		{17, 9, 17, false},        // asked at the beginning of one answer and at the end of the next
		{18, 18, 18, false},       //
		{3618, 19, 19, true},      // ahead
		{3620, 21, 21, false},     //
		{3615, 22, 22, true},      // back
		{3615 + 9, 31, 31, false}, //
	} {
		if got := w.jumps(store.Add(time.Duration(c.now)*time.Second), at(c.sent), at(c.answered), 2*time.Second); got != c.want {
			t.Errorf("look %d: the clock was set: %t, want %t", i, got, c.want)
		}
	}
}
