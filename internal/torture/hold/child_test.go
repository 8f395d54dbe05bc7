package hold

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/oncelib/once/internal/sql/hold"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// planEnv holds the plan of a child process.
const planEnv = "ONCE_HOLD_CHILD"

// plan tells a child what it holds.
type plan struct {
	Store, DSN, Node string
	Parts            int
	TTL              time.Duration
}

// beChild holds parts and works on them until its input ends. Then it drains. A line of its input tells it to stop itself
// once between the moment when it takes up a part and the statement that checks the fence; what that statement did
// is printed when the process goes on.
func beChild(text string) error {
	var p plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	db, closeDB, err := open(ctx, p.Store, p.DSN, 4, false)
	if err != nil {
		return err
	}
	defer closeDB()
	stops := make(chan struct{}, 1)
	go func() {
		defer cancel()
		for input := bufio.NewScanner(os.Stdin); input.Scan(); {
			stops <- struct{}{}
		}
	}()
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
func workOnce(ctx context.Context, db sqlplane.Database, h *hold.Holder, g *gate, p plan, stops <-chan struct{}) error {
	held, done := h.Use(all(p.Parts))
	defer done()
	stopped := false
	if len(held) > 0 {
		select {
		case <-stops:
			stopped = true
			g.mu.Lock() // no heartbeat is stopped that has locked a file
			err := syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			<-time.After(5 * time.Second) // the signal may go to another thread, and this one runs on for a moment
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
	condition, args := hold.StillHeld(work, "part", []hold.Part{part})
	return statement(db, "update job set wrong = wrong + case when fence > ? or fence = ? and node <> ? then 1 else 0 end, n = n + 1, fence = ?, node = ? where part = ? and "+condition,
		append([]any{part.Fence, part.Fence, node, part.Fence, node, part.Number}, args...)...)
}
