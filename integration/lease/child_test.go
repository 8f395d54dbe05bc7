package lease

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
)

// Kinds of points.
const (
	byName  = "name"  // around what the store is asked to do, and around requests
	byWrite = "write" // before a write to a socket
	byRead  = "read"  // before a read
)

// plan is what a process does.
type plan struct {
	Opening opening
	Serves  bool   // a leased route, instead of one operation
	URL     string // of the provider
	Policy  string
	Key     string
	First   bool

	Kind   string         // of the point
	At     int64          // it sends itself the signal at this one; 0: never
	Named  string         // or at the point with this name, the At-th
	Signal syscall.Signal // SIGKILL or SIGSTOP

	Fate, FatePhase string // what the provider does to it
	Procedure       string // its phase "book" runs this one, and is killed
}

// CarryOut does the work of one operation. It prints how many points it has passed, and what it has come to.
func (p plan) CarryOut(ctx context.Context) error {
	if p.Serves {
		return p.serve(ctx)
	}
	var points atomic.Int64
	var begun atomic.Bool
	at := func(name string) {
		if p.Kind != byName || !begun.Load() || p.Named != "" && p.Named != name {
			return
		}
		if points.Add(1) == p.At {
			harness.Strike(p.Signal)
		}
	}
	var wire faultnet.Wire
	p.Opening.at, p.Opening.dial = at, wire.DialContext
	db, err := p.Opening.open(ctx)
	if err != nil {
		return err
	}
	defer db.close()
	if _, err := db.ops.Read(ctx, idOf("nothing")); err != nil { // the login is no point
		return err
	}
	wire.Reset()
	switch {
	case p.At == 0:
	case p.Kind == byWrite:
		wire.BeforeWrite(p.At, faultnet.KillProcess)
	case p.Kind == byRead:
		wire.BeforeRead(p.At, faultnet.KillProcess)
	}
	begun.Store(true)
	does := program{db: db, url: p.URL, by: fmt.Sprint("process ", os.Getpid()), policy: p.Policy, at: at, dial: wire.DialContext, fate: p.Fate, fatePhase: p.FatePhase, procedure: p.Procedure}
	op := operation(p.Key)
	if p.First {
		op.Attempt.Number = 1
	}
	r, err := does.do(ctx, op)
	counts := wire.Counts()
	fmt.Println("points", map[string]int64{byName: points.Load(), byWrite: counts.Writes, byRead: counts.Reads}[p.Kind])
	if err != nil {
		fmt.Println("error", once.CodeOf(err), once.EffectOf(err), strings.ReplaceAll(err.Error(), "\n", " "))
	} else {
		fmt.Println("result", r.Value)
	}
	return nil
}

// end waits for the end of a process.
func end(tb testing.TB, c *harness.Child) (points int64, said string, killed bool) {
	tb.Helper()
	lines, killed := c.End(tb)
	for _, line := range lines {
		if n, err := fmt.Sscanf(line, "points %d", &points); n != 1 || err != nil {
			said = line
		}
	}
	return points, said, killed
}

// killed runs processes, each with a key of its own, until one is killed: on a busy machine one may lose its lease before.
func (p plan) killed(tb testing.TB, says string) plan {
	tb.Helper()
	p.Signal = syscall.SIGKILL
	over := time.After(patience)
	for try := 1; ; try++ {
		p.Key = fmt.Sprintf("%s, try %d", says, try)
		_, said, killed := end(tb, harness.Start(tb, p))
		if killed {
			return p
		}
		select {
		case <-over:
			tb.Fatalf("%s: it is never killed: %s", p.Key, said)
		default:
		}
	}
}

// stopped starts processes, each with a key of its own, until one has stopped.
func (p plan) stopped(tb testing.TB, says string) (stopped plan, c *harness.Child) {
	tb.Helper()
	p.Signal, p.Kind = syscall.SIGSTOP, byName
	over := time.After(patience)
	for try := 1; ; try++ {
		p.Key = fmt.Sprintf("%s, try %d", says, try)
		if c = harness.Start(tb, p); c.Wait("stop") {
			c.UntilStopped(tb)
			return p, c
		}
		select {
		case <-over:
			tb.Fatalf("%s: it never stops", p.Key)
		default:
		}
	}
}

// wake lets a process that is stopped go on to its end.
func wake(tb testing.TB, c *harness.Child) (said string) {
	tb.Helper()
	c.Signal(syscall.SIGCONT)
	_, said, killed := end(tb, c)
	if killed || said == "" {
		tb.Errorf("a process that was stopped says %q, killed %v", said, killed)
	}
	return said
}
