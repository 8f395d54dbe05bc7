package hold

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// plan tells a child what it holds.
type plan struct {
	harness.Database

	Node  string
	Parts int
	TTL   time.Duration
}

// CarryOut holds parts and works on them until the process is drained. SIGUSR1 tells it to stop itself once between the moment
// when it takes up a part and the statement that checks the fence; what that statement did is printed when the process goes on.
func (p plan) CarryOut(ctx context.Context) error {
	ctx, cancel := context.WithCancel(harness.UntilDrained(ctx))
	defer cancel()
	db, closeDB, err := p.Open(ctx, 4)
	if err != nil {
		return err
	}
	defer closeDB()
	stops := make(chan os.Signal, 1)
	signal.Notify(stops, syscall.SIGUSR1)
	g := &gate{Database: db}
	h := hold.New(g, hold.Config{Work: work, Parts: p.Parts, TTL: p.TTL, Node: p.Node})
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx, nil) }()
	for {
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Millisecond):
		}
		if err := workOnce(ctx, db, h, g, p, stops); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// workOnce does one unit of work on each part that is held.
func workOnce(ctx context.Context, db sqlplane.Database, h *hold.Holder, g *gate, p plan, stops <-chan os.Signal) error {
	held, done := h.Use(all(p.Parts))
	defer done()
	stopped := false
	if len(held) > 0 {
		select {
		case <-stops:
			stopped = true
			g.mu.Lock() // no heartbeat is stopped that has locked a file
			err := harness.Stop()
			g.mu.Unlock()
			if err != nil {
				return err
			}
		default:
		}
	}
	var applied int64
	for _, part := range held {
		n, err := db.Pool().Exec(context.WithoutCancel(ctx), unit(db, p.Node, part))
		if err != nil && store.KindOf(err) != store.KindRetry {
			return err
		}
		applied += n
	}
	if stopped {
		fmt.Println("applied", applied, "of", len(held))
	}
	return nil
}

// unit is a unit of work on a part: it notes who has done it, and counts a wrong if a later holder has
// done one before, or another node one with the same fence.
func unit(db sqlplane.Database, node string, part hold.Part) store.Statement {
	condition, args := hold.StillHeld(hold.Table, work, "part", []hold.Part{part})
	return statement(db, "update job set wrong = wrong + case when fence > ? or fence = ? and node <> ? then 1 else 0 end, n = n + 1, fence = ?, node = ? where part = ? and "+condition,
		append([]any{part.Fence, part.Fence, node, part.Fence, node, part.Number}, args...)...)
}
