package hold

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/store/sqlplane"
)

const (
	work     = "work"
	patience = 60 * time.Second // bounds what must come: a hang is a failure
	ttl      = 200 * time.Millisecond
)

// node is a Holder that runs in this process.
type node struct {
	*hold.Holder

	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

// start runs a Holder on db.
func start(tb testing.TB, db sqlplane.Database, cfg hold.Config) *node {
	tb.Helper()
	cfg.Work = cmp.Or(cfg.Work, work)
	if cfg.Parts == 0 {
		cfg.Parts = 11
	}
	if cfg.TTL == 0 {
		cfg.TTL = ttl
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	n := &node{Holder: hold.New(db, cfg), cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(n.ended)
		n.err = n.Run(ctx, nil)
	}()
	tb.Cleanup(func() { n.end(tb) })
	return n
}

// end drains the node.
func (n *node) end(tb testing.TB) {
	tb.Helper()
	n.cancel()
	<-n.ended
	if n.err != nil {
		tb.Error(n.err)
	}
}

// parts is what the node believes that it holds.
func (n *node) parts() []hold.Part {
	held, done := n.Use(all(100))
	done()
	return held
}

func all(n int) (parts []int) {
	for i := range n {
		parts = append(parts, i)
	}
	return parts
}

// even says why parts are not spread evenly over nodes: each is held once, and no node holds two more than another.
func even(parts int, nodes ...*node) error {
	holders := map[int]int{}
	for i, n := range nodes {
		held := n.parts()
		if len(held) < parts/len(nodes) || len(held) > (parts+len(nodes)-1)/len(nodes) {
			return fmt.Errorf("node %d of %d holds %d parts of %d", i, len(nodes), len(held), parts)
		}
		for _, p := range held {
			holders[p.Number]++
		}
	}
	if len(holders) != parts {
		return fmt.Errorf("%d parts of %d are held: %v", len(holders), parts, holders)
	}
	for p, n := range holders {
		if n > 1 {
			return fmt.Errorf("part %d is held %d times", p, n)
		}
	}
	return nil
}

// row is a part in the tables.
type row struct {
	hold.Part

	node string
	live bool
}

// rows are all parts, as the tables have them.
func rows(tb testing.TB, db sqlplane.Database) []row {
	tb.Helper()
	list, err := readRows(tb.Context(), db)
	must(tb, err)
	return list
}

func readRows(ctx context.Context, db sqlplane.Database) (list []row, err error) {
	err = db.Pool().Query(ctx, statement(db, `select h.part, h.node, h.fence, case when n.expires > NOW then 1 else 0 end
 from once_hold h left join once_hold_node n on n.work = h.work and n.node = h.node where h.work = ? order by h.part`, work), func(r sqlplane.Row) error {
		var p row
		var live int
		err := r.Scan(&p.Number, &p.node, &p.Fence, &live)
		p.live = live == 1
		list = append(list, p)
		return err
	})
	return list, err
}

// nodes is how many rows of nodes there are.
func nodes(tb testing.TB, db sqlplane.Database) int {
	tb.Helper()
	return harness.Count(tb, db, "select count(*) from once_hold_node")
}

// errorsOf collects what Failed is told.
type errorsOf struct {
	mu   sync.Mutex
	list []error
}

func (e *errorsOf) failed(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, err)
}

func (e *errorsOf) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.list)
}
