package hold

import (
	"fmt"
	"testing"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/internal/testenv"
)

// TestSpreadIsEven: parts are spread evenly over one to five nodes that come and go, and over more
// nodes than there are parts. When nothing changes, no part moves.
func TestSpreadIsEven(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, name string) {
		db, _ := newDB(t, name)
		for _, parts := range []int{11, 3} {
			var running []*node
			settled := func() {
				t.Helper()
				harness.Until(t, func() error { return even(parts, running...) })
			}
			for len(running) < 5 {
				running = append(running, start(t, db, hold.Config{Parts: parts, Node: fmt.Sprint("node-", len(running)), TTL: 3 * ttl}))
				settled()
			}
			before := rows(t, db)
			for range running { // a node more or less moves what must move, and nothing else
				running[0].end(t)
				running = running[1:]
				if len(running) > 0 {
					settled()
				}
			}
			if after := rows(t, db); len(after) < len(before) {
				t.Errorf("%d rows of %d are left", len(after), len(before))
			}
			run(t, db.Pool(), statement(db, "delete from once_hold"))
		}
	})
}

// TestEvenSpreadStays: what is spread evenly stays where it is, and costs a tick no more than a look and a renewal.
func TestEvenSpreadStays(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, name string) {
		db, _ := newDB(t, name)
		gates := []*gate{{Database: db}, {Database: db}, {Database: db}}
		var running []*node
		for i, g := range gates {
			running = append(running, start(t, g, hold.Config{Node: fmt.Sprint("node-", i), TTL: patience}))
		}
		harness.Until(t, func() error { return even(11, running...) })
		before := rows(t, db)
		moved := func() bool {
			for i, p := range rows(t, db) {
				if p.Part != before[i].Part {
					return true
				}
			}
			return false
		}
		var from, wrote [3]int
		for i, g := range gates {
			from[i], wrote[i] = g.counts()
		}
		harness.Until(t, func() error { // some looks of each
			for i, g := range gates {
				n, writes := g.counts()
				n, writes = n-from[i], writes-wrote[i]
				if reads := n - writes; writes > 2*reads/3+1 {
					t.Fatalf("node %d has written %d times and looked %d times", i, writes, reads)
				}
				if n < 4 {
					return fmt.Errorf("node %d: %d statements", i, n)
				}
			}
			return nil
		})
		if moved() {
			t.Errorf("parts have moved although nothing has changed: %v, before %v", rows(t, db), before)
		}
	})
}

// TestDifferentTTLs: two nodes with different TTLs take nothing from each other: each node expires by the TTL that it has
// written. When the one with the long TTL dies, its parts are taken over when that is over.
func TestDifferentTTLs(t *testing.T) {
	testenv.Both(t)
	on(t, func(t *testing.T, name string) {
		db, _ := newDB(t, name)
		const long = 8 * ttl
		short, slow := &gate{Database: db}, &gate{Database: db}
		nodes := []*node{start(t, short, hold.Config{Node: "short"}), start(t, slow, hold.Config{Node: "long", TTL: long})}
		moved := func() (all []row) { // while both live
			harness.Until(t, func() error { return even(11, nodes...) })
			before := rows(t, db)
			looked, renewed := short.statements(), slow.statements()
			harness.Until(t, func() error { // many looks of the one, and some renewals of the other
				if a, b := short.statements()-looked, slow.statements()-renewed; a < 60 || b < 9 {
					return fmt.Errorf("%d and %d statements", a, b)
				}
				return nil
			})
			for i, p := range rows(t, db) {
				if p.Part != before[i].Part || p.node != before[i].node {
					all = append(all, p)
				}
			}
			return all
		}
		// On a busy machine a node can expire although it lives. If nodes took parts from each other, some would move each time.
		for n := 1; ; n++ {
			parts := moved()
			if len(parts) == 0 {
				break
			}
			if n == 10 {
				t.Fatalf("parts have moved %d times; the last time %v", n, parts)
			}
		}
		slow.cut()
		harness.Until(t, func() error { return even(11, nodes[0]) })
		slow.mend()
	})
}
