package integration

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/store"
)

// Flows: what is interrupted.
const (
	flowDo       = "do"       // a first execution
	flowReplay   = "replay"   // of an operation that is done
	flowFailure  = "failure"  // rolled back, then the failure stored
	flowJoin     = "join"     // in a transaction of the caller
	flowCold     = "cold"     // a first execution by a new process
	flowTakeover = "takeover" // a first execution whose holder seems to live on
	flowTwice    = "twice"    // as do, and the first one to repeat it dies as well
	flowBatch    = "batch"    // a first execution in one round trip, where the store can
	flowHTTP     = "http"     // a first execution by a server
	flowStorm    = "storm"    // duplicates from many processes
	flowRetry    = "retry"    // a first execution and its repetitions, until there is an answer
	flowArchive  = "archive"  // a sweep into an archive
	flowJournal  = "journal"  // a request of a client with a journal
	flowTable    = "table"    // the same, with its journal in a database
	flowUpgrade  = "upgrade"  // of the tables of webhooks
)

const scope = "torture"

// patience bounds what should end by itself: a hang is a failure, not a wait.
const patience = 60 * time.Second

// CarryOut implements [harness.Plan].
func (p plan) CarryOut(ctx context.Context) error {
	runtime.LockOSThread() // strace counts the system calls of each thread by itself
	ctx, cancel := context.WithTimeout(ctx, stormPatience)
	defer cancel()
	drained := harness.UntilDrained(ctx)
	switch p.Flow {
	case flowStorm:
		return storm(ctx, p, drained.Done())
	case flowHTTP:
		return serve(ctx, p, drained.Done())
	}
	defer context.AfterFunc(drained, func() { os.Exit(3) })() // no child outlives the tests
	switch p.Flow {
	case flowRetry:
		return retryUntilAnswered(ctx, p)
	case flowGroup:
		return performGroup(ctx, p)
	case flowArchive:
		return archiveAll(ctx, p)
	case flowJournal:
		return askWithJournal(ctx, p)
	case flowTable:
		return askWithTable(ctx, p)
	case flowUpgrade:
		return upgradeWebhooks(ctx, p)
	}
	return perform(ctx, p)
}

// perform is one operation, dead or alive.
func perform(ctx context.Context, p plan) error {
	k := &killer{mode: p.Mode, at: p.At}
	if p.Cold {
		k.arm()
	}
	s, err := stores[p.Store](ctx, setup{dsn: p.DSN, dial: k.wire.DialContext, hook: k.named, conns: 1})
	if err != nil {
		return err
	}
	if !p.Cold {
		if err := warm(ctx, s, p); err != nil {
			return err
		}
		k.arm()
	}
	k.named("before the call")
	op := operation(p.Key)
	if p.Mode == byStop {
		op.Timeouts = store.Timeouts{Idle: idle}
	}
	op.Wait = patience // of two victims the second may come before the server has noticed the death of the first
	w := work{key: p.Key, attempt: p.Attempt, hook: k.named}
	a, err := run(ctx, s, p.Flow, op, w)
	for p.Mode == byStop && once.EffectOf(err) == once.EffectNotApplied && ctx.Err() == nil { // the server has ended the connection: the process asks again
		a, err = run(ctx, s, p.Flow, op, w)
	}
	if err != nil {
		return err
	}
	k.named("before the acknowledgement")
	if err := acknowledge(p.Witness, a); err != nil {
		return err
	}
	k.named("after the acknowledgement")
	s.Close()
	k.named("after the end")
	fmt.Println(k.passed())
	return nil
}

func operation(key string) once.Operation {
	return once.Operation{Scope: scope, Key: key, Fingerprint: once.FingerprintOf([]byte(key))}
}

// run performs w in the way of a flow.
func run(ctx context.Context, s system, flow string, op once.Operation, w work) (a answer, err error) {
	w.fails = flow == flowFailure
	switch flow {
	case flowJoin:
		a, _, err = s.Join(ctx, op, w)
	case flowBatch:
		a, _, err = s.Batch(ctx, op, w)
	default:
		a, _, err = s.Do(ctx, op, w)
	}
	return a, err
}

// warm does to other keys what the flow will do, so that the connection is there,
// its statements are prepared, and nothing is under way: with one connection, a
// ROLLBACK in the background comes before what follows.
func warm(ctx context.Context, s system, p plan) error {
	for _, suffix := range []string{"-warm", "-warm", "-warmer"} {
		key := p.Key + suffix
		if _, err := run(ctx, s, p.Flow, operation(key), work{key: key, attempt: p.Attempt}); err != nil {
			return fmt.Errorf("warming: %w", err)
		}
	}
	return nil
}
