package hold

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// TestFencesInRandomSteps takes random steps with nodes that come, are cut off from the database, come back, use parts and
// leave. It remembers every part and fence that any of them has believed to hold, and tries the old ones: no fence
// passes the check after a higher one was given, and none belongs to two nodes.
func TestFencesInRandomSteps(t *testing.T) {
	testenv.Prove(t)
	on(t, func(t *testing.T, name string) {
		db, _ := databaseForWork(t, name, worldParts)
		w := &world{db: db, rand: rand.New(rand.NewPCG(1, 0)), owner: map[hold.Part]string{}}
		w.begin(t)
		harness.Until(t, func() error { return even(worldParts, w.nodes[0].node) })
		for end, i := time.Now().Add(patience), 0; i < 300 || (w.refused == 0 || w.applied == 0) && time.Now().Before(end); i++ {
			w.step(t)
		}
		w.end(t)
		if n := wrongs(t, db); n > 0 {
			t.Errorf("%d units of work were done by a former holder", n)
		}
		if w.refused == 0 || w.applied == 0 {
			t.Errorf("vacuous: %d units of work are applied, %d are refused", w.applied, w.refused)
		}
		testenv.Reportf(t, "%d fences, %d units of work applied, %d refused", len(w.owner), w.applied, w.refused)
	})
}

const worldParts = 4

// world is nodes, and what they have believed.
type world struct {
	db    sqlplane.Database
	rand  *rand.Rand
	nodes []*worldNode
	made  int

	owner            map[hold.Part]string // of each part and fence that was held
	seen             []hold.Part          // the keys of owner, in their order of appearance
	applied, refused int
}

type worldNode struct {
	*node

	name string
	gate *gate
	cut  bool   // its statements do not reach the database
	done func() // of its unit of work
}

// begin starts a node.
func (w *world) begin(t *testing.T) {
	t.Helper()
	w.made++
	g := &gate{Database: w.db}
	name := fmt.Sprint("node-", w.made)
	w.nodes = append(w.nodes, &worldNode{name: name, gate: g, done: func() {}, node: start(t, g, hold.Config{Parts: worldParts, Node: name})})
}

func (w *world) step(t *testing.T) {
	t.Helper()
	if len(w.nodes) == 0 || len(w.nodes) < 4 && w.rand.IntN(8) == 0 {
		w.begin(t)
	}
	i := w.rand.IntN(len(w.nodes))
	n := w.nodes[i]
	switch w.rand.IntN(10) {
	case 0:
		if n.cut = !n.cut; n.cut {
			n.gate.cut()
		} else {
			n.gate.mend()
		}
	case 1:
		if !n.cut {
			n.done()
			n.end(t)
			w.nodes = append(w.nodes[:i], w.nodes[i+1:]...)
		}
	case 2, 3, 4:
		n.done()
		var held []hold.Part
		held, n.done = n.Use(all(worldParts))
		for _, p := range held {
			w.believe(t, n.name, p)
			w.try(t, p)
		}
	case 5:
		n.done()
	default: // some node goes on
		if !n.cut {
			from := n.gate.statements()
			harness.Until(t, func() error {
				if n.gate.statements() < from+2 {
					return fmt.Errorf("%s does nothing", n.name)
				}
				return nil
			})
		}
	}
	for range min(3, len(w.seen)) {
		w.try(t, w.seen[w.rand.IntN(len(w.seen))])
	}
}

// believe notes that a node holds p.
func (w *world) believe(t *testing.T, name string, p hold.Part) {
	t.Helper()
	switch owner, known := w.owner[p]; {
	case !known:
		w.owner[p] = name
		w.seen = append(w.seen, p)
	case owner != name:
		t.Errorf("%+v is held by %s, and was by %s", p, name, owner)
	}
}

// try does a unit of work under a fence that its node has had.
func (w *world) try(t *testing.T, p hold.Part) {
	t.Helper()
	for {
		n, err := w.db.Pool().Exec(t.Context(), unit(w.db, w.owner[p], p))
		if store.KindOf(err) == store.KindRetry && err != nil {
			continue
		}
		must(t, err)
		if n == 0 {
			w.refused++
			return
		}
		w.applied++
		for other := range w.owner {
			if other.Number == p.Number && other.Fence > p.Fence {
				t.Errorf("%+v passes although %+v was given", p, other)
			}
		}
		return
	}
}

func (w *world) end(t *testing.T) {
	t.Helper()
	for _, n := range w.nodes {
		if n.cut {
			n.gate.mend()
		}
		n.done()
		n.end(t)
	}
}
